"""Asks trace-cmd about a trace.dat, and separates the buffers in its report.

A file can hold several buffers: the top one and ftrace instances (`trace-cmd record -B`). A report prints them mixed, with
the name of the buffer before each line (trace-cmd's tracecmd/trace-read.c, 3.1: print_handle_file), so the same event can
be in it once per buffer.
"""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

#: "Linux HOST RELEASE MACHINE", as trace-cmd keeps it
_UNAME = re.compile(r"\[Option UNAME,[^\]\n]*\]\n\S+ (\S+) (\S+) \S+\n")
_CLOCK = re.compile(r"\[Option TRACECLOCK,[^\]\n]*\]\n.*?\[([\w-]+)\]")
_BUFFER = re.compile(r'^"(.*)" \[name\]\n"([\w-]+)" \[clock\]', re.MULTILINE)
#: What the kernel counted (per_cpu/cpuN/stats); the name of the buffer comes before it, unless it is the top one.
_COUNTED = re.compile(
    r"^Buffer: (?P<name>.+)$|^CPU: (?P<cpu>\d+)$|^overrun: (?P<overrun>\d+)$|^dropped events: (?P<dropped>\d+)$",
    re.MULTILINE,
)
_LOSS = re.compile(rb"CPU:(\d+) \[.*EVENTS")
_ON = re.compile(rb"\[(\d+)\] +\d+\.\d+: ")
_EVENT = re.compile(rb"\] +\d+\.\d+: +sched_")


#: Limits of trace-cmd for a small file; they grow with its size. It prints about four times as much as it reads, and unpacks.
CPU_SECONDS, PRINTED_BYTES = 8, 1 << 27
#: Characters of options that are looked at; those of a file with 8192 CPUs and a few buffers are about 1 MB.
_MAX_OPTIONS = 1 << 25


@dataclass
class Buffer:
    """One buffer of the file.

    Attributes
    ----------
    clock
        None if the file does not say.
    overrun, dropped
        Events per CPU that later ones overwrote, and events that found the buffer full.
    """

    clock: str | None = None
    overrun: Counter[int] = field(default_factory=Counter)
    dropped: Counter[int] = field(default_factory=Counter)


@dataclass
class Dumped:
    """Facts about a file from ``trace-cmd dump``; empty if trace-cmd is too old for that.

    Attributes
    ----------
    buffers
        Buffers by name; the name of the top one is empty.
    """

    kernel_release: str | None
    buffers: dict[str, Buffer]
    host: str | None = None


def run_limited(program: str, *arguments: str, path: Path, out: IO[bytes]) -> tuple[int, str]:
    """Run trace-cmd on a file. A damaged one can make it compute, print or allocate without end.

    Parameters
    ----------
    program, *arguments
        Path of trace-cmd, its command and options.
    path
        The trace.dat file.
    out
        A file for what it prints.

    Returns
    -------
    status, said
        The exit status, negative after a signal, and what it printed on stderr.
    """
    size = path.stat().st_size
    with tempfile.TemporaryFile() as errors:
        run = subprocess.Popen(
            [program, *arguments, "-i", str(path.resolve())], stdout=out, stderr=errors
        )
        for limit, most in (
            (resource.RLIMIT_CPU, CPU_SECONDS + (size >> 20)),
            (resource.RLIMIT_FSIZE, PRINTED_BYTES + 200 * size),
            (resource.RLIMIT_AS, (2 << 30) + 4 * size),
        ):
            with suppress(ProcessLookupError, PermissionError):  # it has ended, or has less
                resource.prlimit(run.pid, limit, (most, most + 2))
        status = run.wait()
        errors.seek(0)
        return status, " ".join(errors.read(1 << 16).decode("utf-8", "replace").split())[:300]


def dump_options(program: str, path: Path) -> Dumped:
    """Ask trace-cmd for the options of a file.

    Parameters
    ----------
    program
        Path of trace-cmd.
    path
        The trace.dat file.

    Returns
    -------
    Dumped
        What the options state.
    """
    with tempfile.TemporaryFile() as out:
        status, _ = run_limited(program, "dump", "--options", path=path, out=out)
        out.seek(0)
        text = out.read(_MAX_OPTIONS).decode("utf-8", "replace") if status == 0 else ""
    uname, clock = _UNAME.search(text), _CLOCK.search(text)
    buffers = {"": Buffer(clock and clock[1])}
    for name, said in _BUFFER.findall(text):
        if name:  # trace-cmd also writes "local" if it was given no clock; for the top buffer it asked the kernel
            buffers[name] = Buffer(said if said != "local" else None)
    name, cpu = "", 0
    for found in _COUNTED.finditer(text):
        if found["name"] is not None:
            name = found["name"]
            buffers.setdefault(name, Buffer())
        elif found["cpu"]:
            cpu = int(found["cpu"])
        elif found["overrun"]:
            buffers[name].overrun[cpu] += int(found["overrun"])
        else:
            buffers[name].dropped[cpu] += int(found["dropped"])
    for buffer in buffers.values():
        buffer.overrun, buffer.dropped = +buffer.overrun, +buffer.dropped  # without zeros
    return Dumped(uname and uname[2], buffers, uname and uname[1])


def split(report: Path, buffers: dict[str, Buffer]) -> tuple[str, Path, Counter[str]]:
    """Split a report by buffers, without the names before the lines, and delete it.

    Parameters
    ----------
    report
        The text of `trace-cmd report`.
    buffers
        The buffers of the file.

    Returns
    -------
    name, lines
        The buffer with the most events of the scheduler, and the file with its lines.
    events
        Number of scheduler events of each buffer that has any.
    """
    files = {name: report.with_name(f"buffer-{i}.txt") for i, name in enumerate(buffers)}
    events: Counter[str] = Counter()
    with ExitStack() as stack:
        whole = stack.enter_context(report.open("rb"))
        out = {name: stack.enter_context(file.open("wb")) for name, file in files.items()}
        for name, line in _by_buffer(whole, list(buffers)):
            out[name].write(line)
            if _EVENT.search(line):
                events[name] += 1
    report.unlink()
    name = max(buffers, key=lambda n: events[n])
    return name, files[name], events


def from_the_first(report: Path, overrun: Iterable[int]) -> Path:
    """Copy a report without the losses before the first event of a CPU whose events were overwritten, and delete it.

    The recording of such a CPU begins at its first event. Once all have begun, the rest is copied as it is.

    Parameters
    ----------
    report
        The text of `trace-cmd report`.
    overrun
        CPUs on which events were overwritten.

    Returns
    -------
    Path
        The copy.
    """
    to_begin = set(overrun)
    begun = report.with_name("begun.txt")
    with report.open("rb") as whole, begun.open("wb") as out:
        while to_begin and (line := whole.readline()):
            if found := _LOSS.match(line):
                if int(found[1]) in to_begin:
                    continue
            elif found := _ON.search(line):
                to_begin.discard(int(found[1]))
            out.write(line)
        shutil.copyfileobj(whole, out)
    report.unlink()
    return begun


def _by_buffer(report: IO[bytes], names: list[str]) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each line's buffer, and the line without that name."""
    width = max(len(n.encode()) for n in names) + 2
    prefixes = {(n.encode() + b": ").rjust(width) if n else b" " * width: n for n in names}
    name, loss = "", False
    for line in report:
        # a loss and the event after it are printed together: the second line has no name
        known = None if loss else prefixes.get(line[:width])
        own = line
        if known is not None:
            name, own = known, line[width:]
        loss = bool(_LOSS.match(own))
        yield name, own
