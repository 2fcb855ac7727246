"""Live capture: run the collectors, which are separate programs, and read what they write.

The collectors need root (or CAP_BPF and CAP_PERFMON) and the distribution's bcc; the rest of this package does not. A module is
imported when one of its names is first used, because a service that watches for weeks needs few of the modules.
"""

from __future__ import annotations

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "backends": "Backend choose event_kinds headers probe",
        "demonstration": "balancing_off demonstrate pile_up",
        "live": "live_check",
        "live_result": "LiveCheck LiveOptions",
        "record": "capture",
    },
)
