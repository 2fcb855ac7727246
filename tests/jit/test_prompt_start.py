"""Short commands neither load what only the compiler needs nor search for garbage at their end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

CODE = """
import sys
import numpy as np
from wastedcores.jit import compile
def doubled(x): return 2 * x
f = compile.jit(doubled)
result = f(21)
print(result, sum(f.stats.cache_hits.values()), "numba.np.arrayobj" in sys.modules)
def tripled(x): return np.full(3, x) * 3
print(compile.jit(tripled)(14).tolist())
"""
ENDING = """
import atexit, gc, sys
atexit.register(lambda: print(gc.get_freeze_count() > 0))
from wastedcores.cli import run
sys.argv = ["wastedcores", "--version"]
run()
"""


def lines(code: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c" if "\n" in code else code, *([code] if "\n" in code else [])],
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=True,
    )
    return done.stdout.splitlines()


@pytest.mark.slow
def test_cached_code_is_loaded_without_the_compiler__which_still_works_afterwards(tmp_path):
    script = tmp_path / "compiled_here.py"
    script.write_text(CODE)
    cache = {
        "WASTEDCORES_CACHE_DIR": str(tmp_path / "cache"),
        "WASTEDCORES_JIT_CACHE": "1",
        "NUMBA_DISABLE_JIT": "0",
    }
    assert lines(str(script), **cache) == ["42 0 True", "[42, 42, 42]"]
    (tripled,) = tmp_path.glob("cache/jit/*/*.tripled")
    shutil.rmtree(tripled)
    assert lines(str(script), **cache) == ["42 1 False", "[42, 42, 42]"]


def test_a_command_ends_without_a_search_for_garbage():
    version, frozen = lines(ENDING)
    assert version.startswith("wastedcores ")
    assert frozen == "True"


@pytest.mark.slow
def test_a_terminal_is_told_once_why_a_command_pauses(tmp_path):
    script = tmp_path / "compiled_here.py"
    script.write_text(CODE)
    environment = os.environ | {
        "WASTEDCORES_CACHE_DIR": str(tmp_path / "cache"),
        "WASTEDCORES_JIT_CACHE": "1",
        "NUMBA_DISABLE_JIT": "0",
    }
    said = []
    for _ in range(2):
        ours, theirs = os.openpty()
        subprocess.run(
            [sys.executable, script],
            env=environment,
            check=True,
            stderr=theirs,
            stdout=subprocess.DEVNULL,
        )
        os.write(theirs, b"end\n")
        os.close(theirs)
        said.append(os.read(ours, 4096).decode())
        os.close(ours)
    first, second = said
    assert first.count("compiling for the first use") == 1
    assert second.strip() == "end"
