"""Widgets for notebooks. Each has a static counterpart that makes the same figures without a live kernel.

A module is imported when one of its names is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

#: public name -> module that has it
_NAMES = {
    "explorer": "explore",
    "explorer_static": "explore",
    "Choice": "domains_playground",
    "domain_playground": "domains_playground",
    "domain_playground_static": "domains_playground",
}

__all__ = list(_NAMES)


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(f"{__name__}.{_NAMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
