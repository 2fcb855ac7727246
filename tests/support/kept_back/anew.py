"""New recordings of the same kinds of work on the same machines, made in guests now, beside replays of them.

    PYTHONPATH=.:tests python -m support.kept_back.anew [--seeds N] [--only NAME] [--keep DIR] [-o FILE]

prints the tables of docs/kept-back.md for recordings that nothing was built with. Wanted are the emulator, debian:6.1.192 and
debian:6.12.107 (``wastedcores guest``). ``--keep`` writes the recordings to a folder, and reads them from there the next time.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterable
from functools import cache
from itertools import permutations
from pathlib import Path

import polars as pl

from wastedcores.guest import find_kernel
from wastedcores.guest.boot import Options
from wastedcores.guest.jobs import scenario_work
from wastedcores.guest.machines import guest_machine
from wastedcores.guest.record import record_all
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.parquet import read_parquet, write_parquet
from wastedcores.trace.trace import Trace
from wastedcores.workload import Script, Workload
from wastedcores.workload.file import write_workload

from .judging import allowed, compared, recordings, shares, summary, table
from .reading import meta_of, of_trace
from .work import US, machine_of, workload

MS = 1000 * US
MODELS = {"6.1": "v6.1.192", "6.12": "v6.12.107"}
PACKAGES = {"6.1": "debian:6.1.192", "6.12": "debian:6.12.107"}


def made(work: Workload, kernel: str, machine: Machine, seeds: Iterable[int]) -> list[Trace]:
    """Record work with each seed, one after the other in one boot of a guest."""
    on = guest_machine(machine)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "work.json"
        write_workload(work, file)
        works = [scenario_work(str(file), on, seed, None, None) for seed in seeds]
        return record_all(works, find_kernel(PACKAGES[kernel]), on, Options())


def turns() -> Workload:
    """Two tasks on one CPU that hand a token to each other, so that each turn is a wait, 100 us, and a post that wakes."""
    w = Workload("turns")
    tokens = [w.semaphore(1), w.semaphore(0)]
    for i in range(2):
        body = Script().affinity([1]).loop(500).wait(tokens[i]).compute(100 * US)
        w.task("turn", body.post(tokens[1 - i]).end().mark("done"), cpu=1)
    return w


def births() -> Workload:
    """A parent that computes for 50 us before each fork, and children that compute for 100 us."""
    w = Workload("births")
    child = w.template("child", Script().mark("born").compute(100 * US).mark("ends"))
    parent = Script().sleep(200 * MS).mark("begin").loop(200).compute(50 * US).fork(child)
    w.task("parent", parent.wait_children(0).end().mark("end"))
    return w


@cache
def costs(kernel: str) -> dict[str, float]:
    """Return what a fork costs the parent and the child, an exit, and an operation, in us of CPU time of the guest's program.

    An operation costs what a turn takes longer in the guest than in a replay of turns without this cost.
    """
    machine = Machine.preset("uma8")
    trace, handed = (made(w, kernel, machine, [1])[0] for w in (births(), turns()))
    marks = trace.only("mark").select("ts_ns", "pid", text=pl.col("text").cast(pl.String)).collect()
    begin, end = marks.filter(pl.col("text").is_in(["begin", "end"]))["ts_ns"].to_list()
    ran = trace.only("switch").select("ts_ns", "cpu", "pid", "prev_pid").collect()
    ran = ran.with_columns(until_ns=pl.col("ts_ns").shift(-1).over("cpu"))
    forks = trace.only("fork").filter(pl.col("ts_ns").is_between(begin, end)).collect()
    parents = ran.filter(
        pl.col("pid").is_in(forks["by_pid"].implode()), pl.col("ts_ns").is_between(begin, end)
    )
    children = ran.filter(pl.col("pid").is_in(forks["pid"].implode()))
    children = children.group_by("pid").agg(
        came_ns=pl.col("ts_ns").min(), gone_ns=pl.col("until_ns").max()
    )
    for text in ("born", "ends"):
        at = marks.filter(text=text).select("pid", pl.col("ts_ns").alias(text))
        children = children.join(at, on="pid")
    replayed = replay(turns(), machine, MODELS[kernel], 1, load=False).trace
    turn_us = [_turn_us(t) for t in (handed, replayed)]
    return {
        "fork_us": (parents["until_ns"] - parents["ts_ns"]).sum() / forks.height / US - 50,
        "child_us": (children["born"] - children["came_ns"]).median() / US,
        "exit_us": (children["gone_ns"] - children["ends"]).median() / US,
        "op_us": max(0, turn_us[0] - turn_us[1]),
    }


def _turn_us(trace: Trace) -> float:
    """Return the median time from one turn to the next."""
    name = pl.col("comm").cast(pl.String).str.starts_with("turn")
    return trace.only("switch").filter(name).collect()["ts_ns"].diff().median() / US


def kept(folder: Path, seeds: range, keep: Path | None) -> list[Trace]:
    """Return recordings of the work of an older recording, which are made if they are not kept already."""
    meta = meta_of(folder)
    meta["costs"] = dict.fromkeys(costs(meta["variant"]), 0)  # the guest has its own
    files = [keep / f"{folder.name}-{seed}.parquet" for seed in seeds] if keep else []
    if files and all(file.exists() for file in files):
        return [read_parquet(file) for file in files]
    work = workload(meta, 0, [], guest=True)
    traces = made(work, meta["variant"], machine_of(meta), seeds)
    for trace, file in zip(traces, files, strict=bool(files)):
        write_parquet(trace, file)
    return traces


def judge(folder: Path, traces: list[Trace], replays: int) -> list[dict]:
    """Compare recordings of the work of an older recording with replays; one row per recording and quantity."""
    meta = meta_of(folder)
    meta["costs"] = costs(meta["variant"])
    rows = []
    for i, trace in enumerate(traces):
        run = of_trace(trace, dict(_names(trace)), trace.header.end_ns)
        rows += compared(f"{folder.name}-{i}", meta, run, range(1, replays + 1))
    return rows


def beside_noise(found: pl.DataFrame) -> str:
    """Return, by kind of work and kernel, how many quantities agree, and the noise: other recordings of the same as Markdown."""
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
    parser.add_argument("--replays", type=int, default=20)
    args = parser.parse_args()
    for kernel in PACKAGES:
        print(kernel, {k: round(v, 1) for k, v in costs(kernel).items()}, flush=True)
    rows = []
    for folder in recordings():
        if args.only in folder.name:
            traces = kept(folder, range(101, 101 + args.seeds), args.keep)
            own = judge(folder, traces, args.replays)
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
