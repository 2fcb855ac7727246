"""The judge of the online checker's alarms decides from the readings alone, and the readings are right."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
import time

import pytest
from support.schemas import fits

from wastedcores.capture.soak import SoakOptions, loads, markdown
from wastedcores.capture.soak.loads import _HEAD, PROGRAMS, turns
from wastedcores.capture.soak.soak import _judge, _match, _Result
from wastedcores.capture.soak.witness import Between, Waited, Witness, explain

MS = 1_000_000
ALARM = {"number": 1, "idle_cpu": 1, "busy_cpu": 0, "began_ns": 0, "confirmed_ns": 100 * MS}


class Told:
    """A witness that has read these things."""

    def __init__(self, idle, waited, pressure=0.5, own=0.0, seconds=0.075):
        self.reading = Between(seconds, {0: 0.0, 1: idle}, pressure, own)
        self.tasks = waited

    def between(self, start_ns, end_ns):
        return self.reading

    def waited(self, start_ns, end_ns):
        return self.tasks


def task(delay_ms, *allowed):
    return Waited(10, "hog", delay_ms * MS, frozenset(allowed))


@pytest.mark.parametrize(
    ("told", "answer"),
    [
        (Told(1.0, [task(90, 0, 1)]), "true"),
        (Told(1.0, [task(90, 0, 1)], pressure=None), "true"),
        (Told(0.65, [task(90, 0, 1)], own=0.3), "true"),  # the checker's own work is left out
        (Told(1.0, [task(90, 0)]), "false"),  # it may not run on the idle CPU
        (Told(1.0, []), "false"),
        (Told(1.0, [task(90, 0, 1)], pressure=0.0), "false"),
        (Told(0.0, [task(90, 0, 1)], seconds=0.2), "false"),
        (Told(0.5, [task(90, 0, 1)]), "unexplained"),
        (Told(1.0, [task(30, 0, 1)]), "unexplained"),
        (
            Told(0.0, [task(90, 0, 1)], own=0.9),
            "unexplained",
        ),  # the CPU had other work of the checker
        (Told(1.0, [task(90, 0, 1)], seconds=0.01), "unexplained"),  # the witness slept
    ],
)
def test_an_alarm_is_judged_by_the_readings(told, answer):
    assert explain(ALARM, told)["answer"] == answer


def test_a_late_sample_makes_the_witness_look_around_the_alarm():
    class Late(Told):
        def between(self, start_ns, end_ns):
            return super().between(start_ns, end_ns) if start_ns < 0 else None

    assert explain(ALARM, Late(1.0, [task(90, 0, 1)]))["answer"] == "true"
    assert explain(ALARM, Late(0.2, [task(90, 0, 1)]))["answer"] != "true"


def test_the_summary_fits_its_schema(tmp_path):
    result = _Result(SoakOptions(), tmp_path)
    raised = ALARM | {"pid": 10, "lasted_ms": 100, "evidence": None, "provoked": False}
    result.alarms += [dict(raised), dict(raised)]
    _judge(result, Told(1.0, [task(90, 0, 1)]), print)
    del result.alarms[1]["answer"]
    done = {"start_ns": 0, "end_ns": 9 * MS, "established": True, "attempts": 1, "held_s": 0.2}
    _match(result, done)
    result.checker = {"checks": 3, "suspected": 1, "confirmed": 1, "moves": 7}
    result.loads = {"idle": 2.5}
    fits("soak", result.to_json())


def test_an_alarm_waits_for_the_next_scan():
    told = Told(1.0, None)
    assert explain(ALARM, told) is None


HOGS = """
import os, time
os.sched_setaffinity(0, {%d})
os.fork()
end = time.monotonic() + 20
while time.monotonic() < end: pass
"""


@pytest.mark.slow
def test_the_witness_sees_two_tasks_wait_for_each_other():
    cpu = max(os.sched_getaffinity(0))
    witness = Witness(time.process_time_ns)
    witness.start()
    hogs = subprocess.Popen([sys.executable, "-I", "-S", "-c", HOGS % cpu], start_new_session=True)
    try:
        time.sleep(1.0)
        start_ns = time.monotonic_ns()
        time.sleep(2.0)
        end_ns = time.monotonic_ns()
        time.sleep(1.0)
        waited = witness.waited(start_ns, end_ns)
        reading = witness.between(start_ns, end_ns)
    finally:
        os.killpg(hogs.pid, 9)
        hogs.wait()
        witness.stop()
    found = [w for w in waited if w.allowed == {cpu} and w.delay_ns > 500 * MS]
    assert len(found) >= 2
    assert any(w.tid == hogs.pid for w in found)
    assert reading.idle[cpu] < 0.1
    assert 1.5 < reading.seconds <= 2.0


def test_the_witness_has_no_answer_before_its_next_scan():
    witness = Witness(time.process_time_ns)
    witness.start()
    try:
        time.sleep(0.2)
        now_ns = time.monotonic_ns()
        assert witness.waited(now_ns - 50 * MS, now_ns) is None
    finally:
        witness.stop()


@pytest.mark.parametrize("load", PROGRAMS)
def test_a_load_ends_by_itself(load):
    if load == "real-time" and os.geteuid() != 0:
        pytest.skip("needs root")
    began = time.monotonic()
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", _HEAD + PROGRAMS[load], "0.4", ""],
        check=True,
        timeout=60,
        stderr=subprocess.PIPE,
    )
    assert time.monotonic() - began >= 0.35


def test_every_load_comes_once_per_round_and_the_seed_decides():
    first = list(itertools.islice(turns(random.Random(3)), 2 * len(PROGRAMS)))
    again = list(itertools.islice(turns(random.Random(3)), 2 * len(PROGRAMS)))
    assert first == again
    for part in (first[: len(PROGRAMS)], first[len(PROGRAMS) :]):
        assert sorted(loads[0] for loads, _ in part) == sorted(PROGRAMS)


def test_the_summary_names_what_was_not_true():
    alarms = [{"number": 7, "idle_cpu": 3, "answer": "false", "why": "no task waited"}]
    text = markdown(
        {
            "kernel": "6.18",
            "machine": "EPYC",
            "cpus": 2,
            "seconds": 90.0,
            "planned_seconds": 7200.0,
            "complete": False,
            "alarms": {
                "all": 5,
                "true": 4,
                "false": 1,
                "unexplained": 0,
                "pending": 0,
                "unprovoked": 1,
            },
            "provocations": {"all": 4, "established": 3, "found": 3, "missed": 1},
            "load_seconds": {"half": 20.0},
            "each_alarm": alarms,
            "cost": [
                {"collector_cpu": share, "collector_rss_kib": 1024, "soak_rss_kib": 2048}
                for share in (0.002, 0.004)
            ],
        }
    )
    assert "2 minutes of 120 (not complete)" in text
    assert "| False alarms | 1 |" in text
    assert "| Established and missed | 1 |" in text
    assert "0.30% of one CPU (median), 0.40% at most" in text
    assert "| 7 | 3 | false | no task waited |" in text


@pytest.mark.parametrize(("idle", "established"), [(1.0, True), (0.9, False)])
def test_other_work_for_a_tenth_of_the_time_establishes_no_violation(
    monkeypatch, idle, established
):
    """The checker may drop such a suspicion, because three of its 21 looks find the CPU busy."""

    class Steady:
        def between(self, start_ns, end_ns):
            return Between((end_ns - start_ns) / 1e9, {0: 0.0, 1: idle}, 1.0, 0.0)

    monkeypatch.setattr(loads, "children_waited_ns", lambda forker: 2 * time.monotonic_ns())
    monkeypatch.setattr(loads, "HOLD_S", 1.0)
    held = loads.longest_hold(Steady(), 1, 0.5, threading.Event())
    assert (held >= 0.5) == established
