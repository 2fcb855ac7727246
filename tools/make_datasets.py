"""Make datasets/small/*.parquet, datasets/registry.txt and the table of datasets/README.md from the recordings.

    .venv/bin/python tools/make_datasets.py [--guest DIR] [--live DIR] [--tracefs DIR] [--build DIR]

``--guest`` names the folder of guest recordings (default: datasets/recordings). ``--live`` names a folder that
tools/record_live_pair.py wrote, and ``--build`` that of tools/record_build.py; without them, what is in datasets/small is
kept. The same input gives the same files.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import polars as pl
from record_live_pair import work

from wastedcores.analysis.examined import examine
from wastedcores.capture.snapshot import header_facts, read_snapshot
from wastedcores.cpulist import parse_cpulist
from wastedcores.files import file_digest
from wastedcores.kernels import KernelModel
from wastedcores.topology.machine import Machine
from wastedcores.trace.io import open_trace
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.trace import Trace
from wastedcores.trace.window import find_window

ROOT = Path(__file__).resolve().parents[1]
SMALL = ROOT / "datasets" / "small"

GI = (
    "two hogs in sessions of their own; one session's make forks 4000 cc1 of 20-60 ms, 64 at a time"
)
GC = "a shell on node 1 pins itself to nodes 1+2 and creates 16 threads that work for 3 s"
MS = "CPU 20 went offline and online; then a shell on node 2 forks 64 busy children, free to run anywhere, for 3 s"
DB = "64 workers, 400 rounds of 1.8-2.2 ms and a blocking barrier; a pinned noise thread on every CPU"
LU = (
    "16 threads pinned to nodes 1+2, a spinning barrier after every 1 ms of work, 500 rounds or 4 s"
)

#: the CPU that the missing-domains recordings took offline and back (datasets/recordings/README.md)
HOTPLUGGED = 20

#: name -> recording, workload, first and last mark of the measured window, CPUs the workload may use
GUEST = {
    "group-imbalance-buggy": ("gi-buggy-64cpu", GI, ("rec: make start", "rec: make end"), ""),
    "group-imbalance-fixed": ("gi-all-64cpu", GI, ("rec: make start", "rec: make end"), ""),
    "group-construction-buggy": (
        "gc-buggy-64cpu",
        GC,
        ("rec: threads start", "rec: threads stop"),
        "8-23",
    ),
    "group-construction-fixed": (
        "gc-sgclit-64cpu",
        GC,
        ("rec: threads start", "rec: threads stop"),
        "8-23",
    ),
    "overload-on-wakeup-buggy": ("db64-buggy-64cpu", DB, ("rec: db start", "rec: db end"), ""),
    "overload-on-wakeup-fixed": ("db64-oow-64cpu", DB, ("rec: db start", "rec: db end"), ""),
    "missing-domains-buggy": ("ms-buggy-64cpu", MS, ("rec: start", "rec: stop"), ""),
    "missing-domains-fixed": ("ms-msd-64cpu", MS, ("rec: start", "rec: stop"), ""),
    "lu-pinned-buggy": ("lu1ms-buggy-64cpu", LU, ("rec: lu start", "rec: lu end"), "8-23"),
    "lu-pinned-fixed": ("lu1ms-sgclit-64cpu", LU, ("rec: lu start", "rec: lu end"), "8-23"),
}
#: ends the names of the live pair that was recorded through tracefs
TRACEFS = "-tracefs"
#: the recorded build
BUILD = "kernel-build"
#: recordings that tools/remake_recordings.py makes
REMADE = ("group-construction-modern",)
LIVE = {
    "live-balancing-off": "0: no scheduling domains, so nothing balances",
    "live-balancing-on": "1: the control",
}


def guest(name: str, folder: Path) -> None:
    """Write the data set ``name`` from its recording in the folder of guest recordings."""
    recording, workload, window, cpus = GUEST[name]
    meta = json.loads((folder / recording / "meta.json").read_text())
    machine = Machine.from_dict(meta, "bulldozer8x8 (guest)")
    if recording.startswith("ms-"):
        machine = machine.offline(HOTPLUGGED).online(HOTPLUGGED)  # before the trace begins
    file = folder / recording / "trace.txt.xz"
    trace = open_trace(file)
    fixes = ", ".join(meta["fixes"]) or "none: as released"
    provenance = {
        "machine": "a QEMU guest with the topology of the paper's 64-CPU, 8-node machine, all virtual CPUs in "
        f"lockstep of {meta['emulation']['round_us']:g} us of virtual time; no caches, NUMA latency, SMT contention",
        "kernel": f"Linux {meta['kernel']}, HZ {meta['hz']}, fixes: {fixes}",
        "workload": workload,
        "recorded": "ftrace, the kernel's own buffer; sched_switch, wakeup, wakeup_new, migrate_task, fork, exec, "
        "exit, trace_marker",
        "licence": "Apache-2.0, with this project",
        "source_sha256": file_digest(file),
    }
    header = {
        "kernel_release": meta["kernel"],
        "clock": meta["trace"]["clock"],
        "cpus": meta["cpus"],
        "cpus_online": list(range(meta["cpus"])),
        "machine": machine.to_dict(),
        "recording": recording,
        "window": find_window(trace, window),
        "counted_cpus": parse_cpulist(cpus) if cpus else None,
        "kernel_model": KernelModel.of_guest_variant(meta["variant"]).name,
        **header_facts(read_snapshot(folder / recording / "tasks.json")),
        "provenance": provenance,
    }
    write_parquet(trace.with_header(**header), SMALL / f"{name}.parquet")


def live(name: str, folder: Path, kind: str = "") -> None:
    """Write the data set ``name`` from what tools/record_live_pair.py wrote into ``folder``; ``kind`` ends its name."""
    file = folder / f"{name}.parquet"
    trace = open_trace(file)
    facts = json.loads((folder / "machine.json").read_text())
    seen = set(trace.events.select("pid").unique().collect()["pid"])
    # an emulated machine takes its time: what was recorded through tracefs lasts longer than what was asked for
    seconds = (
        round((trace.header.end_ns - trace.header.start_ns) / 1e9, 1) if kind else facts["seconds"]
    )
    provenance = {
        **trace.header.provenance,
        "machine": f"{facts['name']}, {facts['model']}, {facts['load']}",
        "kernel": f"Linux {trace.header.kernel_release}",
        "workload": f"{facts['children']} busy processes forked from CPU 0, free to run anywhere, for "
        f"{seconds:g} s; "
        f"cpuset.sched_load_balance of the root cpuset (cgroup v1) = {LIVE[name]}",
        "recorded": f"tools/{facts['tool']}, through {facts['backend']}",
        "licence": "Apache-2.0, with this project",
        "source_sha256": file_digest(file),
    }
    del provenance["source"]
    header = {
        "host": None,
        "boot_id": None,
        "boot_parameters": None,  # those of the machine's provider
        "tasks": [t for t in trace.header.tasks or () if t.pid in seen],
        "window": work(trace),
        "provenance": provenance,
    }
    write_parquet(trace.with_header(**header), SMALL / f"{name}{kind}.parquet")


def build(folder: Path) -> None:
    """Write the recorded build from what tools/record_build.py wrote into ``folder``."""
    file = folder / f"{BUILD}.parquet"
    trace = open_trace(file)
    facts = json.loads((folder / "build.json").read_text())
    # the files that processes executed name folders of the machine, and their names follow from the switches
    frame = trace.events.with_columns(
        text=pl.when(pl.col("kind") != "exec").then(pl.col("text"))
    ).collect()
    made = frame.filter(pl.col("comm") == "make")
    seen = set(frame["pid"].unique())
    provenance = {
        **trace.header.provenance,
        "machine": f"{facts['name']}, {facts['model']}, {facts['load']}",
        "kernel": f"Linux {trace.header.kernel_release}",
        "workload": f"{facts['built']}; {facts['compiler']}",
        "recorded": f"tools/{facts['tool']}, through BPF; the kinds of events from which work is recovered",
        "licence": "Apache-2.0, with this project",
        "source_sha256": file_digest(file),
    }
    del provenance["source"]
    header = {
        "host": None,
        "boot_id": None,
        "boot_parameters": None,  # those of the machine's provider
        "tasks": [t for t in trace.header.tasks or () if t.pid in seen],
        "window": find_window(trace, (made["ts_ns"].min(), made["ts_ns"].max())),
        "provenance": provenance,
    }
    write_parquet(
        Trace(frame.lazy(), trace.header).with_header(**header), SMALL / f"{BUILD}.parquet"
    )


def describe() -> None:
    """Write the registry and the table of the README, from the files in datasets/small."""
    names = [*GUEST, *LIVE, *(name + TRACEFS for name in LIVE), BUILD, *REMADE]
    registry = ["# name sha256 [url]; without a url the file is bundled (datasets/small)"]
    rows = [
        "| data set | events | KB | verdict (M = 100 ms) | mean CPUs wasted | longest | SHA-256 |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in names:
        path = SMALL / f"{name}.parquet"
        digest = file_digest(path)
        registry.append(f"{path.name} sha256:{digest}")
        run = examine(read_parquet(path), name)
        r = run.result
        rows.append(
            f"| {name} | {run.trace.header.events:,} | {path.stat().st_size / 1000:.0f} | {r.verdict} | "
            f"{r.mean(r.thread_ns):.2f} of {len(r.counted_cpus)} | {r.longest_ns / 1e6:.1f} ms | `{digest[:16]}…` |"
        )
        if (
            run.trace.events.select(pl.col("text").str.contains("/home|/root|/tmp|/work").any())
            .collect()
            .item()
        ):
            sys.exit(f"{name}: the text of an event names a private path.")
    readme = ROOT / "datasets" / "README.md"
    before, marker, rest = readme.read_text().partition(
        "<!-- table: made by tools/make_datasets.py -->\n"
    )
    _, end, after = rest.partition("<!-- end of table -->\n")
    assert end, readme
    (ROOT / "datasets" / "registry.txt").write_text("\n".join(registry) + "\n")
    readme.write_text(before + marker + "\n".join(rows) + "\n" + end + after)
    total = sum((SMALL / f"{n}.parquet").stat().st_size for n in names)
    print(*rows, f"{total / 1e6:.2f} MB in all", sep="\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--guest", type=Path, default=ROOT / "datasets" / "recordings")
    parser.add_argument("--live", type=Path, help="the pair of tools/record_live_pair.py")
    parser.add_argument("--tracefs", type=Path, help="a pair of tools/record_guest_pair.py")
    parser.add_argument("--build", type=Path, help="the build of tools/record_build.py")
    parser.add_argument(
        "--describe", action="store_true", help="only write the registry and the table"
    )
    options = parser.parse_args()
    SMALL.mkdir(parents=True, exist_ok=True)
    for name in () if options.describe else GUEST:
        guest(name, options.guest)
    if options.live:
        for name in LIVE:
            live(name, options.live)
    if options.tracefs:
        for name in LIVE:
            live(name, options.tracefs, TRACEFS)
    if options.build:
        build(options.build)
    describe()


if __name__ == "__main__":
    main()
