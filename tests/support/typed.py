"""The command line in this process: a process each would cost more than all of the rest."""

from __future__ import annotations

import contextlib
import io
import sys
from types import SimpleNamespace


def typed(*words) -> SimpleNamespace:
    """What ``wastedcores WORDS`` returns and prints: ``code``, ``out``, ``err``."""
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
