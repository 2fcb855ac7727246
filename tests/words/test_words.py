"""Sentences read well for none, one and many, and say what was measured."""

from __future__ import annotations

import re
from dataclasses import replace
from importlib import import_module

import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores import words
from wastedcores.analysis.alignment import align
from wastedcores.analysis.examined import Examined, examine
from wastedcores.figures import views
from wastedcores.trace import named
from wastedcores.units import duration_ns
from wastedcores.words import aligned
from wastedcores.words.findings import _change
from wastedcores.words.rich_text import count, enumerated

MS = 1_000_000


def counts(episodes: int, **header) -> Examined:
    """Two CPUs on one of which two threads queue for 200 ms, several times, while the other is idle."""
    events = [nr(0, 0, 1), nr(0, 1, 1)]
    for k in range(episodes):
        events += [nr((k * 500 + 100) * MS, 0, 2), nr((k * 500 + 100) * MS, 1, 0)]
        events += [nr((k * 500 + 300) * MS, 0, 1), nr((k * 500 + 300) * MS, 1, 1)]
    return examine(
        trace_of([*events, nr(episodes * 500 * MS + 100 * MS, 0, 1)], cpus=2, **header), "t"
    )


def tasks() -> Examined:
    """Thread 7 waits once, for 200 ms, for CPU 0 on which thread 5 runs, while CPU 1 is idle."""
    events = [
        switch(0, 0, 0, "R", 5),
        switch(0, 1, 9, "S", 0),
        wakeup(100 * MS, 0, 7, comm="t7"),
        switch(300 * MS, 0, 5, "S", 7),
        switch(400 * MS, 0, 7, "S", 0),
    ]
    return examine(trace_of(events, cpus=2), "t")


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 episodes"), (1, "1 episode"), (2000, "2,000 episodes")]
)
def test_count(number, text):
    assert count(number, "episode") == text


def test_enumerated():
    assert [enumerated("abc"[:n]) for n in range(4)] == ["", "a", "a and b", "a, b and c"]


@pytest.mark.parametrize(
    ("episodes", "text"),
    [
        (0, "There is no episode: at no moment was a CPU idle while another had a thread waiting."),
        (1, "1 episode in all."),
        (2, "2 episodes in all."),
        (9, "The 8 costliest of 9 episodes account for 88.9% of the core time wasted."),
    ],
)
def test_episodes(episodes, text):
    assert words.episodes(counts(episodes)).text.splitlines()[-1] == text


def test_worst__names_the_cpus_and_who_waited():
    text = words.worst(tasks()).text
    assert text == (
        "The worst episode (persistent) lasted 200 ms and wasted 200 ms of core time: on average 1.0 CPUs could have run "
        "a waiting thread. CPU 1 was idle throughout. Meanwhile threads waited 200 ms in all; the largest shares fell on "
        "t7 (1 thread, 100%)."
    )
    assert "the trace names no tasks" in words.worst(counts(1)).text
    assert words.worst(counts(0)).text == "There is no episode to look at."


def test_who_waited_is_also_told_of_an_episode_that_is_not_among_the_longest(monkeypatch):
    """One CPU is wasted for 300 ms, and later two are for 200 ms."""
    monkeypatch.setattr(import_module("wastedcores.invariant.details"), "DETAILED", 1)
    events = [
        *(switch(0, 0, 0, "R", 5), switch(0, 1, 98, "S", 0), switch(0, 2, 99, "S", 0)),
        wakeup(100 * MS, 0, 7, comm="t7"),
        switch(400 * MS, 0, 5, "S", 7),
        *(wakeup(1000 * MS, 0, pid, comm=f"t{pid}") for pid in (8, 9)),
        switch(1200 * MS, 0, 7, "S", 8),
        migrate(1200 * MS, 0, 1, 9),
        switch(1200 * MS, 1, 0, "R", 9),
        switch(1300 * MS, 0, 8, "S", 0),
        switch(1300 * MS, 1, 9, "S", 0),
    ]
    run = examine(trace_of(events, cpus=3), "t")
    assert run.worst is not None
    assert run.worst["start_ns"] == 1000 * MS
    assert "threads waited 400 ms in all" in words.worst(run).text
    rows = [line.split() for line in words.waited_most(run).text.splitlines()[1:]]
    assert {row[0] for row in rows} == {"t8", "t9"}


def test_episodes__those_that_are_not_kept_count():
    run = counts(9)
    part = {"episodes_dropped": 5, "thread_ns": 2 * run.result.thread_ns}
    run.__dict__["result"] = replace(run.result, **part)
    assert words.episodes(run).text.splitlines()[-1] == (
        "The 8 costliest of 14 episodes account for 44.4% of the core time wasted."
    )


