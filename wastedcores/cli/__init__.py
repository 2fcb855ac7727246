"""The command ``wastedcores``. Each verb is one library call in a module of its own.

Exit codes: 0 fine or clean, 1 violations found, 2 bad use or input, 3 unknown (events were lost), 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import warnings
from importlib import import_module
from typing import NoReturn, TextIO

from wastedcores.cli._app import app
from wastedcores.errors import ModelWarning, WastedCoresError

#: modules that register verbs, in the order of the help text
VERBS = (
    "check",
    "explain",
    "info",
    "import_",
    "figure",
    "report",
    "capture",
    "domains",
    "replay",
    "compare",
    "scenarios",
    "sweep",
    "reproduce",
    "export",
    "data",
    "doctor",
)


def register_verbs() -> None:
    """Import every verb's module, which puts the verb on the application."""
    for verb in VERBS:
        import_module(f"wastedcores.cli.{verb}")


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning as one line, without the place in the source code that raised it."""
    kind = "warning" if issubclass(category, ModelWarning) else category.__name__
    print(f"wastedcores: {kind}: {message}", file=sys.stderr)


def main() -> None:
    """Run the command line, and print every expected error as one paragraph without a traceback."""
    import typer

    register_verbs()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("once", ModelWarning)
            warnings.showwarning = _show_warning
            code = app(standalone_mode=False) or 0
        sys.exit(code)
    except WastedCoresError as e:
        print(f"wastedcores: {e}", file=sys.stderr)
        sys.exit(e.exit_code)
    except (KeyboardInterrupt, typer.Abort):
        print("wastedcores: interrupted", file=sys.stderr)
        sys.exit(130)
    except BrokenPipeError:
        # whoever read standard output has gone: write no more, not even at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as e:
        name = f"{e.filename}: " if e.filename else ""
        print(f"wastedcores: {name}{e.strerror or e}.", file=sys.stderr)
        sys.exit(2)
    except Exception as e:
        # polars: a file vanished or changed while it was read
        if type(e).__module__.startswith("polars"):
            _exit_for_table(e)
        show = getattr(e, "show", None)  # typer's usage errors print themselves
        if show is None:
            raise
        show()
        sys.exit(getattr(e, "exit_code", 2))
    except BaseException as e:
        if type(e).__name__ == "PanicException":  # polars' decoders panic at damaged data
            _exit_for_table(e)
        raise


def _exit_for_table(e: BaseException) -> NoReturn:
    reason = str(e).strip().splitlines()[0]
    print(
        f"wastedcores: reading or writing a table failed: {reason}. Is the file damaged, or did it change while it was "
        "read? Make it again from its source.",
        file=sys.stderr,
    )
    sys.exit(2)
