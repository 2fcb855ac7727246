"""The folder of evidence: it stays within its limits, belongs to its user alone, and has no half-written file."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import namedtuple
from concurrent.futures import Future
from pathlib import Path

import pytest
from support import TRACE_GOLDEN
from support.builders import nr, trace_of
from support.waiting import wait_for

import wastedcores
from wastedcores.capture import evidence as module
from wastedcores.capture.evidence import Evidence, Limits
from wastedcores.capture.live_result import LiveOptions
from wastedcores.errors import UsageError
from wastedcores.files import part_prefix
from wastedcores.trace.parquet import write_parquet
from wastedcores.trace.pseudonyms import Pseudonyms

HOUR = 3600
#: at which the first file is written; the middle of an hour
START = 1_800_000_000.0


class Folder:
    """A folder of evidence with a clock, and what it told."""

    def __init__(self, path: Path, **limits) -> None:
        self.now, self.told = START, []
        self.evidence = Evidence(
            path,
            LiveOptions(),
            Limits(**limits),
            told=lambda result, found: self.told.append(result),
            now=lambda: self.now,
        )

    def write(self, kind: str = "violation", size: int = 1000) -> Path | None:
        raw = self.evidence.write(kind, 1, b"x" * size)
        if raw is not None:
            os.utime(raw, (self.now, self.now))
        return raw


def names(folder: Path) -> list[str]:
    return sorted(p.name for p in folder.iterdir())


def test_one_recording_of_each_kind_is_kept_per_hour(tmp_path):
    folder = Folder(tmp_path / "e")
    assert folder.write() is not None
    folder.now += 60
    assert folder.write() is None
    assert folder.write("chronic") is not None
    folder.now += HOUR
    assert folder.write() is not None
    assert folder.told == ["too_often"]
    assert len(names(tmp_path / "e")) == 3


def test_the_oldest_go_first_and_the_folder_never_exceeds_its_size(tmp_path):
    folder = Folder(tmp_path / "e", most_bytes=3500)
    written = []
    for _ in range(6):
        written.append(folder.write())
        folder.now += HOUR
        assert sum(p.stat().st_size for p in (tmp_path / "e").iterdir()) <= 3500
    assert names(tmp_path / "e") == [p.name for p in written[-3:]]
    assert folder.write(size=4000) is None  # it alone would be too large
    assert folder.told == ["no_room"]


def test_what_is_too_old_goes(tmp_path):
    folder = Folder(tmp_path / "e", most_s=1.5 * HOUR)
    first = folder.write()
    folder.now += HOUR
    folder.write()
    assert first.exists()
    folder.now += HOUR
    folder.write()
    assert not first.exists()
    assert len(names(tmp_path / "e")) == 2


def test_other_peoples_files_in_the_folder_stay(tmp_path):
    (tmp_path / "notes.md").write_text("x" * 10_000)
    folder = Folder(tmp_path, most_bytes=1500)
    for _ in range(3):
        folder.write()
        folder.now += HOUR
    assert "notes.md" in names(tmp_path)
    assert len(names(tmp_path)) == 2


def test_only_files_that_the_store_has_named_are_deleted_or_judged(tmp_path):
    ended = subprocess.Popen(["true"])
    ended.wait()
    others = ["old.txt", "trace.parquet", "x.wct", "violation-1.wct", "other-20270115T080000Z.json"]
    others += [f"t.parquet.{ended.pid}.raw", f".mine.{ended.pid}-00.part.parquet"]
    unfinished = f".violation-20270115T080000Z.{ended.pid}-00.part.wct"
    for name in (*others, unfinished):
        (tmp_path / name).write_text("x")
        os.utime(tmp_path / name, (START - 30 * 86_400,) * 2)
    folder = Folder(tmp_path, most_bytes=1500)
    folder.evidence.finish()
    assert names(tmp_path) == sorted(others)
    assert folder.told == []


def test_a_recording_that_is_too_large_costs_no_other_recording(tmp_path):
    folder = Folder(tmp_path / "e", most_bytes=3500)
    folder.write()
    folder.now += HOUR
    kept = names(tmp_path / "e")
    assert folder.write(size=4000) is None
    assert names(tmp_path / "e") == kept


def test_nothing_is_written_when_the_disk_is_nearly_full(tmp_path, monkeypatch):
    folder = Folder(tmp_path / "e", free_share=0.05)
    disk = namedtuple("disk", "f_bavail f_frsize f_blocks")
    monkeypatch.setattr(module.os, "statvfs", lambda _: disk(51, 1000, 1000))
    assert folder.write(size=500) is not None
    folder.now += HOUR
    assert folder.write(size=1500) is None
    assert folder.told == ["no_room"]


def test_only_the_user_may_read_it(tmp_path):
    (tmp_path / "e").mkdir(mode=0o755)
    raw = Folder(tmp_path / "e").write()
    assert raw.stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "e").stat().st_mode & 0o777 == 0o700


def test_a_folder_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="Choose another folder"):
        Folder(tmp_path / "file" / "e")


WRITER = """
import sys
from pathlib import Path
from wastedcores.capture.evidence import Evidence, Limits
from wastedcores.capture.live_result import LiveOptions
clock = [1_800_000_000.0]
def now():
    clock[0] += 3600
    return clock[0]
evidence = Evidence(Path(sys.argv[1]), LiveOptions(), Limits(most_bytes=60_000_000, most_s=1e9), now=now)
print("ready", flush=True)
while True:
    evidence.write("violation", 1, b"y" * 3_000_000)
