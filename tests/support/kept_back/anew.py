"""New recordings of the same kinds of work on the same machines, made in guests now, beside replays of them.

    PYTHONPATH=.:tests python -m support.kept_back.anew [--first SEED] [--seeds N] [--boots N] [--only NAME] [--keep DIR]

prints the tables of docs/kept-back.md for recordings that nothing was built with. Wanted are the emulator, debian:6.1.192 and
debian:6.12.107 (``wastedcores guest``). ``-o`` writes the rows to a file. ``--keep`` writes the recordings to a folder, and reads
them from there the next time. ``--boots`` deals the recordings of one kind of work out to so many boots of the guest.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path

import polars as pl

from support.predicted_changes import MODELS, NEW, OLD, fork_costs, recorded
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.trace import Trace
from wastedcores.workload import Script, Workload

from .judging import allowed, compared, recordings, shares, summary, table
from .reading import meta_of, of_trace
from .work import US, machine_of, workload

RELEASES = {"6.1": OLD, "6.12": NEW}
#: the costs that were measured, by the machine's name and the kernel
MEASURED: dict[tuple[str, str], dict[str, float]] = {}


def turns() -> Workload:
    """Two tasks on one CPU that hand a token to each other, so that each turn is a wait, 100 us, and a post that wakes."""
    w = Workload("turns")
    tokens = [w.semaphore(1), w.semaphore(0)]
    for i in range(2):
        body = Script().affinity([1]).loop(500).wait(tokens[i]).compute(100 * US)
        w.task("turn", body.post(tokens[1 - i]).end().mark("done"), cpu=1)
    return w


def costs(kernel: str, machine: Machine) -> dict[str, float]:
    """Return the CPU time in us that system calls cost in a guest on this machine, beyond what a replay charges for them.

    ``fork_us`` is what a fork costs the parent. What it costs the child is divided evenly between its start (``child_us``) and
    its exit (``exit_us``). ``op_us`` is what a wait and the post that ends it cost together (:func:`turns`).
    """
    fork_us, child_us = fork_costs(RELEASES[kernel], machine)
    in_guest = recorded(turns(), RELEASES[kernel], machine, [1])[0]
    in_replay = replay(turns(), machine, MODELS[RELEASES[kernel]], 1, load=False).trace
    return {
        "fork_us": fork_us,
        "child_us": child_us / 2,
        "exit_us": child_us / 2,
        "op_us": max(0, _turn_us(in_guest) - _turn_us(in_replay)),
    }


def costs_on(name: str, kernel: str, machine: Machine, keep: Path | None) -> dict[str, float]:
    """Return the costs on the machine of this name: those in the folder ``keep``, or they are measured once."""
    if (name, kernel) not in MEASURED:
        file = keep / f"costs-{name}-{kernel}.json" if keep else None
        if file and file.exists():
            MEASURED[name, kernel] = json.loads(file.read_text())
        else:
            MEASURED[name, kernel] = costs(kernel, machine)
            if file:
                file.write_text(json.dumps(MEASURED[name, kernel]))
        print(name, kernel, {k: round(v, 1) for k, v in MEASURED[name, kernel].items()}, flush=True)
    return MEASURED[name, kernel]


def _turn_us(trace: Trace) -> float:
    """Return the median time from one turn to the next."""
    name = pl.col("comm").cast(pl.String).str.starts_with("turn")
    return trace.only("switch").filter(name).collect()["ts_ns"].diff().median() / US


def _meta(folder: Path) -> dict:
    """Return the facts about a recording, for the program that guests run now."""
    meta = meta_of(folder)
    meta["params"]["lock"] = "mutex"
    return meta


def kept(folder: Path, seeds: range, keep: Path | None, boots: int = 1) -> list[Trace]:
    """Return new recordings of the work of the recording in ``folder``; what ``keep`` has is read, and the rest is recorded.

    The seeds are dealt out to this many boots of the guest.
    """
    meta = _meta(folder)
    meta["costs"] = dict.fromkeys(meta["costs"], 0)  # the guest has its own
    files = [keep / f"{folder.name}-{seed}.parquet" for seed in seeds] if keep else []
    if files and all(file.exists() for file in files):
        return [read_parquet(file) for file in files]
    work = workload(meta, 0, [], guest=True)
    on, release = machine_of(meta), RELEASES[meta["variant"]]
    made: dict[int, Trace] = {}
    for boot in range(boots):
        own = seeds[boot::boots]
        made |= zip(own, recorded(work, release, on, own, boot), strict=True)
    traces = [made[seed] for seed in seeds]
    for trace, file in zip(traces, files, strict=bool(files)):
        write_parquet(trace, file)
    return traces


def judge(folder: Path, traces: list[Trace], replays: int, keep: Path | None = None) -> list[dict]:
    """Compare new recordings of one kind of work with replays of it; one row per recording and quantity."""
    meta = _meta(folder)
    name = folder.name.split("-")[1]
    meta["costs"] = costs_on(name, meta["variant"], machine_of(meta), keep)
    rows = []
    for i, trace in enumerate(traces):
        run = of_trace(trace, dict(_names(trace)), trace.header.end_ns)
        rows += compared(f"{folder.name}-{i}", meta, run, range(1, replays + 1))
    return rows


def beside_noise(found: pl.DataFrame) -> str:
    """Return a table in Markdown: how many quantities agree, and how many would if another recording took the replay's place."""
    work = pl.col("run").str.replace(r"-\d+$", "")
    others: dict[tuple, list[float]] = {}
    for (kind, kernel, _, quantity), own in found.group_by("work", "kernel", work, "quantity"):
        values = own["recorded"].to_list()
        near = [abs(a - b) <= allowed(quantity, b) for a, b in permutations(values, 2)]
        others.setdefault((kind, kernel), []).extend(near)
        others.setdefault(("all", kernel), []).extend(near)
    lines = [
        "| work | kernel | quantities | agree | within 10 % or the floor | another recording is |",
        "|---|---|---|---|---|---|",
    ]
    for (kind, kernel), near in sorted(others.items(), key=lambda x: (x[0][0] == "all", x[0])):
        own = found.filter(pl.lit(kind == "all") | (pl.col("work") == kind), kernel=kernel)
        shares = [own["agrees"].mean(), own["near"].mean(), sum(near) / max(len(near), 1)]
        lines.append(
            f"| {kind} | {kernel} | {own.height} | {' | '.join(f'{s:.0%}' for s in shares)} |"
        )
    return "\n".join(lines)