def test_without_an_episode_it_is_said_once_and_the_rest_is_about_all_of_the_window():
    """Thread 7 waits for CPU 0, which it shares with thread 5, while CPU 1 is busy."""
    events = [
        switch(0, 0, 0, "R", 5),
        switch(0, 1, 0, "R", 9),
        wakeup(100 * MS, 0, 7, comm="t7"),
        switch(130 * MS, 0, 5, "S", 7),
        switch(400 * MS, 0, 7, "S", 0),
        switch(500 * MS, 1, 9, "S", 0),
    ]
    run = examine(trace_of(events, cpus=2), "t")
    assert run.worst is None
    rows = [line.split() for line in words.waited_most(run).text.splitlines()]
    assert rows[1:] == [["t7", "7", "1", "30", "ms", "30", "ms"]]
    drawn = views.who_ran(run)
    assert "60 ms around the longest wait" in drawn.layout.title.text
    assert "wastedcores path x" in words.next_steps(run, "x").text
    assert words.why(
        examine(trace_of(events, cpus=2, machine={"cpus": 2}, kernel_release="6.1"), "t")
    ).text.endswith("under Linux v6.1 no CPU was idle while threads waited on another.")


def test_waiting__one_wait_has_no_percentiles():
    assert (
        words.waiting_sentence(tasks()).text == "t: threads waited for a CPU once, 200 ms in all."
    )
    assert words.waiting_sentence(counts(1)).text == "t: no wait for a CPU is known."


def test_cost__alone_and_against_another():
    assert words.cost(counts(1)).text == (
        "t wasted 0.2 core-seconds, 16.7% of what 2 CPUs had in 600 ms. In the same time threads waited "
        "0.2 thread-seconds for a CPU."
    )
    both = words.cost(counts(5), counts(0)).text
    assert both.startswith(
        "t wasted 1 core-second and t 0 core-seconds. The difference is 1 core-second, or 0.4 CPUs"
    )


def test_waiting__of_few_waits_only_lengths_that_some_wait_had_are_told():
    """Thread 7 waits for 10 ms and thread 8 for 100 ms; CPU 1 is busy."""
    events = [
        *(switch(0, 0, 0, "R", 5), switch(0, 1, 0, "R", 9)),
        *(wakeup(100 * MS, 0, pid, comm=f"t{pid}") for pid in (7, 8)),
        switch(110 * MS, 0, 5, "S", 7),
        switch(200 * MS, 0, 7, "S", 8),
        switch(300 * MS, 0, 8, "S", 0),
    ]
    assert words.waiting_sentence(examine(trace_of(events, cpus=2), "t")).text == (
        "t: threads waited for a CPU 2 times, 110 ms in all. Half of the waits lasted 10 ms or less, and the longest 100 ms."
    )


def test_waiting__of_a_window_is_added_up_inside_it():
    trace, between = tasks().trace, [200 * MS, 250 * MS]
    run = examine(trace, "t", between=between, persist_ns=50 * MS)
    assert run.waited_ns == 50 * MS
    assert "threads waited 0.05 thread-seconds" in words.cost(run).text
    assert words.waiting_sentence(run).text.endswith("once, 50 ms in all inside the window.")
    assert "Threads waited 50 ms for a CPU" in views.waits(run).layout.title.text


def test_an_unknown_verdict_has_no_known_waste():
    lossy = counts(1, lost={0: 3})
    assert lossy.result.verdict == "unknown"
    assert words.cost(lossy).text == "How much core time t wasted is not known."
    both = words.cost(lossy, counts(0)).text
    assert "0.2 core-seconds" not in both
    assert both.endswith("The two are not compared, because the verdict of t is unknown.")
    assert "instead of" not in words.headline(lossy, counts(0))
    assert words.claim_pair(lossy, counts(0)).startswith("an unknown number of 2 CPUs wasted")


def test_a_waste_that_is_known_is_told_although_the_verdict_is_unknown():
    """The window is shorter than M."""
    run = examine(counts(1).trace, "t", between=[150 * MS, 200 * MS])
    assert run.result.verdict == "unknown"
    assert words.cost(run).text.startswith("t wasted 0.05 core-seconds, 50.0% of")


def test_only_a_window_between_marks_has_a_time_of_the_work():
    """In the second trace the same texts are the beginnings of marks."""
    rows = [nr(0, 0, 2), nr(0, 1, 0), nr(400 * MS, 0, 2)]
    marks = [{"ts_ns": t * 100 * MS, "kind": "mark", "cpu": 0, "text": f"0.{t} s"} for t in (1, 3)]
    for more, work in (([], False), (marks, True)):
        run = examine(trace_of([*rows, *more], cpus=2), "t", between=("0.1", "0.3"))
        assert ("and took 200 ms instead of 200 ms" in words.headline(run, run)) == work
        shown = {row["name"] for row in aligned.rows(align(run, run, "start of the traces"))}
        assert ("time of the work" in shown) == work


def test_next_steps__depend_on_the_verdict():
    assert "See who ran where in the worst part" in words.next_steps(tasks(), "x").text
    assert "figure x --kind tasks --from" in words.next_steps(tasks(), "x").text
    assert "See the worst part closely:\n    wastedcores figure x --from" in (
        words.next_steps(counts(1), "x").text  # which has no switches, so that nobody knows who ran
    )
    assert "Record again with larger buffers" in words.next_steps(counts(1, lost={0: 3}), "x").text
    clean = words.next_steps(counts(0), "x").text
    assert clean == "- Get the same numbers for a script:\n    wastedcores check x --json"


