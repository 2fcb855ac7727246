"""Kinds of a CPU's future events, in the order of their words from ``Rq.events`` on."""

from __future__ import annotations

TICK, RUN, RESCHED, TTWU, KICK, STOP, SOFTIRQ = range(7)
