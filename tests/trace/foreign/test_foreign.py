"""Traces that nobody of this project made open, and every event is counted as the format's own tool counts it."""

from __future__ import annotations

import json
import lzma
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.formats import FOREIGN
from wastedcores.trace.io import import_trace, open_trace, sniff

HERE = Path(__file__).parent
EXPECTED = HERE / "expected.json"
EXPECT = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
OPENS = [name for name, want in EXPECT.items() if "kinds" in want]
REFUSED = [name for name, want in EXPECT.items() if "refused" in want]
needs_babeltrace = pytest.mark.skipif(
    not shutil.which("babeltrace2"), reason="babeltrace2 is not installed"
)


def unpack(folder: Path) -> dict[str, Path]:
    """Unpack all files below a folder, and return them by their names in the README."""
    found = {}
    for packed in sorted((HERE / "files").iterdir()):
        name = packed.name.removesuffix(".xz").removesuffix(".tar").replace("--", "/")
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        if packed.name.endswith(".tar.xz"):
            with tarfile.open(packed) as archive:
                archive.extractall(path.parent, filter="data")
        elif packed.suffix == ".xz":
            path.write_bytes(lzma.decompress(packed.read_bytes()))
        else:
            shutil.copy(packed, path)
        found[name] = path
    return found


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    return unpack(tmp_path_factory.mktemp("foreign"))


def marked(names):
    return [pytest.param(n, marks=needs_babeltrace) if n.startswith("ctf/") else n for n in names]


def seen(path: Path) -> dict:
    """Return what a file gives: header fields, numbers of events, its first events and the verdict."""
    trace = open_trace(path)
    header = trace.header
    first = [
        {k: v for k, v in row.items() if v is not None}
        for row in trace.events.head(3).collect().iter_rows(named=True)
    ]
    return {
        "format": header.source_format,
        "kernel": header.kernel_release,
        "clock": header.clock,
        "cpus": header.cpus,
        "lost": header.lost_total,
        "start_ns": header.start_ns,
        "end_ns": header.end_ns,
        "kinds": trace.kinds(),
        "first": first,
    }


def test_every_file_has_an_expectation(files):
    assert set(files) == set(EXPECT)


@pytest.mark.parametrize("name", marked(OPENS))
def test_a_foreign_trace_opens_and_every_event_is_counted(files, name):
    want = EXPECT[name]
    got = seen(files[name])
    for kind, n in want["counted"].items():
        assert got["kinds"].get(kind, 0) == n, kind
    assert got == {k: v for k, v in want.items() if k != "counted"}


def test_the_bound_is_at_most_what_all_cpus_but_one_can_waste(files):
    """Waits of this recording overlap, so that those that may be hidden are longer together than it has CPU time."""
    found = check(open_trace(files["trace.dat/lisa-rtapp.dat"]))
    assert found.bound.longest_at_most_ns <= min(found.duration_ns, found.bound.waste_at_most_ns)
    assert found.bound.waste_at_most_ns <= found.duration_ns * (found.cpus - 1)


@pytest.mark.parametrize("name", REFUSED)
def test_a_file_without_scheduling_is_refused_in_words(files, name):
    with pytest.raises(WastedCoresError) as caught:
        open_trace(files[name])
    said = str(caught.value)
    assert str(files[name]) in said
    assert "\n" not in said
    assert EXPECT[name]["refused"] in said


def test_a_page_of_systrace_has_the_events_of_its_text(files, tmp_path):
    page = files["systrace/trappy-surfaceflinger.html"].read_text()
    text = page.split('<script class="trace-data" type="application/text">')[1].split("</script>")[
        0
    ]
    plain = tmp_path / "text"
    plain.write_text(text.lstrip("\n"))
    events = open_trace(plain).events.collect().drop("text")
    assert (
        open_trace(files["systrace/trappy-surfaceflinger.html"])
        .events.collect()
        .drop("text")
        .equals(events)
    )


def test_the_scripts_of_a_page_of_systrace_may_name_the_text_of_older_pages(files, tmp_path):
    """As in the importer of catapult (extras/importer/linux_perf/ftrace_importer.html), whose scripts come before the text."""
    page = files["systrace/trappy-surfaceflinger.html"].read_text()
    script = (
        '<script>if(!r.advanceToLineMatching(/^  var linuxPerfData = "\\\\$/)) return;</script>\n'
    )
    newer = tmp_path / "newer.html"
    newer.write_text(page.replace("<body", script + "<body", 1))
    assert newer.read_text() != page
    assert open_trace(newer).kinds() == EXPECT["systrace/trappy-surfaceflinger.html"]["kinds"]


def test_only_at_the_end_of_a_text_a_damaged_line_is_one_that_was_cut(files, tmp_path):
    text = files["ftrace/trappy-trace_idle_unsorted.txt"].read_text()
    opened = open_trace(files["ftrace/trappy-trace_idle_unsorted.txt"])
    assert "line 17 is cut" in opened.header.truncated_last_line
    assert check(opened).verdict == "unknown"
    longer = tmp_path / "longer"
    longer.write_text(text + text.splitlines()[-3] + "\n")
    with pytest.raises(WastedCoresError, match="line 17: the fields of sched_switch"):
        open_trace(longer)
    twice = tmp_path / "twice"
    twice.write_text(text + text.splitlines()[-1] + "\n")
    with pytest.raises(WastedCoresError, match="line 17: the fields of sched_switch"):
        open_trace(twice)


