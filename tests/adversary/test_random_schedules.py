"""Verdicts about random schedules whose truth is known, and tests of the generator that knows it."""

from __future__ import annotations

import random
from collections import Counter
from itertools import permutations

import pytest
from support.random_schedules import bandwidth, placement
from support.random_schedules.decidable import extremes
from support.random_schedules.drawing import FEATURES, features_of, schedule
from support.random_schedules.judging import (
    FALSE_ALARM,
    MISSED,
    RIGHT,
    WRONG_KIND,
    judge,
    outcome,
    truth_word,
    write,
)
from support.random_schedules.machine import Machine
from support.random_schedules.tally import as_rows, markdown, rows_of, tally
from support.random_schedules.truth import Bound, Limits, Truth, matching, per_slice
from support.random_schedules.validity import Auditor, text_faults

from wastedcores import check

MS = 1_000


@pytest.mark.slow
def test_no_verdict_is_wrong(tmp_path):
    """``make fuzz`` judges 100,000 of them; ``python tests/adversary/random_schedules.py --show SEED`` looks at one."""
    judged = [judge(seed, tmp_path) for seed in range(100)]
    assert not [(j.seed, j.features, j.truth, j.verdicts) for j in judged if j.failed]
    assert sum(RIGHT in j.outcomes.values() for j in judged) >= 50


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        1000206, 1002116, 1002763, 1003391, 1005288, 1007544, 1009203, 1016580, 2001483, 2005288, 2008383, 2012472, 2014266,
        2014439, 2032125, 2034297, 8006003, 9008925, 9011058, 10003620, 11005152,
    ],
)  # fmt: skip
def test_schedules_that_were_judged_wrongly_once(seed, tmp_path):
    """A bare move of a recorder; CPUs that were offline at first; an administrator on the CPU to which it moves threads.

    A CPU that is idle until the machine is stopped; doubts about a trace with sched_waking only; a move that is the first event
    of a CPU whose oldest events were overwritten, and was written on another CPU; waits that were seen, and too brief to count.
    From 2,000,000 on: a CPU that goes offline before the first moment from which on no event is overwritten, and a cpuset that
    changes while threads sleep, which were seen on a CPU before and after that; losses that the head of the file counts, too; a
    thread that runs before its wakeup, because the clocks of two CPUs differ; a recorder that waits,
    and one that waits on an isolated CPU when the trace ends; a wakeup told late, to an idle CPU.
    """
    assert not judge(seed, tmp_path).failed


@pytest.mark.slow
def test_a_check_is_the_same_with_and_without_the_wakings_beside_wakeups(tmp_path):
    """They say who woke whom, and nothing about runqueues: of eight schedules with both, the answers are equal in all figures."""
    compared = 0
    for seed in range(60):
        file = write(seed, tmp_path, ("wakings",))
        text = file.read_text()
        if "sched_waking:" not in text or "sched_wakeup:" not in text or compared == 8:
            continue
        bare = tmp_path / "bare.txt"
        kept = (line for line in text.splitlines(True) if "sched_waking:" not in line)
        bare.write_text("".join(kept))
        both, without = (check(f, ignore_affinity=True).to_json() for f in (file, bare))
        for answer in (both, without):
            for key in ("trace", "events", "notes"):
                answer.pop(key, None)
        assert both == without, seed
        compared += 1
    assert compared == 8


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, 90, 15))
def test_the_machine_does_what_a_kernel_does(first):
    """Every thread is in one place and runs where it may; nobody idles beside its own queue; the truth is the auditor's."""
    for seed in range(first, first + 15):
        auditor = Auditor()
        made = schedule(seed, audit=auditor)
        assert not auditor.faults, (seed, auditor.faults[:5])
        assert not auditor.overspent(), seed
        assert made.truth.possible.episodes == auditor.episodes(
            made.truth.start_us, made.truth.end_us
        ), seed
        if made.text.startswith("# tracer") and not {"clocks", "lost"} & set(made.features):
            assert not text_faults(made), (seed, text_faults(made)[:5])


