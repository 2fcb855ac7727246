"""Pseudonyms for the names in traces, snapshots and metrics that are given away.

A pseudonym is an HMAC of the name under a secret key, so that equal names stay equal in all files that were made with one key,
and nobody without the key can try out names. Numbers, times, and the names of the kernel's own threads are not replaced.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import uuid
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel

from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import written_whole
from wastedcores.trace.header import Header

if TYPE_CHECKING:  # not imported at run time: the live checker uses pseudonyms but reads no traces
    import polars as pl

    from wastedcores.trace.trace import Trace

COMMS = ("comm", "prev_comm", "by_comm")
#: kinds of events whose text a person or a program chose
NAMED = ("mark", "exec")
#: facts of ``Header.provenance`` that contain no names
KEPT_NOTES = ("skipped", "clock jump", "state columns", "wakeups", "frequency", "exit code")


def renamed(trace: Trace, names: Pseudonyms) -> Trace:
    """Return a trace whose names are pseudonyms; texts that people and programs wrote into the trace count as names."""
    import polars as pl

    from wastedcores.trace.trace import Trace

    header = _header(trace.header, names)
    written = pl.col("kind").is_in(list(NAMED))
    comms = set().union(*(_texts(trace.events, pl.col(c)) for c in COMMS))
    texts = _texts(trace.events, pl.col("text").filter(written))
    events = trace.events.with_columns(
        _replaced(c, {t: names.task(t) for t in comms}).cast(pl.Categorical) for c in COMMS
    ).with_columns(
        pl.when(written)
        .then(_replaced("text", {t: names.name(t, "text") for t in texts}))
        .otherwise(pl.col("text"))
    )
    return Trace(events, header)


def _texts(events: pl.LazyFrame, texts: pl.Expr) -> Iterable[str]:
    import polars as pl

    found = events.select(texts.cast(pl.String).drop_nulls().unique())
    return found.collect(engine="streaming").to_series().to_list()


def _header(header: Header, names: Pseudonyms) -> Header:
    notes = {k: v for k, v in header.provenance.items() if k in KEPT_NOTES}
    window = header.window
    return names.facts(header).model_copy(
        update={
            "provenance": notes | {"source": "a file whose names were replaced by pseudonyms"},
            # the names of the window's ends are texts of marks
            "window": window and window.model_copy(update={"names": None}),
            "truncated_last_line": header.truncated_last_line
            and "The recording ends within an event.",
        }
    )


def written_again(make: Callable[[Path], Trace], output: Path, names: Pseudonyms | None) -> Trace:
    """Let ``make`` write a trace to a temporary place, and write the trace that it returns to ``output``, renamed if asked."""
    from wastedcores.trace.parquet import read_parquet, write_parquet

    with written_whole(output) as part:
        trace = make(part)
        write_parquet(trace if names is None else renamed(trace, names), part)
    return read_parquet(output)


def _replaced(column: str, pseudonyms: dict[str, str]) -> pl.Expr:
    import polars as pl

    return pl.col(column).cast(pl.String).replace(pseudonyms)


Facts = TypeVar("Facts", bound=BaseModel)

#: names that every kernel gives its own threads, names of programs that record, and what stands for an unknown name
PUBLIC = re.compile(
    r"(swapper|kthreadd|kworker|ksoftirqd|migration|stopper|cpuhp|watchdog|rcu\w*|ktimers|irq_work|idle_inject|backlog_napi"
    r"|kswapd|kcompactd|khugepaged|kauditd|khungtaskd|oom_reaper|kdevtmpfs|kthrotld)\d*([/:].*)?|perf|trace-cmd|<.*>|"
)
#: boot parameters that say something about the scheduler; all others are left out
SCHEDULING = re.compile(
    r"(isolcpus|nohz|nohz_full|rcu_nocbs|maxcpus|nr_cpus|possible_cpus|nosmt|numa\w*|noautogroup|skew_tick|threadirqs|idle|preempt"
    r"|mitigations|sched\w*|relax_domain_level|cgroup_disable|(intel_idle|processor)\.max_cstate|\w+_pstate)(=.*)?"
)


class Pseudonyms:
    """The pseudonyms under one key."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def of_file(cls, path: Path) -> Pseudonyms:
        """Read the key from a file; make the file, readable by its owner only, if there is none."""
        try:
            if not path.exists():
                with written_whole(path) as part:
                    part.chmod(0o600)
                    part.write_text(f"{secrets.token_hex(32)}\n")
            text = path.read_text("ascii").strip()
        except (OSError, UnicodeDecodeError) as e:
            why = e.strerror if isinstance(e, OSError) else "it is no text"
            raise WastedCoresError(
                f"--pseudonyms {path}: the key can neither be read nor made there ({why}). Name a new file."
            ) from e
        if not re.fullmatch(r"[0-9a-f]{64}", text):
            raise UsageError(
                f"--pseudonyms {path}: expected a key of 64 hexadecimal digits, which this option makes when the file does not "
                "exist. Name a new file."
            )
        return cls(bytes.fromhex(text))

    def _digest(self, text: str) -> bytes:
        return hmac.new(self._key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).digest()

    def name(self, text: str, what: str = "task") -> str:
        """Return the pseudonym of a name; a task's pseudonym has at most 15 characters, as the kernel's names have."""
        return f"{what}-{self._digest(text).hex()[:10]}"

    def task(self, comm: str) -> str:
        """The pseudonym of a task's name; the kernel's own threads keep theirs."""
        return comm if PUBLIC.fullmatch(comm) else self.name(comm)

    def group(self, path: str) -> str:
        """The pseudonym of a control group's path, part by part, so that a group stays inside its parent."""
        return "/".join(part and self.name(part, "group") for part in path.split("/"))

    def facts(self, told: Facts) -> Facts:
        """Return a header or a snapshot whose names are pseudonyms."""
        changes: dict[str, Any] = {}
        for name in ("tasks", "later_tasks"):
            if (tasks := getattr(told, name, None)) is not None:
                changes[name] = [self._task_facts(t) for t in tasks]
        for name in ("host", "boot_id"):
            if text := getattr(told, name):
                changes[name] = self._boot(text) if name == "boot_id" else self.name(text, "host")
        machine = told.machine  # type: ignore[attr-defined]
        if machine and machine.get("name"):
            changes["machine"] = machine | {"name": self.name(machine["name"], "host")}
        if quotas := getattr(told, "quotas", None):
            changes["quotas"] = {self.group(path): us for path, us in quotas.items()}
        if groups := getattr(told, "task_groups", None):
            changes["task_groups"] = [self.group(path) for path in groups]
        if cpusets := getattr(told, "cpusets", None):
            changes["cpusets"] = [
                c.model_copy(update={"path": self.group(c.path)}) for c in cpusets
            ]
        if words := getattr(told, "boot_parameters", None):
            changes["boot_parameters"] = " ".join(
                w for w in words.split() if SCHEDULING.fullmatch(w)
            )
        return told.model_copy(update=changes)

    def _task_facts(self, task: Any) -> Any:
        changes = {n: self.group(p) for n in ("cgroup", "cpuset") if (p := getattr(task, n))}
        if task.comm:
            changes["comm"] = self.task(task.comm)
        return task.model_copy(update=changes)

    def _boot(self, text: str) -> str:
        return str(uuid.UUID(bytes=self._digest(text)[:16], version=4))
