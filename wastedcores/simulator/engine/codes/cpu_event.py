"""Kinds of a CPU's future events, in the order of their words from ``Rq.events`` on."""

TICK, RUN, RESCHED, TTWU, KICK, STOP, SOFTIRQ = range(7)
