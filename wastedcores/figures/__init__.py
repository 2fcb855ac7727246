"""Figures: pure functions, table in, plotly Figure out. Public names are loaded on first use."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: public name -> module that has it
_NAMES = {
    "Run": "wastedcores.analysis.run",
    "overview": "wastedcores.figures.views",
    "zoom": "wastedcores.figures.views",
    "who_ran": "wastedcores.figures.views",
    "waits": "wastedcores.figures.views",
    "load": "wastedcores.figures.views",
    "looked_at": "wastedcores.figures.views",
    "verdict": "wastedcores.words.findings",
    "claim": "wastedcores.words.findings",
    "facts": "wastedcores.words.findings",
    "episodes": "wastedcores.words.episodes",
    "worst": "wastedcores.words.episodes",
    "waited_most": "wastedcores.words.episodes",
    "waiting_sentence": "wastedcores.words.findings",
    "cost": "wastedcores.words.findings",
    "why": "wastedcores.words.cause",
    "next_steps": "wastedcores.words.findings",
    "heatmap": "wastedcores.figures.heatmaps",
    "side_by_side": "wastedcores.figures.heatmaps",
    "load_heatmap": "wastedcores.figures.heatmaps",
    "timeline": "wastedcores.figures.timelines",
    "waiting_times": "wastedcores.figures.waiting",
    "considered": "wastedcores.figures.masks",
    "domain_areas": "wastedcores.figures.domains",
    "node_graph": "wastedcores.figures.domains",
    "groups_compared": "wastedcores.figures.domain_groups",
    "pull_matrix": "wastedcores.figures.domain_groups",
    "help_sentence": "wastedcores.figures.domain_groups",
    "costs": "wastedcores.figures.compare",
    "balance_calls": "wastedcores.figures.compare",
    "claims": "wastedcores.figures.compare",
    "suggestions": "wastedcores.figures.design",
    "refused": "wastedcores.figures.design",
    "spread": "wastedcores.figures.compare",
    "recorded_dots": "wastedcores.figures.recorded",
    "recorded_verdict": "wastedcores.figures.recorded",
    "recorded_table": "wastedcores.figures.recorded",
    "noise_curves": "wastedcores.figures.sensitivity",
    "score_dots": "wastedcores.figures.scorecard",
    "score_verdict": "wastedcores.words.scorecard",
    "score_table": "wastedcores.words.scorecard",
    "score_reasons": "wastedcores.words.scorecard",
    "score_not_tried": "wastedcores.words.scorecard",
    "tornado": "wastedcores.figures.sensitivity",
    "size_curves": "wastedcores.figures.sensitivity",
    "checker_curves": "wastedcores.figures.sensitivity",
    "tick_table": "wastedcores.figures.sensitivity",
    "quiet_curve": "wastedcores.figures.sensitivity",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
