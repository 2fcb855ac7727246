"""The closed loop: random workloads are replayed under one kernel, recovered from that trace alone, and predicted for another.

The truth for the other kernel is one replay away, with the same seed, so that every task draws the same work.
``PYTHONPATH=tests python -m support.closed_loop`` writes the table of all turns into docs/what-if.md.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.prediction.machines_and_kernels import task_of
from wastedcores.prediction.one_replay import run, window_of
from wastedcores.recovery import recover
from wastedcores.simulator import RawReplay, simulate
from wastedcores.simulator.measure import marks
from wastedcores.simulator.to_trace import to_trace
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Window
from wastedcores.workload.background import add_hogs, add_kworkers, add_transients
from wastedcores.workload.builder import Workload
from wastedcores.workload.program import costs_of
from wastedcores.workload.script import Script

US, MS = 1_000, 1_000_000
KERNELS = (
    "v4.1",
    "v4.1+group_imbalance:patch",
    "v4.1+group_construction",
    "v4.1+overload_on_wakeup:patch",
    "v4.1+all_fixes:patch",
)
#: seeds of the replays of the recovered workload, whose median is the prediction
SEEDS = (1, 2, 3)
#: the turns of the whole loop, and the error beyond which one has failed
TURNS, FAILED = 504, 0.15
PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-if.md"
#: the part of the page that :func:`main` writes
MADE = re.compile(r"(<!-- made by tests/support/closed_loop.py -->\n).*?(<!-- end -->)", re.S)


@dataclass(frozen=True)
class Outcome:
    """One turn of the loop; times in ns.

    ``refused`` tells that no time is predicted for this trace, because work in it may spin. Its error counts all the same.
    """

    seed: int
    kind: str
    recorded: str
    other: str
    recorded_ns: int
    itself_ns: float
    truth_ns: int
    predicted_ns: float
    classes: dict[str, int]
    refused: bool

    @property
    def error(self) -> float:
        """How far the prediction is from the truth, as a share of it."""
        return abs(self.predicted_ns / self.truth_ns - 1)


def groups(w: Workload, r: random.Random, ctl: Script) -> None:
    """Several groups of tasks, each with a barrier of its own."""
    for g in range(r.choice([1, 2, 3, 4])):
        n = r.choice([2, 3, 4, 6, 8])
        meet, lo = w.barrier(n), r.randint(300, 2000) * US
        hi = int(lo * r.uniform(1, 1.5))
        body = Script().loop(int(150 * MS / hi) + 5).compute(lo, hi).barrier(meet, "block").end()
        ctl.loop(n).compute(20 * US).fork(w.template(f"w{g}", body)).end()


def locks(w: Workload, r: random.Random, ctl: Script) -> None:
    """Tasks that share a lock."""
    lock, n = w.lock(), r.choice([4, 8, 12])
    hold, free = r.randint(20, 200) * US, r.randint(200, 1500) * US
    body = Script().loop(int(150 * MS / (hold + free)) + 5).compute(free, 2 * free)
    body.lock(lock, "block").compute(hold, 2 * hold).unlock(lock).end()
    ctl.loop(n).compute(20 * US).fork(w.template("lk", body)).end()


def pipeline(w: Workload, r: random.Random, ctl: Script) -> None:
    """Stages with bounded queues between them."""
    n, rounds = r.choice([2, 3, 5]), r.randint(50, 150)
    costs = [r.randint(200, 1500) * US for _ in range(n)]
    full = [w.semaphore() for _ in range(n - 1)]
    room = [w.semaphore(r.choice([1, 2, 8])) for _ in range(n - 1)]
    for i in range(n):
        s = Script().loop(rounds)
        if i > 0:
            s.wait(full[i - 1])
        s.compute(costs[i], int(1.3 * costs[i]))
        if i > 0:
            s.post(room[i - 1])
        if i < n - 1:
            s.wait(room[i]).post(full[i])
        ctl.compute(20 * US).fork(w.template(f"p{i}", s.end()))


def forks(w: Workload, r: random.Random, ctl: Script) -> None:
    """make -j."""
    lo, jobs = r.randint(2, 20) * MS, r.choice([8, 16, 24])
    child = w.template("cc1", Script().compute(lo, 3 * lo))
    make = Script().loop(int(150 * MS / lo * 8) + 10).compute(40 * US).fork(child)
    make.wait_children(jobs - 1).end().wait_children(0)
    ctl.compute(30 * US).fork(w.template("make", make))


def tree(w: Workload, r: random.Random, ctl: Script) -> None:
    """Parents that fork, compute, and wait for their children."""
    leaf = w.template("leaf", Script().compute(5 * MS, 40 * MS))
    mid = Script().compute(2 * MS, 8 * MS).loop(r.choice([2, 4])).compute(50 * US).fork(leaf).end()
    mid.compute(1 * MS).wait_children(0).compute(1 * MS)
    number = w.template("mid", mid)
    for _ in range(r.choice([2, 4, 6])):
        ctl.compute(50 * US).fork(number)


def server(w: Workload, r: random.Random, ctl: Script) -> None:
    """A queue with several servers."""
    n, queue = r.choice([4, 8]), w.semaphore()
    each, cost = r.randint(100, 300) // n, r.randint(300, 2000) * US
    body = Script().loop(each).wait(queue).compute(cost, 2 * cost).end()
    ctl.loop(n).compute(20 * US).fork(w.template("srv", body)).end()
    client = Script().loop(each * n).compute(cost // n, 2 * cost // n).post(queue).end()
    ctl.compute(20 * US).fork(w.template("cli", client))


def pingpong(w: Workload, r: random.Random, ctl: Script) -> None:
    """Pairs that answer each other."""
    for _ in range(r.choice([1, 4, 8])):
        a, b = w.semaphore(), w.semaphore()
        rounds, cost = r.randint(50, 150), r.randint(100, 1000) * US
        ping = Script().loop(rounds).compute(cost, 2 * cost).post(a).wait(b).end()
        pong = Script().loop(rounds).wait(a).compute(cost, 2 * cost).post(b).end()
        ctl.compute(20 * US).fork(w.template("ping", ping))
        ctl.compute(20 * US).fork(w.template("pong", pong))


def periodic(w: Workload, r: random.Random, ctl: Script) -> None:
    """Tasks with timers."""
    for _ in range(r.choice([4, 8, 20])):
        period = r.randint(3, 12) * MS
        cost = int(period * r.uniform(0.2, 0.7))
        body = Script().loop(int(200 * MS / period)).compute(cost, int(1.2 * cost))
        ctl.compute(20 * US).fork(w.template("per", body.sleep(period - cost).end()))


def master(w: Workload, r: random.Random, ctl: Script) -> None:
    """A master that starts its workers and waits for all of them, again and again."""
    n, done = r.choice([4, 8, 16]), w.semaphore()
    go = [w.semaphore() for _ in range(n)]
    rounds, cost = r.randint(20, 60), r.randint(1000, 3000) * US
    for i in range(n):
        body = Script().loop(rounds).wait(go[i]).compute(cost, int(1.4 * cost)).post(done).end()
        ctl.compute(20 * US).fork(w.template("omp", body))
    s = Script().loop(rounds).compute(100 * US)
    for i in range(n):
        s.post(go[i])
    for _ in range(n):
        s.wait(done)
    ctl.compute(20 * US).fork(w.template("mst", s.end()))


KINDS: tuple[Callable[[Workload, random.Random, Script], None], ...] = (
    groups, locks, pipeline, forks, tree, server, pingpong, periodic, master,
)  # fmt: skip


def make(seed: int, machine: Machine) -> tuple[Workload, str, str]:
    """Return a random workload of the kind ``KINDS[seed % 9]``, the recorded kernel, and the other one."""
    r = random.Random(seed)
    kind = KINDS[seed % len(KINDS)]
    w = Workload(kind.__name__)
    if r.random() < 0.7:
        add_kworkers(w, machine, seed, period_ns=r.choice([20, 100]) * MS)
    if r.random() < 0.4:
        add_transients(w, machine, 40 * MS, 100 * US, 500 * US)
    if r.random() < 0.3:
        add_hogs(w, r.choice([1, 3]), cpu=r.randrange(machine.cpus), apart_ns=4 * MS)
    ctl = Script().affinity(range(machine.cpus)).compute(5 * US).sleep(10 * MS).mark("start")
    kind(w, r, ctl)
    if r.random() < 0.3:
        r.choice(KINDS)(w, r, ctl)
    ctl.wait_children(0).mark("end").compute(10 * US)
    cpu = r.randrange(machine.cpus)
    w.task("ctl", ctl, allowed=[cpu], cpu=cpu, start_ns=20 * MS)
    recorded, other = r.sample(KERNELS, 2)
    return w, recorded, other if r.random() < 0.7 else "core"


def turn(seed: int, machine_name: str = "bd-paper-16") -> Outcome:
    """Turn the loop once."""
    machine = Machine.preset(machine_name)
    w, recorded, other = make(seed, machine)
    program, costs = w.program(), costs_of(machine)

    def original(kernel: str) -> tuple[RawReplay, int, int]:
        raw = simulate(
            program, machine, KernelModel.named(kernel), costs=costs, load=False, until_ns=20_000 * MS
        )  # fmt: skip
        at = marks(raw, program)
        return raw, at["start"], at["end"]

    raw, start, end = original(recorded)
    trace = to_trace(raw, program, machine, KernelModel.named(recorded), w.name, 1)
    trace = trace.with_header(window=Window(start_ns=start, end_ns=end))
    found = recover(trace, None, ("R-",), costs=costs)
    task = task_of(found, machine, None)

    def predicted(kernel: str) -> float:
        windows = [window_of(task, run(task, KernelModel.named(kernel), s)) for s in SEEDS]
        return float(np.median([b - a for a, b in windows]))

    _, true_start, true_end = original(other)
    return Outcome(
        seed, w.name, recorded, other, end - start, predicted(recorded), true_end - true_start,
        predicted(other), found.classes, not found.ends,
    )  # fmt: skip


def summary(outcomes: Iterable[Outcome]) -> str:
    """Return a table of errors by class of synchronisation, and of all, in Markdown."""
    outcomes = list(outcomes)
    lines = [
        "| kind of work | turns | median | 95 % | worst | seeds with an error over 15 % (r: the product predicts no time) |",
        "|---|---|---|---|---|---|",
    ]
    for kind in [*dict.fromkeys(o.kind for o in outcomes), "all"]:
        mine = [o for o in outcomes if kind in (o.kind, "all")]
        errors = [100 * o.error for o in mine]
        failed = [f"{o.seed}{' r' * o.refused}" for o in mine if o.error > FAILED]
        listed = ", ".join(failed) if kind != "all" else str(len(failed))
        middle, high = np.median(errors), np.percentile(errors, 95)
        lines.append(
            f"| {kind} | {len(mine)} | {middle:.2f} % | {high:.1f} % | {max(errors):.1f} % | {listed} |"
        )
    return "\n".join(lines)


def main() -> None:
    """Turn the whole loop and write its table."""
    assert MADE.search(PAGE.read_text()), PAGE
    text = summary(turn(seed) for seed in range(TURNS))
    print(text)
    PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{text}\n{m[2]}", PAGE.read_text()))


if __name__ == "__main__":
    main()
