"""The values of options that several verbs share: what their texts stand for, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import typer

#: endings by which people know a file of Perfetto's
ENDINGS = (".pftrace", ".perfetto-trace", ".pb")


def above_zero(param: typer.CallbackParam, value: float | None) -> float | None:
    """Refuse a number that is not finite or not above 0, which Python reads from "nan", "inf" and "-1"."""
    from wastedcores.errors import UsageError

    if value is not None and not 0 < value < math.inf:
        raise UsageError(f"{param.opts[0]} {value:g}: expected a number above 0.")
    return value


def settings(texts: Sequence[str] | None, expected: str = "NAME=VALUE") -> dict[str, str]:
    """Return the values of ``--set`` by name; if a name is given twice, the last value counts.

    ``expected`` is the form that the error message asks for.
    """
    from wastedcores.errors import UsageError

    given = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {text!r}: expected {expected}, such as jobs=500.")
        given[name.strip()] = value.strip()
    return given


def until_ns(seconds: float | None) -> int | None:
    """Return the value of ``--until`` in ns; refuse what is not a time that a replay can last."""
    from wastedcores.errors import UsageError

    if seconds is None:
        return None
    if not math.isfinite(seconds) or not 1e-9 <= seconds <= 1e6:
        raise UsageError(
            f"--until {seconds:g}: expected simulated seconds above 0 and at most 1000000."
        )
    return round(seconds * 1e9)


class HotplugCommand(typer.core.TyperCommand):
    """A command that keeps the order in which ``--offline`` and ``--online`` were typed, which click does not."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Note the values of both options in ``ctx.meta`` and let click parse as usual."""
        typed = []
        for word, following in zip(args, [*args[1:], ""], strict=False):
            option, equals, value = word.partition("=")
            if option in ("--offline", "--online"):
                typed.append((option[2:], value if equals else following))
        ctx.meta["hotplug"] = typed
        return super().parse_args(ctx, args)


def hotplug_steps(ctx: typer.Context) -> list[tuple[str, int]]:
    """Return ("offline" or "online", CPU) in the order typed, for a :class:`HotplugCommand`."""
    from wastedcores.cpulist import parse_cpulist

    return [
        (what, cpu)
        for what, text in ctx.meta["hotplug"]
        for cpu in parse_cpulist(text, f"--{what}")
    ]
