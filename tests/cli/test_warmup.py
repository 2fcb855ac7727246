"""``warmup`` compiles what the other verbs use, and says when it cannot."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


def run(folder, *words, **more):
    return subprocess.run(
        [sys.executable, "-m", "wastedcores", *words],
        env=os.environ | {"WASTEDCORES_CACHE_DIR": str(folder)} | more,
        capture_output=True,
        text=True,
        check=False,
    )


def compiled(folder):
    return {p.name for p in folder.rglob("*.nbc")}


@pytest.mark.slow
def test_afterwards_nothing_is_compiled(tmp_path):
    assert run(tmp_path, "warmup").returncode == 0
    there = compiled(tmp_path)
    assert len(there) > 100
    for words in (
        ("check", "group-imbalance-buggy"),
        ("explain", "group-construction-buggy"),
        ("replay", "group-imbalance", "--kernel", "v4.1+all_fixes", "--until", "0.1"),
        ("figure", "live-balancing-on", "--kind", "waits", "-o", str(tmp_path / "f.json")),
        ("path", "live-balancing-on"),
    ):
        assert run(tmp_path, *words).returncode in (0, 1, 3), words
    assert compiled(tmp_path) == there


def test_without_a_cache_it_says_so(tmp_path):
    done = run(tmp_path, "warmup", WASTEDCORES_JIT_CACHE="0")
    assert done.returncode == 2
    assert "compiled code cannot be kept" in done.stderr
