"""The figure of kernel and user time against the modes of a run that is written down microsecond by microsecond."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from wastedcores.analysis.examined import examine
from wastedcores.figures import kernel_user
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace

US = 1000
END_US = 80
READER, WAKER = 10, 11
NAMES = {READER: "reader", WAKER: "waker"}
#: height of each mode of the figure, in rows
HEIGHTS = {"idle": 0.03, "user": 0.4, "kernel": 0.8}
#: what the two CPUs do, by hand: CPU, first and last microsecond, mode, and the legend's name
SPANS = [
    (0, 0, 10, "user", "user: reader"),
    (0, 10, 20, "kernel", "system call"),
    (0, 20, 34, "idle", "idle"),
    (0, 34, 40, "kernel", "system call"),
    (0, 40, 50, "user", "user: reader"),
    (0, 50, 52, "kernel", "interrupt"),
    (0, 52, 60, "user", "user: reader"),
    (0, 60, 80, "idle", "idle"),
    (1, 0, 70, "user", "user: waker"),
    (1, 70, 80, "kernel", "page fault"),
]
CLOCKS = [(0, 0, 3_000_000), (0, 40, 1_500_000)]


def _events():
    def switch(us, cpu, prev, state, pid):
        names = {"prev_comm": NAMES.get(prev), "comm": NAMES.get(pid)}
        return {
            "ts_ns": us * US,
            "kind": "switch",
            "cpu": cpu,
            "prev_pid": prev,
            "prev_state": state,
            "pid": pid,
        } | names

    def crossing(us, kind, cpu, pid, op, text=None, value=0):
        return {"ts_ns": us * US, "kind": kind, "cpu": cpu, "pid": pid, "op": op, "text": text, "value": value}  # fmt: skip

    return [
        *({"ts_ns": us * US, "kind": "frequency", "cpu": cpu, "value": khz} for cpu, us, khz in CLOCKS),
        switch(0, 0, 0, "R", READER),
        switch(0, 1, 0, "R", WAKER),
        crossing(10, "kernel_entry", 0, READER, "syscall", "read"),
        switch(20, 0, READER, "S", 0),
        {"ts_ns": 30 * US, "kind": "wakeup", "cpu": 0, "pid": READER, "src_cpu": 1, "by_pid": WAKER, "by_comm": "waker"},
        switch(34, 0, 0, "R", READER),
        crossing(40, "kernel_exit", 0, READER, "syscall"),
        crossing(50, "kernel_entry", 0, READER, "irq", "disk"),
        crossing(52, "kernel_exit", 0, READER, "irq"),
        switch(60, 0, READER, "S", 0),
        crossing(70, "kernel_entry", 1, WAKER, "fault", "page_fault", 4),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def run():
    """The run of :data:`SPANS`, examined."""
    table = conform(pl.DataFrame(_events()).sort("ts_ns", maintain_order=True), "test")
    return examine(Trace(table.lazy(), Header(source_format="test", cpus=2)))


@pytest.fixture(scope="module")
def figure(run):
    """Its figure, in which every span is a box."""
    return kernel_user.transitions(run, (0, END_US * US))


def _pieces(trace):
    """The closed lines of a trace, which are separated by gaps."""
    x, y = (np.asarray(v, dtype=float) for v in (trace.x, trace.y))
    gaps = np.flatnonzero(np.isnan(x))
    return [(x[a:b], y[a:b]) for a, b in zip(np.r_[0, gaps[:-1] + 1], gaps, strict=True)]


def test_every_span_is_a_box_of_its_mode_height(figure):
    drawn = [
        (*(round(float(v), 6) for v in (x.min(), x.max(), y.max(), y.min())), trace.name)
        for trace in figure.data
        if trace.fill == "toself"
        for x, y in _pieces(trace)
    ]
    # the axis of y points down, so a box stands on its largest y
    expected = [
        (start, end, cpu + 0.8, round(cpu + 0.8 - HEIGHTS[mode], 6), name)
        for cpu, start, end, mode, name in SPANS
    ]
    assert sorted(drawn) == sorted(expected)
    assert figure.layout.yaxis.range[0] > figure.layout.yaxis.range[1]
    assert list(figure.layout.yaxis.ticktext) == ["CPU 0", "CPU 1"]
    total = {m: sum(e - s for _, s, e, mode, _ in SPANS if mode == m) for m in HEIGHTS}
    said = ", ".join(
        f"{100 * total[m] / (2 * END_US):.0f} % {m}" for m in ("user", "kernel", "idle")
    )
    assert said in figure.layout.title.text


def test_each_box_says_what_it_is_under_the_pointer(figure):
    marks = {
        (round(float(x), 6), round(float(y), 6)): text
        for trace in figure.data
        if trace.mode == "markers" and trace.name != "wakeup"
        for x, y, text in zip(trace.x, trace.y, trace.text, strict=True)
    }
    middles = {((s + e) / 2, round(c + 0.8 - HEIGHTS[m] / 2, 6)) for c, s, e, m, _ in SPANS}
    assert set(marks) == middles
    assert marks[15, 0.4] == f"CPU 0: <b>kernel syscall read</b><br>reader ({READER})<br>10 us"


def test_the_arc_leads_from_the_waker_to_the_thread_that_then_runs(figure):
    line, tip = (t for t in figure.data if t.name == "wakeup")
    ((x, y),) = _pieces(line)
    assert (x[0], y[0], x[-1], y[-1]) == pytest.approx((30, 1.4, 34, 0.4))
    assert (list(tip.x), list(tip.y)) == ([34], [0.4])
    assert tip.text == (
        f"<b>reader ({READER})</b> slept 10 us in read<br>woken by waker ({WAKER}) on CPU 1<br>then waited 4 us for CPU 0",
    )


def test_a_slow_clock_is_darker(figure):
    shades = [
        (s.x0, s.x1, s.y0, s.y1, s.fillcolor) for s in figure.layout.shapes if s.type == "rect"
    ]
    # half of the fastest clock is 45 of 90 steps darker
    assert shades == [
        (0, 40, -0.08, 0.88, "rgb(250,250,238)"),
        (40, 80, -0.08, 0.88, "rgb(205,205,193)"),
    ]


def test_too_many_spans_are_shares_of_each_pixel(run, monkeypatch):
    monkeypatch.setattr(kernel_user, "MOST_SPANS", len(SPANS) - 1)
    monkeypatch.setattr(kernel_user, "COLUMNS", 10)
    fig = kernel_user.transitions(run, (0, END_US * US))
    assert not [t for t in fig.data if t.name == "wakeup"]
    each_us = np.full((2, END_US), "", dtype=object)
    for cpu, start, end, mode, _ in SPANS:
        each_us[cpu, start:end] = mode
    drawn = {
        (t.name, cpu): t
        for name in ("user", "kernel")
        for cpu, t in enumerate(t for t in fig.data if t.name == name)
    }
    for (name, cpu), trace in drawn.items():
        counted = ("kernel",) if name == "kernel" else ("user", "kernel")
        share = np.isin(each_us[cpu].reshape(10, -1), counted).mean(axis=1)
        # two corners per pixel, and then the base
        assert np.asarray(trace.y)[:20] == pytest.approx(np.repeat(cpu + 0.8 - 0.8 * share, 2))
        assert np.asarray(trace.x)[:20:2] == pytest.approx(np.arange(0, END_US, 8))
    assert len(drawn) == 4


def test_a_cpu_without_an_event_is_unknown(run):
    table = kernel_user.modes(run.trace, 0, END_US * US).filter(cpu=0)
    assert "50 % unknown" in kernel_user._summary(table, 2 * END_US * US)


@pytest.mark.parametrize("without_spans", [False, True])
def test_unknown_time_is_no_idle_time_where_shares_are_drawn(run, monkeypatch, without_spans):
    table = kernel_user.modes(run.trace, 0, END_US * US).with_columns(
        mode=pl.when(cpu=1).then(pl.lit("unknown")).otherwise("mode")
    )
    shown = table.filter(cpu=0) if without_spans else table
    monkeypatch.setattr(kernel_user, "MOST_SPANS", 0)
    monkeypatch.setattr(kernel_user, "COLUMNS", 10)
    monkeypatch.setattr(kernel_user, "modes", lambda *_: shown)
    fig = kernel_user.transitions(run, (0, END_US * US))
    assert "50 % unknown" in fig.layout.title.text
    grey = [t for t in fig.data if t.name == "unknown"]
    names = [t.name for t in fig.data]
    assert names.index("unknown") < names.index("user")  # it lies behind the other layers
    assert np.asarray(grey[1].y)[:20] == pytest.approx([1.0] * 20)
    user = next(t for t in fig.data if t.name == "user")
    assert np.asarray(grey[0].y) == pytest.approx(np.asarray(user.y))
