"""Whether a verdict could be known at all: two machines that differ in their truth, and of which the evidence is the same.

The true machine is changed in what its recording and its snapshots do not show, once so that it wastes as much as possible, and
once as little as possible. Where the first one has a violation and the second one has none, nobody can tell which one was
recorded. Other machines may fit, too, so the rest is what could be decided at most.

========== ===================================== ============================================
not shown  most waste                            least waste
========== ===================================== ============================================
affinity   a thread may use every CPU            only those on which it is, whenever it waits
throttling who waits behind a thread waits       a thread that a limit may stop is stopped
silence    a CPU without events idles, or has    one thread runs there alone
           threads that wait if it may not have
           been recorded
losses     a CPU idles while its events are lost a thread runs there
           and somebody whom nobody sees again
           waits until its CPU becomes idle
wakeups    a thread of the recorder waits since   it sleeps until it runs
           its CPU was idle, or since it slept
========== ===================================== ============================================

An affinity is shown by two snapshots that agree about it, and by the names of the kernel's threads of one CPU. A thread that
began or ended meanwhile has what it was seen with. A limit is shown by a snapshot. Hotplug is left out: all counts as decidable.
"""

from __future__ import annotations

from typing import Any

from support.random_schedules.drawing import Schedule
from support.random_schedules.truth import matching, per_slice

#: the rule of docs/verdict.md
FLOOR_US = 1_500
SLICES, NEEDED = 10, 5
OF_MACHINE, OF_USED = 0.005, 0.0075


def extremes(made: Schedule, snapshots: int) -> tuple[bool, bool]:
    """Return whether there is a violation if as much is wasted as possible, and as little; ``snapshots``: 0, 1 or 2 of them."""
    if "hotplug" in made.features:
        return False, True  # events tell what this does not ask: which CPUs are about to go offline
    masks, limits = _told(made, snapshots)
    silent = _silent(made, snapshots)
    quiet = made.lost + [(c, made.truth.start_us, made.truth.end_us) for c in silent]
    unseen = [] if snapshots == 2 else [a for _, a, _ in made.lost]
    dark = len(silent) * (not made.every_cpu)
    own = _recorder_waits(made)
    return (
        _violates(made, masks, limits, quiet, unseen, dark, own, most=True),
        _violates(made, masks, limits, quiet, [], 0, [], most=False),
    )


def _recorder_waits(made: Schedule) -> list[tuple[int, int, int]]:
    """Return (uid, from, to) in which a thread of the recorder may have waited, because its wakeup is missing."""
    if "recorder" not in made.features:
        return []
    tasks = [t for s in (made.snapshot, made.last_snapshot) for t in s["tasks"]]
    uids = {t["start_ticks"] - 100 for t in tasks if t["comm"] in ("perf", "trace-cmd")}
    told = {(e.subject, e.us) for e in made.kept if e.kind in ("sched_wakeup", "sched_waking")}
    busy_since = [made.log[0][0]] * made.cpus
    was_idle = [False] * made.cpus
    asleep: dict[int, tuple[int, int]] = {}  # (since, CPU)
    runnable: dict[int, int] = {}
    found = []
    for time, cells in made.log:
        on = {
            uid: c
            for c, cell in enumerate(cells)
            for uid in [cell[1], *(u for u, _, _ in cell[3])]
            if uid in uids
        }
        for uid in runnable.keys() - on.keys():
            asleep[uid] = time, runnable[uid]
        for uid, c in on.items():
            if (uid, time) in told:
                asleep.pop(uid, None)
            if cells[c][1] == uid and uid in asleep:
                since = max(asleep.pop(uid)[0], busy_since[c])
                found += [] if was_idle[c] else [(uid, since, time)]
        for c, cell in enumerate(cells):
            if was_idle[c] and cell[1] != 0:
                busy_since[c] = time
            was_idle[c] = cell[1] == 0
        runnable = on
    end = made.truth.end_us
    found += [(u, max(a, busy_since[c]), end) for u, (a, c) in asleep.items() if not was_idle[c]]
    return found


def _told(made: Schedule, snapshots: int) -> tuple[dict[int, int], dict[int, str] | None]:
    """Return the masks and the control groups of threads as far as they are shown, by uid."""
    of = [
        {t["start_ticks"] - 100: t for t in s["tasks"]} for s in (made.snapshot, made.last_snapshot)
    ]
    if snapshots == 0:
        bound = {u: t for u, t in (of[0] | of[1]).items() if t["kthread"] and "/" in t["comm"]}
        return {u: _bits(t["allowed"]) for u, t in bound.items()}, None
    shown = of[0] if snapshots == 1 else of[1] | of[0]
    masks = {
        u: _bits(t["allowed"])
        for u, t in shown.items()
        if snapshots == 1 or u not in of[0] or of[1].get(u, t)["allowed"] == t["allowed"]
    }
    limited = made.snapshot["quotas"]
    return masks, {
        u: t["cgroup"] if t["cgroup"] in limited else t["policy"] * (t["policy"] == "deadline")
        for u, t in shown.items()
    }


