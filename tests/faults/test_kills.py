"""Processes that are killed with SIGKILL: what they write is whole or absent, and what they leave behind is named."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import polars as pl
import pytest
from support.fake_capture import CAPTURE, MAIN
from support.waiting import wait_for

from wastedcores.files import leftovers
from wastedcores.trace.io import open_trace


def start(*words, program=MAIN, cwd: Path) -> subprocess.Popen:
    """Start a command in a session of its own, so that all of its processes can be killed at once."""
    return subprocess.Popen(
        [sys.executable, "-c", program, *map(str, words)],
        cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def killed_after(seconds: float, process: subprocess.Popen) -> bool:
    """Kill a process and all that it started; return whether it still ran then."""
    try:
        process.communicate(timeout=seconds)
        return False
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=30)
        return True


def finished(*words, program=MAIN, cwd: Path) -> tuple[float, str]:
    """Run a command to its end; return its seconds and what it said on standard error."""
    began = time.monotonic()
    process = start(*words, program=program, cwd=cwd)
    _, said = process.communicate(timeout=300)
    assert process.returncode == 0, said
    return time.monotonic() - began, said.decode()


def moments(longest: float, count: int) -> list[float]:
    """Return random moments within a run, most of them after the interpreter has started."""
    rng = random.Random(20261122)
    return sorted(rng.uniform(min(0.3, longest / 3), longest) for _ in range(count))


def all_named(folder: Path, known: set[str]) -> list[str]:
    """Return the names of what was left besides ``known``; each has to be one that the next run and doctor mention."""
    left = {p.name for p in folder.iterdir()} - known
    assert left == {p.name for p in leftovers(folder)} - known
    return sorted(left)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("text") / "trace.txt"
    line = (
        "  {a}-{p} [00{c}] d..2. {t:.6f}: sched_switch: prev_comm={a} prev_pid={p} prev_prio=120 prev_state=S ==> "
        "next_comm={b} next_pid={q} next_prio=120\n"
    )
    with path.open("w") as f:
        f.write("# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:2\n#\n")
        for i in range(300_000):
            p, q = (6, 7) if i // 2 % 2 else (7, 6)
            f.write(line.format(a=f"t{p}", p=p, b=f"t{q}", q=q, c=i % 2, t=1 + i / 1e6))
    return path


@pytest.mark.slow
def test_import(text, tmp_path):
    out = tmp_path / "t.parquet"
    needed, _ = finished("import", text, "-o", out, cwd=tmp_path)
    whole = out.read_bytes()
    left: list[str] = []
    for moment in moments(needed, 5):
        out.write_bytes(b"what stood there before")
        if killed_after(moment, start("import", text, "-o", out, cwd=tmp_path)):
            assert out.read_bytes() in (b"what stood there before", whole)
        left = all_named(tmp_path, {"t.parquet"})
    _, said = finished("import", text, "-o", out, cwd=tmp_path)
    for name in left:
        assert f"{tmp_path / name} was left by a process that was killed: delete it." in said
    assert out.read_bytes() == whole


def recording(folder: Path) -> Path:
    """Wait until a capture records, and return its raw recording."""
    begun = [[]]

    def records() -> bool:
        begun[0] = [raw for raw in folder.glob("*.raw") if raw.stat().st_size > 1000]
        return bool(begun[0])

    wait_for(records)
    return begun[0][0]


@pytest.mark.slow
def test_capture(tmp_path):
    program = CAPTURE + MAIN
    words = ("capture", "--seconds", "2", "-o", "t.parquet")
    kept = 0
    # the first ones while it records, the others while it writes Parquet
    for moment in (0.0, 0.7, 1.9, 2.1, 2.3, 2.6):
        process = start(*words, program=program, cwd=tmp_path)
        recording(tmp_path)
        killed_after(moment, process)
        left = all_named(tmp_path, {"t.parquet"})
        for name in left:
            if name.endswith(".raw"):  # what was recorded is there and can be imported
                assert open_trace(tmp_path / name).header.events
                kept += 1
        if (tmp_path / "t.parquet").exists():
            assert open_trace(tmp_path / "t.parquet").header.events
            (tmp_path / "t.parquet").unlink()
        else:
            assert [n for n in left if n.endswith(".raw")]
        _, said = finished(*words[:2], "0.1", *words[3:], program=program, cwd=tmp_path)
        for name in left:
            assert f"{name} was left by a process that was killed" in said
            (tmp_path / name).unlink()
        (tmp_path / "t.parquet").unlink()
    assert kept


def test_a_collector_ends_when_its_capture_is_killed(tmp_path):
    program = CAPTURE + MAIN
    process = start("capture", "--seconds", "60", "-o", "t.parquet", program=program, cwd=tmp_path)
    raw = recording(tmp_path)
    process.kill()  # only the capture: the collector sees the end of its input
    process.communicate(
        timeout=30
    )  # returns when the collector has closed its end of the pipe, too
    size = raw.stat().st_size
    time.sleep(0.2)
    assert raw.stat().st_size == size


@pytest.mark.slow
def test_sweep(tmp_path):
    words = (
        "sweep",
        "recorded-gi",
        "-o",
        "t.parquet",
        "--seeds",
        "1-6",
        "--workers",
        "1",
        "-q",
    )
    needed, _ = finished(*words, cwd=tmp_path)
    whole = pl.read_parquet(tmp_path / "t.parquet")
    (tmp_path / "t.parquet").unlink()
    for moment in moments(needed, 4):
        killed_after(moment, start(*words, cwd=tmp_path))
        all_named(tmp_path, {"t.parquet", "t.parquet.runs"})
        if (tmp_path / "t.parquet").exists():  # killed at its very end: then the table is whole
            assert pl.read_parquet(tmp_path / "t.parquet").height == whole.height
            (tmp_path / "t.parquet").unlink()
    finished(*words, cwd=tmp_path)
    again = pl.read_parquet(tmp_path / "t.parquet")
    results = [c for c in whole.columns if c != "wall_s"]
    assert again.select(results).sort("run").equals(whole.select(results).sort("run"))
    assert not (tmp_path / "t.parquet.runs").exists()


def workers_of(parent: int) -> list[int]:
    """The worker processes that a process has started and that still run, whoever is their parent now."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words, status = (folder / "cmdline").read_bytes(), (folder / "stat").read_text()
        except OSError:
            continue
        session = int(status.rpartition(")")[2].split()[3])
        if b"LokyProcess" in words and session == parent:
            found.append(int(folder.name))
    return found


