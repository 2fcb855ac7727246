"""Reads ``trace.dat`` by ``trace-cmd report``: the format follows the kernel's, and only trace-cmd knows all of it."""

from __future__ import annotations

import hashlib
import shutil
import signal
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.support.reading import Facts, Reading
from wastedcores.trace.readers.text.ftrace import FtraceReading
from wastedcores.trace.readers.text.trace_cmd import (
    dump_options,
    from_the_first,
    run_limited,
    split,
)

#: trace-cmd.dat(5): the first ten bytes
MAGIC = b"\x17\x08\x44tracing"


class TraceDatReading(Reading):
    """One pass over the report of a trace.dat file.

    Parameters
    ----------
    path
        The file.
    hashed
        Compute its SHA-256.
    """

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "trace.dat")
        self._hashed = hashed

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in the order of the report.

        Raises
        ------
        TraceFormatError
            trace-cmd is not installed, or refuses the file.
        """
        program = shutil.which("trace-cmd")
        if program is None:
            raise TraceFormatError(
                f"{self.path}: this trace.dat file needs trace-cmd to be read, and there is none on this machine. "
                "Install it (Debian, Ubuntu, Fedora, Arch: package trace-cmd), or import the text of `trace-cmd "
                "report` made elsewhere."
            )
        folder = self.resources.enter_context(tempfile.TemporaryDirectory(prefix="wastedcores-"))
        text = self._print_report(program, Path(folder))
        dumped = dump_options(program, self.path)
        name, notes = next(iter(dumped.buffers)), {}
        if len(dumped.buffers) > 1:
            name, text, events = split(text, dumped.buffers)
            notes["buffer"] = name or "the top one"
            others = [f"{n or 'the top one'} ({k} events)" for n, k in events.items() if n != name]
            if others:
                notes["buffers_left_out"] = ", ".join(others)
        self._dumped, self._buffer, self._notes = dumped, dumped.buffers[name], notes
        overrun = self._buffer.overrun
        if overrun:
            text = from_the_first(text, overrun)
        report = FtraceReading(text, overwritten=overrun)
        self._report = self.resources.enter_context(report)
        yield from report.frames()
        if self._hashed:
            with self.path.open("rb") as file:
                self.found.sha256 = hashlib.file_digest(file, "sha256").hexdigest()

    @property
    def facts(self) -> Facts:
        """The facts of the report, with what trace-cmd says about the file itself."""
        report, buffer = self._report.facts, self._buffer
        return replace(
            report,
            source_format="trace.dat",
            kernel_release=report.kernel_release or self._dumped.kernel_release,
            host=self._dumped.host,
            clock=report.clock or buffer.clock,
            # the report says where events were lost, the kernel how many
            lost={**report.lost, **(buffer.overrun + buffer.dropped)},
            notes={**report.notes, **self._notes},
            sha256=self.found.sha256,
        )

    def _print_report(self, program: str, folder: Path) -> Path:
        text = folder / "report.txt"
        with text.open("wb") as out:
            # without plugins, which print states their own way and leave out what the kernel prints
            status, said = run_limited(program, "report", "-t", "-N", path=self.path, out=out)
        if status < 0:
            said = f"{said} it was ended by {signal.Signals(-status).name} because it did not end itself".strip()
        if status or not text.stat().st_size:
            raise TraceFormatError(
                f"{self.path}: trace-cmd report cannot read it: {said or 'no reason given'}. If the file is cut short or "
                "damaged, copy or record it again."
            )
        return text
