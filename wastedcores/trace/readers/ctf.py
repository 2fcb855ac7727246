"""Reads the Common Trace Format (LTTng's kernel traces, `perf data convert --to-ctf`, barectf) through babeltrace2.

babeltrace2 merges the streams and prints one event per line, ``[seconds] host name: { context }, { payload }``
(plugins/text/pretty). Its Python bindings are made for the distribution's Python only, so the program is used. The
events of the scheduler have the names and fields of LTTng (lttng-modules 2.5 to 2.13, include/instrumentation/events/sched.h)
or, if perf wrote the trace, those of the kernel.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.files import digest_of_files
from wastedcores.limits import MAX_CPUS
from wastedcores.trace.readers import ctf_jit
from wastedcores.trace.readers.support.bytes_jit import PADDING
from wastedcores.trace.readers.support.event_columns import with_letters
from wastedcores.trace.readers.support.reading import Reading, ordered_map
from wastedcores.trace.readers.support.sched_waking import WakingEvents
from wastedcores.trace.readers.support.text_reading import Block
from wastedcores.trace.readers.support.tracepoints import IRQ_FLAGS
from wastedcores.trace.readers.text.scan import Scanner, count, merge
from wastedcores.trace.recognisers import CTF2_METADATA, ctf_folders
from wastedcores.trace.schema import COLUMNS

_BLOCK = 12 << 20
#: babeltrace2 is stopped if it prints nothing for this many seconds; it begins to print at once, whatever the size of a trace.
_SILENT_S = 5
_MOST_LINE = 1 << 20
#: babeltrace2 writes 4 KiB at a time. To wake up for each 4 KiB took a tenth of the time, so the reader lets the pipe fill up.
_PIPE_BYTES, _PAUSE_S = 1 << 20, 0.003
_INSTALL = (
    "Install it: sudo apt-get install babeltrace2 (Debian, Ubuntu), sudo dnf install babeltrace2 (Fedora), or "
    "sudo pacman -S babeltrace2 (Arch)"
)
#: The seconds, the host if the trace names one, the event (after the name of its system if perf wrote the trace), and the rest.
_LINE = r"^\[(?P<sec>\d{1,10})\.(?P<frac>\d{9})\] (?:(?P<host>\S+) )??(?P<event>[\w:.-]+): (?P<rest>.*)$"
_CPU = r"\b(?:perf_)?cpu(?:_id)? = (\d{1,9})\b"
_FLAGS = r"\bcommon_flags = (0x[0-9a-f]{1,8}|\d{1,9})\b"
_BY = r"\b(?:perf_tid|common_pid|tid|vtid) = (-?\d{1,9})\b"


def _text(name: str, column: str) -> str:
    return rf'{name} = "(?P<{column}>(?:[^"\\]|\\.)*)"'


def _number(name: str, column: str) -> str:
    """Return the pattern of a number, which can also be printed as the value of a named constant."""
    return rf"{name} = (?:\( [^:()]{{0,200}}: container = )?(?P<{column}>-?(?:0x[0-9a-f]+|\d+))(?: \))?"


def _sequence(*fields: str) -> str:
    return ",.*? ".join(fields)


_TASK = (_text("comm", "comm"), _number("[tp]id", "pid"), _number("prio", "prio"))
#: event -> (kind, pattern of its payload)
_EVENTS = {
    "sched_switch": (
        "switch",
        _sequence(
            _text("prev_comm", "prev_comm"), _number("prev_[tp]id", "prev_pid"), _number("prev_prio", "prev_prio"),
            _number("prev_state", "state"), _text("next_comm", "comm"), _number("next_[tp]id", "pid"),
            _number("next_prio", "prio"),
        ),
    ),
    "sched_wakeup": ("wakeup", _sequence(*_TASK, _number("target_cpu", "cpu"))),
    "sched_wakeup_new": ("wakeup_new", _sequence(*_TASK, _number("target_cpu", "cpu"))),
    "sched_waking": ("waking", _sequence(*_TASK, _number("target_cpu", "cpu"))),
    "sched_migrate_task": (
        "migrate", _sequence(*_TASK, _number("orig_cpu", "src_cpu"), _number("dest_cpu", "cpu")),
    ),
    "sched_process_fork": (
        "fork",
        _sequence(
            _text("(?:parent_)?comm", "by_comm"), _number("(?:parent_)?[tp]id", "by_pid"), _text("child_comm", "comm"),
            _number("child_[tp]id", "pid"),
        ),
    ),
    "sched_process_exit": ("exit", _sequence(*_TASK)),
    "power_cpu_idle": ("cpu_idle", _sequence(_number("state", "value"), _number("cpu_id", "cpu"))),
    "power_cpu_frequency": ("frequency", _sequence(_number("state", "value"), _number("cpu_id", "cpu"))),
    "cpu_idle": ("cpu_idle", _sequence(_number("state", "value"), _number("cpu_id", "cpu"))),
    "cpu_frequency": ("frequency", _sequence(_number("state", "value"), _number("cpu_id", "cpu"))),
}  # fmt: skip
_NUMBERS = {"pid", "prev_pid", "by_pid", "prio", "prev_prio", "cpu", "src_cpu", "value", "state"}
_DISCARDED = re.compile(
    r"[Tt]racer discarded (\d+) (event|packet)s? between \[(?:\S+ )?([\d:.]+)\] and \[(?:\S+ )?([\d:.]+)\]"
)
#: LTTng subtracts MAX_RT_PRIO from priorities: in sched_switch always, in other events since 2.6.
_MAX_RT_PRIO = 100


class CtfReading(Reading):
    """One pass over a folder of the Common Trace Format."""

    kernel_states = True

    def __init__(self, path: Path, *, hashed: bool = False) -> None:
        super().__init__(path, "ctf")
        self._hashed = hashed
        self._lttng = False
        self._silent = False

    def frames(self) -> Iterator[pl.DataFrame]:
        """Yield event tables in order of time."""
        folder = self._folder()
        self._learn(self._metadata(folder))
        said = self.resources.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        command = [
            self._program(),
            "convert",
            "--clock-seconds",
            "--no-delta",
            str(folder.absolute()),
        ]
        reader = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, pipesize=_PIPE_BYTES
        )
        self.resources.callback(_end, reader)
        assert reader.stdout is not None
        newest = 0
        for frame in WakingEvents(self.found).settled(self._tables(reader.stdout)):
            newest = max(newest, int(frame["ts_ns"].max() or 0)) if frame.height else newest  # type: ignore[arg-type]
            yield frame
        if self._silent:
            reader.kill()
        code = reader.wait()
        said.seek(0)
        errors = said.read(1 << 24).decode("utf-8", "replace")
        if self._silent:
            errors = f"it printed nothing for {_SILENT_S} s and was stopped"
        if code and not self.found.lines:
            raise self._refused(errors)
        if code:  # all that babeltrace2 printed before it met the damage is whole
            self.found.truncated = (
                f"babeltrace2 stopped behind {newest / 1e9:.9f} s: {_cause(errors)}"
            )
            self.found.add_lost(-1, -1)
            lost = {"ts_ns": [newest], "kind": ["lost"], "value": [-1]}
            yield pl.DataFrame(lost)
        yield self._losses(errors, newest)
        if self._hashed:
            files = [f for f in folder.iterdir() if f.is_file()]
            self.found.sha256 = digest_of_files(files)

    def _program(self) -> str:
        program = shutil.which("babeltrace2")
        if program is None:
            raise WastedCoresError(
                f"{self.path}: a trace of the Common Trace Format (LTTng, perf data convert) is read through babeltrace2, "
                f"which is "
                f"not installed. {_INSTALL}."
            )
        return program

    def _folder(self) -> Path:
        """Return the folder of the kernel's trace."""
        folders = ctf_folders(self.path)
        kernel = [f for f in folders if f.name == "kernel" or f.parent.name == "kernel"]
        if len(folders) > 1 and len(kernel) != 1:
            names = ", ".join(str(f.relative_to(self.path)) for f in folders[:4])
            raise TraceFormatError(
                f"{self.path}: {len(folders)} traces of the Common Trace Format are below this folder ({names}); name the one "
                f"of the "
                "kernel."
            )
        if not folders:
            raise TraceFormatError(
                f"{self.path}: no folder with a metadata file of the Common Trace Format is below it."
            )
        return kernel[0] if kernel else folders[0]

    def _metadata(self, folder: Path) -> str:
        with (folder / "metadata").open("rb") as file:
            if file.read(1) == CTF2_METADATA:
                self._check_version()
        command = [
            self._program(), "convert", "--output-format=ctf-metadata", str(folder.absolute()),
        ]  # fmt: skip
        done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        if done.returncode:
            raise self._refused(done.stderr.decode("utf-8", "replace"))
        return done.stdout[: 1 << 16].decode("utf-8", "replace")

    def _check_version(self) -> None:
        """Refuse CTF 2 if babeltrace2 is older than 2.1, the first version that reads it."""
        told = subprocess.run([self._program(), "--version"], capture_output=True, check=False)
        version = re.search(rb"(\d+)\.(\d+)[\d.]*", told.stdout)
        if version and (int(version[1]), int(version[2])) < (2, 1):
            raise TraceFormatError(
                f"{self.path}: this is CTF 2, which babeltrace2 reads since version 2.1; {version[0].decode()} is installed. On "
                "a machine with a newer one, write it as CTF 1.8 and read that: babeltrace2 FOLDER --component=sink.ctf.fs "
                '--params=\'path="NEW",ctf-version="1"\'.'
            )

    def _learn(self, metadata: str) -> None:
        found = self.found
        stated = dict(re.findall(r'^\s*(\w{1,40}) = "?([^"\n;]{0,300})"?;', metadata, re.MULTILINE))
        # CTF 2 states the same facts as JSON
        stated |= dict(re.findall(r'"(\w{1,40})": "?([^"\n,]{0,300})"?[,\n]', metadata))
        found.kernel_release = stated.get("kernel_release") or stated.get("release")
        found.host = stated.get("hostname") or stated.get("host")
        self._lttng = stated.get("tracer_name", "").startswith("lttng")
        if stated.get("tracer_name"):
            version = ".".join(stated[k] for k in ("tracer_major", "tracer_minor") if k in stated)
            found.notes["tracer"] = f"{stated['tracer_name']} {version}".strip()
        if stated.get("nrcpus_online", "").isdecimal():
            found.cpus = min(int(stated["nrcpus_online"]), MAX_CPUS)
        clock = re.search(r"clock \{\s*name = \"?(\w{1,40})", metadata)
        found.clock = clock[1] if clock else None

    def _refused(self, errors: str) -> TraceFormatError:
        return TraceFormatError(
            f"{self.path}: babeltrace2 cannot read this trace of the Common Trace Format ({_cause(errors)}). Is the folder "
            f"whole (its metadata "
            "and every channel)? Copy or record it again; `babeltrace2 FOLDER` shows all that it says."
        )

    def _read(self, text: IO[bytes]) -> bytes:
        """Read a block, but stop if nothing comes: damaged streams make babeltrace2 2.0.4 search for ever and print nothing."""
        parts: list[bytes] = []
        size = 0
        while size < _BLOCK:
            ready, _, _ = select.select([text], [], [], _SILENT_S)
            time.sleep(_PAUSE_S)
            part = os.read(text.fileno(), _BLOCK) if ready else b""
            self._silent = not ready
            if not part:
                break
            parts.append(part)
            size += len(part)
        return b"".join(parts)

    def _tables(self, text: IO[bytes]) -> Iterator[pl.DataFrame]:
        scanner = Scanner(ctf_jit.scan, self._lttng)
        scanning = ordered_map(scanner.scan, self._blocks(text))
        for scanned in self.resources.enter_context(closing(scanning)):
            count(scanned, self.found)
            yield merge(scanned.events, self._events(scanned.rest))

    def _blocks(self, text: IO[bytes]) -> Iterator[Block]:
        rest, first = b"", 1
        while True:
            block = rest + self._read(text)
            if block == rest:
                break
            cut = block.rfind(b"\n") + 1
            rest = block[cut:]
            if len(rest) > _MOST_LINE:
                raise TraceFormatError(
                    f"{self.path}: an event of more than {_MOST_LINE} bytes. The trace is damaged: copy or record it again."
                )
            yield self._block(block[:cut], first)
            first = self.found.lines + 1
        if rest:
            yield self._block(rest + b"\n", first)

    def _block(self, text: bytes, first: int) -> Block:
        lines = text.count(b"\n")
        self.found.lines += lines
        return Block(np.frombuffer(text + bytes(PADDING), np.uint8), first, lines)

    def _events(self, lines: pl.DataFrame) -> pl.DataFrame:
        """Read the lines that the compiled code left alone."""
        table = lines.select("line", pl.col("text").str.extract_groups(_LINE).struct.unnest())
        bare = pl.col("event").str.split(":").list.last()
        table = table.with_columns(event=bare)
        known = pl.col("event").is_in(list(_EVENTS))
        for name, n in (
            table.filter(~known).group_by("event", maintain_order=True).len().iter_rows()
        ):
            self.found.skipped[name] += n
        frames = [
            self._kind(str(name), group)
            for (name,), group in table.filter(known).group_by("event", maintain_order=True)
        ]
        if not frames:
            return pl.DataFrame(schema={"ts_ns": pl.Int64, "kind": pl.String, "line": pl.Int64})
        return pl.concat(frames, how="diagonal_relaxed").sort("line", maintain_order=True)

    def _kind(self, name: str, group: pl.DataFrame) -> pl.DataFrame:
        kind, pattern = _EVENTS[name]
        fields = group.select(
            "line", "rest",
            ts_ns=pl.col("sec").cast(pl.Int64) * 1_000_000_000 + pl.col("frac").cast(pl.Int64),
            ctx_cpu=pl.col("rest").str.extract(_CPU).cast(pl.Int64),
            ctx_pid=pl.col("rest").str.extract(_BY).cast(pl.Int64),
        ).with_columns(pl.col("rest").str.extract_groups(pattern).struct.unnest())  # fmt: skip
        numbers = [c for c in fields.columns if c in _NUMBERS]
        fields = fields.with_columns(_integer(c) for c in numbers)
        bad = fields.filter(
            pl.any_horizontal(pl.col(c).is_null() for c in numbers) | pl.col("ctx_cpu").is_null()
        )
        if bad.height:
            raise TraceFormatError(
                f"{self.path}, line {bad['line'][0]} of babeltrace2's text: the fields of {name} are not in any spelling this "
                f"reader "
                f"knows: {bad['rest'][0][:200]!r}. LTTng 2 and perf are known; if yours is one of them, please report it with "
                f"that "
                "line."
            )
        self.found.every_switch |= kind == "switch"
        texts = [c for c in ("comm", "prev_comm", "by_comm") if c in fields.columns]
        fields = fields.with_columns(pl.col(c).str.replace_all(r"\\(.)", "$1") for c in texts)
        fields = fields.with_columns(
            kind=pl.lit("wakeup" if kind == "waking" else kind), waking=pl.lit(kind == "waking")
        )
        if kind in ("switch", "fork", "exit"):
            fields = fields.with_columns(cpu="ctx_cpu")
        elif kind in ("wakeup", "wakeup_new", "waking"):
            happened = ~pl.col("rest").str.contains(r"\bsuccess = 0\b")
            # the context names the waker only if perf wrote the trace: in LTTng's events, the first tid is a field of the event
            fields = fields.filter(happened).with_columns(src_cpu="ctx_cpu")
        elif kind == "cpu_idle":
            out = pl.col("value").is_in([4294967295, -1])
            fields = fields.with_columns(value=pl.when(out).then(-1).otherwise("value"))
        if "state" in fields.columns:
            fields = with_letters(fields, "state")
        if kind in ("wakeup", "wakeup_new", "waking", "migrate") and not self._lttng:
            flags = _integer("flags").fill_null(-1)
            fields = fields.with_columns(flags=pl.col("rest").str.extract(_FLAGS))
            fields = fields.with_columns(
                by_pid="ctx_pid", in_irq=pl.when(flags >= 0).then(flags & IRQ_FLAGS != 0)
            ).drop("flags")
        if self._lttng:
            fields = fields.with_columns(
                pl.when(pl.col(c) < 40).then(pl.col(c) + _MAX_RT_PRIO).otherwise(c).alias(c)
                for c in ("prio", "prev_prio")
                if c in fields.columns
            )
        return fields.drop("rest", "ctx_pid")

    def _losses(self, errors: str, newest: int) -> pl.DataFrame:
        """Return an event for each loss that babeltrace2 states, with the time at which the loss ended."""
        rows = []
        for n, what, _, until in _DISCARDED.findall(errors):
            count = int(n) if what == "event" else -1
            self.found.add_lost(-1, count)
            seconds, _, fraction = until.partition(".")
            known = seconds.isdecimal()
            ts = int(seconds) * 10**9 + int(fraction.ljust(9, "0")[:9]) if known else newest
            rows.append((min(ts, newest), "lost", count))
        types = {"ts_ns": pl.Int64, "kind": pl.String, "value": pl.Int64}
        return pl.DataFrame(rows, schema=types, orient="row")


def _cause(errors: str) -> str:
    """Return the first cause of an error, which babeltrace2 prints last; the others only name the parts that met this cause."""
    causes = re.findall(r"^(?:CAUSED BY|ERROR:).*\n +(.*)$", errors, re.MULTILINE)
    lines = causes[-1:] or [line.strip() for line in errors.splitlines() if line.strip()]
    return lines[-1][:300].rstrip(".") if lines else "it did not say why"


def _integer(column: str) -> pl.Expr:
    text = pl.col(column)
    hexadecimal = text.str.strip_prefix("0x").str.to_integer(base=16, strict=False)
    value = (
        pl.when(text.str.starts_with("0x"))
        .then(hexadecimal)
        .otherwise(text.cast(pl.Int64, strict=False))
    )
    if column in COLUMNS and column != "value":
        value = value.cast(COLUMNS[column].dtype, strict=False)
    return value.alias(column)


def _end(reader: subprocess.Popen[bytes]) -> None:
    if reader.poll() is None:
        reader.kill()
        reader.wait()
    if reader.stdout:
        reader.stdout.close()
