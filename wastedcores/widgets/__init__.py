"""Widgets for notebooks. For each widget, a function makes the same figures on a page without a live kernel.

A module is imported when one of its names is first used.
"""

from wastedcores.lazy import lazy

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "explore": "explorer explorer_static",
        "two_traces": "side_by_side",
        "replays": "replay_lab",
        "designs": "design_lab",
        "stepper": "balancing_stepper balancing_stepper_static",
        "decisions": "decision_stepper decision_stepper_static",
        "domains_playground": "Choice domain_playground domain_playground_static",
    },
)
