"""Rules of a gate: what is certainly worse fails, what may be chance passes, and what nobody can tell is unknown."""

from __future__ import annotations

import itertools
import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import nr, switch, trace_of, wakeup

from wastedcores.analysis.gate import QUANTITIES, Rule, chance, judge, read_rules
from wastedcores.errors import UsageError
from wastedcores.invariant import check
from wastedcores.words import gate as words

MS = 1_000_000


def checked(wasted_ms: float, known: bool = True):
    """Check 1 s of two CPUs of which one is idle beside an overloaded one for a while."""
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(100 * MS, 0, 2), nr(100 * MS, 1, 0)]
    rows += [nr(100 * MS + int(wasted_ms * MS), 0, 1), nr(100 * MS + int(wasted_ms * MS), 1, 1)]
    rows.append(nr(1000 * MS, 0, 1))
    return check(trace_of(rows, cpus=2, **({} if known else {"lost": {0: 5}})))


def one(rule: Rule, before: list[float], after: list[float]):
    (outcome,) = judge([rule], [checked(w) for w in before], [checked(w) for w in after])
    return outcome


GROWTH = Rule(quantity="wasted_cpus", worse_by=0.1)


def test_what_is_certainly_worse_fails():
    outcome = one(GROWTH, [10, 11, 12, 10], [20, 22, 21, 25])
    assert (outcome.state, outcome.n) == ("fail", (4, 4))
    assert outcome.p == pytest.approx(1 / math.comb(8, 4))
    assert outcome.effect == pytest.approx(21.5 / 10.5 - 1)


@pytest.mark.parametrize(
    ("before", "after", "state"),
    [
        ([10, 11, 12, 10], [10, 12, 10, 11], "pass"),
        ([20, 22, 21, 25], [10, 11, 12, 10], "pass"),  # better
        ([10, 40, 12, 60], [30, 9, 50, 8], "pass"),  # may be chance
        ([10, 11], [20, 21], "unknown"),  # two recordings prove nothing
        ([10], [20], "unknown"),
        ([10], [10.5], "pass"),
    ],
)
def test_what_may_be_chance_is_no_failure(before, after, state):
    assert one(GROWTH, before, after).state == state


def test_a_limit_needs_no_other_side():
    assert one(Rule(quantity="longest_s", at_most=0.05), [90], [60]).state == "fail"
    assert one(Rule(quantity="longest_s", at_most=0.05), [90], [40]).state == "pass"
    assert one(Rule(quantity="violations", at_most=0), [200], [40]).state == "pass"
    assert one(Rule(quantity="violations", at_most=0), [40], [200]).state == "fail"


def test_violations_are_judged_by_their_share():
    some = [10, 10, 10, 200, 200]
    outcome = one(Rule(quantity="violations", at_most=0), [10] * 5, some)
    assert (outcome.state, outcome.after) == ("fail", 0.4)
    assert outcome.why == "the share 0.4 is above 0"
    assert one(Rule(quantity="violations", at_most=0.4), [10] * 5, some).state == "pass"
    more = one(Rule(quantity="violations", worse_by=0), [10] * 10, [10] * 6 + [200] * 4)
    assert more.state == "fail"
    assert more.p < 0.05


def test_waiting_of_tasks_that_no_recording_names_is_not_known():
    outcome = one(Rule(quantity="avoidable_s", at_most=0.001), [10], [500])
    assert outcome.state == "unknown"
    assert "name no tasks" in outcome.why


def test_an_unknown_baseline_cannot_show_that_nothing_became_worse():
    before, after = [checked(60, known=False)] * 4, [checked(30)] * 4
    assert judge([GROWTH], before, after)[0].state == "unknown"
    limit = Rule(quantity="wasted_cpus", at_most=0.5)
    assert judge([limit], before, after)[0].state == "pass"


def test_a_recording_that_cannot_tell_makes_the_rule_unknown():
    after = [checked(0, known=False)]
    assert after[0].verdict == "unknown"
    (outcome,) = judge([Rule(quantity="violations", at_most=0)], [checked(0)], after)
    assert outcome.state == "unknown"


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
    st.lists(st.integers(0, 9), min_size=1, max_size=4),
)
def test_chance_is_the_share_of_all_divisions(before, after):
    both = before + after
    seen = sum(after) * len(before) - sum(before) * len(after)
    as_large = 0
    for chosen in itertools.combinations(range(len(both)), len(after)):
        mine = sum(both[i] for i in chosen)
        as_large += mine * len(before) - (sum(both) - mine) * len(after) >= seen
    share = as_large / math.comb(len(both), len(after))
    assert chance(np.array(before, float), np.array(after, float)) == pytest.approx(share)


