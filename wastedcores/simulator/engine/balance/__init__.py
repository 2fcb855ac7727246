"""Load balancing and placement: kernel/sched/fair.c, one file per kernel generation where they differ."""
