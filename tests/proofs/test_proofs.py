"""The search through all states of small machines: it visits all of them, it finds what is wrong, and its results stand."""

from __future__ import annotations

import importlib.util
import json

import pytest
from support import ROOT

from wastedcores.simulator.engine.core import wakeup_jit
from wastedcores.simulator.engine.design import core_jit, modules_jit
from wastedcores.simulator.engine.fair import entity_jit
from wastedcores.simulator.engine.world.structs import TaskStruct
from wastedcores_studies.proofs import balancer, checking, placement, still
from wastedcores_studies.proofs.balancer import check_passes
from wastedcores_studies.proofs.choices import Affinity, Choices, every
from wastedcores_studies.proofs.core import EVENTS, check_event
from wastedcores_studies.proofs.several import check_several, check_two_levels, race
from wastedcores_studies.proofs.still import CORE, ONE_LEVEL, V6_12, lengths

COMMITTED = json.loads((ROOT / "datasets" / "proofs.json").read_text())["rows"]
PAGE = (ROOT / "docs" / "proofs.md").read_text()


def tool():
    spec = importlib.util.spec_from_file_location("make_proofs", ROOT / "tools" / "make_proofs.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def replace():
    """Replace functions of the engine that a search calls."""

    def put(function, own, cpus=3, model=V6_12):
        s = still.kernel("one cache", cpus, model)
        s.replace(function, own(s, s.of(function)))

    yield put
    still.kernel.cache_clear()


# --- the search -------------------------------------------------------------------------------------------------------


def test_every_outcome_of_the_choices_is_visited_once():
    def run(choose):
        first = choose(3)
        return (first, choose(2)) if first == 1 else (first,)

    assert list(every(run)) == [(0,), (1, 0), (1, 1), (2,)]


def test_affinities_are_decided_when_somebody_asks():
    def run(choose):
        a = Affinity(choose, 4, {2: True})
        return tuple(c for c in (1, 2) if c in a), a.undecided

    assert list(every(run)) == [((2,), 2), ((1, 2), 2)]


@pytest.mark.parametrize("kind", ["one cache", "a node per CPU"])
def test_undecided_affinities_stand_for_states_that_a_plain_enumeration_visits(kind, monkeypatch):
    """The same outcomes in the same numbers of states, whether affinities are all decided before the pass or when asked for."""
    lazy = check_passes(kind, 3, 3)
    begin = balancer.begin

    def decided(s, cpu):
        for allowed in s.allowed:
            list(allowed)
        begin(s, cpu)

    monkeypatch.setattr(balancer, "begin", decided)
    plain = check_passes(kind, 3, 3)
    assert plain.outcomes == lazy.outcomes
    assert plain.runs == plain.states == lazy.states > 2 * lazy.runs


@pytest.mark.slow
def test_the_engine_asks_for_affinities_one_cpu_at_a_time():
    """What else an affinity has, its set as a whole and the number of its CPUs, is read only of threads that wake or are made."""

    def tallies():
        yield from (check_event(event, "one cache", 3, 3) for event in EVENTS)
        yield check_several("race", "one cache", 3, 4)
        yield check_several("rounds", "one cache", 3, 3)
        yield placement.check_wakeups("one cache", 3, 3)

    expected = list(tallies())
    for s in (still.kernel("one cache", 3, model) for model in (CORE, V6_12)):
        for p in s.tasks:
            s.m[p.cpus_allowed] = 0b101
            s._booted[p.row, TaskStruct.nr_cpus_allowed] = 1
        s._built = None
    assert list(tallies()) == expected
    still.kernel.cache_clear()


def test_a_run_leaves_nothing_behind():
    check_several("rounds", "one cache", 3, 3)
    used = still.kernel("one cache", 3, V6_12).begin(Choices(), (0, 1, 2))
    still.kernel.cache_clear()
    fresh = still.kernel("one cache", 3, V6_12).begin(Choices(), (0, 1, 2))
    assert (used.m[: used.k.log0] == fresh.m[: fresh.k.log0]).all()


@pytest.mark.parametrize("kind", ONE_LEVEL)
def test_all_cpus_of_a_level_are_alike(kind):
    first, *others = (check_passes(kind, 3, 3, cpu=cpu).outcomes for cpu in range(3))
    assert all(other == first for other in others)


def test_the_lengths_of_run_queues_are_all_there_are():
    assert sorted(lengths(2, 2)) == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (2, 0)]


# --- the core of section 5 --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("event", EVENTS)
def test_the_core_keeps_its_rule_after_every_event_and_answer(event):
    tally = check_event(event, "one cache", 3, 3)
    assert set(tally.outcomes) == {"holds"}
    assert tally.states > 100


