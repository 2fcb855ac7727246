"""Columns of a hotplug step."""

from __future__ import annotations

EVENT, _EVENT_SEQ, CPU, ONLINE = range(4)
