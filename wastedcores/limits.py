"""The largest numbers that this package accepts, each with its reason and its source.

The limits of a replay on CPUs and tasks follow from the simulator's own table; they are in ``simulator/limits.py``.
"""

from __future__ import annotations

#: CPUs of one machine: the largest CONFIG_NR_CPUS of x86 and powerpc (arch/x86/Kconfig: NR_CPUS_RANGE_END, 6.12).
#: CPUs are 0 to ``MAX_CPUS - 1``; a file that names a larger one is damaged.
MAX_CPUS = 8192

#: NUMA nodes of one machine: the largest CONFIG_NODES_SHIFT of x86 is 10 (arch/x86/Kconfig, 6.12).
MAX_NODES = 1024

#: Process ids and numbers of runnable threads: PID_MAX_LIMIT on 64 bits (include/linux/threads.h, 6.12).
PID_MAX_LIMIT = 4 * 1024 * 1024

#: Seconds of a timestamp: more do not fit into 63 bits of nanoseconds.
MAX_SECONDS = 2**63 // 10**9 - 1

#: Simulated time in ns, 11 days: the end of a replay, and every duration in a workload.
LONGEST_NS = 1_000_000_000_000_000

#: M of the paper, section 4.1: the balancer is expected to repair shorter violations.
PERSIST_NS = 100_000_000

#: Chronic waste: the share of the used CPU time that a slice must waste to count. docs/verdict.md has the measurements behind it.
CHRONIC_SHARE = 0.0075

#: Changes of runqueues that are kept in memory so that a trace is read once: 25 bytes each, and 24 for a wait, so at most 1.6 GB.
KEPT_CHANGES = 1 << 25

#: A check keeps the events and changes of a trace in memory, about 100 bytes per event, unless the trace has more events than
#: this; the check reads the events up to four times.
EVENTS_KEPT_BY_CHECK = 1 << 22
