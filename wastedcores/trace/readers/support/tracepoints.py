"""Codes of the tracepoints that the compiled readers decode."""

from __future__ import annotations

SWITCH, WAKEUP, WAKEUP_NEW, MIGRATE, FORK, EXIT, CPU_IDLE, WAKING, STAT_RUNTIME = range(9)
N_CODES = 9
