"""A second process compiles the sweep while the first rebuilds the runqueues."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support import ROOT

COMPILED = """
import sys
from numba.core import event
seen = []
class Listener(event.Listener):
    def on_start(self, e): seen.append(e.data["dispatcher"].py_func.__module__)
    def on_end(self, e): pass
event.register("numba:compile", Listener())
from wastedcores.jit import second
started = []
start = second.second_process
second.second_process = lambda *given: started.append(given) or start(*given)
import wastedcores
verdicts = {wastedcores.check(sys.argv[1]).verdict for _ in range(3)}
print(*verdicts, len(started), *sorted(set(seen)))
"""


@pytest.mark.slow
@pytest.mark.skipif(
    bool(os.environ.get("NUMBA_DISABLE_JIT")), reason="nothing is compiled without numba"
)
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_the_first_check_of_a_new_cache_compiles_in_two_processes(tmp_path):
    """Here only the rebuilding is compiled; the sweep comes from the second process, and the second check finds all."""
    environment = os.environ | {"WASTEDCORES_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", COMPILED, "live-balancing-off"]
    first, second = (
        subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(2)
    )
    ours = {name.split(".")[1] for name in first[2:] if name.startswith("wastedcores")}
    assert first[:2] == ["violations", "1"]  # the second and the third check start no process
    assert ours == {"runqueues"}
    assert second == ["violations", "0"]
