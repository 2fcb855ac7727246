"""How results are shown: as a small table in a notebook, and as one line everywhere else."""

from __future__ import annotations

from html import escape


class Shown:
    """A result with facts that are worth seeing at once; it holds too much data to print all of it."""

    def _facts(self) -> dict[str, str]:
        """Return the facts by name, the most important first."""
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}: {v}' for k, v in self._facts().items())})"

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(name)}</th><td style='text-align:left'>{escape(text)}</td></tr>"
            for name, text in self._facts().items()
        )
        return f"<table><caption>{type(self).__name__}</caption>{rows}</table>"
