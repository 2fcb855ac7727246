"""Scenarios by name: the paper's four bugs and other workloads, with their machines, fixes and parameters."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wastedcores.errors import UsageError, WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload import idle_causes as causes
from wastedcores.workload import services
from wastedcores.workload.builder import Workload
from wastedcores.workload.clones import clones
from wastedcores.workload.database import tpch
from wastedcores.workload.file import is_workload, read_workload
from wastedcores.workload.idle_causes import recorded_nice
from wastedcores.workload.kbuild import kbuild
from wastedcores.workload.recorded import workloads as recorded
from wastedcores.workload.rtapp.reader import read_rtapp
from wastedcores.workload.services import hackbench
from wastedcores.workload.spmd import spmd
from wastedcores.workload.thread_groups import groups, recorded_groups


@dataclass(frozen=True)
class Scenario:
    """A workload, with the machine and the parameters of its usual replay."""

    #: its name, and one line for lists and help
    name: str
    doc: str
    #: a function that takes a machine, a seed and the parameters, and returns the workload
    make: Callable[..., Workload]
    machine: str  #: preset of the machine for which it is made
    fix: str = ""  #: the fix for its bug, as in kernel names; empty if no single fix cures it
    #: the parameters whose values differ from the defaults of the function, with their values
    defaults: dict[str, Any] = field(default_factory=dict)
    considered: bool = False  #: log the CPUs that the balancer examined
    kernel: str = "v4.1"  #: the kernel of its usual replay

    def parameters(self) -> dict[str, Any]:
        """Return the parameters that ``--set`` can change, with their default values."""
        own = {
            name: p.default
            for name, p in inspect.signature(self.make).parameters.items()
            if p.default is not p.empty
        }
        return own | self.defaults

    def workload(
        self, machine: Machine, seed: int, given: Mapping[str, Any] | None = None
    ) -> Workload:
        """Make the workload with some parameters changed."""
        values = self.values(given or {})
        try:
            return self.make(machine, seed, **values)
        except (WorkloadError, ValueError) as e:
            if str(e).startswith((Path(self.name).name, self.name)):
                raise
            changed = ", ".join(f"{name}={as_text(values[name])}" for name in given or ())
            raise WorkloadError(
                f"scenario {self.name}{f' with {changed}' if changed else ''}: {e}"
            ) from e

    def values(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the values of all parameters: the given values, which may be texts, and defaults for the rest."""
        known = self.parameters()
        values = dict(known)
        for name, value in given.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"; did you mean {near[0]}?" if near else "."
                raise UsageError(
                    f"scenario {self.name} has no parameter {name!r}{hint} It has {', '.join(known)}."
                )
            values[name] = _as(known[name], value, self.name, name)
        return values


#: the largest number or time in a parameter; larger values are mistakes, and results would not fit into 64 bits
MOST = 1_000_000_000

_WORDS = {
    bool: "true or false",
    int: f"a whole number from 0 to {MOST}",
    float: f"a number from 0 to {MOST}",
    tuple: f"whole numbers from 0 to {MOST} with + in between",
    str: "text",
}


def _as(default: Any, value: Any, scenario: str, name: str) -> Any:
    """Convert a value to the type of the default; if the value is a text, read it."""
    kind = type(default)
    try:
        out = _read(kind, value) if isinstance(value, str) else value
        if kind is tuple and not isinstance(out, str):
            out = tuple(out)
        right: Any = {bool: bool, int: int, float: int | float, tuple: int, str: str | int}[kind]
        for one in out if kind is tuple else (out,):
            if not isinstance(one, right) or (isinstance(one, bool) and kind is not bool):
                raise ValueError(one)
            if kind in (int, float, tuple) and not 0 <= one <= MOST:
                raise ValueError(one)
        return out
    except (KeyError, TypeError, ValueError) as e:
        raise UsageError(
            f"scenario {scenario}: {name}={as_text(value) or repr(value)}; expected {_WORDS[kind]}, such as "
            f"{as_text(default) or 'none'}."
        ) from e


