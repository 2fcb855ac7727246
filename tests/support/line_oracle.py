"""A slow and plain reader of ftrace text and perf script, one line at a time, with which the real readers are compared."""

from __future__ import annotations

import re
from typing import Any

FTRACE = re.compile(
    r" *(.*?)-(\d+) +(?:\(.{7}\) )?\[(\d+)\] (?:(\S+) +)?(?: *)(\d+)\.(\d+): (\w+): +?(.*)"
)
PERF = re.compile(r" *(.*?) +(\d+) +\[(\d+)\] +()(\d+)\.(\d+): +(?:\w+:)?(\w+): (.*)")


def pairs(text: str, keys: list[str]) -> dict[str, str]:
    """Split ``k1=v1 k2=v2 ...``. Values can contain anything, so the keys are searched from the right."""
    out: dict[str, str] = {}
    text = " " + text
    for key in reversed(keys):
        before = f" {key}="
        at = text.rindex(before) if key != keys[0] else 0
        out[key] = text[at + len(before) :].rstrip(" ")
        text = text[:at]
    return out


def parse(line: str, perf: bool) -> dict[str, Any] | None:
    """Return the event of a line, without nulls; None if the line has no event of the schema."""
    match = (PERF if perf else FTRACE).match(line)
    if not match:
        return None
    comm, pid, cpu, flags, sec, frac, name, rest = match.groups()
    event: dict[str, Any] = {"ts_ns": int(sec) * 10**9 + int(frac.ljust(9, "0"))}
    by = {"by_pid": int(pid)} | ({"by_comm": comm} if comm not in ("", "<...>") else {})
    here = int(cpu)
    irq = {"in_irq": flags[2] in "hHzZ"} if flags else {}
    if name == "sched_switch":
        left, right = rest.rsplit(" ==> next_comm=", 1)
        new = pairs("next_comm=" + right, ["next_comm", "next_pid", "next_prio"])
        old = pairs(left, ["prev_comm", "prev_pid", "prev_prio", "prev_state"])
        return event | {
            "kind": "switch",
            "cpu": here,
            "pid": int(new["next_pid"]),
            "comm": new["next_comm"],
            "prio": int(new["next_prio"]),
            "prev_pid": int(old["prev_pid"]),
            "prev_comm": old["prev_comm"],
            "prev_prio": int(old["prev_prio"]),
            "prev_state": old["prev_state"],
        }
    if name in ("sched_wakeup", "sched_wakeup_new"):
        keys = ["comm", "pid", "prio", *(["success"] if " success=" in rest else []), "target_cpu"]
        got = pairs(rest, keys)
        if got.get("success") == "0":
            return None
        kind = name.removeprefix("sched_")
        return (
            event
            | task(got)
            | by
            | irq
            | {"kind": kind, "cpu": int(got["target_cpu"]), "src_cpu": here}
        )
    if name == "sched_migrate_task":
        got = pairs(rest, ["comm", "pid", "prio", "orig_cpu", "dest_cpu"])
        place = {"cpu": int(got["dest_cpu"]), "src_cpu": int(got["orig_cpu"])}
        return event | task(got) | by | irq | place | {"kind": "migrate"}
    if name == "sched_process_fork":
        got = pairs(rest, ["comm", "pid", "child_comm", "child_pid"])
        return event | {
            "kind": "fork",
            "cpu": here,
            "pid": int(got["child_pid"]),
            "comm": got["child_comm"],
            "by_pid": int(got["pid"]),
            "by_comm": got["comm"],
        }
    if name == "sched_process_exit":
        got = pairs(rest.split(" group_dead=")[0], ["comm", "pid", "prio"])
        return event | task(got) | {"kind": "exit", "cpu": here}
    if name == "tracing_mark_write":
        return event | {"kind": "mark", "cpu": here, "pid": int(pid), "comm": comm, "text": rest}
    if name == "cpu_idle":
        got = pairs(rest, ["state", "cpu_id"])
        state = int(got["state"])
        return event | {
            "kind": "cpu_idle",
            "cpu": int(got["cpu_id"]),
            "value": -1 if state == 2**32 - 1 else state,
        }
    return None


def task(got: dict[str, str]) -> dict[str, Any]:
    return {"comm": got["comm"], "pid": int(got["pid"]), "prio": int(got["prio"])}