def _bits(cpus: str) -> int:
    return sum(1 << int(c) for c in cpus.split(","))


def _silent(made: Schedule, snapshots: int) -> list[int]:
    """Return the CPUs of which nothing shows what they did."""
    found = []
    for c in set(range(made.cpus)) - {e.cpu for e in made.kept}:
        before, after = (s["cpu_counts"].get(c) for s in (made.snapshot, made.last_snapshot))
        same = before and after and all(before[k] == after[k] for k in ("slices", "ran_ns"))
        if not (snapshots == 2 and same):
            found.append(c)
    return found


def _violates(
    made: Schedule,
    masks: dict[int, int],
    limits: dict[int, str] | None,
    quiet: list[tuple[int, int, int]],
    unseen: list[int],
    dark: int,
    own: list[tuple[int, int, int]],
    *,
    most: bool,
) -> bool:
    start, end = made.truth.start_us, made.truth.end_us
    every = (1 << made.cpus) - 1
    isolated = sum(1 << c for c in made.snapshot["isolated_cpus"])
    if limits is not None:  # a snapshot tells that nobody is moved to isolated CPUs
        every &= ~isolated
    cuts = sorted({t for _, a, b in quiet for t in (a, b) if start < t < end})
    spans: list[tuple[int, int, int]] = []
    used: list[tuple[int, int, int]] = []
    waits = 0  # CPUs on which somebody may wait unseen, as bits
    for a, b, cells in _states(made, cuts):
        hidden = sum({1 << c for c, x, y in quiet if x <= a and b <= y})
        idle = sum(
            1 << c
            for c, cell in enumerate(cells)
            if cell[0] and not cell[2] and not hidden >> c & 1
        )
        used.append((a, b, sum(cell[1] > 0 for cell in cells)))
        idle |= hidden if most else 0
        idle &= ~isolated
        if any(a <= x < b for x in unseen):
            waits = every
        waits &= ~idle | hidden
        if not idle:
            continue
        threads = []
        for c, cell in enumerate(cells):
            if hidden >> c & 1:
                continue
            current = limits.get(cell[1], "") if limits is not None else ""
            for uid, _, _ in cell[3]:
                group = "?" if limits is None else limits.get(uid, "?")
                if most:
                    threads.append(masks.get(uid, every))
                elif not group or group == current:
                    threads.append(masks.get(uid, 0))
            if most and cell[1]:
                threads += [masks.get(uid, every) for uid in cell[4]]
        waiting = {uid for cell in cells for uid, _, _ in cell[3]}
        threads += [
            masks.get(u, every) for u, x, y in own if x <= a and b <= y and u not in waiting
        ]
        if dark == 1:
            threads += [every & ~hidden] * made.cpus
        ghosts = waits.bit_count() + (made.cpus if dark > 1 else 0)
        wasted = ghosts + matching([m & idle for m in threads if m & idle])
        if wasted:
            spans.append((a, b, min(wasted, idle.bit_count())))
    return _rule(made, spans, used)


def _states(made: Schedule, cuts: list[int]) -> Any:
    """Return (from, to, cells) of all states within the window, cut where something else changes."""
    start, end, log = made.truth.start_us, made.truth.end_us, made.log
    for at, (time, cells) in enumerate(log):
        until = log[at + 1][0] if at + 1 < len(log) else end
        a, b = max(time, start), min(until, end)
        if a >= b:
            continue
        for x, y in zip(
            [a, *(c for c in cuts if a < c < b)], [*(c for c in cuts if a < c < b), b], strict=True
        ):
            yield x, y, cells


def _rule(
    made: Schedule, spans: list[tuple[int, int, int]], used: list[tuple[int, int, int]]
) -> bool:
    """Judge as docs/verdict.md says; of waste that is shorter than what counts nothing is left."""
    episodes: list[list[tuple[int, int, int]]] = []
    for span in spans:
        if episodes and episodes[-1][-1][1] == span[0]:
            episodes[-1].append(span)
        else:
            episodes.append([span])
    episodes = [e for e in episodes if e[-1][1] - e[0][0] >= FLOOR_US]
    start, end, length = made.truth.start_us, made.truth.end_us, made.persist_us
    edges = end - start < length and any(e[0][0] <= start or e[-1][1] >= end for e in episodes)
    if edges or any(e[-1][1] - e[0][0] >= length for e in episodes):
        return True
    if start == end:
        return False
    length = min(length, end - start)
    wasted = per_slice([s for e in episodes for s in e], start, end, length)
    busy = per_slice(used, start, end, length)
    bad = [
        w >= OF_MACHINE * length * made.cpus and w >= OF_USED * b
        for w, b in zip(wasted, busy, strict=True)
    ]
    window = min(SLICES, len(bad))
    needed = -(-window * NEEDED // SLICES)
    return any(sum(bad[k : k + window]) >= needed for k in range(len(bad) - window + 1))
