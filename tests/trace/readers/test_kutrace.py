"""KUtrace's JSON, constructed as eventtospan3 writes it, with figures computed by hand."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from support.recorders import kutrace_json, span

from wastedcores.analysis.examined import examine
from wastedcores.errors import TraceFormatError, WastedCoresError
from wastedcores.invariant import check
from wastedcores.trace.io import open_trace, sniff
from wastedcores.trace.readers import kutrace
from wastedcores.trace.readers.support import text_reading
from wastedcores.trace.schema import TRANSITIONS
from wastedcores.trace.trace import Trace

US = 1000
T0 = 49_418_307_340
A, B = 8287, 7944


def runs(cpu: int, pid: int, start_us: int, end_us: int) -> list[str]:
    """Return a stay in user code, a system call and the scheduler; the idle task's stay has two spans."""
    start, end = T0 + start_us * US, T0 + end_us * US
    if not pid:
        half = (start + end) // 20 * 10
        return [
            span(start, half - start, cpu, 0, 0x10000, "-idle-"),
            span(half, 10, cpu, 0, 520, "mwait", 64),
            span(half + 10, end - half - 10, cpu, 0, 0x10000, "-idlelp-", 1),
        ]
    return [
        span(start, 300, cpu, pid, 0x10000 + pid, f"a name.{pid}"),
        span(start + 300, 200, cpu, pid, 2049, "write", 1),
        span(start + 500, end - start - 500, cpu, pid, 2559, "-sched-"),
    ]


def woken(at_us: int, by: tuple[int, int], pid: int, runs_at_us: int) -> list[str]:
    at, until = T0 + at_us * US, T0 + runs_at_us * US
    cpu, waker = by
    return [
        span(at, 10, cpu, waker, 518, f"runnable.{pid}", pid),
        span(at, until - at, cpu, waker, -3, "-wakeup-", 1),
        span(at + 20, until - at - 20, -1, pid, 770, "wait_cpu"),
    ]


def preempted(at_us: int, pid: int, runs_at_us: int) -> list[str]:
    at, until = T0 + at_us * US, T0 + runs_at_us * US
    return [span(at + 10, until - at - 10, -1, pid, 770, "wait_cpu")]


def trace_of(tmp_path: Path, *spans: list[str]):
    file = tmp_path / "trace.json"
    file.write_text(kutrace_json([s for part in spans for s in part]))
    return open_trace(file)


def test_a_thread_waits_behind_another(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, A, 0, 1000),
        woken(500, (0, A), B, 1000),
        runs(0, B, 1000, 2000),
        preempted(1000, A, 2000),
        runs(0, A, 2000, 3000),
        runs(1, 0, 0, 3000),
    )
    assert sniff(tmp_path / "trace.json") == "kutrace"
    result = check(trace)
    assert result.wall_ns == result.thread_ns == 1500 * US
    assert (result.start_ns, result.end_ns) == (T0, T0 + 3000 * US)
    assert examine(trace).waits.sort("start_ns").rows() == [
        (B, 0, T0 + 500 * US, T0 + 1000 * US),
        (A, 0, T0 + 1000 * US, T0 + 2000 * US),
    ]
    switches = trace.only("switch").select("cpu", "prev_pid", "prev_state", "pid").collect().rows()
    assert switches == [(0, A, "R", B), (0, B, "S", A)]
    header = trace.header
    assert header.kernel_release == "5.10.66#8SMP"
    assert header.clock == "seconds since 2026-11-21_05:00:00"
    assert header.cpus == 2
    assert "no runqueues" in header.provenance["placement"]


def test_a_thread_that_an_idle_cpu_took_had_waited_elsewhere(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, B, 0, 100),
        runs(0, 0, 100, 250),
        woken(200, (0, 0), A, 250),
        runs(0, A, 250, 5000),
        woken(500, (0, A), B, 4000),
        runs(1, 0, 0, 4000),
        runs(1, B, 4000, 5000),
    )
    assert check(trace).wall_ns == 3500 * US
    moves = trace.only("migrate").select("ts_ns", "pid", "src_cpu", "cpu").collect().rows()
    assert moves == [(T0 + 4000 * US, B, 0, 1)]


def test_waking_an_idle_cpu_is_no_violation(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, B, 0, 100),
        runs(0, 0, 100, 250),
        woken(200, (0, 0), A, 250),
        runs(0, A, 250, 5000),
        woken(500, (0, A), B, 550),
        runs(1, 0, 0, 550),
        runs(1, B, 550, 5000),
    )
    assert check(trace).wall_ns == 0
    assert "migrate" not in trace.kinds()
    wakeups = trace.only("wakeup").select("cpu", "pid", "src_cpu", "by_pid").collect().rows()
    assert wakeups == [(0, A, 0, 0), (1, B, 0, A)]


def test_a_preempted_thread_waits_where_it_was_stopped(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, A, 0, 1000),
        woken(990, (0, A), B, 1000),
        runs(0, B, 1000, 3000),
        preempted(1000, A, 1400),
        runs(1, 0, 0, 1400),
        runs(1, A, 1400, 3000),
    )
    assert check(trace).wall_ns == (10 + 400) * US


