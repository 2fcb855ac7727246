"""Decodes the 16-byte records of the collectors, kind by kind (collectors/wastedcores.h has the fields)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from wastedcores.trace.readers.schedtrace.syscalls import name_of

U64 = NDArray[np.uint64]
I64 = NDArray[np.int64]

KINDS = {
    "nr_running": 1,
    "switch": 2,
    "wakeup": 3,
    "wakeup_new": 4,
    "migrate": 5,
    "fork": 6,
    "exec": 7,
    "exit": 8,
    "cpu_idle": 9,
    "frequency": 10,
    "load": 11,
    "affinity": 12,
    "rename": 13,
    "name": 14,
    "mask": 15,
    "lost": 16,
    "considered": 17,
    "cpu_online": 18,
    "throttle": 19,
    "unthrottle": 20,
    "kernel_entry": 21,
    "kernel_exit": 22,
    "tick": 23,
}
#: collectors/wastedcores.h: WC_IN_*
INTO = ("syscall", "irq", "softirq", "vector", "fault")
OPS = ("", "wakeup", "fork", "balance")
#: include/linux/sched.h: task_index_to_char
STATES = [*"RSDTtXZPI", "R+"]
TASK_STATES = ("sleeping", "waiting", "running")


@dataclass
class Around:
    """All records of a batch, and the places of those that are decoded: names and masks follow the record they belong to."""

    kind: NDArray[np.int8]
    w1: U64
    at: NDArray[np.intp]

    def masks(self, words: I64) -> list[bytes | None]:
        """Return the sets of CPUs that follow the records; None if one is incomplete.

        ``words`` has the number of words of each set.
        """
        out: list[bytes | None] = []
        for i, n in zip(self.at.tolist(), words.tolist(), strict=True):
            follow = slice(i + 1, i + 1 + n)
            whole = (self.kind[follow] == KINDS["mask"]).sum() == n
            out.append(self.w1[follow].tobytes() if whole else None)
        return out


def bits(w: U64, start: int, length: int) -> I64:
    """Return some bits of each word."""
    return (w >> np.uint64(start) & np.uint64((1 << length) - 1)).astype(np.int64)


def _signed(v: I64, length: int) -> I64:
    return v - ((v >> (length - 1)) << length)


def _nr_running(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "cpu": bits(w, 0, 16).astype(np.int32),
        "nr_running": bits(w, 16, 24).astype(np.int32),
    }


def _switch(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    letter = np.where(x & 1024, len(STATES) - 1, np.minimum(x & 1023, len(STATES) - 1))
    return {
        "cpu": cpu,
        "pid": bits(w, 22, 22).astype(np.int32),
        "prev_pid": bits(w, 0, 22).astype(np.int32),
        "prio": bits(w, 44, 8).astype(np.int16),
        "prev_prio": bits(w, 52, 8).astype(np.int16),
        "prev_state": pl.Series(STATES, dtype=pl.Categorical()).gather(letter),
    }


def _wakeup(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "by_pid": bits(w, 22, 22).astype(np.int32),
        "cpu": bits(w, 44, 13).astype(np.int32),
        "src_cpu": (bits(w, 57, 7) | (x & 63) << 7).astype(np.int32),
    }


def _migrate(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    ops = pl.Series([None, *OPS[1:]], dtype=pl.Categorical())
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "src_cpu": bits(w, 22, 13).astype(np.int32),
        "cpu": bits(w, 35, 13).astype(np.int32),
        "by_pid": (bits(w, 48, 16) | (x & 63) << 16).astype(np.int32),
        "op": ops.gather(np.minimum(x >> 6 & 7, 3)),
    }


def _fork(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "by_pid": bits(w, 22, 22).astype(np.int32),
        "cpu": cpu,
    }


def _exit(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "prio": bits(w, 22, 8).astype(np.int16),
        "cpu": cpu,
    }


def _cpu_idle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": bits(w, 0, 16).astype(np.int32), "value": _signed(bits(w, 16, 32), 32)}


def _value(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": bits(w, 0, 16).astype(np.int32), "value": bits(w, 16, 47)}


def _affinity(w: U64, x: I64, cpu: Any, around: Around) -> dict[str, Any]:
    masks = around.masks(bits(w, 22, 10))
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "cpu": cpu,
        "cpu_mask": pl.Series(masks, dtype=pl.Binary),
    }


def _lost(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"cpu": cpu, "value": w.astype(np.int64)}


def _throttle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {
        "pid": bits(w, 0, 22).astype(np.int32),
        "cpu": cpu,
        "value": bits(w, 22, 42) | x << 42,
    }


def _unthrottle(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    return {"pid": bits(w, 0, 22).astype(np.int32), "cpu": bits(w, 22, 13).astype(np.int32)}


#: collectors/considered.c: enum function
FUNCTIONS = (
    "select_idle_sibling",
    "find_busiest_group",
    "find_busiest_queue",
    "find_idlest_group",
    "find_idlest_cpu",
    "select_task_rq_fair",
    "load_balance",
)


def _considered(w: U64, x: I64, cpu: Any, around: Around) -> dict[str, Any]:
    ops = pl.Series(FUNCTIONS, dtype=pl.Categorical())
    return {
        "cpu": bits(w, 0, 13).astype(np.int32),
        "src_cpu": bits(w, 13, 13).astype(np.int32),
        "pid": bits(w, 26, 22).astype(np.int32),
        "op": ops.gather(np.minimum(bits(w, 48, 8), len(FUNCTIONS) - 1)),
        "value": bits(w, 56, 8),
        "cpu_mask": pl.Series(around.masks(x), dtype=pl.Binary),
    }


def _transition(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    what = pl.Series(INTO, dtype=pl.Categorical())
    return {
        "cpu": cpu,
        "pid": bits(w, 0, 22).astype(np.int32),
        "op": what.gather(np.minimum(bits(w, 22, 5), len(INTO) - 1)),
        "value": _signed(bits(w, 27, 32), 32),
    }


def _tick(w: U64, x: I64, cpu: Any, _: Around) -> dict[str, Any]:
    khz = pl.Series(bits(w, 22, 32))
    return {
        "cpu": cpu,
        "pid": bits(w, 0, 22).astype(np.int32),
        "value": khz.set(khz == 0, None),
    }


def entry_names(op: pl.Series, number: I64) -> pl.Series:
    """Return the names of what CPUs entered, on x86-64."""
    both = pl.DataFrame({"op": op, "number": number})
    known = both.unique()
    names = [name_of(str(o), n) for o, n in known.iter_rows()]
    known = known.with_columns(pl.Series("text", names, dtype=pl.String))
    return both.join(known, on=["op", "number"], how="left", maintain_order="left")["text"]


BUILD = {
    "nr_running": _nr_running,
    "switch": _switch,
    "wakeup": _wakeup,
    "wakeup_new": _wakeup,
    "migrate": _migrate,
    "fork": _fork,
    "exec": _fork,
    "exit": _exit,
    "cpu_idle": _cpu_idle,
    "frequency": _value,
    "load": _value,
    "affinity": _affinity,
    "lost": _lost,
    "considered": _considered,
    "cpu_online": _value,
    "throttle": _throttle,
    "unthrottle": _unthrottle,
    "kernel_entry": _transition,
    "kernel_exit": _transition,
    "tick": _tick,
}
