"""The service under a real systemd: installed with the project's own command, killed, taken away again; and a container."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from soak.systemd import absent, booted
from support import ROOT
from support.idleness import idle_seconds
from support.waiting import wait_for

from wastedcores.capture import balancing_off, pile_up, unit
from wastedcores.capture.backends import command
from wastedcores.capture.demonstration import push_work_away

pytestmark = pytest.mark.slow

WASTEDCORES = (sys.executable, "-m", "wastedcores")
PORT = 39969
#: include/uapi/linux/capability.h
BITS = {"CAP_BPF": 39, "CAP_PERFMON": 38, "CAP_SYS_ADMIN": 21}


@pytest.fixture
def systemd(root, tmp_path):
    if why := absent():
        pytest.skip(why)
    with booted(tmp_path) as made:
        # the sources under test instead of what the environment has installed
        drop = tmp_path / f"run-{unit.NAME}.conf"
        drop.write_text(f"[Service]\nEnvironment=PYTHONPATH={ROOT}\n")
        folder = f"/run/systemd/system/{unit.NAME}.d"
        assert not made.run("install", "-D", str(drop), f"{folder}/sources.conf").returncode
        yield made


def do(systemd, *arguments: str) -> str:
    done = systemd.run(*WASTEDCORES, "unit", *arguments, PYTHONPATH=str(ROOT))
    journal = systemd.run("journalctl", "-n", "20", "-u", unit.NAME).stdout
    assert done.returncode == 0, done.stderr + journal
    return done.stdout


def files(systemd) -> set[str]:
    own = [p for part in ("etc", "var") for p in (systemd.folder / part).rglob("*")]
    return {str(p) for p in own if "journal" not in p.parts}


def page() -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics", timeout=10) as answer:
        return answer.read().decode()


def status(pid: int, name: str) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1], 16) for line in lines if line.startswith(f"{name}:"))


def violations(systemd) -> list[dict]:
    asked = systemd.run("journalctl", "-u", unit.NAME, "-o", "json", "WASTEDCORES_IDLE_CPU=1")
    return [json.loads(line) for line in asked.stdout.splitlines()]


def test_systemd_runs_the_service_with_its_two_capabilities_and_restarts_it(bpf, systemd):
    before = files(systemd)
    do(systemd, "--install", "--serve", f":{PORT}")
    assert systemd.tell(unit.NAME, "ActiveState") == "active"  # it has said that it looks
    named = systemd.tell(unit.NAME, "CapabilityBoundingSet").upper().split()
    written = (systemd.folder / unit.UNIT).read_text()
    assert f"CapabilityBoundingSet={' '.join(sorted(named))}\n" in written
    wanted = sum(1 << BITS[name] for name in named)
    processes = systemd.processes(unit.NAME)
    assert len(processes) >= 2
    for pid in processes:
        assert status(pid, "CapBnd") == wanted
        collector = b"unclaimed.py" in Path(f"/proc/{pid}/cmdline").read_bytes()
        assert status(pid, "CapEff") == (0 if collector else wanted)
        assert status(pid, "NoNewPrivs") == 1
    assert "wastedcores_looks_total" in page()

    killed = min(processes)
    os.kill(killed, signal.SIGKILL)
    wait_for(lambda: systemd.tell(unit.NAME, "NRestarts") == "1", 30)
    wait_for(lambda: systemd.tell(unit.NAME, "ActiveState") == "active", 60)
    assert killed not in systemd.processes(unit.NAME)
    assert "wastedcores_looks_total" in page()

    do(systemd, "--uninstall")
    assert systemd.tell(unit.NAME, "LoadState") == "not-found"
    assert systemd.processes(unit.NAME) == []
    assert files(systemd) == before


def recordings(result: str) -> float:
    return float(re.search(rf'wastedcores_recordings_total{{result="{result}"}} (\S+)', page())[1])


def test_a_violation_is_in_the_journal_with_fields_and_its_recording_is_judged(
    bpf, balancing, systemd
):
    do(systemd, "--install", "--serve", f":{PORT}")
    longest_s = 0.0
    for _ in range(5):
        with balancing_off():
            push_work_away()
            with pile_up(3, 8):
                before_s = idle_seconds()
                time.sleep(6)
                longest_s = max(longest_s, idle_seconds() - before_s)
        if found := violations(systemd):
            break
    else:
        assert longest_s < 5, "a CPU was idle beside three threads, and nothing was told"
        pytest.skip("other work of this machine kept the second CPU busy")
    first = found[0]
    assert first["SYSLOG_IDENTIFIER"] == "wastedcores"
    assert first["PRIORITY"] == "4"
    assert int(first["WASTEDCORES_LASTED_MS"]) >= 100
    began, confirmed = (int(first[f"WASTEDCORES_{k}_NS"]) for k in ("BEGAN", "CONFIRMED"))
    told = int(first["__MONOTONIC_TIMESTAMP"]) * 1000
    assert began + 100_000_000 <= confirmed <= told
    wait_for(lambda: recordings("kept") + recordings("clean") + recordings("failed"), 90)
    assert recordings("failed") == 0


#: says which processes the loaded programs take for the checker's own, instead of looking
KNOWN = """
import struct, sys
sys.path.insert(0, sys.argv.pop(1))
import _checker, unclaimed
def tell(checker, cpu):
    print(*struct.unpack_from("<8I", checker.memory, _checker.CHECK.size), flush=True)
    sys.stdin.read()
    sys.exit(0)
_checker.Checker.start_timers = tell
unclaimed.main()
"""


def test_the_checker_knows_its_own_process_in_a_container(bpf):
    """There it is process 1, and the programs see the number that the kernel counts."""
    python, *_, script = command("unclaimed.py", [], bpf)
    argv = ["unshare", "--fork", "--pid", "--mount-proc", python, "-B", "-E", "-s", "-c", KNOWN]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    run = subprocess.Popen([*argv, os.path.dirname(script), "--framed", "--before", "0"], **pipes)
    told = run.stdout.readline().split()
    with open(f"/proc/{run.pid}/task/{run.pid}/children") as children:
        outside = children.read().strip()
    run.communicate("", timeout=60)
    assert told == ["1", "0", "0", "0", outside, "0", "0", "0"]
    assert outside != "1"
