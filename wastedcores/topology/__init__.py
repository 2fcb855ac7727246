"""Machines, and the sched_domains and sched_groups that a kernel builds on them."""
