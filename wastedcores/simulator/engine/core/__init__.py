"""kernel/sched/core.c: the main scheduler, wake-ups, the tick and CPU hotplug."""
