"""The formats that are fuzzed: small valid files of each, and a function that reads one as the command line does."""

from __future__ import annotations

import json
import shutil
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq
import yaml

from support import encoders, more_encoders, perf_file, recorders, trace_dat_file
from support.big_endian import big_endian
from support.builders import trace_of
from support.perf_pipes import folder_of, piped
from wastedcores.capture.snapshot import read_snapshot, take, with_snapshot
from wastedcores.errors import TraceFormatError
from wastedcores.invariant import check
from wastedcores.reports.perfetto import export_perfetto
from wastedcores.runqueues.runqueues import runqueues
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import preset
from wastedcores.topology.source import find_machine
from wastedcores.trace.header import TaskFacts
from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.parquet import HEADER_KEY
from wastedcores.trace.recognisers import ctf_folders
from wastedcores.trace.schedstat import IDLENESS, domain_fields, read_counters
from wastedcores.trace.trace import Trace
from wastedcores.words.schedstat import table
from wastedcores.workload.rtapp.reader import read_rtapp

TRACES = Path(__file__).resolve().parents[2] / "trace"
GOLDEN, FOREIGN = TRACES / "golden", TRACES / "foreign" / "files"
#: Episodes of this length decide in some cases, and none is long enough in the others.
PERSIST_NS = (20_000, 10**9)
#: Name of the file within its folder, if the format is not a folder.
FILE = "input"


@dataclass
class Outcome:
    """What reading a file gave, if it was not refused.

    Attributes
    ----------
    verdict
        Of the check; empty: nothing was checked.
    visible
        Contradictions that the package itself noticed.
    kind
        Short description by which outcomes are compared, so that files with new ones are mutated further.
    """

    verdict: str = ""
    visible: str = ""
    kind: str = ""


@dataclass
class Target:
    """A format.

    Attributes
    ----------
    name
        Its name.
    seeds
        Valid inputs: files by name; the name :data:`FILE` if it is one file.
    read
        Reads the input at a path; ``persist_ns`` is for formats that are checked.
    text
        The files have lines.
    """

    name: str
    seeds: list[dict[str, bytes]]
    read: Callable[[Path, int], Outcome]
    text: bool = True
    trace: bool = True
    intact: dict[tuple[int, int], str] = field(default_factory=dict)


def _files(path: Path) -> dict[str, bytes]:
    if path.is_file():
        return {FILE: path.read_bytes()}
    return {f.name: f.read_bytes() for f in sorted(path.iterdir())}


class _Checked:
    """Opens a trace and checks it, unless it has the events of the trace before."""

    def __init__(self, format: str | None) -> None:
        self.format = format

    def __call__(self, path: Path, persist_ns: int) -> Outcome:
        trace = open_trace(path, self.format)
        header = trace.header
        known = {"tasks": header.tasks or TASKS, "quotas": header.quotas or {}}
        result = check(trace.with_header(**known), persist_ns=persist_ns)
        signs = sorted(set(result.doubts["reason"].to_list()) | set(result.oddities))
        if header.lost:
            signs.append("lost")
        if header.truncated_last_line:
            signs.append("truncated")
        kinds = ",".join(k for k in trace.kinds())
        return Outcome(result.verdict, " ".join(signs), f"{result.verdict} {signs} {kinds}")


#: All threads of the runs here may run anywhere.
TASKS = trace_of(
    recorders.as_events(recorders.random_run(1, tasks=6, steps=60)), cpus=3
).header.tasks


def _machine(path: Path, _: int) -> Outcome:
    machine = find_machine(str(path)).machine
    return Outcome(kind=f"{machine.cpus > 8} {len(set(machine.to_dict()))}")


