"""Load balancing and placement of tasks (kernel/sched/fair.c, v4.1)."""
