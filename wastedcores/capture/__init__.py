"""Live capture: run the collectors, which are programs of their own, and take in what they write.

The collectors need root (or CAP_BPF and CAP_PERFMON) and the distribution's bcc; nothing else in this package does.
"""

from __future__ import annotations

from wastedcores.capture.backends import Backend, choose, event_kinds, headers, probe
from wastedcores.capture.demonstration import demonstrate
from wastedcores.capture.live import LiveCheck, live_check
from wastedcores.capture.provoke import balancing_off, pile_up
from wastedcores.capture.record import capture

__all__ = [
    "Backend",
    "LiveCheck",
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
