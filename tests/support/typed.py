"""The command line in this process: a process of its own for each command would cost more than the commands."""

from __future__ import annotations

import contextlib
import io
import sys
from types import SimpleNamespace


def typed(*words) -> SimpleNamespace:
    """Run ``wastedcores WORDS``; return its exit ``code`` and what it printed, ``out`` and ``err``."""
    from wastedcores.cli import main

    out, err, before = io.StringIO(), io.StringIO(), sys.argv
    sys.argv = ["wastedcores", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            main()
    except SystemExit as e:
        return SimpleNamespace(code=e.code or 0, out=out.getvalue(), err=err.getvalue())
    finally:
        sys.argv = before
    raise AssertionError("main() returned without an exit code")
