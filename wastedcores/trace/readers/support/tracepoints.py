"""Codes of the tracepoints that the compiled readers decode."""

from __future__ import annotations

SWITCH, WAKEUP, WAKEUP_NEW, MIGRATE, FORK, EXIT, CPU_IDLE, WAKING, STAT_RUNTIME = range(9)
N_CODES = 9

#: The bits of common_flags that say that an event happened in a hardware interrupt or an NMI (TRACE_FLAG_HARDIRQ and
#: TRACE_FLAG_NMI of include/linux/trace_events.h, 4.1 to 6.18). A softirq does not count: it may deliver a message of the task
#: that it interrupted.
IRQ_FLAGS = 0x48
