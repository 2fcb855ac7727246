"""A second process that compiles into the cache what this process needs later."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from wastedcores.jit.cache import CACHE_ROOT, cached


def second_process(module: str, call: str) -> subprocess.Popen[bytes] | None:
    """Call a function in a second process, if there is a cache to hand over the results and a second CPU to work on."""
    if CACHE_ROOT is None or len(os.sched_getaffinity(0)) < 2:
        return None
    code = f"import sys; sys.path[:] = {sys.path!r}\nimport {module}\n{module}.{call}"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


class Prepared:
    """Compiled functions that a second process prepares before they are needed, if they were never compiled."""

    def __init__(self, function: Callable[..., Any], module: str, call: str) -> None:
        self._process = None if cached(function) else second_process(module, call)

    def wait(self) -> None:
        """Return when the functions are compiled. If that failed, they are compiled at their first call, as usual."""
        if self._process is not None:
            self._process.wait()
            self._process = None
