"""kernel/sched/core.c: the main scheduler, wakeups, the tick and CPU hotplug."""
