"""A real full disk: what was recorded is kept and named, what stood there stays, and the exit code is no verdict."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from support.fake_capture import CAPTURE, MAIN

from wastedcores.trace.io import open_trace

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root to mount a small disk"),
]
PAGE = 4096


@pytest.fixture
def disk(tmp_path):
    """Mount a disk of a megabyte; the answer leaves the given number of bytes free."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "wastedcores-test", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("may not mount a file system here")

    def leave(free: int):
        about = os.statvfs(folder)
        (folder / "ballast").write_bytes(bytes(max(0, about.f_bavail * about.f_bsize - free)))
        return folder

    yield leave
    subprocess.run(["umount", folder], check=True)


def run(*words, program=MAIN, cwd):
    command = [sys.executable, "-c", program, *map(str, words)]
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=300, check=False
    )


def names(folder) -> list[str]:
    return sorted(p.name for p in folder.iterdir() if p.name != "ballast")


@pytest.mark.slow
@pytest.mark.parametrize("free", [28 * 1024, 2 * PAGE], ids=["Parquet", "recording"])
def test_a_capture_keeps_what_was_recorded(disk, tmp_path, free):
    folder = disk(free)
    words = ("capture", "--seconds", "0.1" if free > 2 * PAGE else "2", "-o", folder / "t.parquet")
    done = run(*words, program=CAPTURE + MAIN, cwd=tmp_path)
    assert done.returncode == 2, done
    (raw,) = names(folder)
    assert f"The raw recording is kept in {folder / raw}." in done.stderr
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert open_trace(folder / raw).header.events
    (folder / "ballast").unlink()
    again = done.stderr.rpartition("run: wastedcores ")[2].split()
    assert run(*again, cwd=tmp_path).returncode == 0
    assert open_trace(folder / "t.parquet").header.events


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["import", "export", "snapshot"])
def test_a_file_that_does_not_fit_leaves_the_earlier_one(disk, tmp_path, verb):
    folder = disk(2 * PAGE)
    out = folder / ("out.pftrace" if verb == "export" else "out.parquet")
    out.write_text("what stood there before")
    line = "  a-6 [000] d..2. %f: sched_switch: prev_comm=%x prev_pid=6 prev_prio=120 prev_state=S ==> next_comm=b next_pid=7 next_prio=120\n"  # noqa: E501
    source = tmp_path / "trace.txt"
    source.write_text("".join(line % (1 + i / 1e5, i * 7919) for i in range(20_000)))
    words = [] if verb == "snapshot" else [source]
    done = run(verb, *words, "-o", out, cwd=tmp_path)
    assert done.returncode == 2, done
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert names(folder) == [out.name]
    assert out.read_text() == "what stood there before"


@pytest.mark.slow
def test_a_sweep_keeps_the_runs_that_fitted(disk, tmp_path):
    folder = disk(3 * PAGE)
    words = (
        "sweep",
        "recorded-gi",
        "-o",
        folder / "t.parquet",
        "--seeds",
        "1-4",
        "--workers",
        "1",
        "-q",
    )
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 2, done
    assert "Traceback" not in done.stderr
    assert "t.parquet" not in names(folder)
    kept = list((folder / "t.parquet.runs").glob("*.json"))
    assert [json.loads(p.read_text())["error"] for p in kept if not p.name.startswith(".")]
    (folder / "ballast").unlink()
    done = run(*words, cwd=tmp_path)
    assert done.returncode == 0, done


@pytest.mark.long
def test_a_report_leaves_the_earlier_one(disk, tmp_path):
    folder = disk(64 * PAGE)
    done = run("report", "live-balancing-on", "-o", folder / "r", "-q", cwd=tmp_path)
    assert done.returncode == 2, done
    assert "No space left on device" in done.stderr
    assert names(folder) == []
