"""Reading Perfetto's traces, CTF and pages of systrace, each against what else reads the same events, interleaved.

Perfetto's trace repeats a recording of a phone with later times. It is compared with the generated classes of the ``perfetto``
package, because its trace processor is a program that it downloads, and in events per second with a trace.dat of this machine.
CTF is a recording of perf on this machine, converted by ``perf data convert``, and is compared with babeltrace2, which prints it.
A page of systrace is compared with the same text of ftrace outside of a page.
"""

from __future__ import annotations

import lzma
import shutil
import statistics
import subprocess
import tempfile
from pathlib import Path

from benchmarks import bench_trace_dat
from benchmarks.bench_import import record, seconds

ROUNDS = 7
#: how often the phone's recording, and the text of the page, are repeated
REPEATED = 30
FOREIGN = Path(__file__).resolve().parents[1] / "tests" / "trace" / "foreign" / "files"
_TAG, _END = '<script class="trace-data" type="application/text">', "</script>"


def unpacked(name: str) -> bytes:
    return lzma.decompress((FOREIGN / f"{name}.xz").read_bytes())


def phone(path: Path) -> None:
    """Write the packets with events again and again, each time later."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    trace = Trace.FromString(unpacked("perfetto--ms-test_trace.perfetto-trace"))
    packets = [p for p in trace.packet if p.ftrace_events.event]
    times = [e.timestamp for p in packets for e in p.ftrace_events.event]
    length = max(times) - min(times) + 1_000_000
    with path.open("wb") as out:
        for _ in range(REPEATED):
            out.write(Trace(packet=packets).SerializeToString())
            for event in (e for p in packets for e in p.ftrace_events.event):
                event.timestamp += length


def by_classes(path: Path) -> int:
    """Read the fields of switches and wakeups with the generated classes, as a script that uses the package does."""
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace

    rows = []
    for packet in Trace.FromString(path.read_bytes()).packet:
        bundle = packet.ftrace_events
        cpu = bundle.cpu
        for event in bundle.event:
            if event.HasField("sched_switch"):
                s = event.sched_switch
                named = (s.prev_comm, s.prev_pid, s.prev_prio, s.prev_state)
                rows.append((event.timestamp, cpu, *named, s.next_comm, s.next_pid, s.next_prio))
            elif event.HasField("sched_wakeup"):
                w = event.sched_wakeup
                rows.append((event.timestamp, cpu, w.comm, w.pid, w.prio, w.target_cpu))
    return len(rows)


def pages(folder: Path) -> tuple[Path, Path]:
    """Write text of ftrace, and a page with the same text."""
    page = unpacked("systrace--trappy-surfaceflinger.html").decode()
    before, _, rest = page.partition(_TAG)
    text, _, after = rest.partition(_END)
    lines = f"{text.strip()}\n".splitlines(keepends=True)
    first = next(i for i, line in enumerate(lines) if not line.startswith("#"))
    body = "".join(lines[first:])
    # the same times again would be a clock that jumps: the seconds are counted on
    stamp = lambda line, turn: line.replace(" 538.", f" {538 + turn}.", 1)  # noqa: E731
    long = "".join(lines[:first]) + "".join(
        stamp(line, turn) for turn in range(8 * REPEATED) for line in body.splitlines(keepends=True)
    )
    plain, html = folder / "trace.txt", folder / "trace.html"
    plain.write_text(long)
    html.write_text(f"{before}{_TAG}\n{long}{_END}{after}")
    return plain, html


def printed(folder: Path, text: Path) -> None:
    with text.open("wb") as out:
        subprocess.run(
            ["babeltrace2", str(folder)], stdout=out, stderr=subprocess.DEVNULL, check=True
        )


def converted(folder: Path) -> Path | None:
    """Record with perf and convert the recording; None if a program is missing or cannot convert."""
    if not all(map(shutil.which, ("perf", "babeltrace2"))):
        return None
    data = record(folder)
    words = ["perf", "data", "convert", "-i", str(data), "--to-ctf", str(folder / "ctf")]
    done = subprocess.run(words, capture_output=True, check=False)
    return folder / "ctf" if done.returncode == 0 else None


def row(
    key: str, name: str, ratio: float, goal: float | None, peer: str, ours: list[float], note: str
) -> dict:
    return {
        "id": key,
        "name": name,
        "value": ratio,
        "unit": "x",
        "goal": f">= {goal:g} x" if goal else "-",
        "met": ratio >= goal if goal else None,
        "peer": peer,
        "note": f"{statistics.median(ours):.3f} s; {note}; median of {ROUNDS}, interleaved",
    }


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    from wastedcores.trace.io import open_trace

    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        trace = folder / "phone.pftrace"
        phone(trace)
        plain, page = pages(folder)
        sources = {"perfetto": trace, "ftrace": plain, "systrace": page}
        if ctf := converted(folder):
            sources["ctf"] = ctf
        if bench_trace_dat.possible():
            sources["trace.dat"] = folder / "trace.dat"
            bench_trace_dat.record(sources["trace.dat"])
        events = {k: sum(open_trace(path).kinds().values()) for k, path in sources.items()}
        assert events["ftrace"] == events["systrace"]
        times: dict[str, list[float]] = {k: [] for k in (*sources, "classes", "babeltrace2")}
        for _ in range(ROUNDS):
            for key, path in sources.items():
                times[key].append(seconds(lambda path=path: open_trace(path)))
            times["classes"].append(seconds(lambda: by_classes(trace)))
            if ctf:
                times["babeltrace2"].append(seconds(lambda: printed(ctf, folder / "ctf.txt")))
        size = {k: p.stat().st_size / 1e6 for k, p in sources.items() if p.is_file()}
    median = {k: statistics.median(v) for k, v in times.items() if v}
    rate = {k: n / median[k] for k, n in events.items()}
    about = {
        k: f"{n} events" + (f", {size[k]:.1f} MB" if k in size else "") for k, n in events.items()
    }
    listed = [
        ("classes", "Perfetto's trace read, the events of use as rows in memory", "perfetto", None,
         "the perfetto package's generated classes, switches and wakeups to tuples", "classes"),
        ("systrace", "page of systrace read", "systrace", 1, "the same text outside of a page", "ftrace"),
        ("ctf", "CTF read, the events of use as rows in memory", "ctf", 1, "babeltrace2 printing text to a file", "babeltrace2"),
    ]  # fmt: skip
    rows = [
        row(key, name, median[other] / median[ours], goal, f"{peer}, {median[other]:.3f} s", times[ours], about[ours])
        for key, name, ours, goal, peer, other in listed
        if ours in median
    ]  # fmt: skip
    if "trace.dat" in rate:
        peer = f"trace.dat read, {rate['trace.dat'] / 1e6:.2f} million events per second ({about['trace.dat']})"
        ratio = rate["perfetto"] / rate["trace.dat"]
        name = f"Perfetto's events per second, {rate['perfetto'] / 1e6:.2f} million"
        rows.append(row("perfetto", name, ratio, None, peer, times["perfetto"], about["perfetto"]))
    return rows
