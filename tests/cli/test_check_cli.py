"""``wastedcores check``, ``info``, ``explain`` as people and scripts call them: exit codes, JSON, error paragraphs."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from support.builders import nr, trace_of
from support.typed import typed

from wastedcores.errors import UsageError
from wastedcores.prediction.advice import Advice, Proposal
from wastedcores.prediction.result import Range
from wastedcores.runqueues.doubts import HEADER_REASONS, ONLY_MORE, REASONS
from wastedcores.trace.header import Window
from wastedcores.trace.parquet import write_parquet
from wastedcores.units import duration_ns
from wastedcores.words.cause import MEANING
from wastedcores.words.checked import _in_doubt

MS = 1_000_000
#: the keys that the JSON object has at least
KEYS = {"schema", "trace", "persist_ns", "verdict", "wall_ns", "cpu_ns", "thread_ns", "episodes"}
TRACE_KEYS = {"format", "cpus", "events", "start_ns", "end_ns", "lost", "silent_cpus"}
EPISODE_KEYS = {
    "start_ns",
    "end_ns",
    "persistent",
    "certain",
    "wasted_ns",
    "idle_cpus",
    "overloaded_cpus",
}


def run(*args) -> tuple[int, str, str]:
    done = typed(*args)
    return done.code, done.out, done.err


@pytest.fixture
def wasting(tmp_path):
    rows = [nr(0, 0, 0), nr(0, 1, 3), nr(150 * MS, 0, 1), nr(200 * MS, 0, 1)]
    return write_parquet(trace_of(rows, cpus=2), tmp_path / "wasting.parquet")


@pytest.mark.slow
def test_check__json_has_the_schema(wasting):
    code, out, err = run("check", wasting, "--json")
    assert code == 1
    found = json.loads(out)
    assert found.keys() >= KEYS
    assert found["trace"].keys() == TRACE_KEYS
    assert found["episodes"] == [
        {
            "start_ns": 0,
            "end_ns": 150 * MS,
            "persistent": True,
            "certain": True,
            "wasted_ns": 150 * MS,
            "idle_cpus": "0",
            "overloaded_cpus": "1",
        }
    ]
    assert found["episodes"][0].keys() == EPISODE_KEYS
    assert out.count("\n") == 1
    assert err == ""


@pytest.mark.parametrize(
    ("persist", "code"), [("100ms", 1), ("0.2s", 3), ("151", 3), ("150000us", 1)]
)
def test_check__exit_code_follows_m(wasting, persist, code):
    # 150 of 200 ms are wasted: with a longer M the trace is too short to say that this is chronic
    assert run("check", wasting, "--persist", persist)[0] == code


def test_check__lost_events_exit_3(tmp_path):
    rows = [nr(0, 0, 1), {"ts_ns": 5, "kind": "lost", "cpu": 0, "value": 3}, nr(9, 0, 1)]
    path = write_parquet(trace_of(rows, cpus=2, lost={0: 3}), tmp_path / "lossy.parquet")
    code, out, _ = run("check", path)
    assert code == 3
    assert "UNKNOWN" in out
    assert "LOST EVENTS    3" in out


def test_check__the_first_line_is_the_verdict(wasting):
    _, out, _ = run("check", wasting)
    assert "VIOLATIONS" in out.splitlines()[0]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--cpus", "0-5"], "the trace has CPUs 0-1, not 2"),
        (["--cpus", "x"], "CPU"),
        (["--persist", "soon"], "expected a time like 100ms"),
        (["--silent", "maybe"], "expected idle or unknown"),
        (["--between", "a", "b"], "no mark begins with 'a'"),
        (["--format", "perf-script"], "parquet"),
        (["--nonsense"], "--nonsense"),
    ],
)
def test_check__bad_use_is_one_paragraph_and_exit_2(wasting, args, says):
    code, out, err = run("check", wasting, *args)
    assert code == 2
    assert says in err
    assert "Traceback" not in err
    assert out == ""


def test_check__bad_files_exit_2(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    for name in ("empty", "absent.txt"):
        code, _, err = run("check", tmp_path / name)
        assert code == 2
        assert name in err
    assert run("check")[0] == 2
    assert run("check", "no-such-data-set")[0] == 2


def test_info__shows_the_facts(wasting):
    code, out, _ = run("info", wasting)
    assert code == 0
    assert "nr_running" in out
    found = json.loads(run("info", wasting, "--json")[1])
    assert found["schema"] == "wastedcores.info/1"
    assert found["kinds"] == {"nr_running": 4}


def test_explain__names_the_bug_of_a_bundled_recording():
    code, out, _ = run("explain", "group-construction-buggy", "--json")
    assert code == 0
    found = json.loads(out)
    assert found["looks_like"] == "group_construction"
    assert found["cured_share"] == pytest.approx(1, abs=0.01)
    assert (
        found["proposals"] is None
    )  # nobody asked for replays, which is not the same as no proposal
    assert found["price"]["judgement"] == "pays"
    code, out, _ = run("explain", "missing-domains-buggy")
    assert code == 0
    assert "MISSING_DOMAINS" in out
    said = " ".join(out.split())
    assert "Moving a thread to the idle CPU would have paid" in said
    assert (
        "Replays have not tested this cause, and what each fix would gain was not computed." in said
    )
    assert "--seeds 5" in said


def test_explain__says_that_a_cpu_was_rightly_idle():
    said = " ".join(run("explain", "group-construction-modern")[1].split())
    assert "Idle, and rightly so" in said


def test_explain__proposes_fixes_on_request(monkeypatch):
    asked = []

    def advise(trace, **ask):
        asked.append(ask["seeds"])
        gain = Range(0.98, 0.97, 0.99)
        return Advice((Proposal("group_construction", gain),), None, gain, (), in_time=False)

    monkeypatch.setattr("wastedcores.prediction.advise", advise)
    out = run("explain", "group-construction-buggy", "--seeds", "3")[1]
    assert asked == [3]
    assert "group_construction   would keep 98 % more CPUs busy (97 to 99)" in out
    assert "not computed" not in out


def test_duration_ns():
    assert [duration_ns(t, "-M") for t in ("100ms", "0.1s", "250us", "7ns", "3", "1.5", 50)] == [
        100 * MS,
        100 * MS,
        250_000,
        7,
        3 * MS,
        1_500_000,
        50 * MS,
    ]
    for wrong in ("", "ms", "-1ms", "1h", "1e3", True):
        with pytest.raises(UsageError):
            duration_ns(wrong, "-M")


@pytest.fixture
def measured(tmp_path):
    """A recording with wasted cores on all CPUs before its measured window, and in it only on CPUs 0 and 1."""
    marks = [
        {"ts_ns": t * MS, "kind": "mark", "text": x}
        for t, x in ((200, "rec: start"), (500, "rec: end"))
    ]
    rows = [nr(0, 0, 0), nr(0, 1, 3), nr(0, 2, 0), nr(200 * MS, 2, 1), nr(400 * MS, 0, 1), *marks]
    window = Window(start_ns=200 * MS, end_ns=500 * MS, names=("rec: start", "rec: end"))
    trace = trace_of(rows, cpus=3, window=window, counted_cpus=[0, 1])
    return write_parquet(trace, tmp_path / "measured.parquet")


def test_check__counts_the_window_that_the_recording_names(measured):
    code, out, _ = run("check", measured, "--json")
    found = json.loads(out)
    asked = run("check", measured, "--between", "rec: start", "rec: end", "--cpus", "0-1", "--json")
    assert (code, found) == (asked[0], json.loads(asked[1]))
    assert found["wall_ns"] == 200 * MS
    assert found["counted_cpus"] == [0, 1]
    assert '"rec: start" to "rec: end"' in run("check", measured)[1]
    # the user's own choice goes before what the recording names
    assert json.loads(run("check", measured, "--cpus", "1,2", "--json")[1])["wall_ns"] == 0


def test_check__whole_counts_everything(measured):
    out = run("check", measured, "--whole")[1]
    assert json.loads(run("check", measured, "--whole", "--json")[1])["wall_ns"] == 400 * MS
    assert "  window  " not in out
    assert "on 3 of 3 CPUs" in out


def test_check__one_episode_is_not_called_the_1_longest(wasting):
    _, out, _ = run("check", wasting)
    assert "  the longest episode (" in out


@pytest.mark.parametrize(
    ("source", "output"),
    [
        ("run.txt.xz", "run.parquet"),
        ("perf.data", "perf.parquet"),
        ("folder/sched_slice.parquet", "sched_slice-trace.parquet"),
        (".txt", "trace.parquet"),
    ],
)
def test_import__default_name_of_the_output(source, output):
    from wastedcores.cli._output import parquet_name

    assert parquet_name(Path(source)) == Path(output)


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("group-imbalance-buggy", "wastedcores explain group-imbalance-buggy   ("),
        ("group-imbalance-fixed", "wastedcores report group-imbalance-fixed   ("),
    ],
)
def test_check__ends_with_the_next_command(name, command):
    assert run("check", name)[1].splitlines()[-1].startswith(f"  next           {command}")


def test_check__without_a_machine_asks_for_it_and_lost_events_for_another_recording(
    wasting, tmp_path
):
    assert f"explain {wasting} " in run("check", wasting)[1].splitlines()[-1]
    rows = [nr(0, 0, 1), {"ts_ns": 5, "kind": "lost", "cpu": 0, "value": 3}, nr(9, 0, 1)]
    lossy = write_parquet(trace_of(rows, cpus=2, lost={0: 3}), tmp_path / "lossy.parquet")
    assert "wastedcores capture --buffer 64" in run("check", lossy)[1].splitlines()[-1]


def test_check__cut_lists_of_cpus_say_where_all_of_them_are():
    assert "--json has all of them" in run("check", "group-imbalance-buggy")[1]


def test_time_in_doubt_is_counted_once():
    """Two CPUs are in doubt for the same 5 ms, and one of them has two reasons for 1 ms."""
    spans = pl.DataFrame(
        {
            "cpu": [0, 1, 1],
            "start_ns": [0, 0, 4_000_000],
            "end_ns": [5_000_000, 5_000_000, 6_000_000],
            "reason": ["left_unseen", "left_unseen", "starved"],
        },
        schema_overrides={"cpu": pl.Int32},
    )
    line, *reasons = _in_doubt(SimpleNamespace(doubts=spans))
    assert line.split(maxsplit=2)[2] == "6 ms on CPUs 0-1, because"
    assert [reason.partition("- ")[2] for reason in reasons] == [
        "2 times a CPU changed to another thread without a sched_switch event",
        "once a thread waited for so long that a limit of its CPU time may be the reason",
    ]


def test_every_reason_of_a_doubt_has_words():
    assert set(MEANING) == {*REASONS, *HEADER_REASONS, "contradicted_often", *ONLY_MORE}
