"""What a soak has shown: for each watcher its alarms, what it found and missed, and what it took."""

from __future__ import annotations

from statistics import median
from typing import Any

SCHEMA = "wastedcores.soak/2"
#: an alarm may be told so long after a provocation has ended
_LATE_NS = 500_000_000
#: a kill ends a span within this time, and the services are stopped one after the other in the last minute
_KILLED_NS, _LAST_NS = 2_000_000_000, 60_000_000_000
#: the limits of a service's memory
LIMITS_MB = {"collector": 64, "server": 150}
SCRAPE_P99_MS = 50
_ANSWERS = ("true", "false", "unexplained", "pending")


def summary(found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers that count; alarms get the key ``provoked``."""
    return {
        "watchers": {name: _of_watcher(w, found) for name, w in found["watchers"].items()},
        "scrapes": _of_scrapes(found["scrapes"], found["provocations"]),
    }


def _of_watcher(watcher: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    alarms, end_ns = watcher["alarms"], found["end_ns"]
    spans = [(start, end_ns if end is None else end) for start, end in watcher["spans"]]
    for alarm in alarms:
        alarm["provoked"] = any(_during(alarm, p) for p in found["provocations"])
    needed_ns = found["s_ns"] + found["m_ns"]
    provoked, established, in_time, missed, after_s = 0, 0, 0, 0, list[float]()
    for p in found["provocations"]:
        begin, end = p["held_ns"] if p["established"] else (p["start_ns"], p["end_ns"])
        if not any(a <= begin and end <= b for a, b in spans):
            continue
        provoked += 1
        established += p["established"]
        first = min((a["confirmed_ns"] for a in alarms if _during(a, p)), default=None)
        if first is None:
            missed += p["established"]
            continue
        # the longest time for which the CPU was idle beside the processes without interruption
        held_ns = p["held_ns"]
        seen = p["established"] or held_ns[0] <= first <= held_ns[1]
        after_ns = first - (held_ns[0] if seen else p["on_ns"])
        in_time += after_ns <= needed_ns
        after_s.append(round(after_ns / 1e9, 2))
    answers = [a.get("answer", "pending") for a in alarms]
    turns = [
        (
            t,
            any(
                p["start_ns"] < t["end_ns"] and t["start_ns"] < p["end_ns"]
                for p in found["provocations"]
            ),
        )
        for t in watcher["turns"]
    ]
    return {
        "looked_s": round(sum(b - a for a, b in spans) / 1e9, 1),
        "alarms": len(alarms),
        **{answer: answers.count(answer) for answer in _ANSWERS},
        "unprovoked": sum(not a["provoked"] for a in alarms),
        "chronic": len(watcher["chronic"]),
        "provoked": provoked,
        "established": established,
        "found": len(after_s),
        "in_time": in_time,
        "missed": missed,
        "after_s": after_s,
        "kills": len(watcher["kills"]),
        "crashes": _crashes(watcher, end_ns),
        "turns": len(turns),
        "alarming_turns": sum(
            t["verdict"] == "violations" and not provoked for t, provoked in turns
        ),
        "undecided_turns": sum(t["verdict"] not in ("violations", "clean") for t, _ in turns),
        "cost": _cost(watcher["samples"]),
    }


def _crashes(watcher: dict[str, Any], end_ns: int) -> int:
    """Return how often it ended by itself: turns without an answer, and ends that neither a kill nor the soak's end explains.

    One that did not come back after a kill counts, too.
    """
    if watcher["turns"]:
        return sum(turn["verdict"] == "none" for turn in watcher["turns"])
    killed = [kill["at_ns"] for kill in watcher["kills"]]
    ends = [end for _, end in watcher["spans"] if end is not None and end < end_ns - _LAST_NS]
    alone = [all(abs(end - at) > _KILLED_NS for at in killed) for end in ends]
    if ends and len(ends) == len(watcher["spans"]):
        alone[-1] = True
    return sum(alone)


def _during(alarm: dict[str, Any], provocation: dict[str, Any]) -> bool:
    return provocation["start_ns"] <= alarm["confirmed_ns"] <= provocation["end_ns"] + _LATE_NS


def _cost(samples: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the memory of each part at most in MB, its CPU time, and the size of all files at most."""
    parts = sorted({part for s in samples for part in s["rss_kib"]})
    cpu = {p: [s["cpu"][p] for s in samples if p in s["cpu"]] for p in parts}
    return {
        "memory_mb": {
            p: round(max(s["rss_kib"].get(p, 0) for s in samples) * 1024 / 1e6, 1) for p in parts
        },
        "cpu_percent": {p: round(100 * median(shares), 2) for p, shares in cpu.items() if shares},
        "disk_mb": round(max((s["disk_bytes"] for s in samples), default=0) / 1e6, 1),
    }


def _of_scrapes(scrapes: list[list[float]], provocations: list[dict[str, Any]]) -> dict[str, Any]:
    """Return percentiles of the durations in ms, of all scrapes and of those outside provocations."""
    spans = [(p["start_ns"] / 1e9, p["end_ns"] / 1e9) for p in provocations]
    apart = [s for s in scrapes if not any(a - 1 <= s[0] <= b for a, b in spans)]
    return {
        "failed": sum(not size for _, _, size in scrapes),
        "largest_bytes": max((int(size) for _, _, size in scrapes), default=0),
        "all": _percentiles([ms for _, ms, _ in scrapes]),
        "apart_from_provocations": _percentiles([ms for _, ms, _ in apart]),
    }


def _percentiles(ms: list[float]) -> dict[str, float]:
    ordered = sorted(ms)
    at = {f"p{p}_ms": ordered[min(len(ms) - 1, len(ms) * p // 100)] for p in (50, 90, 99) if ms}
    return {"number": len(ms), **at, "most_ms": max(ms, default=0.0)}


def markdown(found: dict[str, Any]) -> str:
    """Return the page of a soak."""
    told, scrapes = found["summary"]["watchers"], found["summary"]["scrapes"]
    minutes = (found["end_ns"] - found["start_ns"]) / 6e10
    state = "complete" if found["complete"] else "not complete"
    needed_s = (found["s_ns"] + found["m_ns"]) / 1e9
    established = sum(p["established"] for p in found["provocations"])
    rows: list[tuple[str, list[Any]]] = [
        ("Looked", [f"{w['looked_s'] / 60:.1f} min" for w in told.values()]),
        ("Alarms", [f"{w['alarms']}, {w['unprovoked']} of them not provoked" for w in told.values()]),
        ("True alarms", [w["true"] for w in told.values()]),
        ("False alarms", [w["false"] for w in told.values()]),
        ("Unexplained alarms", [w["unexplained"] + w["pending"] for w in told.values()]),
        ("Recordings of chronic waste", [w["chronic"] for w in told.values()]),
        ("Provoked while it looked", [w["provoked"] for w in told.values()]),
        ("Found", [w["found"] for w in told.values()]),
        (f"Found within S + M = {needed_s:g} s", [w["in_time"] for w in told.values()]),
        ("Longest time to find one", [f"{max(w['after_s']):.2f} s" if w["after_s"] else "-" for w in told.values()]),
        ("Established and missed", [w["missed"] for w in told.values()]),
        ("Killed", [w["kills"] for w in told.values()]),
        ("Ended by itself", [w["crashes"] for w in told.values()]),
        ("Turns: all, alarming without a provocation, undecided",
         [f"{w['turns']}, {w['alarming_turns']}, {w['undecided_turns']}" if w["turns"] else "-" for w in told.values()]),
        *[
            (f"Memory of the {part} at most" + (f" (limit of a service {LIMITS_MB[part]} MB)" if part in LIMITS_MB else ""),
             [_mb(w["cost"]["memory_mb"].get(part)) for w in told.values()])
            for part in sorted({p for w in told.values() for p in w["cost"]["memory_mb"]})
        ],
        ("CPU time of the collector, median", [f"{w['cost']['cpu_percent'].get('collector', 0):.2f} %" for w in told.values()]),
        (f"Files at most (limit of a service {found['keep_mb']} MB)", [_mb(w["cost"]["disk_mb"]) for w in told.values()]),
    ]  # fmt: skip
    lines = [
        "# Soak of the online checker",
        "",
        f"{minutes:.0f} minutes of {found['plan']['seconds'] / 60:.0f} ({state}) on {found['cpus']} x {found['machine']}, "
        f"Linux {found['kernel']}; the load before was {found['load_before']}. {len(found['provocations'])} violations were "
        f"provoked, of which the witness established {established}.",
        "",
        "| | " + " | ".join(w["how"] for w in found["watchers"].values()) + " |",
        "|---" * (len(told) + 1) + "|",
        *(f"| {name} | " + " | ".join(map(str, values)) + " |" for name, values in rows),
        "",
        "| scrapes of the undisturbed service | number | 50 % | 90 % | 99 % | longest |",
        "|---|---|---|---|---|---|",
        *(
            _scrape_row(name, scrapes[key])
            for name, key in (("all", "all"), ("outside provocations", "apart_from_provocations"))
        ),
        "",
        f"{scrapes['failed']} scrapes failed, and the largest page had {scrapes['largest_bytes']:,} bytes.",
        "",
        "| load | seconds |",
        "|---|---|",
        *(f"| {name} | {seconds:.0f} |" for name, seconds in found["load_seconds"].items()),
    ]
    odd = [a for w in found["watchers"].values() for a in w["alarms"] if a.get("answer") != "true"]
    if odd:
        lines += [
            "",
            "| alarm of | minute | idle CPU | provoked | answer | why |",
            "|---|---|---|---|---|---|",
        ]
    for a in odd:
        minute = (a["confirmed_ns"] - found["start_ns"]) / 6e10
        answer, provoked = a.get("answer", "pending"), "yes" if a["provoked"] else "no"
        lines += [
            f"| {a['watcher']} | {minute:.1f} | {a['idle_cpu']} | {provoked} | {answer} | {a.get('why', '')} |"
        ]
    return "\n".join(lines) + "\n"


def _mb(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f} MB"


def _scrape_row(name: str, told: dict[str, float]) -> str:
    values = [f"{told.get(key, 0):.1f} ms" for key in ("p50_ms", "p90_ms", "p99_ms", "most_ms")]
    return f"| {name} | {told['number']} | " + " | ".join(values) + " |"