@pytest.mark.parametrize(
    ("function", "event", "wrong"),
    [
        (core_jit.settle, "preempt", None),
        (core_jit.settle, "online", None),
        (core_jit.pull, "sleep", 0),
        (modules_jit.nearest_free, "wakeup", -1),
    ],
)
def test_a_core_with_a_mistake_is_found(function, event, wrong, replace):
    replace(function, lambda s, right: lambda *about: wrong, model=CORE)
    if function is not core_jit.settle:  # it would mend it after the event
        replace(core_jit.settle, lambda s, right: lambda k: None, model=CORE)
    assert check_event(event, "one cache", 3, 3).outcomes["broken"]


# --- the balancer of 6.12 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "outcomes"),
    [
        ("one cache", {"pulls", "after 4: failed", "never: single task"}),
        ("one core", {"pulls", "after 3: failed", "never: single task"}),
        ("a cache per CPU", {"pulls", "after 4: failed", "never: failed", "never: single task"}),
        ("a node per CPU", {"pulls", "never: failed", "never: no imbalance", "never: single task"}),
    ],
)
def test_the_fates_of_an_idle_cpu(kind, outcomes):
    assert set(check_passes(kind, 3, 4).outcomes) == outcomes


def test_without_affinities_and_fresh_threads_one_pass_is_enough(monkeypatch):
    """What is left if all threads may run everywhere and have averages: the balancer conserves work in one pass."""
    monkeypatch.setattr(Affinity, "__contains__", lambda self, cpu: True)
    for kind in ONE_LEVEL:
        assert set(check_passes(kind, 4, 6, mixed=False).outcomes) == {"pulls"}


def test_no_pass_takes_the_last_thread_of_a_cpu__and_one_that_did_would_be_found(replace):
    assert set(check_several("safe", "one cache", 3, 4).outcomes) == {"safe"}

    def robbing(s, real):
        def robs(k, cpu, idle, why):
            real(k, cpu, idle, why)
            for src in k.rqs:
                if src.nr_running == 1 and src.cpu != cpu:
                    p = src.cfs_tasks
                    s.call(entity_jit.dequeue_task, p, False)
                    s.call(entity_jit.set_task_rq, p, cpu)
                    s.call(entity_jit.enqueue_task, p, False, False)

        return robs

    replace(balancer.rebalance_domains, robbing)
    assert check_several("safe", "one cache", 3, 4).outcomes["takes the last thread"]


def concrete(kind, queues, light=()):
    """Build a state of affinities: for each CPU those of its threads, the running one first."""
    s = still.kernel(kind, len(queues), V6_12)
    s.begin(Choices(), tuple(map(len, queues)), frozenset(light))
    for affinity, allowed in zip(s.allowed, (a for q in queues for a in q), strict=True):
        affinity.known = {c: c in allowed for c in range(len(queues))}
    return s


def places(s):
    return [list(q) for q in s.queues()]


def test_a_running_thread_that_may_move_hides_other_cpus():
    """CPU 1 has a running thread that may go to CPU 0, and a pinned one. So it is not left out, and CPU 2 is not looked at."""
    s = concrete("one cache", [[], [{0, 1}, {1}], [{2}, {0, 2}]])
    assert balancer.run(s, 0) == "failed"
    s = concrete("one cache", [[], [{1}, {1}], [{2}, {0, 2}]])
    balancer.run(s, 0)
    assert places(s)[0] == [3]


def test_a_busy_cpu_hides_two_threads_that_have_just_woken():
    queues = [[], [{1}], [{0, 2}, {0, 2}]]
    s = concrete("one cache", queues, light={1, 2})
    assert [balancer.run(s, 0) for _ in range(5)] == ["single task"] * 5
    s = concrete("one cache", queues)
    balancer.run(s, 0)
    assert len(places(s)[0]) == 1


def test_the_flag_of_overload_is_lost_when_a_pinned_cpu_is_left_out():
    """CPU 2 has a thread that may go to CPU 1. After a pass of CPU 0, CPU 1 becomes idle and does not try to pull it."""
    s = concrete("one cache", [[], [{1}], [{2}, {1, 2}]])
    balancer.run(s, 0)
    assert not s.k.overload
    assert balancer.newly_idle(s, 1) == "not tried"
    s = concrete("one cache", [[], [{1}], [{2}, {1, 2}]])
    balancer.newly_idle(s, 1)
    assert places(s)[1] == [2]


def test_an_active_balance_that_comes_late_takes_the_last_thread():
    s = concrete("one cache", [[], [], [{0, 2}, {1, 2}]])
    s.domains[0][0].nr_balance_failed = 4
    balancer.run(s, 0)
    balancer.run(s, 1)
    assert places(s) == [[], [1], [0]]
    balancer.settle(s)
    assert places(s) == [[0], [1], []]


def test_a_cpu_whose_threads_are_pinned_makes_its_node_seem_balanced():
    queues = [[], [], [{2}, {2}], [{3}, {0, 1, 2, 3}]]
    s = concrete("2 nodes of 2 CPUs", queues)
    assert [balancer.run(s, c) for c in (0, 1) * 3][0::2] == ["no task, no imbalance"] * 3
    assert places(s)[:2] == [[], []]
    s = concrete("2 nodes of 2 CPUs", [[], [], [{2}], [{3}, {0, 1, 2, 3}]])
    balancer.run(s, 0)
    assert len(places(s)[0]) == 1