@pytest.mark.slow
def test_the_auditor_notices_a_machine_that_is_wrong(monkeypatch):
    def faults(seeds=range(12), features=("bound", "affinity", "quota")):
        found = []
        for seed in seeds:
            auditor = Auditor()
            made = schedule(seed, features, audit=auditor)
            truth = auditor.episodes(made.truth.start_us, made.truth.end_us)
            found += auditor.faults + auditor.overspent()
            found += text_faults(made) if made.text.startswith("# tracer") else []
            found += ["truth"] * (truth != made.truth.possible.episodes)
        return found

    assert not faults()
    with monkeypatch.context() as m:
        m.setattr(Machine, "touch", lambda self, cpu: None)
        assert "truth" in faults()
    with monkeypatch.context() as m:
        m.setattr(placement, "fallback", lambda m, task: m.active)
        assert any("runs where it may not" in f for f in faults())
    with monkeypatch.context() as m:
        m.setattr(bandwidth, "_throttle", lambda m, group, c: None)
        assert any("used" in f for f in faults())
    with monkeypatch.context() as m:
        m.setattr(Machine, "check_preempt", lambda self, task: None)
        assert any("idle beside its own queue" in f for f in faults())


def test_a_seed_determines_a_schedule():
    assert schedule(5).text == schedule(5).text
    assert schedule(5).text != schedule(8).text
    assert schedule(7, ["quota"]).text != schedule(7, ["pairs"]).text
    drawn = Counter(f for seed in range(300) for f in features_of(seed))
    assert set(drawn) == set(FEATURES)


@pytest.mark.slow
def test_every_feature_does_what_its_name_says():
    """What must be in some schedule of a class, and in none of the plain ones."""
    signs = {
        "affinity": lambda s: s.stale and "next_comm=migration/" in s.text,
        "cpuset": lambda s: s.stale and "/set0" in str(s.snapshot["cpusets"]),
        "quota": _is_throttled,
        "fork": lambda s: "sched_process_exec" in s.text and "sched_process_exit" in s.text,
        "reuse": _uses_a_pid_twice,
        "realtime": lambda s: "comm=rtloop" in s.text,
        "deadline": lambda s: "prio=-1" in s.text,
        "wakings": lambda s: "sched_waking:" in s.text,
        "hotplug": lambda s: any(not cell[0] for _, cells in s.log for cell in cells),
        "recorder": lambda s: "next_comm=perf" in s.text or "next_comm=trace-cmd" in s.text,
        "lost": lambda s: " EVENTS]\n" in s.text,
        "isolated": lambda s: s.snapshot["isolated_cpus"],
        "one cpu": lambda s: s.cpus == 1,
    }
    for feature, sign in signs.items():
        assert any(sign(schedule(seed, [feature])) for seed in range(12)), feature
        assert not any(sign(schedule(seed, ["free"])) for seed in range(12)), feature
    assert all("sched_migrate_task" not in schedule(s, ["no migrations"]).text for s in range(5))
    assert all(
        (s := schedule(n, ["short"])).truth.end_us < s.truth.start_us + s.persist_us
        for n in range(5)
    )


def _is_throttled(made):
    """Whether a thread that could go on was stopped for an idle CPU, and nobody woke it before it ran again."""
    return any(
        e.kind == "sched_switch"
        and "prev_state=R " in e.text
        and "prev_pid=0 " not in e.text
        and "next_pid=0 " in e.text
        for e in made.events
    )


def _uses_a_pid_twice(made):
    children = [e.text.rpartition("=")[2] for e in made.events if e.kind == "sched_process_fork"]
    return len(set(children)) < len(children)


def test_matching_is_the_best_one():
    rng = random.Random(3)
    for _ in range(300):
        masks = [rng.randrange(1, 16) for _ in range(rng.randrange(1, 5))]
        best = max(
            sum(bool(mask >> c & 1) for mask, c in zip(masks, order, strict=False))
            for order in permutations(range(4))
        )
        assert matching(masks) == best, masks


