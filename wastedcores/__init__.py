"""wastedcores: find, explain and reproduce wasted cores in the Linux scheduler.

Public names are loaded on first use, so ``import wastedcores`` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__version__ = "0.1.0"

#: public name -> module that has it
_NAMES = {
    "Trace": "wastedcores.trace",
    "Header": "wastedcores.trace",
    "open_trace": "wastedcores.trace.io",
    "import_trace": "wastedcores.trace.io",
    "check": "wastedcores.invariant",
    "Machine": "wastedcores.topology.machine",
    "build_domains": "wastedcores.topology.domains",
    "KernelModel": "wastedcores.kernels",
    "report": "wastedcores.reports.notebook",
    "fetch": "wastedcores.trace.datasets",
    "replay": "wastedcores.simulator",
    "replay_scenario": "wastedcores.simulator",
    "compare": "wastedcores.analysis.compare",
    "explain": "wastedcores.analysis.explain",
    "critical_path": "wastedcores.analysis.critical_path",
    "examine": "wastedcores.analysis.examined",
    "recover": "wastedcores.recovery.recovered",
    "whatif": "wastedcores.prediction.predict",
}

__all__ = [*_NAMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _NAMES:
        return getattr(import_module(_NAMES[name]), name)
    raise AttributeError(f"module 'wastedcores' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
