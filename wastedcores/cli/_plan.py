"""Look at everything the user typed before anything runs: names, values, where the result goes."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from wastedcores.topology.machine import Machine
    from wastedcores.workload.scenarios import Scenario


def settings_of(texts: Sequence[str] | None) -> dict[str, str]:
    """``--set NAME=VALUE`` as a dict; the last one of a name counts.

    Raises
    ------
    UsageError
        Without a name or an equals sign.
    """
    from wastedcores.errors import UsageError

    given = {}
    for text in texts or []:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set {text!r}; expected NAME=VALUE, such as jobs=500")
        given[name.strip()] = value.strip()
    return given


def until_of(seconds: float | None) -> int | None:
    """``--until SECONDS`` in ns.

    Raises
    ------
    UsageError
        Not a number of seconds that a replay can last.
    """
    from wastedcores.errors import UsageError

    if seconds is None:
        return None
    if not math.isfinite(seconds) or not 1e-9 <= seconds <= 1e6:
        raise UsageError(
            f"--until {seconds:g}; expected simulated seconds above 0 and at most 1000000"
        )
    return round(seconds * 1e9)


def planned(
    scenario: str,
    kernels: Sequence[str],
    machine: str | None,
    seed: int,
    given: dict[str, str],
) -> tuple[Scenario, Machine]:
    """The scenario and its machine; everything that is wrong with the names and values is said here.

    Raises
    ------
    WastedCoresError
        What cannot be replayed, of any kind.
    """
    from wastedcores.simulator import with_steps
    from wastedcores.simulator.limits import check_seed
    from wastedcores.simulator.replay import check_kernel
    from wastedcores.topology.source import find_machine
    from wastedcores.workload.scenarios import scenario as find

    found = find(scenario)
    for kernel in kernels:
        check_kernel(kernel)
    check_seed(seed)
    on = find_machine(found.machine if machine is None else machine).machine
    with_steps(on, found.workload(on, seed, given).program())
    return found, on


def check_writable(path: Path, option: str = "-o") -> None:
    """Refuse a place for the result before the work is done.

    Raises
    ------
    UsageError
        A directory, or in a directory that is not there or not writable.
    """
    from wastedcores.errors import UsageError

    if path.is_dir():
        raise UsageError(
            f"{option} {path}: cannot write there, it is a directory; expected the name of a file"
        )
    folder = path.parent
    if not folder.is_dir():
        raise UsageError(
            f"{option} {path}: cannot write there, there is no directory {folder}; make it first"
        )
    if not os.access(folder, os.W_OK):
        raise UsageError(f"{option} {path}: cannot write there, not allowed in {folder}")
