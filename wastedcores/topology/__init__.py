"""Machines, sched_domains and sched_groups as the kernel builds them."""
