"""Decodes the fields of the scheduler's trace events as kernels, trace-cmd and perf print them.

Formats: include/trace/events/sched.h and power.h of 4.1, 5.4, 6.12, 6.18 (docs/scheduler-model.md, section 11.6). The second
pattern of an event is the spelling of libtraceevent's plugins (plugin_sched_switch.c), which trace-cmd and newer perf use. The
name of a task can contain anything, so every pattern is anchored at both ends and at the fixed words between them.
"""

from __future__ import annotations

import polars as pl

from wastedcores.trace.readers.support.event_columns import with_letters
from wastedcores.trace.schema import COLUMNS

_INT = r"-?\d+"
_CPU = r"\d{1,9}"
#: Fields that newer kernels append, such as group_dead=true.
_TAIL = r"(?: \w+=\S*)*\s*$"

#: event -> patterns, of which the first that matches counts; named groups are columns of the schema
PATTERNS: dict[str, tuple[str, ...]] = {
    "switch": (
        rf"^prev_comm=(?P<prev_comm>.*) prev_pid=(?P<prev_pid>{_INT}) prev_prio=(?P<prev_prio>{_INT})"
        rf" prev_state=(?P<prev_state>\S+) ==> "
        rf"next_comm=(?P<comm>.*) next_pid=(?P<pid>{_INT}) next_prio=(?P<prio>{_INT}){_TAIL}",
        rf"^(?P<prev_comm>.*):(?P<prev_pid>{_INT}) \[(?P<prev_prio>{_INT})\] (?P<prev_state>\S+) ==> "
        rf"(?P<comm>.*):(?P<pid>{_INT}) \[(?P<prio>{_INT})\]\s*$",
        # the fields as they are in memory: `trace-cmd report -R`
        rf"^prev_comm=(?P<prev_comm>.*) prev_pid=(?P<prev_pid>{_INT}) prev_prio=(?P<prev_prio>{_INT})"
        rf" prev_state=(?P<raw_state>0x[0-9a-f]{{1,8}}|\d{{1,9}}) "
        rf"next_comm=(?P<comm>.*) next_pid=(?P<pid>{_INT}) next_prio=(?P<prio>{_INT}){_TAIL}",
    ),
    "wakeup": (
        rf"^comm=(?P<comm>.*) pid=(?P<pid>{_INT}) prio=(?P<prio>{_INT})"
        rf"(?: success=(?P<success>\d))? target_cpu=(?P<cpu>{_CPU}){_TAIL}",
        rf"^(?P<comm>.*):(?P<pid>{_INT}) \[(?P<prio>{_INT})\](?: success=(?P<success>\d))? CPU:(?P<cpu>{_CPU})\s*$",
    ),
    "migrate": (
        rf"^comm=(?P<comm>.*) pid=(?P<pid>{_INT}) prio=(?P<prio>{_INT})"
        rf" orig_cpu=(?P<src_cpu>{_CPU}) dest_cpu=(?P<cpu>{_CPU}){_TAIL}",
    ),
    "fork": (
        rf"^comm=(?P<by_comm>.*) pid=(?P<by_pid>{_INT}) child_comm=(?P<comm>.*) child_pid=(?P<pid>{_INT}){_TAIL}",
        rf"^parent_comm=(?P<by_comm>.*) parent_pid=(?P<by_pid>{_INT}) child_comm=(?P<comm>.*)"
        rf" child_pid=(?P<pid>{_INT}){_TAIL}",
    ),
    "newtask": (
        rf"^pid=(?P<pid>{_INT}) comm=(?P<comm>.*) clone_flags=[0-9a-fx]+ oom_score_adj={_INT}{_TAIL}",
    ),
    "exec": (rf"^filename=(?P<text>.*) pid=(?P<pid>{_INT}) old_pid=(?P<by_pid>{_INT}){_TAIL}",),
    "exit": (rf"^comm=(?P<comm>.*) pid=(?P<pid>{_INT}) prio=(?P<prio>{_INT}){_TAIL}",),
    "cpu_idle": (rf"^state=(?P<value>{_INT}) cpu_id=(?P<cpu>{_CPU}){_TAIL}",),
    "cpu_online": (
        rf"^cpu: (?P<cpu>{_CPU}) target: +{_INT} step: +(?P<value>{_INT}) \((?P<step>[^)]+)\)\s*$",
    ),
    "frequency": (rf"^state=(?P<value>{_INT}) cpu_id=(?P<cpu>{_CPU}){_TAIL}",),
}

#: The kernel's name of an event -> kind. sched_waking counts as a wakeup only if there is no sched_wakeup (sched_waking.py). Of
#: the task_newtask and the sched_process_fork of a thread, only the first counts (births.py).
KIND_OF = {
    "sched_waking": "waking", "sched_switch": "switch", "sched_wakeup": "wakeup", "sched_wakeup_new": "wakeup_new",
    "sched_migrate_task": "migrate", "sched_process_fork": "fork", "sched_process_exec": "exec",
    "sched_process_exit": "exit", "cpu_idle": "cpu_idle", "cpu_frequency": "frequency", "cpuhp_enter": "cpu_online",
    "task_newtask": "newtask",
    "tracing_mark_write": "mark", "print": "mark", "bputs": "mark", "bprint": "mark",
}  # fmt: skip

#: u32 -1 printed without a sign: the CPU left its idle state.
IDLE_EXIT = 4294967295