def _snapshot_for(trace: Trace) -> Callable[[Path, int], Outcome]:
    """Return a function that reads a snapshot and gives it to this trace."""

    def read(path: Path, persist_ns: int) -> Outcome:
        taken = read_snapshot(path)
        known = with_snapshot(trace, taken, path)
        if persist_ns != PERSIST_NS[0]:  # a check takes twenty times as long as all before
            return Outcome(kind=f"{len(known.header.tasks or ())} {sorted(taken.model_fields_set)}")
        result = check(known, persist_ns=persist_ns)
        return Outcome(kind=f"{result.verdict} {result.affinity_unknown}")

    return read


def _counters(path: Path, _: int) -> Outcome:
    found = read_counters(path)
    if found is None:
        raise TraceFormatError(f"{path}: no counters")
    lines = sum(1 for _ in table(found, cpus=True))
    return Outcome(kind=f"{found.version} {found.since_boot} {lines > 100}")


def _counter_texts() -> list[str]:
    """Two samples of /proc/schedstat, one after the other, of each version."""
    texts = []
    for version in IDLENESS:
        for samples in ((1,), (1, 5)):
            lines = []
            for add in samples:
                lines += [f"version {version}", f"timestamp {add}"]
                for cpu in range(2):
                    values = " ".join(str(7 * i + add) for i in range(len(domain_fields(version))))
                    lines += [f"cpu{cpu} " + " ".join(str(i + add) for i in range(9))]
                    lines += [f"domain0{' MC' if version > 16 else ''} 00000003 {values}"]
            texts.append("\n".join(lines) + "\n")
    return texts


def _rtapp(path: Path, _: int) -> Outcome:
    work = read_rtapp(path, _UMA)
    return Outcome(kind=f"{len(work.program().tasks)} {sorted(n[:20] for n in work.notes)}")


_UMA = preset("uma8")


def _unsealed(sealed: Path, path: Path) -> None:
    """Write the file as versions without a seal did."""
    table = pq.read_table(sealed)
    key = HEADER_KEY.encode()
    metadata = {key: pq.read_metadata(sealed).metadata[key]}
    pq.write_table(table.replace_schema_metadata(metadata), path, compression="zstd")


def make_targets(folder: Path) -> dict[str, Target]:
    """Return all targets; their valid files are written below ``folder``."""
    runs = [recorders.random_run(seed, steps=steps) for seed, steps in ((1, 14), (3, 40))]
    seeds: dict[str, list[dict[str, bytes]]] = {}

    def add(name: str, path: Path) -> None:
        seeds.setdefault(name, []).append(_files(path))

    for i, run in enumerate(runs):
        for name, path in encoders.write(run, folder / f"run{i}").items():
            add(name, path)
        add("schedlog", recorders.as_schedlog(run, folder / f"rings{i}"))
        add("systing", recorders.as_systing(run, folder / f"systing{i}"))
        for version in (6, 7, trace_dat_file.COLLECTOR):
            dat = folder / f"run{i}.{version}.dat"
            dat.write_bytes(trace_dat_file.as_trace_dat(run, version))
            add("trace.dat", dat)
        turned = folder / f"run{i}.big.dat"
        turned.write_bytes(big_endian(trace_dat_file.as_trace_dat(run, 6)))
        add("trace.dat", turned)
        add("kutrace", recorders.as_kutrace(run, folder / f"kutrace{i}.json"))
        for name, encode in more_encoders.MORE.items():
            file = folder / f"run{i}.{name}"
            file.write_bytes(encode(run))
            add(name.split()[-1], file)
        own = folder / f"own{i}.parquet"
        import_trace(folder / f"run{i}" / "ftrace", own)
        add("parquet", own)
        opened = open_trace(own)
        add("export", export_perfetto(runqueues(opened), folder / f"own{i}.pftrace"))
        old = folder / f"old{i}.parquet"
        _unsealed(own, old)
        add("unsealed", old)
    for golden in sorted(GOLDEN.glob("*.txt")):
        name = golden.stem.split("_")[0]
        add(
            {"trace": "trace-cmd", "perf": "perf-script", "sched": "sched_profiler"}.get(
                name, name
            ),
            golden,
        )
    small = folder / "small.perf"
    small.write_bytes(perf_file.build(rounds=1))
    add("perf.data", small)
    pipe = folder / "small.pipe"
    pipe.write_bytes(piped(small.read_bytes()))
    add("perf.data", pipe)
    add("perf-folder", folder_of(small.read_bytes(), folder / "small.folder"))
    if shutil.which("babeltrace2"):
        with tarfile.open(FOREIGN / "ctf--perf-taskset2.tar.xz") as archive:
            archive.extractall(folder / "ctf", filter="data")
        add("ctf", ctf_folders(folder / "ctf")[0])
    targets = {}
    for name, files in seeds.items():
        format = {
            "trace-cmd": "ftrace",
            "unsealed": "parquet",
            "export": "perfetto",
            "perf-folder": "perf.data",
        }.get(name, name)
        text = name in (
            "ftrace",
            "trace-cmd",
            "perf-script",
            "sched_profiler",
            "kutrace",
            "systrace",
            "schedviz",
        )
        targets[name] = Target(name, files, _Checked(format), text=text)
    targets["detected"] = Target(
        "detected", [f for fs in seeds.values() for f in fs if FILE in f], _Checked(None), text=True
    )
    for name, read, texts in _descriptions():
        targets[name] = Target(name, [{FILE: t.encode()} for t in texts], read, trace=False)
    return targets