def test_many_runs_are_divided_at_random_with_the_same_answer():
    random = np.random.default_rng(1)
    before, after = random.normal(0, 1, 12), random.normal(0.4, 1, 12)  # 2.7 million divisions
    sampled = chance(before, after)
    both = np.concatenate([before, after])
    # the normal approximation of the permutation distribution
    z = (after.mean() - before.mean()) / math.sqrt(both.var() * 24 / (12 * 12) * 24 / 23)
    assert sampled == pytest.approx(0.5 * math.erfc(z / math.sqrt(2)), abs=0.02)


def test_every_quantity_is_a_number_that_waste_makes_larger():
    none, much = checked(0), checked(300)
    larger = {name for name, measure in QUANTITIES.items() if measure(much) > measure(none)}
    # of lengths alone nobody knows which task waited
    assert larger == QUANTITIES.keys() - {"avoidable_s"}
    assert QUANTITIES["wasted_s"](much) == 0.3
    assert QUANTITIES["wasted_share"](much) == 0.3
    assert QUANTITIES["persistent"](much) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "rule: field required"),
        ('[[rule]]\nquantity = "speed"\nat_most = 1', "none of wasted_cpus"),
        ('[[rule]]\nquantity = "wasted_s"', "give at_most or worse_by"),
        ('[[rule]]\nquantity = "wasted_s"\nworse_by = -1', "worse_by: input should be greater"),
        (
            '[[rule]]\nquantity = "wasted_s"\nat_most = nan',
            "at_most: input should be a finite number",
        ),
        (
            '[[rule]]\nquantity = "wasted_s"\nworse_by = inf',
            "worse_by: input should be a finite number",
        ),
        ("[[rule", "no TOML"),
    ],
)
def test_wrong_rules_are_refused(tmp_path, text, says):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(UsageError, match=re.escape(says)):
        read_rules(tmp_path / "r.toml")


def test_every_format_tells_the_same():
    rules = [
        Rule(quantity="longest_s", at_most=0.05),
        GROWTH,
        Rule(quantity="wasted_s", at_most=1),
    ]
    outcomes = judge(rules, [checked(10)], [checked(60)])
    assert [o.state for o in outcomes] == ["fail", "unknown", "pass"]
    suite = ElementTree.fromstring(words.junit(outcomes).encode())[0]
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("3", "1", "1")
    assert [[child.tag for child in case] for case in suite] == [["failure"], ["error"], []]
    lines = words.tap(outcomes).splitlines()
    assert lines[:2] == ["TAP version 13", "1..3"]
    assert [line for line in lines if line[0] != "#"][2:][0].startswith("not ok 1 longest_s")
    assert sum("# SKIP" in line for line in lines) == 1
    table = words.markdown(outcomes, "a", "b").splitlines()
    assert len({line.count("|") for line in table[2:]}) == 1
    assert [r["state"] for r in words.rows(outcomes)] == ["fail", "unknown", "pass"]


def test_an_unknown_baseline_may_have_had_as_many_violations():
    before, after = [checked(200, known=False)] * 4, [checked(200)] * 4
    (outcome,) = judge([Rule(quantity="violations", worse_by=0)], before, after)
    assert outcome.state == "unknown"


def test_a_recording_with_tasks_and_lengths_tells_how_long_the_tasks_waited():
    rows = [switch(0, 0, 0, "R", 10), nr(0, 0, 1), switch(0, 1, 0, "R", 9), nr(0, 1, 1)]
    rows += [switch(1000 * MS, 0, 10, "S", 0), nr(1000 * MS, 0, 0)]
    found = check(trace_of(rows, cpus=2))
    assert (found.verdict, found.source, found.assumed) == ("clean", "nr_running", None)
    (outcome,) = judge([Rule(quantity="avoidable_s", at_most=0.001)], [found], [found])
    assert outcome.state == "pass"


def test_what_an_unknown_recording_shows_is_no_failure():
    growth = judge([GROWTH], [checked(10, known=False)] * 4, [checked(20)] * 4)
    limit = Rule(quantity="longest_s", at_most=0.1)
    above = judge([limit], [checked(10)], [checked(200, known=False)])
    assert [o.state for o in (*growth, *above)] == ["unknown", "unknown"]


def test_one_unknown_recording_does_not_hide_that_the_others_became_worse():
    after = [*[checked(200)] * 4, checked(200, known=False)]
    rules = [Rule(quantity="longest_s", at_most=0.1), GROWTH]
    outcomes = judge(rules, [checked(10)] * 5, after)
    assert [o.state for o in outcomes] == ["fail", "fail"]


def test_a_baseline_without_tasks_does_not_make_waiting_worse():
    rows = [switch(0, 0, 0, "R", 10), switch(0, 1, 99, "S", 0), wakeup(100 * MS, 0, 11)]
    rows += [switch(400 * MS, 0, 10, "S", 11), switch(1000 * MS, 0, 11, "S", 0)]
    after = [check(trace_of(rows, cpus=2))] * 4
    rule = Rule(quantity="avoidable_s", worse_by=0.1)
    assert judge([rule], [checked(0)] * 4, after)[0].state == "unknown"
