"""The engine's log as a trace: every figure, check and reader works on it as on a capture."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

from wastedcores.kernels import KernelModel
from wastedcores.simulator.design import refusal_text
from wastedcores.simulator.engine.world import codes
from wastedcores.simulator.engine.world import state as s
from wastedcores.simulator.measure import RawReplay
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace
from wastedcores.workload.program import Program

_STATES = np.array(["R", "S", "X"])


def to_trace(
    raw: RawReplay, program: Program, machine: Machine, kernel: KernelModel, name: str, seed: int
) -> Trace:
    """Convert; the events are in memory.

    Parameters
    ----------
    raw, program
        What ran.
    machine, kernel, name, seed
        For the header.
    """
    frame = conform(_table(raw, program, machine.cpus), f"replay of {name}")
    header = Header(
        source_format="replay",
        kernel_release=kernel.name,
        clock="simulated",
        cpus=machine.cpus,
        cpus_online=list(machine.online_cpus),
        machine=machine.to_dict(),
        start_ns=0,
        end_ns=raw.end_ns,
        events=frame.height,
        every_switch=True,
        provenance={"scenario": name, "seed": str(seed), "kernel": kernel.name}
        | ({"warning": kernel.replay_warning} if kernel.replay_warning else {}),
    )
    return Trace(frame.lazy(), header)


def _table(raw: RawReplay, program: Program, cpus: int) -> pl.DataFrame:
    log = raw.log
    kind = log[:, 1]
    names = _names(raw, program, cpus)

    def where(kinds: tuple[int, ...], column: int) -> Any:
        return pl.Series(log[:, column]).set(pl.Series(~np.isin(kind, kinds)), None)

    def comm(pids: pl.Series) -> pl.Series:
        return pids.replace_strict(names, default=None, return_dtype=pl.String)

    task = (
        codes.LOG_SWITCH, codes.LOG_WAKEUP, codes.LOG_WAKEUP_NEW, codes.LOG_MIGRATE, codes.LOG_FORK, codes.LOG_EXIT,
        codes.LOG_MARK, codes.LOG_REFUSED,
    )  # fmt: skip
    by = (codes.LOG_WAKEUP, codes.LOG_WAKEUP_NEW, codes.LOG_FORK)
    src = (
        codes.LOG_WAKEUP, codes.LOG_WAKEUP_NEW, codes.LOG_MIGRATE, codes.LOG_BALANCE, codes.LOG_CONSIDERED,
        codes.LOG_REFUSED,
    )  # fmt: skip
    pid, prev = where(task, 3), where((codes.LOG_SWITCH,), 4)
    pid = pid.set(pid < 0, None)  # a suggestion about no thread
    by_pid = where(by, 4)
    kinds = pl.Series(np.array(codes.LOG_KINDS)[kind])
    ops = pl.Series(np.array([*codes.OPS_OF_LOG, ""])[log[:, 7]]).set(
        pl.Series(log[:, 7] < 0), None
    )
    is_switch = kind == codes.LOG_SWITCH
    state = pl.Series(_STATES[np.where(is_switch, log[:, 6], 0)]).set(pl.Series(~is_switch), None)
    values = (codes.LOG_LOAD, codes.LOG_BALANCE, codes.LOG_CONSIDERED)
    return pl.DataFrame(
        {
            "ts_ns": log[:, 0],
            "kind": kinds,
            "cpu": log[:, 2],
            "nr_running": where((codes.LOG_NR_RUNNING,), 6),
            "pid": pid,
            "comm": comm(pid),
            "prev_pid": prev,
            "prev_comm": comm(prev),
            "prev_state": state,
            "src_cpu": where(src, 5),
            "by_pid": by_pid,
            "by_comm": comm(by_pid),
            "op": ops,
            "value": where(values, 6).set(pl.Series(kind == codes.LOG_REFUSED), 0),
            "cpu_mask": _masks(raw, cpus),
            "text": _texts(raw, program),
        }
    )


def _names(raw: RawReplay, program: Program, cpus: int) -> dict[int, str]:
    specs = (*program.templates, *program.tasks)
    names = {0: "<idle>"} | {c + 1: f"migration/{c}" for c in range(cpus)}
    for row in raw.tasks:
        names[int(row[s.T_NUM]) + 1 + cpus] = specs[row[s.T_TEMPLATE]].comm
    return names


def _masks(raw: RawReplay, cpus: int) -> pl.Series:
    """Sets of CPUs of the considered events, as little-endian bit strings."""
    rows = np.where(raw.log[:, 1] == codes.LOG_CONSIDERED, raw.log[:, 3], -1)
    used = {int(r) for r in np.unique(rows) if r >= 0}
    words = -(-cpus // (s.WORD_LOW + 1))
    text = {r: raw.masks[r, :words].astype("<u4").tobytes()[: -(-cpus // 8)] for r in used}
    return pl.Series([text.get(int(r)) for r in rows], dtype=pl.Binary)


def _texts(raw: RawReplay, program: Program) -> pl.Series:
    out: list[str | None] = [None] * len(raw.log)
    for i in np.flatnonzero(raw.log[:, 1] == codes.LOG_MARK):
        out[i] = program.texts[int(raw.log[i, 6])]
    for i in np.flatnonzero(raw.log[:, 1] == codes.LOG_REFUSED):
        out[i] = refusal_text(int(raw.log[i, 4]), int(raw.log[i, 6]))
    return pl.Series(out, dtype=pl.String)