"""


@pytest.mark.slow
def test_a_killed_writer_leaves_no_half_file(tmp_path):
    for attempt in range(4):
        run = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "e")], stdout=subprocess.PIPE
        )
        run.stdout.readline()
        time.sleep(0.15 + 0.07 * attempt)
        run.kill()
        run.wait()
        run.stdout.close()
        whole = [p for p in (tmp_path / "e").iterdir() if not p.name.startswith(".")]
        assert whole
        assert {p.stat().st_size for p in whole} == {3_000_000}
        assert sum(p.stat().st_size for p in whole) <= 60_000_000
        for p in whole:  # they are no recordings, and the next start would try to judge them
            p.unlink()
    dead = part_prefix("violation-20270115T080000Z").replace(str(os.getpid()), "999999999")
    left = tmp_path / "e" / f"{dead}00.part.wct"
    left.write_text("half")
    Evidence(tmp_path / "e", LiveOptions()).finish()
    assert names(tmp_path / "e") == []


def judged(tmp_path, wasted: bool, key=None):
    """Write a trace that the folder takes for a recording, let it be judged, and return what was told."""
    rows = [nr(0, 0, 2 if wasted else 1), nr(0, 1, 0 if wasted else 1), nr(300_000_000, 0, 1)]
    folder = tmp_path / "e"
    folder.mkdir()
    raw = folder / "violation-20270115T080000Z.wct"
    write_parquet(trace_of(rows, cpus=2), folder / "t.parquet").rename(raw)
    told = []
    evidence = Evidence(
        folder, LiveOptions(), Limits(most_s=1e12), key, told=lambda *what: told.append(what)
    )
    evidence.finish()
    return folder, told


@pytest.mark.slow
def test_a_recording_that_a_killed_process_left_is_judged_at_the_next_start(tmp_path):
    folder, told = judged(tmp_path, wasted=True)
    ((result, found),) = told
    assert (result, found["verdict"]) == ("kept", "violations")
    stem = "violation-20270115T080000Z"
    assert names(folder) == [f"{stem}.json", f"{stem}.parquet", f"{stem}.txt"]
    assert {p.stat().st_mode & 0o777 for p in folder.iterdir()} == {0o600}
    assert json.loads((folder / f"{stem}.json").read_text())["kind"] == "persistent"
    assert wastedcores.check(folder / f"{stem}.parquet").verdict == "violations"


def test_what_a_killed_process_left_gets_no_facts_of_now(tmp_path, monkeypatch):
    raw, asked = Folder(tmp_path / "e").write(), []

    class Pool:
        def submit(self, work):
            asked.append(work.args[:2])
            return Future()

    monkeypatch.setattr(module, "_judges", Pool)
    Folder(tmp_path / "e").evidence.add(raw)
    (left, then), (own, now) = asked
    assert left == own == raw
    assert then == {}
    assert now["boot_id"]


@pytest.mark.slow
def test_a_clean_recording_is_deleted(tmp_path):
    folder, told = judged(tmp_path, wasted=False)
    assert [result for result, _ in told] == ["clean"]
    assert names(folder) == []


@pytest.mark.slow
def test_what_is_no_recording_is_told_as_failed_and_stays_within_the_limits(tmp_path):
    folder = tmp_path / "e"
    folder.mkdir()
    (folder / "violation-20270115T080000Z.wct").write_bytes(b"nonsense")
    told = []
    limits = Limits(most_s=1e12)
    Evidence(folder, LiveOptions(), limits, told=lambda result, _: told.append(result)).finish()
    assert told == ["failed"]


@pytest.mark.slow
def test_a_judge_that_is_killed_does_not_end_the_service(tmp_path):
    folder, told = tmp_path / "e", []
    evidence = Evidence(folder, LiveOptions(), told=lambda result, _: told.append(result))
    raws = [folder / f"violation-20270115T0{hour}0000Z.wct" for hour in (8, 9)]
    for raw in raws:
        raw.write_bytes(b"nonsense")
    evidence.add(raws[0])
    (judging,) = evidence._pool._processes
    os.kill(judging, signal.SIGKILL)
    wait_for(lambda: told == ["failed"])
    evidence.add(raws[1])
    evidence.finish()
    assert told == ["failed", "failed"]


@pytest.mark.slow
def test_names_are_replaced_on_request(tmp_path):
    folder = tmp_path / "e"
    folder.mkdir()
    trace = wastedcores.open_trace(TRACE_GOLDEN / "ftrace_4.1.txt")
    names_in_it = {c for c in trace.events.collect()["comm"].cast(str).drop_nulls() if len(c) > 4}
    private = {c for c in names_in_it if Pseudonyms(b"k").task(c) != c}
    assert private
    write_parquet(trace, folder / "t.parquet").rename(folder / "violation-20270115T080000Z.wct")
    key = tmp_path / "key"
    told: list[str] = []
    limits, options = Limits(most_s=1e12), LiveOptions(chronic_share=None)
    Evidence(folder, options, limits, key, told=lambda result, _: told.append(result)).finish()
    assert told == ["kept"]
    # it is compressed, so a name cannot be searched for in its bytes
    (kept,) = folder.glob("*.parquet")
    events = wastedcores.open_trace(kept).events.collect()
    columns = ("comm", "prev_comm", "by_comm")
    assert not private & {n for c in columns for n in events[c].cast(str).drop_nulls()}
    for path in folder.iterdir():
        data = path.read_bytes()
        assert not [c for c in private if c.encode() in data]
