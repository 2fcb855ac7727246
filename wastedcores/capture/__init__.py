"""Live capture: run the collectors, which are programs of their own, and read what they write.

The collectors need root (or CAP_BPF and CAP_PERFMON) and the distribution's bcc. Nothing else in this package does.
"""

from __future__ import annotations

from wastedcores.capture.backends import Backend, choose, event_kinds, headers, probe
from wastedcores.capture.demonstration import balancing_off, demonstrate, pile_up
from wastedcores.capture.live import live_check
from wastedcores.capture.live_result import LiveCheck, LiveOptions
from wastedcores.capture.record import capture

__all__ = [
    "Backend",
    "LiveCheck",
    "LiveOptions",
    "balancing_off",
    "capture",
    "choose",
    "demonstrate",
    "event_kinds",
    "headers",
    "live_check",
    "pile_up",
    "probe",
]
