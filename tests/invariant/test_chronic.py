"""Chronic waste is compared with the plainest possible computation, on random runqueues and on every public recording."""

from __future__ import annotations

import heapq
import lzma
import re
import tracemalloc
from fractions import Fraction
from itertools import pairwise
from unittest.mock import patch

import numba
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import RECORDINGS
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.capture.snapshot import header_facts, read_snapshot
from wastedcores.errors import UsageError
from wastedcores.invariant import check, checking, chronic
from wastedcores.trace.io import open_trace
from wastedcores.units import share

MS = 1_000_000
#: verdict and kind of the recordings in which the published bugs and fixes are compared
EXPECTED = {
    "db64-buggy-64cpu": ("violations", "chronic"),
    "db64-6.1-64cpu": ("violations", "chronic"),
    "db64-all-64cpu": ("clean", "occasional"),
    "db64-oow-64cpu": ("clean", "occasional"),
    "gi-all-64cpu": ("clean", "occasional"),
    "gi-6.1-64cpu": ("clean", "occasional"),
    "gc-sgclit-64cpu": ("clean", "occasional"),
}


def without_brief(states):
    """One task per CPU wherever it holds more for less than 1.5 ms; ``states`` are (ts_ns, lengths of the queues)."""
    states = [(t, list(lengths)) for t, lengths in states]
    for c in range(len(states[0][1])):
        begun = None
        for i, (t, lengths) in enumerate(states):
            if lengths[c] >= 2 and begun is None:
                begun = i
            elif lengths[c] < 2 and begun is not None:
                if t - states[begun][0] < 3 * MS // 2:
                    for _, other in states[begun:i]:
                        other[c] = 1
                begun = None
    return states


