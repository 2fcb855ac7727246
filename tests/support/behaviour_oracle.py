"""Read the recorded behaviour of real kernels, and replay it: busy threads, and who ends on which node."""

from __future__ import annotations

import json
import warnings

import numpy as np
import polars as pl

from support import BEHAVIOUR_GOLDEN as GOLDEN
from wastedcores.errors import ModelWarning
from wastedcores.kernels import KernelModel
from wastedcores.simulator import replay
from wastedcores.topology.presets import grid
from wastedcores.workload import Script, Workload
from wastedcores.workload.recorded.guest import LEAD_NS, MS, background

FILES = {
    kernel: GOLDEN / f"behaviour-{kernel}-bd-paper-8x2-pair.json"
    for kernel in ("4.1.3", "4.1.3-patched", "4.12", "6.1")
}
SECOND = 1_000_000_000
#: what the file's title "after cpu5 offline", "after cpu5 online" did before the "-after" scenarios
HOTPLUG_CPU = 5


def load(kernel):
    return json.loads(FILES[kernel].read_text())


def scenarios(kernel):
    return {s["scenario"]: s for s in load(kernel)["scenarios"]}


def kernel_model(kernel):
    # the guests were booted with sched_debug, as those of the domains were
    return KernelModel.named(kernel, sched_debug=True)


def machine(case):
    """The machine of the file: as bd-paper-16, but the two CPUs of a node are cores, no threads of one."""
    m = grid(
        "bd-paper-16-cores",
        packages=case["sockets"],
        nodes_per_package=len(case["distance"]) // case["sockets"],
        cores_per_llc=case["cpus"] // len(case["distance"]),
        threads=case["threads"],
        distance=case["distance"],
    )
    assert all(list(m.node_of_cpu) == s["node_of_cpu"] for s in case["scenarios"])
    return m


def wanders(scenario):
    """Whether threads that share CPUs were seen to change nodes, so that a count of one moment is one of several."""
    nodes = np.asarray(scenario["node_of_cpu"])
    seen = np.array([nodes[s["cpus"]] for s in scenario["samples"]])
    return scenario["n"] > len(scenario["allowed"]) and not (seen == seen[0]).all()


def workload(m, scenario, seed):
    """The threads of one scenario, and when they begin.

    Forks as far apart as the guest's were: these guests ran on a shared host in its own time, so that a fork took
    from 0.1 to 17 ms (``fork_s``), long enough for threads to be balanced before the last of them exists. In no session of
    their own: with one (an autogroup) 2 to 9 of 30 replays of three scenarios end on other nodes than recorded, without none.
    """
    w = Workload(scenario["scenario"])
    start, offline = LEAD_NS, None
    if scenario["scenario"].endswith("-after"):
        w.hotplug(LEAD_NS, HOTPLUG_CPU, False)
        w.hotplug(LEAD_NS + 300 * MS, HOTPLUG_CPU, True)
        start, offline = LEAD_NS + 600 * MS, HOTPLUG_CPU
    cpu, n = scenario["start_cpu"], scenario["n"]
    # where and when rcu_sched ran in these guests was not recorded, so it does not
    background(w, m, seed, "ms", cpu, None, offline)
    busy = w.template("busy", Script().touch().loop().compute(200_000).end())
    fork = round(scenario["fork_s"] / n * SECOND)
    shell = Script().touch().affinity(scenario["allowed"]).loop(n)
    shell.compute(fork * 9 // 10, fork * 11 // 10).touch().fork(busy).end()
    # it looks at them once a second
    shell.loop().sleep(SECOND).compute(50_000).end()
    w.task("shell", shell, allowed=[cpu], cpu=cpu, start_ns=start)
    return w, start


def per_node(kernel, case, scenario, seed, seconds):
    """Threads per node after each second of a replay."""
    m = machine(case)
    w, start = workload(m, scenario, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)
        r = replay(w, m, kernel_model(kernel), seed, start + seconds * SECOND + MS, load=False)
    moves = (
        r.trace.events.filter(
            pl.col("comm") == "busy", pl.col("kind").is_in(["migrate", "wakeup_new"])
        )
        .select("ts_ns", "pid", "cpu")
        .collect()
    )
    out = []
    for t in range(1, seconds + 1):
        now = moves.filter(pl.col("ts_ns") <= r.raw.phase_ns + start + t * SECOND)
        at = now.group_by("pid").agg(pl.col("cpu").last())["cpu"].to_numpy()
        out.append(np.bincount(np.asarray(m.node_of_cpu)[at], minlength=m.nodes).tolist())
    return out
