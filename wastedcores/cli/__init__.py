"""The command ``wastedcores``. Each verb is one library call in a module of its own.

Exit codes: 0 fine or clean, 1 violations (or a finding of a linter or a gate), 2 bad use, bad input or an internal error,
3 unknown (events were lost, or nothing can be predicted), 130 interrupted. `capture` and `snapshot` exit with the code of the
command that they ran.
"""

from __future__ import annotations

import atexit
import gc
import io
import os
import sys
import traceback
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import Any, TextIO

from wastedcores.cli._app import COMPLETE, VERBS, app, options, present
from wastedcores.errors import ModelWarning, WastedCoresError

#: extra of this package -> the modules that it installs
EXTRAS = {
    "lab": (
        "plotly", "jupyterlab", "ipywidgets", "anywidget", "papermill", "nbconvert", "nbformat", "traitlets", "IPython",
    ),
    "course": ("nbgrader", "otter"),
    "docs": ("sphinx", "myst_nb", "furo"),
    "dask": ("distributed", "dask", "fsspec"),
}  # fmt: skip
#: the garbage collector searches for cycles after this many new objects
GC_OBJECTS = 200_000


def register_verbs(typed: Sequence[str] = ()) -> None:
    """Import the module of the typed verb, or else those of all verbs; each module adds its verb to the application."""
    first = next((word for word in present(typed)[0] if not word.startswith("-")), None)
    wanted = [verb for verb in VERBS if verb.rstrip("_") == first]
    for verb in wanted or VERBS:
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


def run() -> None:
    """Run the command line as a process of its own.

    At its end, the interpreter searches all objects for cycles, except frozen ones. This search took a fifth of the time of a
    short command, so all objects are frozen first.
    """
    atexit.register(gc.freeze)
    main()


def main() -> None:
    """Run the command line and exit: every error is one paragraph without a traceback, and only a verdict exits with 1."""
    _keep_streams_writable()
    # imported modules live until the end, but the collector would search them after every 700 new objects, its default
    gc.set_threshold(GC_OBJECTS)
    if COMPLETE in os.environ:  # the shell asks what may follow
        from wastedcores.cli.completion import answer

        register_verbs()
        answer()
        return
    code = _run()
    try:
        sys.stdout.flush()
    except OSError as e:
        code = _say(f"standard output cannot be written ({e.strerror}).", 2)
        # otherwise the interpreter would flush again at its end, fail, and exit with a code of its own
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(code)


def _run() -> int:
    """Run the verb that was typed and return the exit code."""
    import typer

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("once", ModelWarning)
            warnings.showwarning = _show_warning
            register_verbs(sys.argv[1:])
            code = app(standalone_mode=False) or 0
            # typer's answer to Ctrl-C
            return _say("interrupted", code) if code == 130 else code
    except BaseException as e:
        if options.debug:
            traceback.print_exc()
        show = getattr(e, "show", None)  # typer's usage errors print themselves
        if show is not None:
            show()
            return int(getattr(e, "exit_code", 2))
        if isinstance(e, SystemExit):
            # typer exits with 1 if any pipe is closed; no verdict comes here as an exception
            e = e.__context__ or e
        match e:
            case WastedCoresError():
                return _say(str(e), e.exit_code)
            case ModuleNotFoundError() if extra := _extra_with(e.name):
                return _say(
                    f"this needs {e.name}, which is not installed. Install it: pip install 'wastedcores[{extra}]'",
                    2,
                )
            case KeyboardInterrupt() | typer.Abort():
                return _say("interrupted", 130)
            case OSError():
                name = f"{e.filename}: " if e.filename else ""
                return _say(f"{name}{e.strerror or e}.", 2)
            case MemoryError():
                return _say("there is not enough memory for this; no verdict was reached.", 2)
        # errors of polars: a file vanished or changed while it was read, or a decoder panicked at damaged data
        if type(e).__module__.startswith("polars") or type(e).__name__ == "PanicException":
            return _say(
                f"reading or writing a table failed: {_first_line(e)}. Is the file damaged, or did it change while it was "
                "read? Make it again from its source.",
                2,
            )
        return _say(
            f"an internal error, {type(e).__name__}: {_first_line(e)}. No verdict was reached. Either the input is damaged in "
            "a way that is not recognised, or this is a bug of wastedcores. Please report it with the traceback, which "
            "`wastedcores --debug ...` shows.",
            2,
        )


def _extra_with(module: str | None) -> str:
    """Return the extra of this package that installs a module; empty if there is none."""
    package = (module or "").partition(".")[0]
    return next((extra for extra, modules in EXTRAS.items() if package in modules), "")


def _say(paragraph: str, code: int) -> int:
    print(f"wastedcores: {paragraph}", file=sys.stderr)
    return code


def _first_line(e: BaseException) -> str:
    return next(iter(str(e).strip().splitlines()), "no message").rstrip(".")


class _Pipe(io.FileIO):
    """A standard stream that drops what is written after its reader has gone, so that the verdict still decides the exit code."""

    def write(self, data: Any) -> Any:
        try:
            return super().write(data)
        except BrokenPipeError:
            return len(data)


def _keep_streams_writable() -> None:
    """Let no verb fail because of a closed pipe or an encoding; characters that the encoding lacks become escape sequences."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            # the caller has closed this stream, so the next file that is opened would get the descriptor of the stream
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115  # it stays open
        elif stream is getattr(sys, f"__{name}__"):
            raw = _Pipe(stream.fileno(), "w", closefd=False)
            wrapper = io.TextIOWrapper(
                io.BufferedWriter(raw),
                encoding=stream.encoding,
                errors="backslashreplace",
                line_buffering=name == "stderr" or stream.line_buffering,
            )
            setattr(sys, name, wrapper)
