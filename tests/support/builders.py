"""Small traces for tests."""

from __future__ import annotations

import polars as pl

from wastedcores.trace import Header, Trace
from wastedcores.trace.schema import conform


def _pids(rows: list[dict]) -> list[int]:
    told = {r["pid"] for r in rows if r["kind"] == "task_state" and r.get("cpu_mask") is not None}
    named = {r.get(c) or 0 for r in rows for c in ("pid", "prev_pid", "by_pid")}
    return sorted(p for p in named - told if p > 0)


def trace_of(
    rows: list[dict], *, cpus: int, online: bool = True, known: bool = True, **header
) -> Trace:
    """A trace of the given events, in the given order within one timestamp.

    With ``known``, a snapshot says that all its tasks may run anywhere and that nobody has a quota, and changes are events.
    """
    table = conform(pl.DataFrame(rows, infer_schema_length=None), "test").sort(
        "ts_ns", maintain_order=True
    )
    facts = {
        "source_format": "test",
        "cpus": cpus,
        "cpus_online": list(range(cpus)) if online else None,
        "every_switch": any(r["kind"] == "switch" for r in rows),
        "start_ns": table["ts_ns"][0],
        "end_ns": table["ts_ns"][-1],
        "events": table.height,
        "tasks": [{"pid": p, "allowed": f"0-{cpus - 1}"} for p in _pids(rows)] if known else None,
        "quotas": {} if known else None,
        "follows_affinity": True if known else None,
    }
    return Trace(table.lazy(), Header(**(facts | header)))


def nr(ts_ns: int, cpu: int, n: int) -> dict:
    return {"ts_ns": ts_ns, "kind": "nr_running", "cpu": cpu, "nr_running": n}


def switch(ts_ns: int, cpu: int, prev_pid: int, prev_state: str, pid: int, **more) -> dict:
    return {
        "ts_ns": ts_ns,
        "kind": "switch",
        "cpu": cpu,
        "prev_pid": prev_pid,
        "prev_state": prev_state,
        "pid": pid,
        "comm": f"t{pid}",
        "prev_comm": f"t{prev_pid}",
        **more,
    }


def wakeup(ts_ns: int, cpu: int, pid: int, **more) -> dict:
    return {"ts_ns": ts_ns, "kind": "wakeup", "cpu": cpu, "pid": pid, **more}


def migrate(ts_ns: int, src_cpu: int, cpu: int, pid: int) -> dict:
    return {"ts_ns": ts_ns, "kind": "migrate", "cpu": cpu, "src_cpu": src_cpu, "pid": pid}


def mask(*cpus: int) -> bytes:
    return sum(1 << c for c in cpus).to_bytes(max(cpus) // 8 + 1, "little")