def test_the_page_of_kutrace_has_the_spans_of_its_json(files, tmp_path):
    """The page is made as postproc/makeself.cc makes it: the JSON in one line, between scripts."""
    json_text = files["kutrace/hello_world_demo.json"].read_text()
    page = tmp_path / "page.html"
    line = json_text.replace("\n", " ")
    page.write_text(
        f"<!DOCTYPE html>\n<script>{'x' * 400_000}</script>\nvar myString = '{line}';\n</html>\n"
    )
    assert sniff(page) == "kutrace"
    assert (
        open_trace(page)
        .events.collect()
        .equals(open_trace(files["kutrace/hello_world_demo.json"]).events.collect())
    )


def test_perfetto_decodes_what_its_own_messages_say(files):
    """The compiled decoder against the generated classes of the package, event by event."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    path = files["perfetto/ms-test_trace.perfetto-trace"]
    want = []
    for packet in Trace.FromString(path.read_bytes()).packet:
        for event in packet.ftrace_events.event:
            if event.HasField("sched_switch"):
                s = event.sched_switch
                row = (s.prev_comm, s.prev_pid, s.prev_prio, s.next_comm, s.next_pid, s.next_prio)
                want.append((event.timestamp, "switch", packet.ftrace_events.cpu, *row))
            elif event.HasField("sched_wakeup"):
                w = event.sched_wakeup
                row = (None, None, None, w.comm, w.pid, w.prio)
                want.append((event.timestamp, "wakeup", w.target_cpu, *row))
    columns = ["ts_ns", "kind", "cpu", "prev_comm", "prev_pid", "prev_prio", "comm", "pid", "prio"]
    got = open_trace(path).only("switch", "wakeup").select(columns).collect()
    assert got.height == len(want) == 24_010
    assert sorted(map(str, got.iter_rows())) == sorted(map(str, want))


@pytest.mark.parametrize(
    "name",
    marked(
        ["ctf/bug446190", "perfetto/ms-test_trace.perfetto-trace", "systrace/catapult-android.html"]
    ),
)
def test_a_foreign_trace_is_kept_as_it_was_read(files, tmp_path, name):
    kept = import_trace(files[name], tmp_path / "kept.parquet")
    opened = open_trace(files[name])
    assert kept.kinds() == opened.kinds()
    assert check(kept).verdict == check(opened).verdict


@pytest.mark.slow
@pytest.mark.parametrize("name", marked(OPENS))
def test_opening_a_file_imports_one_reader(files, name):
    """Recognising a format needs no reader, so that the first answer comes soon."""
    readers = sorted({f"wastedcores.trace.readers.{row.reader[0]}" for row in FOREIGN.values()})
    program = (
        "import sys\nfrom wastedcores.trace.io import open_trace\nopen_trace(sys.argv[1])\n"
        f"print(*(m for m in {readers} if m in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, files[name]], capture_output=True, text=True, check=True
    )
    found = set(done.stdout.split())
    # SchedViz's pages are those of trace.dat
    found -= (
        {"wastedcores.trace.readers.trace_dat.reader"} if name.startswith("schedviz") else set()
    )
    assert len(found) == 1, found


def test_without_babeltrace2_the_message_says_how_to_install_it(files, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(WastedCoresError, match="sudo apt-get install babeltrace2"):
        open_trace(files["ctf/bug446190"])


ASKED = [n for n in OPENS if "catapult-android.html" not in n]


@pytest.mark.slow
@pytest.mark.parametrize("name", marked(ASKED))
def test_no_command_that_the_program_prints_fails(files, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    register_verbs()
    run = CliRunner()
    todo = [[verb, str(files[name])] for verb in ("check", "explain", "path", "info")]
    done: list[list[str]] = []
    while todo:
        words = todo.pop()
        if words[:2] in done or words[0] in ("capture", "doctor", "report"):
            continue
        done.append(words[:2])
        result = run.invoke(app, words)
        asked = len(done) <= 4
        if result.exit_code == 2 and asked:  # a command of this test's own may be refused, in words
            assert re.search(r"has no sched_wakeup events|not a trace", result.output), (
                result.output
            )
            continue
        assert result.exit_code in (0, 1, 3), (words, result.output)
        for line in re.findall(
            r"^  next +wastedcores (.*?)(?:   \(.*)?$", result.output, re.MULTILINE
        ):
            more = line.split()
            todo.append(more + ["--seeds", "1"] * (more[0] == "whatif"))


def test_the_reasons_of_the_readme_name_every_file(files):
    text = (HERE / "README.md").read_text()
    missing = [
        n for n in files if n.split("/")[1] not in text and not n.endswith(("-irq", "-irq-syscall"))
    ]
    assert not missing


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        for name, path in unpack(Path(made)).items():
            if "refused" not in EXPECT.get(name, {}):
                EXPECT[name] = {"counted": EXPECT.get(name, {}).get("counted", {}), **seen(path)}
    EXPECTED.write_text(json.dumps(EXPECT, indent=1) + "\n")
