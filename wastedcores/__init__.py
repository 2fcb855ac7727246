"""wastedcores: find, explain and reproduce wasted cores in the Linux scheduler.

Public names are loaded on first use, so ``import wastedcores`` costs nothing.
"""

from __future__ import annotations

from wastedcores.lazy import lazy

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy(
    __name__,
    {
        "trace": "Trace Header",
        "trace.io": "open_trace import_trace",
        "trace.named": "open fetch",
        "invariant": "check score",
        "topology.machine": "Machine",
        "topology.domains": "build_domains",
        "kernels": "KernelModel",
        "reports.notebook": "report",
        "simulator": "replay replay_scenario",
        "analysis.compare": "compare",
        "analysis.explain": "explain",
        "analysis.critical_path": "critical_path",
        "analysis.examined": "examine",
        "analysis.stated_machine": "recorded_on",
        "recovery.recovered": "recover",
        "prediction.predict": "whatif",
        "prediction.advice": "advise",
    },
)
__all__ += ["__version__"]
