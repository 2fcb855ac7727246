"""Figures: every public function returns a plotly Figure. A module is imported when one of its names is first used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: module -> its public names
_MODULES = {
    "views": "overview zoom who_ran waits avoidable load looked_at",
    "heatmaps": "heatmap side_by_side load_heatmap",
    "timelines": "timeline",
    "waiting": "waiting_times lost_time",
    "critical_path": "path_timeline",
    "masks": "considered",
    "domains": "domain_areas node_graph",
    "domain_groups": "groups_compared pull_matrix",
    "compare": "costs balance_calls claims spread",
    "design": "suggestions refused",
    "recorded": "recorded_dots",
    "scorecard": "score_dots",
    "sensitivity": "tornado noise_curves quiet_curve size_curves checker_curves",
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
