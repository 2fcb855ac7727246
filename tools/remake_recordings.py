"""Make bundled recordings anew in a guest, and tell whether they have the same events: `make recordings`.

    .venv/bin/python tools/remake_recordings.py [NAME ...] [--keep]

The recordings go into reports/recordings. `--keep` puts them into datasets/small, and tools/make_datasets.py --describe then
writes the registry. Wanted are the emulator (`wastedcores guest build`) and the kernel, which is fetched.
"""

from __future__ import annotations

import argparse
import shlex
import subprocess
import sys
from pathlib import Path

from wastedcores.trace.io import open_trace
from wastedcores.trace.parquet import write_parquet

ROOT = Path(__file__).resolve().parents[1]
OUT = ROOT / "reports" / "recordings"
SMALL = ROOT / "datasets" / "small"
#: the words behind `wastedcores guest record`
RECORDINGS = {
    "group-construction-modern": "group-construction --kernel debian:6.12.107 --machine bd-paper-64 --set limit_s=1.2 --seed 2",
}


def remake(name: str) -> Path:
    """Record and return the file."""
    OUT.mkdir(parents=True, exist_ok=True)
    file = OUT / f"{name}.parquet"
    words = [*shlex.split(RECORDINGS[name]), "-o", str(file)]
    subprocess.run([sys.executable, "-m", "wastedcores", "guest", "record", *words], check=True)
    return file


def keep(name: str, made: Path) -> None:
    """Put a recording into datasets/small; its header says where it comes from and lists the tasks that its events name."""
    trace = open_trace(made)
    seen = set(trace.events.select("pid").unique().collect()["pid"])
    provenance = {
        **trace.header.provenance,
        "machine": "a guest of `wastedcores guest`: virtual CPUs in lockstep, no caches, NUMA latency, SMT contention",
        "workload": RECORDINGS[name],
        "recorded": "tools/remake_recordings.py, ftrace of the guest",
        "licence": "Apache-2.0, with this project",
    }
    provenance.pop("source", None)
    tasks = [t for t in trace.header.tasks or () if t.pid in seen]
    told = {"recording": name, "tasks": tasks, "provenance": provenance}
    told |= dict.fromkeys(("host", "boot_id", "boot_parameters"))  # those of a guest tell nothing
    write_parquet(trace.with_header(**told), SMALL / f"{name}.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(RECORDINGS))
    parser.add_argument("--keep", action="store_true")
    given = parser.parse_args()
    if unknown := set(given.names) - RECORDINGS.keys():
        parser.error(f"{', '.join(sorted(unknown))}: known are {', '.join(RECORDINGS)}")
    different = 0
    for name in given.names or RECORDINGS:
        made, kept = remake(name), SMALL / f"{name}.parquet"
        if given.keep:
            keep(name, made)
            continue
        new, old = (open_trace(file).events.collect() for file in (made, kept))
        same = new.equals(old)
        different += not same
        print(
            f"{name}: {'the same' if same else 'other'} events as in datasets/small: {new.height:,}, {old.height:,} there"
        )
    sys.exit(min(different, 1))


if __name__ == "__main__":
    main()
