"""A trace is streamed once for all questions about it, and every answer is about the same window and CPUs."""

from __future__ import annotations

import pytest

from wastedcores import words
from wastedcores.analysis.compare import compare
from wastedcores.analysis.examined import examine
from wastedcores.errors import UsageError
from wastedcores.figures import overview, waits, zoom
from wastedcores.invariant import check
from wastedcores.runqueues.stream import Runqueues
from wastedcores.trace.io import open_trace
from wastedcores.trace.named import fetch


@pytest.fixture
def passes(monkeypatch):
    """The list of streams of a trace's events that were begun."""
    begun = []
    for name in ("task_events", "_nr_batches"):
        stream = getattr(Runqueues, name)

        def counted(self, *rows, stream=stream, name=name):
            begun.append(name)
            return stream(self, *rows)

        monkeypatch.setattr(Runqueues, name, counted)
    return begun


def test_a_report_streams_a_trace_at_most_three_times(passes):
    run = examine(open_trace(fetch("group-construction-buggy")))
    for part in (words.verdict, words.episodes, words.worst, words.waited_most, words.why):
        part(run)
    for figure in (overview, zoom, waits):
        figure(run)
    # the state at the start, the changes, and the changes with the threads that may be pinned
    assert len(passes) == 3
    check(run.trace)
    assert len(passes) == 3 + 3  # a check keeps the changes of a small trace, too


def test_a_comparison_streams_each_trace_at_most_three_times(passes):
    compare({"one": open_trace(fetch("live-balancing-on"))})
    # the state at the start, the changes, and the most waste that the spans in doubt allow
    assert len(passes) == 3


def test_every_question_is_about_the_window_and_cpus_that_the_recording_names():
    trace = open_trace(fetch("group-construction-buggy"))
    run = examine(trace)
    window, cpus = trace.header.window, trace.header.counted_cpus
    assert window is not None
    assert (run.result.start_ns, run.result.end_ns) == (window.start_ns, window.end_ns)
    assert run.result.counted_cpus == cpus == list(range(8, 24))
    alone = check(trace)
    assert alone.to_json() == run.result.to_json()
    assert compare({"x": trace}).checks["x"].to_json() == alone.to_json()
    whole = examine(trace, whole=True).result
    assert (whole.start_ns, whole.end_ns) == (trace.header.start_ns, trace.header.end_ns)
    assert whole.counted_cpus == list(range(64))
    assert compare({"x": trace}, whole=True).checks["x"].to_json() == whole.to_json()
    assert set(run.waits["cpu"].to_list()) <= set(cpus)


def test_cpus_and_ends_are_numbers_or_text():
    trace = open_trace(fetch("group-construction-buggy"))
    a = check(trace, cpus="8-9", between=("rec: threads start", "7.240312"))
    b = check(trace, cpus=[8, 9], between=(4_239_864_000, 7_240_312_000))
    assert a.to_json() == b.to_json()
    assert a.window is not None
    assert a.window.ends == ("rec: threads start", "7.240312")
    assert b.window is not None
    assert b.window.ends == ("4.239864000", "7.240312000")
    with pytest.raises(UsageError, match="expected two marks"):
        check(trace, between=["a"])