def test_the_step_to_shorter_episodes_is_a_command_that_works():
    """The longest episode of a clean trace can be longer than a second if M is."""
    rows = [nr(0, 0, 2), nr(0, 1, 0), nr(1_500 * MS, 1, 1), nr(60_000 * MS, 0, 2)]
    run = examine(trace_of(rows, cpus=2), "t", persist_ns=2_000_000_000)
    assert run.result.verdict == "clean"
    command, again = re.findall(r"check x --persist (\S+)", words.next_steps(run, "x").text)
    assert 0 < duration_ns(command, "--persist") < run.result.longest_ns
    assert again == "2s"


def test_next_steps__ask_the_same_of_the_same_part():
    trace = counts(1).trace
    run = examine(trace, "t", persist_ns=50 * MS, cpus="0-1", between=[50 * MS, 400 * MS])
    part = "--between 0.050000000 0.400000000 --cpus 0-1"
    steps = words.next_steps(run, "x").text
    assert steps.splitlines()[-1].strip() == f"wastedcores check x --persist 50ms {part} --json"
    assert f"wastedcores figure x --persist 50ms {part} --from" in steps
    assert f"wastedcores explain x --persist 50ms {part}\n" in steps
    told = trace.with_header(window=run.window, counted_cpus=[0, 1])
    assert words.next_steps(examine(told, "t"), "x").text.endswith("wastedcores check x --json")
    whole = examine(told, "t", cpus="1", whole=True, chronic_share=None, silent="idle")
    assert words.next_steps(whole, "x").text.endswith(
        "wastedcores check x --whole --cpus 1 --chronic off --silent idle --json"
    )


def test_verdict__with_a_change():
    runs = [examine(named.open(f"group-imbalance-{name}"), name) for name in ("buggy", "fixed")]
    shown = words.verdict(*runs)
    assert "core time wasted: 35.1 s" in shown.text
    assert "core time wasted: -99.1%" in shown.text
    assert shown.data["against"]["persistent_episodes"] == 0


def test_verdict__its_badge_has_a_colour_without_a_style_sheet():
    assert "background: var(--bad, #a0287d)" in words.verdict(counts(2)).html


def test_verdict__no_change_where_the_work_may_differ():
    shown = words.verdict(counts(2), counts(1))
    assert "core time wasted: 400 ms" in shown.text
    assert "change" not in shown.text.splitlines()
    assert shown.text.splitlines()[-1] == (
        "There is no row for the change, because t does not describe its machine, t does not describe its machine and t and t "
        "do not say which work was done."
    )
    assert "There is no row for the change" in shown.html


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1000, 1001, "within 0.5%"),
        (1000, 999.9, "within 0.5%"),
        (5, 5, "the same"),
        (2, 1, "-50%"),
        (1000, 15, "-98.5%"),
        (35, 0.001, "less than 0.1% left"),
        (1, 0, "none left"),
        (0, 1, ""),
    ],
)
def test_a_change_is_never_nought_or_everything_where_it_is_not(before, after, said):
    assert _change(before, after) == said


def test_verdict__another_machine_or_workload_is_not_compared():
    """Only the trace was changed in the notebook, and it was compared with a run of another machine."""
    other = examine(trace_of([switch(0, 0, 9, "S", 5), wakeup(1, 0, 7)], cpus=4), "other")
    shown = words.verdict(counts(2), other)
    assert "change" not in shown.text.splitlines()
    assert "t and other cannot be compared: 2 CPUs count in t and 4 in other." in shown.text
    assert "The two are not compared, because 2 CPUs" in words.cost(counts(2), other).text
    assert words.claim_pair(counts(2), other).endswith("of 4 in other")


def test_verdict__begins_with_what_why_and_the_fix():
    run = examine(named.open("group-imbalance-buggy"), "gi")
    first = words.verdict(run).text.splitlines()[0]
    assert first.startswith("10.9 of 64 CPUs wasted on average over 3.21 s: ")
    assert "The idle CPUs were mainly on nodes 1-2 and the queues" in first
    assert "It looks like the Group Imbalance bug. The paper's fix is to compare" in first
    fixed = examine(named.open("group-imbalance-fixed"), "fixed")
    assert (
        "fixed wasted 330 ms of core time instead of 35.1 s, and took 2.65 s instead of 3.21 s (-18%)."
        in (words.headline(run, fixed))
    )
    assert (
        "wastedcores whatif gi.parquet" in words.next_steps(run, "gi.parquet").text.splitlines()[1]
    )


def test_cost__states_the_sum_that_the_figure_of_the_waits_states():
    run = examine(named.open("overload-on-wakeup-buggy"))
    total = views.waits(run).layout.title.text.partition("Threads waited ")[2].partition(" s ")[0]
    assert f"threads waited {total} thread-seconds" in words.cost(run).text


def test_why__without_a_machine_says_so():
    said = words.why(counts(1)).text
    assert "The trace does not say on which machine" in said
    assert said.startswith("t: on an unknown machine under Linux v")
