"""What newcomers stumbled over: each test is a defect that somebody met who had never seen the program."""

from __future__ import annotations

import os
import pty
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support import TRACE_GOLDEN
from support.typed import typed

import wastedcores as wc
from wastedcores.capture.snapshot import read_snapshot
from wastedcores.cli.replay import _next
from wastedcores.cli.report import _copies
from wastedcores.errors import WastedCoresError
from wastedcores.figures import event_views, overview, threads_per_node
from wastedcores.files import find, is_special, written_whole
from wastedcores.trace.trace import Trace
from wastedcores.words.cause import NAMES
from wastedcores.workload.scenarios import scenario

MAIN = [sys.executable, "-c", "from wastedcores.cli import main; main()"]


def test_no_figure_offers_to_upload_itself():
    run = wc.examine("group-imbalance-buggy")
    for fig in (overview(run), threads_per_node(run)):
        assert "sendChartToCloud" in fig.layout.modebar.remove


def test_a_replay_that_wrote_its_trace_suggests_a_report_of_it():
    command, _ = _next(scenario("hackbench"), "v4.1", "", Path("my big.parquet"))
    assert command == "wastedcores report 'my big.parquet'"
    assert "-o trace.parquet" in _next(scenario("hackbench"), "v4.1", "")[0]


@pytest.mark.slow
def test_lines_of_an_answer_fit_a_narrow_terminal(tmp_path):
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": "60"}
    subprocess.run([*MAIN, "check", "kernel-build"], stdout=theirs, env=environment, check=False)
    os.close(theirs)
    text = b""
    while part := _read(ours):
        text += part
    lines = text.decode().splitlines()
    facts = lines[: next(i for i, line in enumerate(lines) if "longest episode" in line)]
    assert facts
    assert max(map(len, facts)) < 60
    assert all(line == line.rstrip() and not line.startswith(" " * 18) for line in facts)


@pytest.mark.slow
def test_the_next_command_says_again_what_the_trace_does_not_tell():
    folder = find("datasets") / "recordings" / "db64-buggy-64cpu"
    trace, tasks = folder / "trace.txt.xz", folder / "tasks.json"
    told = f"--between 'rec: db start' 'rec: db end' --snapshot {tasks}"

    def last(verb: str, more: str) -> str:
        return typed(verb, trace, *shlex.split(f"{told} {more}")).out.splitlines()[-1]

    assert f"explain {trace} --persist 50ms {told}   (" in last("check", "-M 50ms --limit 3")
    where, steps = "--machine bd-paper-64 --kernel v4.1", "--offline 5 --online 5 --offline 6"
    said = last("explain", f"{where} {steps}")
    assert said.split(str(trace))[1].startswith(f" {where} "), said
    assert f"{told} {steps}   (" in said
    assert last("check", "--format ftrace").count("--") == 2, "explain has no --format"
    recorded = typed("check", TRACE_GOLDEN / "sched_profiler.txt", "--whole").out.splitlines()[-1]
    assert recorded.endswith("wastedcores doctor   (record again)")


def test_a_device_is_never_replaced_by_a_file(tmp_path):
    null, pipe, file = tmp_path / "null", tmp_path / "pipe", tmp_path / "file"
    null.symlink_to("/dev/null")
    os.mkfifo(pipe)
    file.write_text("before")
    for special in (null, pipe, Path("/dev/stdout")):
        assert is_special(special)
        with pytest.raises(WastedCoresError, match="device or a pipe"), written_whole(special):
            pass
    for line in ("import kernel-build", "capture --seconds 1"):
        done = typed(*line.split(), "-o", null)
        assert (done.code, done.out) == (2, "")
        assert "expected the name of a file" in done.err
    assert not is_special(file)
    with written_whole(file) as part:
        part.write_text("after")
    assert file.read_text() == "after"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "null", "pipe"]


@pytest.mark.slow
def test_an_interrupt_is_one_line():
    command = [*MAIN, "replay", "hackbench", "--set", "loops=100000000"]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    assert running.stderr.readline().startswith("replaying hackbench")
    running.send_signal(signal.SIGINT)
    errors = running.communicate(timeout=60)[1]
    assert errors.endswith("wastedcores: interrupted\n")
    assert "Traceback" not in errors
    assert running.returncode == 130


def test_a_trace_in_the_current_folder_has_a_name(monkeypatch):
    monkeypatch.chdir(find("datasets") / "small")
    assert Trace(wc.open("kernel-build").events, wc.open("kernel-build").header, Path()).name


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


def test_a_report_takes_the_snapshot_of_its_trace(tmp_path):
    folder = find("datasets") / "recordings" / "db16-buggy-16cpu"
    trace, tasks = folder / "trace.txt.xz", folder / "tasks.json"
    copy, other = _copies(str(trace), "", str(tasks), None, tmp_path / "r-traces")
    assert other == ""
    told = wc.open(copy).header.tasks
    assert len(told) == len(read_snapshot(tasks).tasks)
    assert wc.open(copy).events.collect().height == wc.open(trace).events.collect().height


def test_two_traces_of_the_same_name_stay_two(tmp_path):
    """Most recordings are called perf.data or trace.dat."""
    paths = []
    for folder, name in (("before", "live-balancing-on"), ("after", "live-balancing-off")):
        (tmp_path / folder).mkdir()
        paths.append(shutil.copy(wc.open(name).path, tmp_path / folder / "trace.parquet"))
    for keys in (None, tmp_path / "keys"):
        copies = _copies(*map(str, paths), None, keys, tmp_path / f"copies-{keys is None}")
        for copy, path in zip(copies, paths, strict=True):
            assert wc.open(copy).header.events == wc.open(path).header.events
    assert wc.open(paths[0]).header.events != wc.open(paths[1]).header.events


def test_very_many_moves_do_not_hide_who_ran(monkeypatch):
    run = wc.examine("group-imbalance-buggy")
    with_moves = event_views.EventView(run).figure()
    monkeypatch.setattr(event_views, "MOST_ARROWS", 100)
    view = event_views.EventView(run)
    without = view.figure()
    assert "would cover" in without.layout.title.text
    assert "would cover" not in with_moves.layout.title.text
    assert without.layout.images[0].source != with_moves.layout.images[0].source
    alone = event_views.EventView(run, [d.layer for d in view.drawn if d.layer.draw == "arrows"])
    assert "would cover" not in alone.figure().layout.title.text


@pytest.mark.slow
def test_no_waste_is_said_in_words():
    said = subprocess.run(
        [*MAIN, "explain", "live-balancing-on"], capture_output=True, text=True, check=True
    ).stdout
    found = wc.explain("live-balancing-on")
    assert "looks like NOTHING" not in said
    assert NAMES[found.looks_like].split(" (")[0] in " ".join(said.split())
