"""Chooses the tracepoints that are read, and finds their fields in the formats of the kernel that wrote them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

import numpy as np

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.perf_data import records_jit as pj
from wastedcores.trace.readers.perf_data.header import NO_SAMPLES, Format, Samples, state_names
from wastedcores.trace.readers.support import tracepoints as tp
from wastedcores.trace.readers.support.event_columns import CategoryCodes
from wastedcores.trace.schema import KINDS

_TASK = ("comm", "pid", "prio")
_WAKE = (*_TASK, "target_cpu", "success")
#: event -> (code, names of its fields in the order in which fields_jit expects them)
EVENTS: dict[str, tuple[int, tuple[str, ...]]] = {
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
    "cpuhp_enter": (pj.HOTPLUG, ("cpu", "fun")),
}
_KINDS = {
    tp.SWITCH: "switch", tp.WAKEUP: "wakeup", tp.WAKEUP_NEW: "wakeup_new", tp.WAKING: "wakeup", tp.MIGRATE: "migrate",
    tp.FORK: "fork", tp.EXIT: "exit", tp.CPU_IDLE: "cpu_idle", pj.EXEC: "exec", pj.MARK: "mark",
    pj.FREQUENCY: "frequency", pj.LOST: "lost", pj.HOTPLUG: "cpu_online", pj.ENDED: "exit",
}  # fmt: skip
#: Fields that are strings; all others are numbers.
_STRINGS = {"comm", "prev_comm", "next_comm", "parent_comm", "child_comm", "filename", "buf"}
#: Fields of type ``long``, whose value is in the lower four bytes.
_LONG = {"prev_state"}
#: Fields that are pointers.
_POINTERS = {"fun"}
#: Fields that some kernels do not have.
_OPTIONAL = {"success"}


@lru_cache(maxsize=16)
def _state_codes(print_fmt: str) -> tuple[CategoryCodes, np.ndarray]:
    """Return the object that keeps polars' codes alive, and the codes of all values of a kernel's prev_state (mostly 512)."""
    categories = CategoryCodes()
    return categories, categories.of(state_names(print_fmt))


def find_formats(
    tracepoints: Mapping[str, Format],
    path: Path,
    samples: Samples = NO_SAMPLES,
    page_start: int = 0,
    hotplug: tuple[int, int] | None = None,
) -> pj.Formats:
    """Return the layout of a file's records and of the tracepoints that are read."""
    switch = tracepoints.get("sched_switch")
    # perf.data lists exactly the recorded tracepoints; in a trace.dat, only the events show which tracepoints were recorded
    place = "sched_waking" in tracepoints and "sched_wakeup" not in tracepoints
    kinds = np.zeros(pj.N_CODES, np.uint8)
    for code, kind in _KINDS.items():
        kinds[code] = KINDS.index(kind)
    if "sched_wakeup" in tracepoints and not page_start:
        kinds[tp.WAKING] = KINDS.index("waking")
    if page_start or "sched_process_exit" in tracepoints:
        kinds[pj.ENDED] = 0
    formats = pj.Formats(
        **samples._asdict(),
        codes=np.full(65536, pj.IGNORED, np.int8),
        success=np.zeros(16, np.int64),
        fields=np.zeros((pj.N_CODES, pj.MAX_FIELDS, 3), np.int64),
        needed=np.zeros(pj.N_CODES, np.int64),
        kinds=kinds,
        states=_state_codes(switch.print_fmt if switch else "")[1],
        place=place,
        page_start=page_start,
        hotplug=hotplug or (0, 0),
    )
    for name, format in tracepoints.items():
        if name in EVENTS and (name != "cpuhp_enter" or hotplug):
            _learn(format, formats, path)
    return formats


def _learn(format: Format, formats: pj.Formats, path: Path) -> None:
    """Fill in what one tracepoint's format says."""
    code, wanted = EVENTS[format.name]
    for place, name in enumerate(wanted):
        if name not in format.fields:
            if name in _OPTIONAL:
                continue
            raise TraceFormatError(
                f"{path}: its kernel's {format.name} has no field {name!r} (it has {', '.join(format.fields)}); this "
                "reader needs it."
            )
        kind, offset, size = format.fields[name]
        dynamic = kind.startswith("__data_loc")
        sizes = (4, 8) if name in _LONG else (8,) if name in _POINTERS else (4,)
        if name in _STRINGS:
            tail = name in ("filename", "buf")
            # a flexible array is "char buf[]" since about 5.5, and was "char buf" of size 0 before
            flexible = tail and kind == "char" and size == 0
            good = size == 4 if dynamic else kind.endswith("]") or flexible
            expected = "a string"
            what = pj.T_DYNAMIC if dynamic else pj.T_TAIL if tail else pj.T_COMM
        else:
            good = size in sizes and not kind.endswith("]") and not dynamic
            expected = f"a number of {' or '.join(map(str, sizes))} bytes"
            what = pj.T_INT
        if not good:
            raise TraceFormatError(
                f"{path}: field {name!r} of {format.name} is a {kind} of {size} bytes; expected {expected}."
            )
        formats.fields[code, place] = offset, size, what
        formats.needed[code] = max(formats.needed[code], offset + size)
        if name == "success":
            formats.success[code] = offset
    formats.codes[format.number] = code
