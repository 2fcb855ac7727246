"""Findings in sentences and small tables, which show themselves in a notebook. Nothing here draws.

A module is imported when one of its names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: module -> its public names
_MODULES = {
    "findings": "verdict claim claim_pair facts waiting_sentence cost next_steps",
    "episode_tables": "episodes worst waited_most avoidable",
    "cause": "why",
    "critical_path": "path_cost path_threads",
    "domains": "help_sentence",
    "recorded": "recorded_verdict recorded_table",
    "scorecard": "score_verdict score_table score_reasons score_not_tried tick_table",
    "rich_text": "RichText figure_or_reason",
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