def test_waste_per_slice():
    assert per_slice([(5, 25, 2), (38, 40, 1)], 0, 40, 10) == [10, 20, 10, 2]
    assert per_slice([(5, 25, 2)], 0, 29, 10) == [10, 20]
    assert per_slice([(0, 4, 1)], 0, 7, 10) == [4]


def test_truth_has_room_between_yes_and_no():
    def truth(certain, possible, waste=(), long=()):
        bounds = (
            Bound(certain, [], list(waste), list(long)),
            Bound(possible, [], list(waste), list(long)),
        )
        return Truth(0, 1_000 * MS, 2, *bounds, [])

    limits = Limits()
    assert truth([(0, 102 * MS)], [(0, 102 * MS)]).persistent(100 * MS) is True
    assert truth([], [(0, 99 * MS)]).persistent(100 * MS) is False
    assert truth([], [(0, 120 * MS)]).persistent(100 * MS) is None
    assert truth([], [], [(0, MS, 1)]).chronic(100 * MS, limits) is False
    assert truth([], [], [(0, 50 * MS, 1)]).chronic(100 * MS, limits) is None
    ten = [(k * 100 * MS, k * 100 * MS + 20 * MS, 1) for k in range(10)]
    assert truth([], [], ten, ten).chronic(100 * MS, limits) is True


def test_what_is_a_failure():
    made = schedule(0, ["free"])
    made.persist_us = 100 * MS

    def judged(kind, verdict, persistent, chronic):
        made.truth = Truth(0, 1_000 * MS, 2, Bound(), Bound(), [])
        made.truth.verdicts = lambda *_: (persistent, chronic)
        return outcome(made, verdict, kind, Limits())

    assert judged("persistent", "violations", False, False) == FALSE_ALARM
    assert judged("persistent", "violations", False, True) == WRONG_KIND
    assert judged("chronic", "violations", True, False) == WRONG_KIND
    assert judged("chronic", "violations", True, None) == "not judged"
    assert judged("none", "clean", True, False) == MISSED
    assert judged("none", "clean", None, False) == "not judged"
    assert judged("occasional", "unknown", True, True) == "unknown"
    assert judged("persistent", "violations", True, True) == RIGHT


def test_tables(tmp_path):
    judged = [judge(seed, tmp_path) for seed in (0, 1, 2)]
    rows = as_rows(tally(judged))
    assert (
        sum(r["schedules"] for r in rows if r["classes"] == "alone") == 5
    )  # without and with snapshots, and one of them with one snapshot
    assert [row for j in judged for row in rows_of(j) if row[1] == "all"] == [("combined", "all")]
    run = {"schedules": 3, "first": 0, "commit": "x", "date": "", "machine": "", "made_ms": 1}
    shown = markdown(run | {"checked_ms": 2, "rows": rows, "why": [], "failures": {}})
    assert shown.count("| free | 2 |") + shown.count("| all | 1 |") >= 2


def _undecidable(features, snapshots, seeds):
    """Of how many schedules whose truth is beyond doubt nobody can know it."""
    made = [schedule(seed, features) for seed in seeds]
    sure = [(m, truth_word(m, Limits())) for m in made]
    sure = [(m, truth) for m, truth in sure if truth != "between"]
    shown = [extremes(m, snapshots) for m, _ in sure]
    assert all(most >= least for most, least in shown)
    return [
        most if truth == "clean" else not least
        for (_, truth), (most, least) in zip(sure, shown, strict=True)
    ]


@pytest.mark.slow
def test_what_nobody_could_know():
    """Without a snapshot no violation is certain, and bound threads may waste; a CPU that nobody recorded may hide anything."""
    free = _undecidable(["free"], 2, range(12))
    assert free
    assert not any(free)
    assert sum(_undecidable(["bound"], 0, range(12))) > sum(_undecidable(["bound"], 2, range(12)))
    unrecorded = _undecidable(["unrecorded"], 2, range(12))
    assert sum(unrecorded) > len(unrecorded) / 2
    quiet = [_undecidable(["quiet"], n, range(12)) for n in (0, 2)]
    assert sum(quiet[0]) > sum(quiet[1]) == 0