def _descriptions() -> list[tuple[str, Callable[[Path, int], Outcome], list[str]]]:
    machines = [json.dumps(preset(n).to_dict()) for n in ("uma8", "bulldozer8x8")]
    live = json.dumps(Machine.live().to_dict(), indent=1)
    events = recorders.as_events(recorders.random_run(1, tasks=6, steps=14))
    taken = take()
    trace = trace_of(
        events, cpus=3, known=False, kernel_release=taken.kernel, boot_id=taken.boot_id or "a"
    )
    tasks = [
        TaskFacts(pid=100 + i, comm=f"t{100 + i}", allowed="0-2", kthread=i == 5) for i in range(6)
    ]
    changes = {
        "tasks": tasks,
        "machine": None,
        "boot_id": trace.header.boot_id,
        "quotas": {"/a": 100_000},
    }
    snapshot = taken.model_copy(update=changes)
    text = snapshot.model_dump_json(by_alias=True, exclude_none=True)
    rt = [
        """{ "tasks" : { "Clock" : { "priority" : -19, "loop" : 6, "phases" : {
 "p1" : { "loop" : 1, "lock1" : "m0", "signal2" : "go0", "unlock3" : "m0", "timer4" : { "ref" : "tick", "period": 5000 }, },
 "p2" : { "loop" : 3, "cpus" : [0, 1], "run" : 500, "sleep" : 100 } } },
 "Out" : { "instance" : 2, "loop" : 5, "lock0" : "m0", "wait1" : { "ref" : "wait0", "mutex": "m0" },
   "unlock2" : "m0", "run3" : 250 } },
 "resources" : { "tick" : { "type" : "timer" }, "m0" : { "type" : "mutex" }, "wait0" : { "type" : "wait" },
   "go0" : { "type" : "signal", "target" : "wait0" } },
 "global" : { "default_policy" : "SCHED_OTHER", "duration" : 2, "calibration" : "CPU0", "ftrace" : false, } }
""",
        '{"tasks": {"a": {"instance": 3, "loop": -1, "run": 1000, "sleep": 1000, "barrier": "b"}}, "global": {"duration": 1}}',
    ]
    return [
        ("machine", _machine, [*machines, live, yaml.safe_dump(json.loads(machines[0]))]),
        ("snapshot", _snapshot_for(trace), [text, json.dumps(json.loads(text), indent=1)]),
        ("rt-app", _rtapp, rt),
        ("schedstat", _counters, _counter_texts()),
    ]