def _names(trace: Trace) -> Iterable[tuple[int, str]]:
    named = [
        trace.events.select(pid=p, comm=pl.col(c).cast(pl.String))
        for p, c in (("pid", "comm"), ("prev_pid", "prev_comm"))
    ]
    return pl.concat(named).drop_nulls().unique("pid", keep="last").collect().iter_rows()


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path)
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument(
        "--boots", type=int, default=1, help="deal the recordings out to so many boots"
    )
    parser.add_argument("--first", type=int, default=101, help="the first seed of the work")
    parser.add_argument("--replays", type=int, default=20)
    args = parser.parse_args()
    rows = []
    for folder in recordings():
        if args.only in folder.name:
            traces = kept(folder, range(args.first, args.first + args.seeds), args.keep, args.boots)
            own = judge(folder, traces, args.replays, args.keep)
            rows += own
            good = sum(r["near"] or r["inside"] for r in own)
            print(f"{folder.name}: {good} of {len(own)}", file=sys.stderr, flush=True)
            if args.output:
                table(rows).write_csv(args.output, float_precision=6)
    found = table(rows)
    print(summary(found))
    print(f"\n{beside_noise(found)}")
    for by in ("machine", "quantity"):
        print(f"\n{shares(found, by)}")


if __name__ == "__main__":
    main()
