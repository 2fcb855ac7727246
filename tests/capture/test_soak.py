"""The judge of the online checker's alarms decides from the readings alone, and the readings are right."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from soak import loads
from soak.__main__ import SHORT, Plan, _scrapes
from soak.loads import _HEAD, IDLE, LOADS, PROGRAMS
from soak.summary import markdown, summary
from soak.watchers import Recorder, Service, Watcher
from soak.witness import Between, Waited, Witness, explain
from soak_page import rows

MS = 1_000_000
ALARM = {"watcher": "service", "idle_cpu": 1, "began_ns": 0, "confirmed_ns": 100 * MS}


class Told:
    """A witness that has read these things."""

    def __init__(self, idle, waited, pressure=0.5, own=0.0, seconds=0.075):
        self.reading = Between(seconds, {0: 0.0, 1: idle}, pressure, {"service": own})
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
    witness = Witness(lambda: {"service": 0})
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
    witness = Witness(lambda: {"service": 0})
    witness.start()
    try:
        time.sleep(0.2)
        now_ns = time.monotonic_ns()
        assert witness.waited(now_ns - 50 * MS, now_ns) is None
    finally:
        witness.stop()


@pytest.mark.slow
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


@pytest.mark.parametrize("plan", [Plan(), SHORT, Plan(violations=7, load_s=100)])
def test_each_load_has_its_time_and_the_violations_are_spread(plan):
    turns = list(plan.segments())
    assert turns[-1] == ((IDLE,), plan.idle_s, False)
    assert sum(seconds for _, seconds, _ in turns) == pytest.approx(plan.seconds)
    for load in LOADS:
        its = [(loads, s) for loads, s, _ in turns if loads[0] == load]
        assert sum(s for _, s in its) == pytest.approx(plan.load_s)
        assert {loads[1:] for loads, _ in its} == {(), ("quota",), ("cpuset",), ("pinned",)}
    assert sum(then for _, _, then in turns) == plan.violations


def test_a_recorder_that_could_not_begin_has_not_looked(tmp_path):
    recorder = object.__new__(Recorder)  # its own beginning would start a recording
    Watcher.__init__(recorder, "tracefs", "", tmp_path)
    recorder.turn_s, recorder.turns = 0, []
    recorder.busy, recorder._end = threading.Lock(), threading.Event()
    said = tmp_path / "said.txt"
    with said.open("w") as told:
        argv = [sys.executable, "-c", "raise SystemExit('no tracefs')"]
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=told, text=True)
        recorder._turn(process, str(said))
    assert [(t["verdict"], t["why"]) for t in recorder.turns] == [("none", "no tracefs")]
    assert recorder.spans == []


class Cut(BaseHTTPRequestHandler):
    """Answers with less than it promises, as a service does that is killed meanwhile."""

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "100")
        self.end_headers()
        self.wfile.write(b"x")

    def log_message(self, *_):
        pass


def test_an_answer_that_ends_early_is_a_failed_scrape_and_not_the_last_one(tmp_path):
    if os.geteuid() != 0:
        pytest.skip("needs root: it takes the highest priority")
    program = Path(loads.__file__).with_name("scraper.py")
    with HTTPServer(("127.0.0.1", 0), Cut) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, file = f"http://127.0.0.1:{server.server_port}", tmp_path / "scrapes.txt"
        scraper = subprocess.Popen([sys.executable, "-S", str(program), url, str(file)])
        try:
            until = time.monotonic() + 20
            while len(_scrapes(file)) < 2 and scraper.poll() is None and time.monotonic() < until:
                time.sleep(0.1)
        finally:
            scraper.kill()
            scraper.wait()
            server.shutdown()
    assert [size for *_, size in _scrapes(file)][:2] == [0, 0]


S = 1_000 * MS
#: established from 10 s to 12.2 s, and never
PROVOKED = [
    {
        "start_ns": 9 * S,
        "on_ns": 9 * S,
        "end_ns": 13 * S,
        "established": True,
        "held_ns": [10 * S, 12_200 * MS],
    },
    {
        "start_ns": 50 * S,
        "on_ns": 50 * S,
        "end_ns": 56 * S,
        "established": False,
        "held_ns": [52 * S, 53 * S],
    },
]


def soaked(alarms, spans=((0, None),), turns=()):
    """What a soak of one watcher has found."""
    sample = {
        "at_s": 1,
        "rss_kib": {"collector": 2000},
        "cpu": {"collector": 0.002},
        "disk_bytes": 9,
    }
    watcher = {"how": "undisturbed", "spans": list(spans), "kills": [], "turns": list(turns)}
    watcher |= {"chronic": [], "alarms": alarms, "samples": [sample]}
    found = {"kernel": "6.18", "machine": "EPYC", "cpus": 2, "load_before": 0.1, "complete": False}
    found |= {"start_ns": 0, "end_ns": 90 * S, "plan": {"seconds": 7200.0}, "keep_mb": 50}
    found |= {"s_ns": S, "m_ns": 100 * MS, "load_seconds": {"half": 20.0}, "provocations": PROVOKED}
    found |= {"watchers": {"service": watcher}}
    found["scrapes"] = [[float(n), 2.0, 700] for n in range(98)] + [
        [10.0, 90.0, 800],
        [20.0, 7.0, 0],
    ]
    return found | {"summary": summary(found)}


def alarm(at_ns, answer="true"):
    told = {"idle_cpu": 1, "confirmed_ns": at_ns, "why": "no task waited", "answer": answer}
    return {k: v for k, v in told.items() if v} | {"watcher": "service"}


@pytest.mark.parametrize(
    ("alarms", "spans", "counts"),
    [
        (
            [alarm(10_900 * MS)],
            [(0, None)],
            {"provoked": 2, "established": 1, "found": 1, "in_time": 1, "after_s": [0.9]},
        ),
        ([alarm(12 * S)], [(0, None)], {"found": 1, "in_time": 0, "missed": 0}),
        ([alarm(9_500 * MS)], [(0, None)], {"found": 1, "in_time": 1, "after_s": [-0.5]}),
        ([], [(0, None)], {"provoked": 2, "found": 0, "missed": 1}),
        ([], [(0, 11 * S), (11 * S, None)], {"provoked": 1, "missed": 0}),  # killed in between
        ([alarm(51 * S)], [(0, None)], {"found": 1, "after_s": [1.0], "missed": 1}),
        ([alarm(52_500 * MS)], [(0, None)], {"in_time": 1, "after_s": [0.5]}),  # idle since 52 s
        ([alarm(54 * S)], [(0, None)], {"in_time": 0, "after_s": [4.0]}),
        ([], [(0, 20 * S), (30 * S, None)], {"crashes": 1, "kills": 0}),
        ([], [(0, 20 * S)], {"crashes": 1}),  # it never came back
        ([], [(0, 89 * S)], {"crashes": 0}),  # the end of the soak
        ([alarm(30 * S, "false")], [(0, None)], {"false": 1, "unprovoked": 1, "missed": 1}),
        ([alarm(30 * S, None)], [(0, None)], {"pending": 1, "true": 0}),
    ],
)
def test_a_violation_counts_for_a_watcher_that_looked_all_the_time(alarms, spans, counts):
    told = soaked(alarms, spans)["summary"]["watchers"]["service"]
    assert {k: told[k] for k in counts} == counts


@pytest.mark.parametrize(
    ("spans", "crashes"),
    [
        ([(0, 10 * S), (12 * S, None)], 0),
        ([(0, 10 * S), (12 * S, 20 * S), (22 * S, None)], 1),  # the kills did not end the second
        ([(0, 10 * S)], 1),  # it never came back
    ],
)
def test_kills_explain_the_ends_that_they_made_and_no_others(spans, crashes):
    found = soaked([], spans)
    kills = [{"at_ns": 10 * S + n, "part": "server"} for n in range(2)]
    found["watchers"]["service"]["kills"] = kills
    assert summary(found)["watchers"]["service"]["crashes"] == crashes


def test_a_turn_without_an_answer_ended_by_itself():
    turns = [{"start_ns": 0, "end_ns": 20 * S, "verdict": v} for v in ("none", "clean")]
    assert soaked([], turns=turns)["summary"]["watchers"]["service"]["crashes"] == 1


def test_a_turn_of_the_recorder_alarms_falsely_only_without_a_provocation():
    def turn(at_s, verdict):
        return {"start_ns": at_s * S, "end_ns": (at_s + 20) * S, "verdict": verdict}

    turns = [turn(0, "violations"), turn(20, "violations"), turn(40, "unknown"), turn(60, "clean")]
    told = soaked([], turns=turns)["summary"]["watchers"]["service"]
    assert (told["turns"], told["alarming_turns"], told["undecided_turns"]) == (4, 1, 1)


def test_scrapes_are_told_with_and_without_those_beside_a_violation():
    told = soaked([])["summary"]["scrapes"]
    assert (told["failed"], told["largest_bytes"], told["all"]["p99_ms"]) == (1, 800, 90.0)
    assert told["apart_from_provocations"]["most_ms"] == 7.0


def test_the_rows_count_what_was_established_and_name_failed_scrapes():
    turns = [{"start_ns": 0, "end_ns": 20 * S, "verdict": "clean"}]
    told = {row["id"]: row for row in rows(soaked([], turns=turns))}
    assert (told["service_missed"]["value"], told["service_missed"]["unit"]) == (1, "of 1")
    assert told["scrape_all"]["note"].endswith("; 1 of all failed")


def test_the_page_names_what_was_not_true():
    text = markdown(soaked([alarm(10_900 * MS), alarm(60 * S, "false")]))
    assert "2 minutes of 120 (not complete)" in text
    assert "| False alarms | 1 |" in text
    assert "| Established and missed | 0 |" in text
    assert "| CPU time of the collector, median | 0.20 % |" in text
    assert "| service | 1.0 | 1 | no | false | no task waited |" in text


def test_a_service_is_followed_by_its_journal(tmp_path):
    """What systemd and the service write there says when it looked and what it raised."""

    class Machine:
        folder = tmp_path

    service = Service("killed", "", "wastedcores-killed", 1, Machine())
    entry = {
        "WASTEDCORES_NUMBER": "1",
        "WASTEDCORES_BEGAN_NS": "5",
        "WASTEDCORES_CONFIRMED_NS": "9",
    }
    for at_us, said in enumerate(
        [{"MESSAGE": "looking"}, entry, {"EXIT_CODE": "killed"}, {"MESSAGE": "looking"}], 1
    ):
        service.heard({"__MONOTONIC_TIMESTAMP": str(at_us), **said})
    assert service.spans == [[1000, 3000], [4000, None]]
    assert service.alarms == [{"watcher": "killed", "number": 1, "began_ns": 5, "confirmed_ns": 9}]
    assert service.looks()
    assert not service.looks(since_ns=3500)


@pytest.mark.parametrize(("idle", "established"), [(1.0, True), (0.9, False)])
def test_other_work_for_a_tenth_of_the_time_establishes_no_violation(
    monkeypatch, idle, established
):
    """The checker may drop such a suspicion, because three of its 21 looks find the CPU busy."""

    class Steady:
        def between(self, start_ns, end_ns):
            return Between((end_ns - start_ns) / 1e9, {0: 0.0, 1: idle}, 1.0, {})

    monkeypatch.setattr(loads, "children_waited_ns", lambda forker: 2 * time.monotonic_ns())
    monkeypatch.setattr(loads, "HOLD_S", 1.0)
    began, ended = loads.longest_hold(Steady(), 1, 0.5, threading.Event())
    assert (ended - began >= 500 * MS) == established
