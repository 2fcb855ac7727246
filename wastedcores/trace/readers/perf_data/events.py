"""Which events of ``perf.data`` are read, and where their fields stand in the kernel that wrote them."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.header import Format, state_names
from wastedcores.trace.readers.support import tracepoints as tp
from wastedcores.trace.readers.support.vocabulary import Vocabulary
from wastedcores.trace.schema import KINDS

_TASK = ("comm", "pid", "prio")
_WAKE = (*_TASK, "target_cpu", "success")
#: event -> (code, fields in the places that perfdata_jit and perffields_jit look for them)
_EVENTS: dict[str, tuple[int, tuple[str, ...]]] = {
    "sched_switch": (
        tp.SWITCH,
        (
            "prev_comm",
            "prev_pid",
            "prev_prio",
            "prev_state",
            "next_comm",
            "next_pid",
            "next_prio",
        ),
    ),
    "sched_wakeup": (tp.WAKEUP, _WAKE),
    "sched_wakeup_new": (tp.WAKEUP_NEW, _WAKE),
    "sched_waking": (tp.WAKING, _WAKE),
    "sched_migrate_task": (tp.MIGRATE, (*_TASK, "orig_cpu", "dest_cpu")),
    "sched_process_fork": (tp.FORK, ("parent_comm", "parent_pid", "child_comm", "child_pid")),
    "sched_process_exit": (tp.EXIT, _TASK),
    "sched_process_exec": (pj.EXEC, ("filename", "pid", "old_pid")),
    "cpu_idle": (tp.CPU_IDLE, ("state", "cpu_id")),
    "cpu_frequency": (pj.FREQUENCY, ("state", "cpu_id")),
    "print": (pj.MARK, ("buf",)),
}
_KINDS = {
    tp.SWITCH: "switch",
    tp.WAKEUP: "wakeup",
    tp.WAKEUP_NEW: "wakeup_new",
    tp.WAKING: "wakeup",
    tp.MIGRATE: "migrate",
    tp.FORK: "fork",
    tp.EXIT: "exit",
    tp.CPU_IDLE: "cpu_idle",
    pj.EXEC: "exec",
    pj.MARK: "mark",
    pj.FREQUENCY: "frequency",
    pj.LOST: "lost",
}
#: fields that are strings; all others are numbers
_STRINGS = {"comm", "prev_comm", "next_comm", "parent_comm", "child_comm", "filename", "buf"}
#: a ``long``: what is meant is in its lower half
_LONG = {"prev_state"}
#: fields that some kernels do not have
_OPTIONAL = {"success"}


@lru_cache(maxsize=16)
def _state_numbers(print_fmt: str) -> tuple[Vocabulary, np.ndarray]:
    """What polars numbers all a kernel's prev_states, 512 mostly, and what keeps them alive."""
    vocabulary = Vocabulary()
    return vocabulary, vocabulary.numbers(state_names(print_fmt))


class Events:
    """The events of a file.

    Attributes
    ----------
    codes, success, fields, needed
        As :func:`~wastedcores.trace.readers.perf_data.records_jit.index` and
        :func:`~wastedcores.trace.readers.perf_data.fields_jit.decode` take them.
    kinds
        (N_CODES,) physical values of the kinds.
    states
        polars' numbers of what a prev_state is printed as.
    place
        A sched_waking counts, since there is no sched_wakeup.
    """

    def __init__(self, formats: dict[str, Format], path: Path) -> None:
        self.path = path
        self.codes = np.full(65536, pj.IGNORED, np.int8)
        self.success = np.zeros(16, np.int64)
        self.fields = np.zeros((pj.N_CODES, pj.MAX_FIELDS, 3), np.int64)
        self.needed = np.zeros(pj.N_CODES, np.int64)
        self.kinds = np.zeros(pj.N_CODES, np.uint8)
        for code, kind in _KINDS.items():
            self.kinds[code] = KINDS.index(kind)
        switch = formats.get("sched_switch")
        self.states = _state_numbers(switch.print_fmt if switch else "")[1]
        self.place = "sched_waking" in formats and "sched_wakeup" not in formats
        for name, format in formats.items():
            if name in _EVENTS and (name != "sched_waking" or self.place):
                self._learn(format)

    def _learn(self, format: Format) -> None:
        code, wanted = _EVENTS[format.name]
        for place, name in enumerate(wanted):
            if name not in format.fields:
                if name in _OPTIONAL:
                    continue
                raise TraceFormatError(
                    f"{self.path}: its kernel's {format.name} has no field {name!r} (it has "
                    f"{', '.join(format.fields)}); this reader needs it."
                )
            kind, offset, size = format.fields[name]
            dynamic = kind.startswith("__data_loc")
            sizes = (4, 8) if name in _LONG else (4,)
            if name in _STRINGS:
                good = size == 4 if dynamic else kind.endswith("]")
                expected = "a string"
                tail = name in ("filename", "buf")
                what = pj.T_DYNAMIC if dynamic else pj.T_TAIL if tail else pj.T_COMM
            else:
                good = size in sizes and not kind.endswith("]") and not dynamic
                expected = f"a number of {' or '.join(map(str, sizes))} bytes"
                what = pj.T_INT
            if not good:
                raise TraceFormatError(
                    f"{self.path}: field {name!r} of {format.name} is a {kind} of {size} bytes; expected {expected}."
                )
            self.fields[code, place] = offset, size, what
            self.needed[code] = max(self.needed[code], offset + size)
            if name == "success":
                self.success[code] = offset
        self.codes[format.number] = code
