"""Kinds of log records (``log_column.KIND``)."""

from __future__ import annotations

(
    NR_RUNNING,
    LOAD,
    SWITCH,
    WAKEUP,
    WAKEUP_NEW,
    MIGRATE,
    FORK,
    EXIT,
    MARK,
    BALANCE,
    CONSIDERED,
    REFUSED,
) = range(12)

#: the trace's name of each kind; a refused suggestion is a balance event
NAMES = [
    "nr_running",
    "load",
    "switch",
    "wakeup",
    "wakeup_new",
    "migrate",
    "fork",
    "exit",
    "mark",
    "balance",
    "considered",
    "balance",
]