def fifth_worst(states, slice_ns, cpus):
    """The largest share that five of ten consecutive slices waste; ``states`` are (ts_ns, busy, wasted threads).

    Of fewer than ten slices, at least half have to waste as much.
    """
    start = states[0][0]
    n = (states[-1][0] - start) // slice_ns
    busy, wasted = [0] * n, [0] * n
    for (t, b, w), (until, _, _) in pairwise(states):
        for k in range((t - start) // slice_ns, n):
            lo, hi = max(t, start + k * slice_ns), min(until, start + (k + 1) * slice_ns)
            if lo >= until:
                break
            busy[k] += (hi - lo) * b
            wasted[k] += (hi - lo) * w
    shares = [
        Fraction(w, b) if b and w >= Fraction(5, 1000) * cpus * slice_ns else Fraction(0)
        for b, w in zip(busy, wasted, strict=True)
    ]
    window = min(n, 10)
    needed = (window + 1) // 2
    windows = (shares[i : i + window] for i in range(n - window + 1))
    return max((heapq.nlargest(needed, w)[-1] for w in windows if w), default=None)


def longest(states):
    """The longest time in ns during which threads waited beside an idle CPU without a break."""
    best = begun = 0
    for (_, _, before), (until, _, wasted) in pairwise([(0, 0, 0), *states]):
        if wasted and not before:
            begun = until
        if before:
            best = max(best, until - begun)
    return best


changes = st.lists(
    st.tuples(st.integers(0, 400), st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=80
)


@pytest.mark.slow
@settings(max_examples=300)
@given(changes, st.integers(1, 60), st.sampled_from([1, 7, 1 << 16]))
def test_chronic_equals_brute_force(changes, slices, block):
    # overloads of five units are the shortest that count
    unit = 3 * MS // 10
    slice_ns = slices * unit
    rows = [nr(t * unit, c, n) for t, c, n in sorted(changes, key=lambda x: x[0])]
    state, states = dict.fromkeys(range(4), -1), []
    for i, r in enumerate(rows):
        state[r["cpu"]] = r["nr_running"]
        if i + 1 == len(rows) or rows[i + 1]["ts_ns"] > r["ts_ns"]:
            states.append((r["ts_ns"], list(state.values())))
    states = [
        (
            t,
            sum(n > 0 for n in lengths),
            min(sum(n == 0 for n in lengths), sum(max(n - 1, 0) for n in lengths)),
        )
        for t, lengths in without_brief(states)
    ]
    expected = fifth_worst(states, slice_ns, 4)
    with patch.object(chronic, "_BLOCK", block):
        found = check(trace_of(rows, cpus=4), persist_ns=slice_ns).chronic
    if expected is None:
        assert found is None
    else:
        assert found.share == pytest.approx(float(expected), rel=1e-12)
        n = (states[-1][0] - states[0][0]) // slice_ns
        assert (found.window_ns, found.enough) == (min(n, 10) * slice_ns, n >= 10)


BOUND = re.compile(r".*/\d+(:.*)?")
EVENT = re.compile(r"\s(\d+)\.(\d+): (\w+): (.*)")


def events(lines):
    """(ts_ns, kind, details) of the events in the lines of an ftrace report."""
    for line in lines:
        m = EVENT.search(line)
        if not m:
            continue
        t = int(m[1]) * 10**9 + int(m[2].ljust(9, "0"))
        at = int(line[line.index("[") + 1 : line.index("]")])
        f = dict(re.findall(r"(\w+)=(.*?)(?= \w+=| ==>|$)", m[4]))
        if m[3] == "sched_switch":
            yield (
                t,
                "switch",
                (int(f["prev_pid"]), f["prev_state"], int(f["next_pid"]), f["next_comm"], at),
            )
        elif m[3] in ("sched_wakeup", "sched_wakeup_new"):
            yield t, "join", (int(f["pid"]), f["comm"], int(f["target_cpu"]))
        elif m[3] == "sched_migrate_task":
            yield t, "move", (int(f["pid"]), f["comm"], int(f["dest_cpu"]), int(f["orig_cpu"]))
        else:
            yield t, "other", (0, "", 0)


def plain_states(folder):
    """The length of each queue, and how many of its threads wait and may move, after every moment of a recording.

    They come from sets of tasks per CPU, as (ts_ns, lengths) and (ts_ns, movable).
    """
    with lzma.open(folder / "trace.txt.xz", "rt") as file:
        listed = sorted(events(file), key=lambda e: e[0])
    cpus = int(re.search(r'"cpus":(\d+)', (folder / "meta.json").read_text())[1])
    queues, running, where, bound = [set() for _ in range(cpus)], [0] * cpus, {}, set()
    origin, seen = {}, set()
    for _, kind, e in listed:  # who was on a runqueue before the first event about them
        if kind == "move":
            origin.setdefault(e[0], e[3])
        for pid in [e[0], e[2]] if kind == "switch" else [e[0]] if kind == "join" else []:
            if pid and pid not in seen and kind == "switch":
                where[pid] = e[-1] if pid == e[0] else origin.get(pid, e[-1])
                queues[where[pid]].add(pid)
                if pid == e[0]:
                    running[e[-1]] = pid
            seen.add(pid)
        name = e[3] if kind == "switch" else e[1]
        if BOUND.fullmatch(name):
            bound.add(e[2] if kind == "switch" else e[0])
    lengths, movable = [], []
    for i, (t, kind, e) in enumerate(listed):
        if kind == "switch":
            previous, state, pid, _, cpu = e
            if previous and not state.startswith("R") and where.get(previous) is not None:
                queues[where.pop(previous)].discard(previous)
            running[cpu] = pid
            if pid and where.get(pid) != cpu:
                if where.get(pid) is not None:
                    queues[where[pid]].discard(pid)
                queues[cpu].add(pid)
                where[pid] = cpu
        elif kind == "join" and where.get(e[0]) is None:
            queues[e[2]].add(e[0])
            where[e[0]] = e[2]
        elif kind == "move" and where.get(e[0]) is not None:
            queues[where[e[0]]].discard(e[0])
            queues[e[2]].add(e[0])
            where[e[0]] = e[2]
        if i + 1 == len(listed) or listed[i + 1][0] > t:
            lengths.append((t, [len(q) for q in queues]))
            movable.append([len(q - bound - {running[c]}) for c, q in enumerate(queues)])
    return lengths, movable


def wasted(lengths, movable):
    """(ts_ns, busy CPUs, wasted threads) of states as :func:`plain_states` gives them."""
    return [
        (
            t,
            sum(n > 0 for n in queue),
            min(
                sum(n == 0 for n in queue),
                sum(min(m, n - 1) for m, n in zip(may, queue, strict=True) if n > 1),
            ),
        )
        for (t, queue), may in zip(lengths, movable, strict=True)
    ]


@pytest.mark.parametrize("doubted", [False, True])
def test_the_most_waste_is_a_share_of_the_time_that_the_cpus_have(doubted):
    """11 and 10 wait for 2.2 ms of each 100 ms beside three idle CPUs: 0.55 % of the time of the four, 0.44 % of that of five.

    Nothing tells where they may run. With a doubt anywhere, the most waste that the trace allows is asked, too.
    """
    rows = [switch(1, 0, 0, "R", 10), *(switch(1, c, 50 + c, "S", 0) for c in (1, 2, 3))]
    if doubted:  # a worker of CPU 1, as its name says, waits for longer than is believed of a name
        t, name = 5 * MS, "kworker/1:0"
        rows += [wakeup(t, 1, 60), switch(t, 1, 0, "R", 60), wakeup(t + MS // 10, 1, 61)]
        rows += [switch(t + 800_000, 1, 60, "S", 61, comm=name)]
        rows += [switch(t + 900_000, 1, 61, "S", 0, prev_comm=name)]
    for t in range(10 * MS, 1100 * MS, 100 * MS):
        rows += [wakeup(t, 0, 11), switch(t + 1_200_000, 0, 10, "R", 11)]
        rows += [switch(t + 2_200_000, 0, 11, "S", 10)]
    rows += [wakeup(1100 * MS, 3, 53), switch(1100 * MS + 10, 3, 0, "R", 53)]
    result = check(trace_of(rows, cpus=4, known=False))
    assert result.doubts["reason"].to_list() == (["bound_by_name"] if doubted else [])
    assert result.verdict == "unknown"


def told(name, *, nodes=True):
    """A recording with what is known of its tasks; without ``nodes``, those bound to some nodes may run anywhere."""
    folder = RECORDINGS / name
    facts = header_facts(read_snapshot(folder / "tasks.json"))
    known = {field: value for field, value in facts.items() if value is not None}
    if not nodes:
        known["tasks"] = [
            t if BOUND.fullmatch(t.comm) else t.model_copy(update={"allowed": "0-63"})
            for t in known["tasks"]
        ]
    return open_trace(folder / "trace.txt.xz").with_header(**known)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=pytest.mark.slow) if n in ("db64-all-64cpu", "db64-oow-64cpu") else n
        for n in sorted(EXPECTED)
    ],
)
def test_recordings_have_the_verdict_that_the_rule_demands(name):
    result = check(told(name))
    assert (result.verdict, result.kind) == EXPECTED[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(p.name for p in RECORDINGS.iterdir() if p.is_dir()))
def test_recordings_equal_a_plain_computation(name):
    """Shares, the longest episode, kind and verdict of all recordings, from sets of tasks and the rule alone."""
    result = check(told(name, nodes=False), whole=True)
    lengths, movable = plain_states(RECORDINGS / name)
    states = wasted(lengths, movable)
    firm = wasted(without_brief(lengths), movable)
    share = fifth_worst(firm, 100 * MS, len(lengths[0][1]))
    assert result.chronic.share == pytest.approx(float(share), abs=1e-9)
    assert result.longest_ns == longest(states)
    if longest(firm) >= 100 * MS:
        expected = ("violations", "persistent")
    elif share >= Fraction(75, 10000) and result.chronic.enough:
        expected = ("violations", "chronic")
    else:
        expected = ("clean", "occasional" if longest(states) else "none")
    assert (result.verdict, result.kind) == expected


def short_waits(first_ns=0, n=200, moved=True, **more):
    """CPU 0 has a second task for 4 of every 20 ms while CPU 1 is idle: 4 of 20 ms are wasted."""
    rows = [switch(first_ns + 1, 0, 0, "R", 10), switch(first_ns + 1, 1, 9, "S", 0)]
    if moved:
        rows += [wakeup(first_ns + 2, 1, 11), switch(first_ns + 3, 1, 0, "R", 11)]
        rows += [switch(first_ns + 4, 1, 11, "S", 0)]
    for k in range(n):
        t = first_ns + k * 20 * MS + MS
        rows += [
            wakeup(t, 0, 11),
            switch(t + 4 * MS, 0, 10, "R", 11),
            switch(t + 4 * MS + 9, 0, 11, "S", 10),
        ]
        if moved == "often" and k % 4 == 0:
            t += 10 * MS
            rows += [migrate(t - 1, 0, 1, 11), migrate(t + 10 * MS - 1, 1, 0, 11)]
            rows += [wakeup(t, 1, 11), switch(t, 1, 0, "R", 11), switch(t + 1, 1, 11, "S", 0)]
    end = first_ns + (n + 1) * 20 * MS
    if moved:
        rows += [
            wakeup(end - 9, 1, 11),
            switch(end - 9, 1, 0, "R", 11),
            switch(end - 8, 1, 11, "S", 0),
        ]
    rows += [switch(end, 1, 0, "R", 9)]
    return trace_of(rows, cpus=2, **more)


def test_many_short_waits_are_chronic():
    result = check(short_waits())
    assert (result.verdict, result.kind) == ("violations", "chronic")
    assert result.chronic.share == pytest.approx(0.2, rel=0.01)
    assert not result.episodes["persistent"].any()


def waits_beside_idle(wait_ns):
    """CPUs 0 and 2 compute, CPU 1 idles for 70 ms of each 100 ms, and 11 waits ``wait_ns`` of them on CPU 0."""
    rows = [switch(1, 0, 0, "R", 10), switch(2, 2, 0, "R", 8), switch(3, 1, 9, "S", 0)]
    for t in range(10 * MS, 2000 * MS, 100 * MS):
        ran = t + wait_ns + MS
        rows += [wakeup(t, 0, 11), switch(t + wait_ns, 0, 10, "S", 11), switch(ran, 0, 11, "S", 0)]
        rows += [wakeup(ran + 1000, 0, 10), switch(ran + 2000, 0, 0, "R", 10)]
        rows += [wakeup(t + 30 * MS, 1, 9), switch(t + 30 * MS + 1000, 1, 0, "R", 9)]
        rows.append(switch(t + 60 * MS, 1, 9, "S", 0))
    return [*rows, wakeup(2010 * MS, 1, 9), switch(2010 * MS + 1000, 1, 0, "R", 9)]


@pytest.mark.parametrize(
    ("unswitched", "verdict"),
    [(None, "unknown"), ({3: True}, "clean"), ({3: False}, "violations")],
)
def test_a_cpu_of_which_nothing_is_known_may_have_been_used(unswitched, verdict):
    """The waste is 1.04 % of what CPUs 0 to 2 used, and 0.72 % if CPU 3 was used, too."""
    result = check(trace_of(waits_beside_idle(2_400_000), cpus=4, unswitched=unswitched))
    assert result.verdict == verdict


@pytest.mark.parametrize(("allowed", "verdict"), [("5", "clean"), ("0-5", "unknown")])
def test_a_cpu_that_is_hidden_by_a_doubt_may_have_been_used(allowed, verdict):
    """The waste is 0.66 % of what is used. On CPUs 3 to 5 threads are throttled behind others; one of them might use CPU 1."""
    rows = waits_beside_idle(3_500_000)
    for cpu, hog, waits in ((3, 33, 40), (4, 34, 41), (5, 35, 42)):
        rows.append(switch(5, cpu, 0, "R", hog))
        for t in range(15 * MS, 2000 * MS, 100 * MS):
            rows += [wakeup(t, cpu, waits), switch(t + 90 * MS, cpu, hog, "S", waits)]
            rows += [
                wakeup(t + 91 * MS - 1000, cpu, hog),
                switch(t + 91 * MS, cpu, waits, "S", hog),
            ]
    tasks = [{"pid": p, "allowed": "0-5", "cgroup": "/"} for p in (8, 9, 10, 11, 33, 34, 35)]
    for pid, cpus in ((40, "3"), (41, "4"), (42, allowed)):
        tasks.append({"pid": pid, "allowed": cpus, "cgroup": "/limited"})
    trace = trace_of(rows, cpus=6, tasks=tasks, quotas={"/limited": 10_000})
    assert check(trace).verdict == verdict


def test_cpus_that_are_offline_have_no_time():
    """The waste is 1 % of the time of two CPUs, and 0.25 % of that of eight, of which six go offline at 1 ms."""
    rows = [r for r in waits_beside_idle(2 * MS) if r["cpu"] != 2]
    for cpu in range(2, 8):
        rows.append(switch(4, cpu, 20 + cpu, "S", 0))
        rows.append({"ts_ns": MS, "kind": "cpu_online", "cpu": cpu, "value": 0})
    result = check(trace_of(rows, cpus=8))
    assert (result.verdict, result.kind) == ("violations", "chronic")


def test_a_thread_without_a_wakeup_may_have_waited_just_while_the_other_cpu_idled():
    """In each 100 ms 11 does not run for 10 ms, and just then CPU 1 idles: perhaps 5 % of the machine's time are wasted."""
    rows = [switch(1, 0, 0, "R", 11), switch(2, 1, 0, "R", 9)]
    for t in range(50 * MS, 2000 * MS, 100 * MS):
        rows += [wakeup(t - 1000, 0, 10), switch(t, 0, 11, "S", 10), switch(t, 1, 9, "S", 0)]
        rows += [switch(t + 10 * MS, 0, 10, "S", 11), wakeup(t + 10 * MS - 1000, 1, 9)]
        rows.append(switch(t + 10 * MS, 1, 0, "R", 9))
    assert check(trace_of(rows, cpus=2)).verdict == "unknown"


def test_chronic_off_and_a_larger_share_count_persistent_episodes_only():
    assert check(short_waits(), chronic_share=None).verdict == "clean"
    result = check(short_waits(), chronic_share=0.5)
    assert (result.verdict, result.kind) == ("clean", "occasional")


def test_five_bad_slices_of_ten_are_chronic_and_four_are_not():
    def with_bad(n):
        rows = [nr(0, 0, 0), nr(0, 1, 1)]
        for k in range(n):
            rows += [nr(k * 200 * MS + 1, 1, 2), nr(k * 200 * MS + 2 * MS, 1, 1)]
        return check(trace_of([*rows, nr(1000 * MS, 1, 1)], cpus=2))

    assert with_bad(5).kind == "chronic"
    assert with_bad(4).kind == "occasional"


@pytest.mark.parametrize("moved", [False, True, "often"])
def test_threads_that_might_be_pinned_make_no_chronic_violation(moved):
    # True: seen on the other CPU only before and after the ten slices, and for all that is known bound in between
    result = check(short_waits(n=50, moved=moved, known=False, quotas={}))
    expected = ("violations", "chronic") if moved == "often" else ("unknown", "occasional")
    assert (result.verdict, result.kind) == expected


def test_a_short_trace_that_would_be_chronic_if_it_went_on_is_not_clean():
    result = check(short_waits(n=40))
    assert result.verdict == "unknown"
    assert not result.chronic.enough
    assert any("shorter than 1 s" in note for note in result.notes)
    brief = [nr(0, 0, 0), nr(0, 1, 1), nr(1, 1, 2), nr(2 * MS, 1, 1), nr(800 * MS, 1, 1)]
    assert check(trace_of(brief, cpus=2)).verdict == "clean"


def test_overloads_that_are_shorter_than_moving_a_thread_takes_do_not_count():
    """A client wakes its server on its own CPU 500 times a second: the server waits 0.1 ms each time, or 1.6 ms."""

    def pairs(wait_ns):
        rows = [nr(0, 0, 0), nr(0, 1, 1)]
        for k in range(600):
            rows += [nr(k * 2 * MS + 1, 1, 2), nr(k * 2 * MS + 1 + wait_ns, 1, 1)]
        return check(trace_of([*rows, nr(1200 * MS, 1, 1)], cpus=2))

    assert (pairs(MS // 10).verdict, pairs(MS // 10).thread_ns) == ("clean", 60 * MS)
    assert pairs(16 * MS // 10).kind == "chronic"


def test_a_wait_now_and_then_on_an_idle_machine_is_no_chronic_waste():
    """64 CPUs, one of them busy, which has a second thread for 2 ms of each 20 ms: 10 % of what is used, 0.16 % of all."""
    rows = [nr(0, c, int(c == 0)) for c in range(64)]
    for k in range(60):
        rows += [nr(k * 20 * MS + 1, 0, 2), nr(k * 20 * MS + 1 + 2 * MS, 0, 1)]
    result = check(trace_of([*rows, nr(1200 * MS, 0, 1)], cpus=64))
    assert result.verdict == "clean"
    assert result.chronic.share == 0


@pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="millions of slices take minutes uncompiled"
)
@pytest.mark.parametrize("slices", [1 << 22, 1 << 24])
def test_a_file_of_two_events_does_not_need_gigabytes(slices):
    rows = [nr(0, 0, 2), nr(0, 1, 0), nr(slices * 1000, 0, 1)]
    trace = trace_of(rows, cpus=2)
    tracemalloc.start()
    result = check(trace, persist_ns=1000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert result.verdict == "violations"
    assert peak < 400 << 20


@pytest.mark.parametrize("text", ["2", "0", "-1%", "nan", "x", "200%", ""])
def test_a_share_that_cannot_be_meant_is_refused(text):
    with pytest.raises(UsageError, match="expected a share like"):
        share(text, "--chronic")


def test_shares():
    assert [share(t, "x") for t in ("1%", "0.01", "off", " 2.5 %")] == [0.01, 0.01, None, 0.025]


@pytest.mark.parametrize(
    ("wait_ns", "gap_ns"),
    [(MS, 2 * MS), (2 * MS, 20 * MS), (MS // 10, 2 * MS), (300 * MS, 400 * MS)],
)
def test_a_long_trace_of_lengths_that_is_looked_at_again_only_if_needed_gets_the_same_verdict(
    wait_ns, gap_ns, monkeypatch
):
    rows = [nr(0, 0, 0), nr(0, 1, 1)]
    for k in range(2_000 * MS // gap_ns):
        rows += [nr(k * gap_ns + 1, 1, 2), nr(k * gap_ns + 1 + wait_ns, 1, 1)]
    trace = trace_of([*rows, nr(2_000 * MS, 1, 1)], cpus=2)
    kept = check(trace)
    monkeypatch.setattr(checking, "EVENTS_KEPT_BY_CHECK", 0)
    streamed = check(trace)
    assert (streamed.verdict, streamed.kind) == (kept.verdict, kept.kind)
    assert found_persistent(streamed) == found_persistent(kept)


def test_what_follows_the_window_makes_no_episode_longer(monkeypatch):
    """CPUs 0 and 1 are overloaded for 1 ms in turn beside an idle CPU, and CPU 0 for 4 ms when the window ends."""
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(0, 2, 0)]
    for t in range(50 * MS, 250 * MS, 2 * MS):
        rows += [nr(t, 0, 2), nr(t + MS, 1, 2), nr(t + MS, 0, 1), nr(t + 2 * MS, 1, 1)]
    rows += [nr(498 * MS, 0, 3), nr(502 * MS, 0, 1), nr(700 * MS, 2, 1), nr(1_000 * MS, 1, 0)]
    trace = trace_of(rows, cpus=3)
    kept = check(trace, between=(0, 500 * MS))
    monkeypatch.setattr(checking, "EVENTS_KEPT_BY_CHECK", 0)
    streamed = check(trace, between=(0, 500 * MS))
    for result in (kept, streamed):
        assert result.verdict == "clean"
        last = result.details.filter(result.details["episode"] == 1)
        assert last["overloaded_ns"].max() == last["idle_ns"].max() == 2 * MS


def found_persistent(result):
    return result.episodes.filter("persistent")["certain"].to_list()
