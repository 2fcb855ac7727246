"""kernel/sched/fair.c: the CFS queue, virtual runtime and load tracking."""