def _read(kind: type, text: str) -> Any:
    """Read a value of a type from text."""
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}[text.lower()]
    if kind is tuple:
        return tuple(int(part) for part in text.split("+"))
    return kind(text)


def as_text(value: Any) -> str:
    """Return the value of a parameter as it is written after ``--set NAME=``."""
    if isinstance(value, tuple | list):
        return "+".join(map(str, value))
    return str(value).lower() if isinstance(value, bool) else str(value)


SCENARIOS: dict[str, Scenario] = {
    s.name: s
    for s in (
        Scenario("group-imbalance", "make -j64 and two R processes: the nodes of R stay half idle (paper 3.1, Figure 2)",
                 recorded.recorded_gi, "bulldozer8x8", "group_imbalance"),
        Scenario("group-construction", "16 threads pinned to nodes 1 and 2 stay on node 1 (paper 3.2)",
                 recorded.recorded_gc, "bulldozer8x8", "group_construction"),
        Scenario("overload-on-wakeup", "database workers wake on busy cores beside idle ones (paper 3.3, Figure 3)",
                 recorded.recorded_db, "bulldozer8x8", "overload_on_wakeup"),
        Scenario("missing-domains", "after a CPU went offline and came back, no thread leaves its node (paper 3.4, Figure 5)",
                 recorded.recorded_ms, "bulldozer8x8", "missing_domains", {"n": 16}, considered=True),
        Scenario("hackbench", "senders and receivers over pipes: thousands of wakeups (rt-tests' hackbench)",
                 hackbench, "bulldozer8x8"),
        Scenario("tpch", "pools of database workers, each an autogroup, and transient kernel threads (paper 3.3)",
                 tpch, "bulldozer8x8", "overload_on_wakeup"),
        Scenario("spmd", "equal threads that meet at barriers, at locks or in a pipeline, as those of NPB do (paper 3.2)",
                 spmd, "bulldozer8x8", "group_construction", {"pinned": True}),
        Scenario("kbuild",
                 "make builds the kernel: make, sh, gcc, cc1 and as fork and wait on cores with turbo (fork/wait paper)",
                 kbuild, "xeon-e7-8870-turbo"),
        Scenario("groups", "groups of 1 to 12 computing threads under one scheduling policy (anomalies article)",
                 groups, "i3-7100"),
        Scenario("clones", "threads that start on CPUs in a deep idle state (anomalies article)", clones, "i3-7100-c6"),
        Scenario("recorded-groups", "as recorded: groups of computing threads", recorded_groups, "guest-2"),
        Scenario("recorded-gi", "as recorded: make and R", recorded.recorded_gi, "bd-paper-64", "group_imbalance"),
        Scenario("recorded-gc", "as recorded: pinned threads", recorded.recorded_gc, "bd-paper-64", "group_construction"),
        Scenario("recorded-ms", "as recorded: after hotplug", recorded.recorded_ms, "bd-paper-64", "missing_domains"),
        Scenario("recorded-lu", "as recorded: spinning barrier", recorded.recorded_lu, "bd-paper-64", "group_construction"),
        Scenario("recorded-db", "as recorded: blocking barrier", recorded.recorded_db, "bd-paper-64", "overload_on_wakeup"),
        Scenario("recorded-nice", "as recorded: threads of different nice values on one CPU (also under v6.12.107)",
                 recorded_nice, "guest-2"),
        Scenario("schbench", "message threads wake a thousand workers, which do nothing else (schbench -L)",
                 services.schbench, "xeon-8380", "newidle:cost", kernel="v6.12.107"),
        Scenario("webserver", "a hundred connections between clients and a web server on one machine",
                 services.webserver, "i3-7100", "newidle:cost", kernel="v6.12.107"),
        Scenario("database", "terminals send requests of random length and think in between",
                 services.database, "xeon-8380", "newidle:cost", kernel="v6.12.107"),
        Scenario("shell16", "copies of UnixBench's shell16 start and wait for short processes",
                 services.shell16, "nodes-2x4", "newidle:cost", kernel="v6.12.107"),
        Scenario("idle-other-cache", "6.12: threads wake behind a busy cache, and CPUs of another cache are idle",
                 causes.other_cache, "caches-2x4", "overload_on_wakeup", kernel="v6.12.107"),
        Scenario("idle-unscanned", "6.12: after a CPU went offline, wakeups do not search the cache",
                 causes.unscanned, "uma8", "NO_SIS_UTIL", kernel="v6.12.107"),
        Scenario("idle-requeued", "6.12: a sleeping thread that is still queued wakes where it is",
                 causes.requeued, "guest-2", "NO_DELAY_DEQUEUE", kernel="v6.12.107"),
        Scenario("idle-sleeper", "6.12: a sleeping thread that is still queued counts as running, or is pulled",
                 causes.sleeper, "caches-2x4", "NO_DELAY_DEQUEUE", kernel="v6.12.107"),
        Scenario("idle-far-away", "6.12: across two hops one idle CPU more is not enough to pull a thread",
                 causes.idle_far_away, "ring4", kernel="v6.12.107"),
        Scenario("idle-allowance", "6.12: across nodes a difference of two threads is allowed",
                 causes.allowance, "nodes-2x1", kernel="v6.12.107"),
        Scenario("idle-chance", "6.12: newidle balancing leaves a level out at random",
                 causes.chance, "guest-2", "NO_NI_RANDOM", kernel="v6.12.107"),
        Scenario("idle-interval", "6.12: the interval of balancing grows with the number of CPUs",
                 causes.interval, "nodes-2x16", kernel="v6.12.107"),
        Scenario("idle-pinned", "6.12: threads that may not move make the balancer wait, and hide one that may",
                 causes.pinned, "guest-2", kernel="v6.12.107"),
        Scenario("idle-confined", "6.12: idle CPUs that the threads may not use count as room",
                 causes.confined, "ring4x4", kernel="v6.12.107"),
        Scenario("idle-left-out",
                 "6.12: a CPU whose threads may not move is left out, and its node then seems to have no thread too many",
                 causes.left_out, "nodes-2x2", kernel="v6.12.107"),
        Scenario("idle-hidden", "6.12: a CPU with one busy thread hides another one with two that have just woken",
                 causes.hidden, "guest-4", kernel="v6.12.107"),
    )
}  # fmt: skip


