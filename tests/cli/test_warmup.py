"""``warmup`` compiles what the other verbs use, and says when it cannot."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import partial

import pytest
from support import encoders, recorders, trace_dat_file

from wastedcores.cli.warmup import _COMMANDS, write_traces

FILES = {
    "perf.data": encoders.as_perf_data,
    "6.dat": trace_dat_file.as_trace_dat,
    "7.dat": partial(trace_dat_file.as_trace_dat, version=7),
}


def run(folder, *words, **more):
    return subprocess.run(
        [sys.executable, "-m", "wastedcores", *words],
        env=os.environ | ({"WASTEDCORES_CACHE_DIR": str(folder)} if folder else {}) | more,
        capture_output=True,
        text=True,
        check=False,
    )


def compiled(folder):
    return {p.name for p in folder.rglob("*.nbc")}


def used(*words):
    """Files of compiled code that a command loads, or writes where they are missing."""
    done = run(None, *words, NUMBA_DEBUG_CACHE="1")
    assert done.returncode in (0, 1, 3), done.stderr
    return set(re.findall(r"\[cache\] data (?:loaded from|saved to) '([^']+)'", done.stdout))


def later(folder):
    return (
        ("check", "group-imbalance-buggy"),
        ("explain", "group-construction-buggy", "--seeds", "1"),
        ("replay", "group-imbalance", "--kernel", "v4.1+all_fixes", "--until", "0.1"),
        ("figure", "live-balancing-on", "--kind", "waits", "-o", f"{folder}/f.json"),
        ("path", "live-balancing-on"),
        *(("check", f"{folder}/{name}") for name in FILES),
    )


def write_files(folder):
    """Write a random run as files that the commands of ``later`` read."""
    folder.mkdir(exist_ok=True)
    run = recorders.random_run(3)
    for name, encode in FILES.items():
        (folder / name).write_bytes(encode(run))


@pytest.mark.slow
def test_its_commands_use_all_that_others_use(tmp_path):
    write_traces(tmp_path)
    prepared = set()
    for _, *words in _COMMANDS:
        prepared |= used(*(w.format(folder=tmp_path) for w in words))
    assert len(prepared) > 100
    write_files(tmp_path / "later")
    for words in later(tmp_path / "later"):
        assert used(*words) <= prepared, words


@pytest.mark.long
def test_afterwards_nothing_is_compiled(tmp_path):
    assert run(tmp_path, "warmup").returncode == 0
    there = compiled(tmp_path)
    assert len(there) > 100
    write_files(tmp_path)
    for words in later(tmp_path):
        assert run(tmp_path, *words).returncode in (0, 1, 3), words
    assert compiled(tmp_path) == there


def test_without_a_cache_it_says_so(tmp_path):
    done = run(tmp_path, "warmup", WASTEDCORES_JIT_CACHE="0")
    assert done.returncode == 2
    assert "compiled code cannot be kept" in done.stderr
