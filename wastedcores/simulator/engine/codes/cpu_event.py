"""Kinds of a CPU's future events, in the order of their words from ``rq.EVENTS`` on."""

from __future__ import annotations

TICK, RUN, RESCHED, TTWU, KICK, STOP, SOFTIRQ = range(7)
