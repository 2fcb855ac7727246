"""Kicks of the idle load balancer (``NOHZ_BALANCE_KICK`` and so on, kernel/sched/sched.h, v6.12)."""

BALANCE, STATS, NEWILB, NEXT = 1, 2, 4, 8
KICKS = BALANCE | STATS | NEXT
