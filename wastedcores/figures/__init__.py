"""Figures: pure functions, table in, plotly Figure out. Public names are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: public name -> module that has it
_NAMES = {
    "Run": "run",
    "overview": "views",
    "zoom": "views",
    "who_ran": "views",
    "waits": "views",
    "load": "views",
    "looked_at": "views",
    "verdict": "reading",
    "claim": "reading",
    "facts": "reading",
    "episodes": "reading_episodes",
    "worst": "reading_episodes",
    "waited_most": "reading_episodes",
    "waiting_sentence": "reading",
    "cost": "reading",
    "why": "reasons",
    "next_steps": "reading",
    "heatmap": "heatmaps",
    "side_by_side": "heatmaps",
    "load_heatmap": "heatmaps",
    "timeline": "timelines",
    "waiting_times": "waiting",
    "considered": "masks",
    "domain_areas": "domains",
    "node_graph": "domains",
    "groups_compared": "domain_groups",
    "pull_matrix": "domain_groups",
    "help_sentence": "domain_groups",
    "costs": "compare",
    "balance_calls": "compare",
    "claims": "compare",
    "suggestions": "design",
    "refused": "design",
    "spread": "compare",
    "recorded_dots": "recorded",
    "recorded_verdict": "recorded",
    "recorded_table": "recorded",
    "noise_curves": "sensitivity",
    "score_dots": "scorecard",
    "score_verdict": "scorecard_tables",
    "score_table": "scorecard_tables",
    "score_reasons": "scorecard_tables",
    "score_not_tried": "scorecard_tables",
    "tornado": "sensitivity",
    "size_curves": "sensitivity",
    "checker_curves": "sensitivity",
    "tick_table": "sensitivity",
    "quiet_curve": "sensitivity",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
