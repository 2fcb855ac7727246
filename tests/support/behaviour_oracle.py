"""Read the recorded behaviour of real kernels (tests/simulator/golden) and replay it: busy threads and their nodes."""

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
#: the CPU that was taken offline and brought back before the scenarios whose names end with "-after"
HOTPLUG_CPU = 5


def load(kernel):
    return json.loads(FILES[kernel].read_text())


def scenarios(kernel):
    return {s["scenario"]: s for s in load(kernel)["scenarios"]}


def kernel_model(kernel):
    # the guests were booted with sched_debug, like those that printed their domains
    return KernelModel.named(kernel, sched_debug=True)


def machine(case):
    """Return the machine of a file: like bd-paper-16, but the two CPUs of a node are two cores."""
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
    """Tell whether threads that share CPUs changed nodes, so that the count at one moment is one of several."""
    nodes = np.asarray(scenario["node_of_cpu"])
    seen = np.array([nodes[s["cpus"]] for s in scenario["samples"]])
    return scenario["n"] > len(scenario["allowed"]) and not (seen == seen[0]).all()


def workload(m, scenario, seed):
    """Return the threads of one scenario, and the time at which they begin.

    The time between forks is that of the guest. These guests ran in real time on a shared host, so that a fork took from 0.1
    to 17 ms (``fork_s``), which is long enough for threads to be balanced before the last of them exists. The threads are not
    in a session of their own: with one (an autogroup), 2 to 9 of 30 replays of three scenarios end on other nodes than
    recorded; without it none does.
    """
    w = Workload(scenario["scenario"])
    start, offline = LEAD_NS, None
    if scenario["scenario"].endswith("-after"):
        w.hotplug(LEAD_NS, HOTPLUG_CPU, False)
        w.hotplug(LEAD_NS + 300 * MS, HOTPLUG_CPU, True)
        start, offline = LEAD_NS + 600 * MS, HOTPLUG_CPU
    cpu, n = scenario["start_cpu"], scenario["n"]
    # the recording does not tell where and when rcu_sched ran in these guests, so it does not run here
    background(w, m, seed, "ms", cpu, None, offline)
    busy = w.template("busy", Script().touch().loop().compute(200_000).end())
    fork = round(scenario["fork_s"] / n * SECOND)
    shell = Script().touch().affinity(scenario["allowed"]).loop(n)
    shell.compute(fork * 9 // 10, fork * 11 // 10).touch().fork(busy).end()
    # the recorder examines the threads once a second
    shell.loop().sleep(SECOND).compute(50_000).end()
    w.task("shell", shell, allowed=[cpu], cpu=cpu, start_ns=start)
    return w, start


def per_node(kernel, case, scenario, seed, seconds):
    """Return the threads per node after each second of a replay."""
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