def test_an_interrupted_system_call_is_entered_once(tmp_path):
    at = [T0 + n * US for n in (0, 10, 20, 25, 40, 100)]
    events = [
        (0x10000 + A, f"a name.{A}"),
        (2049, "write"),
        (1515, "timer"),
        (2049, "write"),
        (0x10000 + A, f"a name.{A}"),
    ]
    spans = [
        span(begin, end - begin, 0, A, event, name)
        for begin, end, (event, name) in zip(at, at[1:], events, strict=False)
    ]
    trace = trace_of(tmp_path, spans, runs(0, 0, 100, 200), runs(1, 0, 0, 200))
    found = trace.only("kernel_entry", "kernel_exit").collect()
    columns = ("ts_ns", "kind", "cpu", "pid", "op", "value", "text")
    assert [(r[0] - T0, *r[1:]) for r in found.select(columns).rows()] == [
        (10 * US, "kernel_entry", 0, A, "syscall", 1, "write"),
        (20 * US, "kernel_entry", 0, A, "irq", 235, "timer"),
        (25 * US, "kernel_exit", 0, A, "irq", None, None),
        (40 * US, "kernel_exit", 0, A, "syscall", None, None),
    ]
    assert (
        check(trace).to_json() == check(Trace(trace.without(*TRANSITIONS), trace.header)).to_json()
    )


def test_woken_and_never_run(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, B, 0, 100),
        runs(0, 0, 100, 250),
        woken(200, (0, 0), A, 250),
        runs(0, A, 250, 3000),
        [span(T0 + 1000 * US, 10, 0, A, 518, f"runnable.{B}", B)],
        [span(T0 + 1100 * US, 10, 0, A, 518, "runnable.555", 555)],
        runs(1, 0, 0, 3000),
    )
    assert check(trace).wall_ns == 2000 * US
    assert (
        "1 runnable (of a thread that is never seen to run)" in trace.header.provenance["skipped"]
    )


def test_other_events(tmp_path):
    trace = trace_of(
        tmp_path,
        runs(0, A, 0, 1000),
        runs(0, 0, 1000, 1100),
        runs(1, 0, 0, 1000),
        [span(T0, 900 * US, 0, A, 521, "freq", 3900)],
        [span(T0 + 7 * US, 10, 0, A, 522, "mark_a=start")],
        [span(T0 + 8 * US, 100, 0, A, 641, "PC=ffffffffb1721e8f", 51322)],
        [span(T0 + 9 * US, 100, -1, A, 642, "=lock", 5)],
        [span(T0 + 9 * US, 100, 0, A, 532, "rx.AC17", -2132726538)],
    )
    assert trace.only("frequency").select("cpu", "value").collect().rows() == [(0, 3_900_000)]
    assert trace.only("mark").select("text").collect().row(0) == ("mark_a=start",)
    idle = trace.only("cpu_idle").select("ts_ns", "cpu", "value").collect().rows()
    assert [i for i in idle if i[1] == 1] == [
        (T0, 1, 0),
        (T0 + 500 * US, 1, 64),
        (T0 + 1000 * US, 1, -1),
    ]
    assert check(trace).unknown_cpus == []


def test_blocks_and_compression(tmp_path, monkeypatch):
    spans = [
        *runs(0, A, 0, 1000),
        *woken(500, (0, A), B, 1000),
        *runs(0, B, 1000, 2000),
        *runs(1, 0, 0, 2000),
    ]
    file = tmp_path / "trace.json"
    file.write_text(kutrace_json(spans))
    whole = open_trace(file).events.collect()
    packed = tmp_path / "trace.json.gz"
    # what one finds in the wild: all of the head in one line, the first span behind it, views behind the last
    head, first, rest = kutrace_json(spans).replace("\n", " ", 11).partition("[ 4")
    tail = rest.replace(
        "]}\n", '],\n"extra" : [\n],\n"savedview" : [\n  ["&#x21d0;", {"k":1}]\n]}\n'
    )
    packed.write_bytes(gzip.compress((head + first + tail).encode()))
    assert open_trace(packed).events.collect().equals(whole)
    monkeypatch.setattr(text_reading, "BLOCK_BYTES", 200)
    assert open_trace(file).events.collect().equals(whole)


def test_cut_short(tmp_path):
    file = tmp_path / "cut.json"
    text = kutrace_json([*runs(0, A, 0, 1000), *runs(1, 0, 0, 1000)])
    file.write_text(text[:-45])
    trace = open_trace(file)
    assert trace.header.truncated_last_line
    file.write_text(text.partition("[999.0")[0])
    assert "without KUtrace's end mark" in open_trace(file).header.truncated_last_line


def test_bad_input(tmp_path):
    def refused(text: str, *words: str, error: type = WastedCoresError) -> None:
        file = tmp_path / "bad.json"
        file.write_text(text)
        with pytest.raises(error) as caught:
            open_trace(file)
        said = str(caught.value)
        assert "\n" not in said
        assert all(w in said for w in (str(file), *words)), said

    spans = [*runs(0, A, 0, 1000), *runs(1, 0, 0, 1000)]
    good = kutrace_json(spans)
    refused(
        good.replace("2049, 1, 0, 0, ", "2049, one, 0, 0, "),
        "line 14",
        "2049, one",
        error=TraceFormatError,
    )
    refused(good.replace("[ 49.", "[ 49000000000000.", 1), "49000000000000 s")
    refused(good.replace(" 0, 8287,", " 99999, 8287,", 1), "CPU 99999")
    refused(kutrace_json([]), "no event")
    refused(kutrace_json([span(T0, 10, 0, A, 518, "runnable.5", 5)]), "no event")
    refused('{"traceEvents": [{"ph": "X", "ts": 1}]}\n', "not a trace")


def test_more_spans_than_fit_into_memory(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_text(
        kutrace_json([span(1000 * i, 1000, 0, 1, 0x10001, "a.1") for i in range(1, 40)])
    )
    assert open_trace(path).header.events
    monkeypatch.setattr(kutrace, "MAX_SPANS", 30)
    with pytest.raises(TraceFormatError, match="more than 30 spans"):
        open_trace(path)