_INT_COLUMNS = ("pid", "prio", "prev_pid", "prev_prio", "cpu", "src_cpu", "by_pid", "value")

#: What stands for a task's name in a line's envelope if ftrace had forgotten the name (<...>) or perf never knew it (:PID).
_NO_COMM = r"^(?:<\.\.\.>|:-?\d+|)$"


def parse_payloads(events: pl.DataFrame, kind: str) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Decode the fields of events of one kind; return the decoded events and the events that no pattern matches."""
    # trace-cmd pads the name; the kernel's own marker line keeps the spaces of the text
    events = events.with_columns(
        payload=pl.when(pl.col("name") == "tracing_mark_write")
        .then("payload")
        .otherwise(pl.col("payload").str.strip_chars_start(" "))
    )
    if kind == "mark":
        return _marks(events), events.clear()
    key = "wakeup" if kind in ("wakeup_new", "waking") else kind
    done = []
    for pattern in PATTERNS[key]:
        if not events.height:
            break
        fields = events.with_columns(pl.col("payload").str.extract_groups(pattern).struct.unnest())
        numbers = [c for c in _INT_COLUMNS if c in fields.columns]
        anchor = "pid" if "pid" in numbers else "value"
        # a number that does not fit its column is not a number
        fits = pl.all_horizontal(
            pl.col(c).is_null() == pl.col(c).cast(_fitting(c), strict=False).is_null()
            for c in numbers
        )
        good = fields.select(pl.col(anchor).is_not_null() & fits).to_series()
        if good.all():  # in nearly all traces, all events have the first spelling
            done.append(fields)
            events = events.clear()
        else:
            done.append(fields.filter(good))
            events = fields.filter(~good).select(events.columns)
    if not done:
        return events.clear(), events
    return _finish(pl.concat(done, how="diagonal"), key, kind), events


def _fitting(column: str) -> pl.DataType:
    # idle states are printed as u32; pids and priorities must fit their columns
    return pl.Int64() if column in ("value", "cpu", "src_cpu") else COLUMNS[column].dtype


def _marks(events: pl.DataFrame) -> pl.DataFrame:
    # trace-cmd and perf put the caller ("tracing_mark_write: " or an address) before the text
    called = pl.col("name").is_in(["print", "bputs", "bprint"])
    return events.select(
        "line",
        "ts_ns",
        "ctx_cpu",
        kind=pl.lit("mark"),
        cpu="ctx_cpu",
        pid="ctx_pid",
        comm="ctx_comm",
        text=pl.when(called)
        .then(pl.col("payload").str.replace(r"^(?:0x[0-9a-f]+|[\w.]+(?:\+0x[0-9a-f]+)?): ?", ""))
        .otherwise(pl.col("payload")),
    )


def _finish(fields: pl.DataFrame, key: str, kind: str) -> pl.DataFrame:
    if "raw_state" in fields.columns:
        fields = with_letters(fields, "raw_state")
    out = (
        fields.lazy()
        .with_columns([pl.col(c).cast(pl.Int64) for c in _INT_COLUMNS if c in fields.columns])
        .with_columns(
            kind=pl.lit("wakeup" if kind == "waking" else kind), waking=pl.lit(kind == "waking")
        )
    )
    context = {
        "switch": {"cpu": "ctx_cpu"},
        "wakeup": {"src_cpu": "ctx_cpu", "by_pid": "ctx_pid", "by_comm": "ctx_comm"},
        "migrate": {"by_pid": "ctx_pid", "by_comm": "ctx_comm"},
        "fork": {"cpu": "ctx_cpu"},
        "newtask": {"cpu": "ctx_cpu", "by_pid": "ctx_pid", "by_comm": "ctx_comm"},
        "exec": {"cpu": "ctx_cpu", "comm": "ctx_comm"},
        "exit": {"cpu": "ctx_cpu"},
    }.get(key, {})
    out = out.with_columns(**{k: pl.col(v) for k, v in context.items()})
    if key == "wakeup":  # 4.1: success=0 means the task was not put on a runqueue
        out = out.filter(pl.col("success").is_null() | (pl.col("success") != "0")).drop("success")
    elif key == "newtask":
        out = out.with_columns(kind=pl.lit("fork"), newtask=pl.lit(True))
    elif key == "exec":
        out = out.with_columns(by_pid=pl.when(pl.col("by_pid") != pl.col("pid")).then("by_pid"))
    elif key == "cpu_idle":
        out = out.with_columns(
            value=pl.when(pl.col("value") == IDLE_EXIT).then(-1).otherwise(pl.col("value"))
        )
    elif key == "cpu_online":
        # of all steps of hotplug, only this step decides whether the CPU may run tasks (kernel/sched/core.c)
        out = out.filter(pl.col("step").is_in(["sched_cpu_activate", "sched_cpu_deactivate"]))
        out = out.with_columns(value=(pl.col("step") == "sched_cpu_activate").cast(pl.Int64))
        out = out.drop("step")
    if key not in ("wakeup", "migrate"):
        out = out.drop("in_irq")
    return out.drop("ctx_pid", "ctx_comm", "name", "payload").collect()


def clean_comm(column: str) -> pl.Expr:
    """Return the name in the envelope; null if the tracer did not know it."""
    comm = pl.col(column)
    return pl.when(~comm.str.contains(_NO_COMM)).then(comm)
