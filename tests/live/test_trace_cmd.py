"""A real trace.dat that trace-cmd wrote, compared with the kernel's own text of the same buffer."""

from __future__ import annotations

import platform
import re
import shutil
import subprocess
from pathlib import Path

import polars as pl
import pytest

from wastedcores.errors import TraceFormatError
from wastedcores.invariant import check
from wastedcores.trace.io import open_trace, sniff

INSTANCES = Path("/sys/kernel/tracing/instances")
EVENTS = (
    *("sched/sched_" + e for e in ("switch", "wakeup", "wakeup_new", "waking", "migrate_task")),
    *("sched/sched_process_" + e for e in ("fork", "exec", "exit")),
    "power/cpu_idle",
)
NAMES = {
    **{kind: kind for kind in ("switch", "wakeup", "wakeup_new")},
    **{kind: f"process_{kind}" for kind in ("fork", "exec", "exit")},
}


class Instance:
    """A trace buffer of its own. `trace-cmd record` needs the function tracer, which not every kernel has."""

    def __init__(self, name: str, kib: int = 8192, overwrite: bool = True, events=EVENTS) -> None:
        self.path = INSTANCES / name
        self.path.mkdir()
        (self.path / "trace_clock").write_text("mono")
        (self.path / "buffer_size_kb").write_text(str(kib))
        (self.path / "options" / "overwrite").write_text(str(int(overwrite)))
        for event in events:
            (self.path / "events" / event / "enable").write_text("1")

    def stop(self) -> None:
        (self.path / "tracing_on").write_text("0")

    def counted(self, what: str) -> dict[int, int]:
        """Return what the kernel counted, for the CPUs where it is not 0."""
        found = {}
        for stats in self.path.glob("per_cpu/cpu*/stats"):
            n = int(re.search(rf"^{what}: (\d+)", stats.read_text(), re.MULTILINE)[1])
            found[int(stats.parent.name[3:])] = n
        return {c: n for c, n in found.items() if n}


@pytest.fixture(scope="module")
def instances(root):
    """Make instances that are removed after the tests. trace-cmd removes an instance that it extracts."""
    if not INSTANCES.is_dir() or shutil.which("trace-cmd") is None:
        pytest.skip("needs tracefs and trace-cmd (tools/ci_packages.sh)")
    made = []

    def make(name, **options):
        made.append(Instance(f"wastedcores_{name}", **options))
        return made[-1]

    yield make
    for one in made:
        if one.path.exists():
            one.path.rmdir()


PROGRAMS = 600  #: number of programs that `some_work` runs; each is forked, wakes for the first time, execs and exits


def some_work() -> None:
    """Run many short programs. How often they wait and wake each other depends on the machine; no test relies on it."""
    work = "for i in 1 2 3 4 5; do for j in $(seq 60); do /bin/true | /bin/cat & done; wait; done"
    subprocess.run(["sh", "-c", work], check=True)


def extract(path: Path, *names: str) -> Path:
    which = [word for name in names for word in ("-B", name)]
    subprocess.run(["trace-cmd", "extract", *which, "-o", path], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def recorded(instances, tmp_path_factory):
    """Return the text and the trace.dat of one buffer."""
    own, folder = instances("all"), tmp_path_factory.mktemp("all")
    some_work()
    own.stop()
    text = folder / "trace.txt"
    text.write_text((own.path / "trace").read_text())
    return text, extract(folder / "trace.dat", own.path.name)


def test_trace_dat_holds_what_the_kernels_text_holds(recorded):
    text, dat = (open_trace(path) for path in recorded)
    assert sniff(recorded[1]) == dat.header.source_format == "trace.dat"
    expected, got = text.events.collect(), dat.events.collect()
    # the number of lines does not depend on how the reader understands them
    lines, kinds = recorded[0].read_text(), dict(got["kind"].value_counts().iter_rows())
    printed = {kind: lines.count(f" sched_{name}: ") for kind, name in NAMES.items()}
    assert {kind: kinds.get(kind, 0) for kind in printed} == printed
    assert min(printed[kind] for kind in ("wakeup_new", "fork", "exec", "exit")) >= PROGRAMS
    assert printed["switch"] >= PROGRAMS
    assert text.header.lost == dat.header.lost == {}
    assert dat.header.kernel_release == platform.release()
    # trace.dat has nanoseconds, the text has microseconds
    assert (got["ts_ns"] - expected["ts_ns"]).abs().max() <= 1000
    assert (got["ts_ns"] % 1000).max() > 0
    names = sorted(set(got.columns) - {"ts_ns"})
    order = ["cpu", "ts_ns"]
    assert (
        got.sort(order, maintain_order=True)
        .select(names)
        .equals(expected.sort(order, maintain_order=True).select(names))
    )


def test_a_report_with_names_of_buffers_is_refused(recorded, tmp_path):
    text = tmp_path / "report.txt"
    with text.open("wb") as out:
        subprocess.run(["trace-cmd", "report", "-i", recorded[1]], stdout=out, check=True)
    with pytest.raises(TraceFormatError, match=r"line 2: .*wastedcores_all: .*Name the trace\.dat"):
        open_trace(text)


def test_trace_dat_cut_short_is_refused_in_one_paragraph(recorded, tmp_path):
    whole = recorded[1].read_bytes()
    cut = tmp_path / "cut.dat"
    cut.write_bytes(whole[: len(whole) // 8])
    with pytest.raises(TraceFormatError) as caught:
        open_trace(cut)
    assert "\n" not in str(caught.value)
    assert "cut short or damaged" in str(caught.value)


def test_of_several_buffers_one_is_read_and_the_others_are_named(instances, tmp_path):
    much = instances("much")
    little = instances("a_little_and_a_longer_name", events=EVENTS[:1])
    some_work()
    much.stop()
    little.stop()
    switches = (little.path / "trace").read_text().count(" sched_switch: ")
    text = (much.path / "trace").read_text()
    trace = open_trace(extract(tmp_path / "two.dat", little.path.name, much.path.name))
    assert trace.header.provenance["buffer"] == much.path.name
    left_out = trace.header.provenance["buffers_left_out"]
    assert left_out == f"{little.path.name} ({switches} events)"
    kinds = trace.events.collect()["kind"].cast(pl.String)
    assert (kinds == "switch").sum() == text.count(" sched_switch: ")
    names = trace.events.collect()["by_comm"].cast(pl.String).drop_nulls()
    assert names.str.len_bytes().max() <= 15


@pytest.mark.parametrize(("overwrite", "what"), [(True, "overrun"), (False, "dropped events")])
def test_events_without_room_are_counted_as_the_kernel_counts_them(
    instances, tmp_path, overwrite, what
):
    small = instances("small", kib=8, overwrite=overwrite, events=EVENTS[:4])
    some_work()
    small.stop()
    counted = small.counted(what)
    assert counted
    trace = open_trace(extract(tmp_path / "small.dat", small.path.name))
    assert trace.header.lost == counted
    assert trace.header.overwritten == (counted if overwrite else {})
    assert check(trace).verdict == "unknown"
    # overwritten events lie before the first event that is there, so nothing is lost after it
    assert trace.events.filter(pl.col("kind") == "lost").collect().height == 0
