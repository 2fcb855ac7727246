"""Predictions in words and as a figure, and the proposals that are made of them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support import RECORDINGS
from support.builders import nr, trace_of

from wastedcores import figures, words
from wastedcores.analysis.explain import explain
from wastedcores.cli.whatif import _print
from wastedcores.invariant import check
from wastedcores.prediction import Advice, Range, Variant, WhatIf, advise, weigh
from wastedcores.prediction.advice import _from
from wastedcores.recovery import Recovered
from wastedcores.topology.machine import Machine
from wastedcores.trace.io import open_trace
from wastedcores.workload import Workload

S = 1_000_000_000
BESIDE = [nr(0, 0, 3), nr(0, 1, 0), nr(300_000_000, 0, 3)]


def variant(kernel, times, base=(1.4, 1.42, 1.44)):
    gains = tuple(1 - a / b for a, b in zip(times, base, strict=True))
    return Variant(kernel, tuple(int(t * S) for t in times), (10.0,) * 3, (S,) * 3, gains)


def answer(*variants, recorded=1.42, wasted=0.7):
    recovered = Recovered(Workload("w"), 3, 9, {"barrier": 9}, (0, int(recorded * S)), None, True)
    itself = Variant("v4.1", tuple(int(t * S) for t in (1.4, 1.42, 1.44)), (10.0,) * 3, (S,) * 3)
    return WhatIf("t", "v4.1", "m", int(recorded * S), 10.0, wasted, recovered, itself, variants, 3)


FIX = variant("v4.1+overload_on_wakeup:patch", (1.1, 1.11, 1.12))
NOISE = variant("v4.1+missing_domains:patch", (1.38, 1.43, 1.4))
WORSE = variant("v4.1+group_imbalance:patch", (1.7, 1.72, 1.71))
ALL = variant("v4.1+all_fixes:patch", (1.08, 1.09, 1.1))
CORE = variant("core", (1.0, 1.0, 1.0))


def test_only_fixes_that_pay_are_proposed_best_first():
    advice = _from(answer(CORE, ALL, FIX, NOISE, WORSE))
    assert [p.fix for p in advice.proposals] == ["all_fixes", "overload_on_wakeup"]
    assert advice.bound.median == pytest.approx(1 - 1 / 1.42, rel=1e-6)
    assert _from(answer(CORE, NOISE, WORSE)).proposals == ()


def test_nothing_is_proposed_if_the_replay_does_not_show_the_recording():
    advice = _from(answer(CORE, ALL, FIX, recorded=2.0))
    assert advice.proposals == ()
    assert "does not show what was recorded" in advice.reasons[0]


def test_a_fix_that_gains_only_against_a_replay_that_is_too_slow_is_not_proposed():
    # the replay took 1.42 s, the recording 1.37 s, and the fix would have taken 1.36 s
    fix = variant("v4.1+overload_on_wakeup:patch", (1.35, 1.36, 1.37))
    assert _from(answer(CORE, fix, recorded=1.37)).found.trust == "high"
    assert _from(answer(CORE, fix, recorded=1.37)).proposals == ()
    assert [p.fix for p in _from(answer(CORE, fix)).proposals] == ["overload_on_wakeup"]


def test_nothing_is_proposed_if_the_replay_wastes_more_than_the_recording():
    """The time is right, but the replays waste 0.7 of 10 busy CPUs: that may be what the fix gains in them."""
    found = answer(CORE, FIX, wasted=0.1)
    assert (found.trust, found.shows_result, found.shows_waste) == ("low", True, False)
    assert _from(found).proposals == ()
    assert "The replay wastes 0.704 CPUs and the recording 0.1" in words.prediction(found).text
    assert answer(CORE, FIX, wasted=0.3).trust == "high"


def test_a_gain_below_one_per_cent_is_not_proposed():
    tiny = variant("v4.1+overload_on_wakeup:patch", (1.393, 1.4125, 1.4325))
    assert 0.004 < tiny.gain.low < tiny.gain.high < 0.006
    assert _from(answer(CORE, tiny)).proposals == ()


def test_a_kernel_that_gains_less_but_surely_is_named():
    perhaps = variant("v4.1+missing_domains:patch", (1.25, 1.33, 1.5))
    surely = variant("v4.1+group_imbalance:patch", (1.34, 1.36, 1.38))
    said = words.prediction(answer(CORE, perhaps, surely)).text
    assert perhaps.gain.low < 0 < surely.gain.low < surely.gain.median < perhaps.gain.median
    assert "Under v4.1+group_imbalance:patch it would have been" in said
    assert "more than chance" in words.prediction(answer(CORE, perhaps)).text


def test_why_nothing_is_predicted_on_a_machine_that_nobody_named():
    found = replace(answer(CORE, FIX), assumed=("the trace does not name its machine",))
    assert found.trust == "low"
    said = words.gains(_from(found)).text
    assert "The machine or the kernel is not known, so it is not known what" in said
    assert "guessed" not in said


def explained(bug):
    found = explain(check(trace_of(BESIDE, cpus=2)), Machine.preset("uma8"), "v4.1")
    return replace(found, looks_like=bug, cured_share=0.5)


def test_a_bug_whose_fix_gains_nothing_in_the_replay_is_not_named():
    advice = _from(answer(CORE, ALL, FIX, WORSE))
    found = weigh(explained("group_imbalance"), advice)
    assert (found.looks_like, found.cured_share) == ("undecided", None)
    assert "gain -21 % (-21 to -19)" in found.evidence[-1]


def test_a_bug_whose_fix_gains_in_every_replay_stays_even_if_the_fix_is_not_proposed():
    """The gains of 4 to 16 % vary by more than their median, so the fix is not proposed, but it does help."""
    itself = Variant("v4.1", (S,) * 5, (10.0,) * 5, (S,) * 5)
    times = tuple(int((1 - g) * S) for g in (0.04, 0.08, 0.10, 0.12, 0.16))
    gains = tuple(1 - t / S for t in times)
    fix = Variant("v4.1+overload_on_wakeup:patch", times, (10.0,) * 5, (S,) * 5, gains)
    advice = _from(replace(answer(CORE, fix, recorded=1.0), itself=itself, seeds=5))
    assert (advice.found.trust, advice.proposals) == ("high", ())
    found = explained("overload_on_wakeup")
    assert weigh(found, advice) is found
    tiny = variant("v4.1+overload_on_wakeup:patch", (1.393, 1.4125, 1.4325))
    assert weigh(found, _from(answer(CORE, tiny))).looks_like == "undecided"


@pytest.mark.parametrize("bug", ["overload_on_wakeup", "group_construction", "transient"])
def test_a_bug_that_the_replay_confirms_or_cannot_judge_stays(bug):
    found = explained(bug)
    assert weigh(found, _from(answer(CORE, ALL, FIX, WORSE))) is found


def test_a_replay_without_trust_does_not_overrule_the_domains():
    found = explained("group_imbalance")
    assert weigh(found, _from(answer(CORE, ALL, FIX, WORSE, recorded=2.0))) is found


def test_the_sentence_names_the_best_kernel_and_the_bound():
    text = words.prediction(answer(CORE, ALL, FIX)).text
    assert "Under v4.1+all_fixes:patch it would have been 1.09 s" in text
    assert "would have gained 30%" in text
    assert "No kernel would have gained more than chance" in words.prediction(answer(NOISE)).text
    # "no kernel" is wrong where none was asked for
    alone = words.prediction(answer(CORE)).text
    assert "No other kernel was asked for" in alone
    assert "more than chance" not in alone


def test_what_a_fix_would_have_gained_in_words():
    text = words.gains(_from(answer(CORE, ALL, FIX))).text
    assert "all fixes 23% (23% to 24%) and overload on wakeup 22%" in text
    assert text.count("The trust in this is high.") == 1
    # the medians lie outside of each other's ranges here; with wider ranges the order is chance, and the sentence says so
    assert "overlap" not in text
    near = _from(answer(CORE, ALL, FIX))
    wide = [replace(p, gain=Range(p.gain.median, 0.1, 0.3)) for p in near.proposals]
    said = words.gains(replace(near, proposals=tuple(wide))).text
    assert "do not tell which of those gains most" in said
    assert words.gains(_from(answer(CORE, NOISE))).text.startswith("None of the fixes")


def test_what_is_not_known_is_said_to_be_unknown():
    far = words.gains(_from(answer(CORE, ALL, FIX, recorded=2.0))).text
    assert "is 29% away from what was recorded, so it is not known what a fix" in far
    assert "it would have been" not in words.prediction(answer(CORE, ALL, FIX, recorded=2.0)).text
    reason = words.gains(Advice((), None, None, ("the trace is short",))).text
    assert reason == "It is not known what a fix would have gained. The trace is short."
    assert words.gains(None).text.startswith("No replays were made")


def test_a_bound_is_said_to_be_one():
    most = words.gains(Advice((), None, Range(0.2, 0.1, 0.3), ("no engine",))).text
    assert (
        "would have gained 20% (10% to 30%) of the time; none could have gained much more" in most
    )
    little = words.gains(Advice((), None, Range(0.0, -0.01, 0.002), ("no engine",))).text
    assert little == "No scheduler could have gained 1%. No engine."


def test_the_figure_has_a_row_for_every_kernel():
    fig = figures.predicted(answer(CORE, ALL, FIX))
    assert [list(t.x) for t in fig.data] == [[1.42], [1.0, 1.09, 1.11]]
    assert fig.data[1].y[0] == "core"
    assert fig.layout.shapes[0].x0 == 1.42


def test_differences_that_do_not_matter_do_not_fill_the_figure():
    same = variant("core", (1.4, 1.42, 1.44))
    low, high = figures.predicted(answer(same)).layout.xaxis.range
    assert high - low == pytest.approx(0.144, rel=0.01)
    assert figures.predicted(answer(CORE)).layout.xaxis.range is None


@pytest.mark.slow
def test_a_kernel_that_the_replay_does_not_have_gets_the_upper_bound():
    trace = open_trace(RECORDINGS / "db64-6.1-64cpu" / "trace.txt.xz")
    advice = advise(trace, machine="bd-paper-64", kernel="v5.10", seeds=1)
    assert advice.proposals == ()
    assert isinstance(advice.bound, Range)
    assert 0 < advice.bound.median < 0.5
    assert "no model of this kernel's balancer" in advice.reasons[0]


@pytest.mark.slow
def test_a_trace_that_does_not_say_where_it_was_made_gets_a_reason():
    trace = open_trace(RECORDINGS / "db16-buggy-16cpu" / "trace.txt.xz")
    advice = advise(trace, seeds=1)
    assert advice.proposals == ()
    assert "the machine or the kernel is not known" in advice.reasons[0]


def test_the_command_names_the_recorded_kernel_and_not_the_one_that_stands_for_it(capsys):
    _print(replace(answer(FIX), recorded_as="4.1.13-1-generic"))
    assert capsys.readouterr().out.startswith("t: 4.1.13-1-generic on m, 3 seeds\n")
