"""``trace.dat`` of trace-cmd, read by ``trace-cmd report``: the format follows the kernel's, and only it knows all."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import polars as pl

from wastedcores.errors import TraceFormatError
from wastedcores.trace.readers.support.blocks import TextSource
from wastedcores.trace.readers.support.facts import Facts
from wastedcores.trace.readers.text import ftrace
from wastedcores.trace.readers.text.lines import complete
from wastedcores.trace.readers.text.trace_cmd import Told, from_the_first, split, tell

#: trace-cmd.dat(5): the first ten bytes
MAGIC = b"\x17\x08\x44tracing"


class Source(TextSource):
    """A trace.dat file; ``sha256`` is that of the file itself, lines are those of the report."""


def read(source: Source, facts: Facts) -> Generator[pl.DataFrame, None, None]:
    """Yield event tables (schema columns and ``line``) in the order of the report.

    Raises
    ------
    TraceFormatError
        trace-cmd is not installed, or refuses the file.
    """
    program = shutil.which("trace-cmd")
    if program is None:
        raise TraceFormatError(
            f"{source.path}: a trace.dat file, which needs trace-cmd to be read, and there is none on this machine. "
            "Install it (Debian, Ubuntu, Fedora, Arch: package trace-cmd), or import the text of `trace-cmd report` "
            "made elsewhere."
        )
    with tempfile.TemporaryDirectory(prefix="wastedcores-") as folder:
        text = Path(folder) / "report.txt"
        with text.open("wb") as out:
            run = subprocess.run(
                # without plugins: they print states their own way, and leave out what the kernel prints
                [program, "report", "-t", "-N", "-i", str(source.path.resolve())],
                stdout=out,
                stderr=subprocess.PIPE,
                check=False,
            )
        if run.returncode or not text.stat().st_size:
            said = " ".join(run.stderr.decode("utf-8", "replace").split())[:300]
            raise TraceFormatError(
                f"{source.path}: trace-cmd report cannot read it: {said or 'no reason given'}. If the file is cut short or "
                "damaged, copy or record it again."
            )
        told = tell(program, source.path)
        name, text = _choose(told, text, facts)
        buffer = told.buffers[name]
        facts.kernel_release, facts.clock = told.kernel_release, buffer.clock
        facts.overwritten.update(buffer.overrun)
        with closing(TextSource(text, complete)) as report:
            yield from ftrace.read(report, facts)
        # the report says where some were lost, the kernel how many
        for cpu, n in (buffer.overrun + buffer.dropped).items():
            facts.lost[cpu] = n
    source.lines = report.lines
    with source.path.open("rb") as file:
        source.sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    facts.source_format = "trace.dat"


def _choose(told: Told, report: Path, facts: Facts) -> tuple[str, Path]:
    """Name of the buffer that is read, and its report."""
    name = next(iter(told.buffers))
    if len(told.buffers) > 1:
        name, report, events = split(report, told.buffers)
        facts.notes["buffer"] = name or "the top one"
        others = [f"{n or 'the top one'} ({k} events)" for n, k in events.items() if n != name]
        if others:
            facts.notes["buffers_left_out"] = ", ".join(others)
    overrun = told.buffers[name].overrun
    return name, from_the_first(report, overrun) if overrun else report