def test_the_designated_cpu_gives_up_for_its_whole_group():
    """CPU 0 balances for CPU 1, too. It may run nothing of CPU 2, the running thread of which may go to CPU 1, and then stops."""
    s = concrete("2 cores of 2 threads", [[], [], [{1, 2}, {2}], [{3}, {1, 3}]])
    said = []
    for _ in range(balancer.MOST_PASSES):
        said.append(balancer.run(s, 0))
        assert balancer.run(s, 1) == "not_designated, no task"
        balancer.settle(s)
    # after some failures the running thread should be moved, which may not go to CPU 0
    assert said == ["failed, no task"] * 3 + ["pinned, no task"] * 13
    assert places(s)[:2] == [[], []]


def test_a_cpu_that_becomes_idle_takes_no_cache_hot_thread():
    newly = check_passes("one cache", 3, 4, newly=True, hot=True, mixed=False)
    assert set(newly.outcomes) == {"never: failed"}
    ticks = check_passes("one cache", 3, 4, hot=True, mixed=False)
    assert set(ticks.outcomes) == {"after 3: failed", "after 4: failed"}


def test_on_two_levels_three_threads_need_at_most_two_rounds():
    assert set(check_two_levels("2 nodes of 2 CPUs", 3).outcomes) == {"after 1", "after 2"}


def test_of_two_passes_at_once_one_pulls():
    tally = check_several("race", "one cache", 3, 4)
    assert not any(o.startswith(("both", "takes")) for o in tally.outcomes)
    tally = check_several("race", "one cache", 4, 4)
    assert "both fail because of each other" not in tally.outcomes
    assert tally.outcomes["one fails, a thread is left for it"]


def test_a_thread_that_two_passes_leave_for_cpu_0_is_seen():
    """Both find CPU 2, of which CPU 0 may run no waiting thread; the one that it could run waits on CPU 3."""
    s = concrete("one cache", [[], [], [{0, 2}, {1, 2}], [{3}, {0, 3}]])
    outcome, *_ = race(s, 1)
    assert [sorted(q) for q in places(s)] == [[], [1], [0], [2, 3]]
    assert outcome == "one fails, a thread is left for it"


@pytest.mark.slow
def test_threads_move_for_ever_only_among_busy_cpus():
    outcomes = check_several("rounds", "one cache", 3, 4).outcomes
    assert set(outcomes) == {"comes to rest", "moves for ever, all CPUs busy"}


def test_wakeups_find_an_idle_cpu_of_their_cache_unless_the_scan_or_the_last_cpu_prevents_it():
    outcomes = placement.check_wakeups("one cache", 2, 3).outcomes
    assert outcomes["an idle CPU"]
    assert not any("other" in o for o in outcomes)
    assert {o for o in outcomes if o != "an idle CPU"} <= {
        "busy: the scan is limited to 0 CPUs",
        "busy: the last CPU is not allowed any more",
    }


def test_a_thread_whose_last_cpu_is_forbidden_wakes_on_the_first_one_that_is_not():
    """select_idle_sibling() answers the idle last CPU; select_fallback_rq() then takes the first allowed one, busy or not."""
    s = concrete("one cache", [[], [{1}], []])
    p = s.sleeper(0)
    s.allowed[p.number].known = {0: False, 1: True, 2: True}
    s.decide(p)
    s.k.this_cpu = 0
    s.call(wakeup_jit.choose_cpu, p, False)
    assert p.cpu == 1
    assert s.is_idle(2)


# --- the results ------------------------------------------------------------------------------------------------------


def test_the_page_has_the_committed_result():
    assert tool().page(PAGE, COMMITTED) == PAGE


def test_the_committed_result_has_every_check_at_its_full_size():
    expected = [
        (c.name, kind, *c.sizes[checking.FULL]) for c in checking.CHECKS for kind in c.kinds
    ]
    assert [(r["check"], r["machine"], r["cpus"], r["threads"]) for r in COMMITTED] == expected


def without_time(rows):
    return [{k: v for k, v in r.items() if k != "seconds"} for r in rows]


@pytest.mark.slow
def test_a_part_of_the_committed_result_is_made_again():
    names = ("core: sleep", "active balance, overtaken by a pass")
    again = list(checking.check_all(checking.FULL, names))
    assert without_time(again) == without_time(r for r in COMMITTED if r["check"] in names)


@pytest.mark.long
def test_the_whole_result_is_made_again():
    assert without_time(checking.check_all(checking.FULL)) == without_time(COMMITTED)


def test_the_command_tells_each_claim(monkeypatch):
    row = next(checking.check_all(checking.SMALL, ("periodic pass, some have just woken",)))
    text = "\n".join(checking.told(row))
    assert (
        "fails in 5.4 % of the states: an idle CPU gets a waiting thread that it may run in one pass"
        in text
    )
    assert "never: single task: CPU 0: idle; CPU 1: 1; CPU 2: 2~, 0+2~" in text
