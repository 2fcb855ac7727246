"""Converts the engine's log to a trace. Every figure, check and reader works on this trace as on a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from wastedcores.kernels import KernelModel
from wastedcores.simulator.decisions import with_decisions
from wastedcores.simulator.design import refusal_text
from wastedcores.simulator.engine.codes import log_kind
from wastedcores.simulator.engine.world import cpuset, log_column
from wastedcores.simulator.measure import RawReplay
from wastedcores.simulator.vocabulary import KINDS, OPERATIONS
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.program import Program

_STATES = np.array(["R", "S", "X"])


def to_trace(
    raw: RawReplay, program: Program, machine: Machine, kernel: KernelModel, name: str, seed: int
) -> Trace:
    """Convert a raw replay to a trace whose events are in memory.

    Parameters
    ----------
    raw, program
        The replay and the program that ran.
    machine, kernel, name, seed
        Values for the header of the trace.

    Returns
    -------
    Trace
        ``source_format`` is "replay".
    """
    events = with_decisions(_table(raw, program, machine.cpus, kernel), raw, machine.cpus)
    if not kernel.fork_migrates:
        placed = (pl.col("kind") == "migrate") & (pl.col("op") == "fork")
        events = events.filter(~placed.fill_null(False))
    frame = conform(events, f"replay of {name}")
    # the machine's domains depend on these steps
    steps = [
        ("online" if up else "offline", cpu)
        for at, cpu, up in program.hotplug
        if raw.phase_ns + at <= raw.end_ns
    ]
    header = Header(
        source_format="replay",
        kernel_release=kernel.name,
        clock="simulated",
        cpus=machine.cpus,
        cpus_online=list(machine.online_cpus),
        machine=machine.after(steps).to_dict(),
        start_ns=0,
        end_ns=raw.end_ns,
        events=frame.height,
        every_switch=True,
        follows_affinity=True,
        provenance={"scenario": name, "seed": str(seed), "kernel": kernel.name}
        | ({"warning": kernel.replay_warning} if kernel.replay_warning else {}),
    )
    return Trace(frame.lazy(), header)


#: for each of four columns, the kinds of records that fill it: PID, OTHER (if it holds the causing task), SRC and VALUE
_OF_A_TASK = (
    log_kind.SWITCH, log_kind.WAKEUP, log_kind.WAKEUP_NEW, log_kind.MIGRATE, log_kind.FORK, log_kind.EXIT, log_kind.MARK,
    log_kind.REFUSED, log_kind.TICK, log_kind.AFFINITY,
)  # fmt: skip
_BY_A_TASK = (log_kind.WAKEUP, log_kind.WAKEUP_NEW, log_kind.FORK)
_WITH_SOURCE = (
    log_kind.WAKEUP, log_kind.WAKEUP_NEW, log_kind.MIGRATE, log_kind.BALANCE, log_kind.CONSIDERED, log_kind.REFUSED,
    log_kind.DECISION,
)  # fmt: skip
_WITH_VALUE = (
    log_kind.LOAD, log_kind.BALANCE, log_kind.CONSIDERED, log_kind.FREQUENCY, log_kind.TICK, log_kind.DECISION,
)  # fmt: skip


def _table(raw: RawReplay, program: Program, cpus: int, kernel: KernelModel) -> pl.DataFrame:
    log = raw.log
    kind, value, op = (log[:, c] for c in (log_column.KIND, log_column.VALUE, log_column.OP))
    names = {0: "<idle>"} | {c + 1: f"migration/{c}" for c in range(cpus)}
    names |= zip(raw.pids.tolist(), raw.comms(program), strict=True)

    def where(kinds: tuple[int, ...], column: int) -> Any:
        return pl.Series(log[:, column]).set(pl.Series(~np.isin(kind, kinds)), None)

    def comm(pids: pl.Series) -> pl.Series:
        return pids.replace_strict(names, default=None, return_dtype=pl.String)

    pid = where(_OF_A_TASK, log_column.PID)
    pid = pid.set(pid < 0, None)  # a suggestion that is not about a task
    src = where(_WITH_SOURCE, log_column.SRC)
    prev = where((log_kind.SWITCH,), log_column.OTHER)
    by_pid = where(_BY_A_TASK, log_column.OTHER)
    is_switch = kind == log_kind.SWITCH
    state = pl.Series(_STATES[np.where(is_switch, value, 0)]).set(pl.Series(~is_switch), None)
    return pl.DataFrame(
        {
            "ts_ns": log[:, log_column.TS],
            "kind": pl.Series(np.array(KINDS)[kind]),
            "cpu": log[:, log_column.CPU],
            "nr_running": where((log_kind.NR_RUNNING,), log_column.VALUE),
            "pid": pid,
            "comm": comm(pid),
            "prev_pid": prev,
            "prev_comm": comm(prev),
            "prev_state": state,
            "src_cpu": src.set(src < 0, None),  # a decision without a source
            "by_pid": by_pid,
            "by_comm": comm(by_pid),
            "op": pl.Series(np.array([*OPERATIONS, ""])[op]).set(pl.Series(op < 0), None),
            "value": where(_WITH_VALUE, log_column.VALUE).set(
                pl.Series(kind == log_kind.REFUSED), 0
            ),
            "cpu_mask": _masks(raw, cpus),
            "text": _texts(raw, program, kernel),
        }
    )


def _masks(raw: RawReplay, cpus: int) -> pl.Series:
    """Return for each event its CPU set as a little-endian bit string, or null if it has none."""
    kind = raw.log[:, log_column.KIND]
    rows = np.where(kind == log_kind.CONSIDERED, raw.log[:, log_column.PID], -1)
    rows = np.where(kind == log_kind.AFFINITY, raw.log[:, log_column.VALUE], rows)
    used = {int(r) for r in np.unique(rows) if r >= 0}
    words = -(-cpus // (cpuset.WORD_LOW + 1))
    text = {r: raw.masks[r, :words].astype("<u4").tobytes()[: -(-cpus // 8)] for r in used}
    return pl.Series([text.get(int(r)) for r in rows], dtype=pl.Binary)


def _texts(raw: RawReplay, program: Program, kernel: KernelModel) -> pl.Series:
    kinds = raw.log[:, log_column.KIND]
    columns = [log_column.OTHER, log_column.VALUE]
    out: list[str | None] = [None] * len(raw.log)
    for i in np.flatnonzero(kinds == log_kind.MARK):
        out[i] = program.texts[int(raw.log[i, log_column.VALUE])]
    for i in np.flatnonzero(kinds == log_kind.REFUSED):
        out[i] = refusal_text(kernel, *raw.log[i, columns].tolist())
    return pl.Series(out, dtype=pl.String)