@pytest.mark.slow
def test_workers_end_with_the_process_that_started_them(tmp_path):
    """Only that process is killed, as the kernel does when memory runs out."""
    words = ("sweep", "recorded-gi", "-o", "t.parquet", "--seeds", "1-99", "--workers", "2", "-q")
    process = start(*words, cwd=tmp_path)
    wait_for(lambda: len(workers_of(process.pid)) == 2)
    os.kill(process.pid, signal.SIGKILL)
    wait_for(lambda: not workers_of(process.pid), 10)
    process.communicate(timeout=30)


@pytest.mark.long
def test_report(tmp_path):
    words = ("report", "live-balancing-on", "-o", "r", "-q")
    files = {"report.ipynb", "report.html", "manifest.json"}
    needed, _ = finished(*words, cwd=tmp_path)
    for moment in moments(needed, 4):
        killed_after(moment, start(*words, cwd=tmp_path))
        # the earlier report stays until the new one replaces it
        assert {p.name for p in (tmp_path / "r").iterdir()} == files
        json.loads((tmp_path / "r/manifest.json").read_text())
        left = all_named(tmp_path, {"r"})
    _, said = finished(*words, cwd=tmp_path)
    for name in left:
        assert f"{name} was left by a process that was killed: delete it." in said


@pytest.mark.long
def test_reproduce(tmp_path):
    words = ("reproduce", "walcher", "-o", "out", "--seeds", "1", "-q", "--json")
    needed, _ = finished(*words, cwd=tmp_path)
    whole = {p.name: p.read_bytes() for p in (tmp_path / "out").glob("*.json")}
    for moment in moments(needed, 3):
        killed_after(moment, start(*words, cwd=tmp_path))
        for path in (tmp_path / "out").glob("*.json"):
            json.loads(path.read_bytes())
        for path in (tmp_path / "out").glob("*.parquet"):
            pl.read_parquet(path)
    finished(*words, cwd=tmp_path)
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").glob("*.json")} == whole