def rtapp_scenario(path: str) -> Scenario:
    """Make a scenario of an rt-app file. Such a file names no machine, so the default is the paper's machine."""

    def make(machine: Machine, seed: int, mem_mb_per_s: int = 0, io_mb_per_s: int = 0) -> Workload:
        return read_rtapp(path, machine, seed, mem_mb_per_s, io_mb_per_s)

    return Scenario(path, f"the rt-app file {Path(path).name}", make, "bulldozer8x8")


def workload_scenario(path: str) -> Scenario:
    """Make a scenario of a workload's file, such as `wastedcores recover` writes."""

    def make(machine: Machine, seed: int) -> Workload:
        return read_workload(path)

    return Scenario(path, f"the workload {Path(path).name}", make, "bulldozer8x8")


def scenario(name: str) -> Scenario:
    """Find a scenario by name, or make a scenario from a workload's file or an rt-app file (``*.json``)."""
    if is_workload(name):
        return workload_scenario(name)
    if name.endswith(".json") or (name not in SCENARIOS and Path(name).is_file()):
        return rtapp_scenario(name)
    if name not in SCENARIOS:
        near = difflib.get_close_matches(name, SCENARIOS, 1)
        hint = f" Did you mean {near[0]}?" if near else ""
        raise UsageError(
            f"scenario {name!r} is unknown.{hint} Known are {', '.join(SCENARIOS)}, or an rt-app file (.json)."
        )
    return SCENARIOS[name]
