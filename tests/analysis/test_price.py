"""Whether moving a waiting thread would have paid, against waits that are computed by hand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predict_recordings import bounded, recorded_on
from support import RECORDINGS
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.analysis.explain import explain
from wastedcores.analysis.price import CANNOT_TELL, PAYS, RIGHTLY_IDLE, price, weigh_waits
from wastedcores.capture.snapshot import read_snapshot, with_snapshot
from wastedcores.errors import UsageError
from wastedcores.invariant import check
from wastedcores.kernels import FIXES
from wastedcores.prediction import whatif
from wastedcores.prediction.machines_and_kernels import elsewhere
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.header import TaskFacts
from wastedcores.words.cause import price_sentences
from wastedcores.workload import Script, Workload
from wastedcores_studies.recordings.recording import Recording

US, MS = 1_000, 1_000_000
#: CPUs 0 and 1 share a cache, CPU 2 is on their node, and CPU 3 is on another one
MACHINE = Machine.from_dict(
    {
        "name": "near and far",
        "cpus": 4,
        "node_of_cpu": [0, 0, 0, 1],
        "llc_of_cpu": [0, 0, 1, 2],
        "distance": [[10, 20], [20, 10]],
    }
)


def waits(*rows):
    """Waits in us: beside any idle CPU, one of the node, one of the cache, and whether no thread was before it."""
    columns = zip(*rows, strict=True)
    table = dict(zip(("any_ns", "node_ns", "cache_ns", "alone"), columns, strict=True))
    return pl.DataFrame(table).with_columns(pl.col("^.*_ns$") * US)


def far(us):
    return us, 0, 0, False


def near(us):
    return us, us, us, False


def test_shares_and_the_turning_point_of_five_waits():
    """Of 4 ms, 2 are longer than 1 ms; 0.7 than 0.5 ms; 0.3 than 0.25 ms; 0.2 end near; and 0.8 are the CPU's own waking."""
    found = weigh_waits(waits(far(2000), far(700), far(300), near(200), (800, 800, 0, True)))
    assert (found.share_least, found.share, found.share_most) == (0.5, 2.9 / 4, 3.2 / 4)
    assert (found.waits, found.waited_ns, found.waking_ns) == (5, 4 * MS, 800 * US)
    assert (found.cache_ns, found.node_ns, found.far_ns) == (200 * US, 0, 3 * MS)
    assert (found.judgement, found.turns_at_ns) == (PAYS, 2 * MS)


@pytest.mark.parametrize(
    ("rows", "judgement", "turns_us"),
    [
        ([far(1001)], PAYS, 1001),
        ([far(1000)], CANNOT_TELL, 1000),  # a wait as long as the price gains nothing
        ([far(251)], CANNOT_TELL, 251),
        ([far(250)], RIGHTLY_IDLE, 250),
        ([near(501)], PAYS, 501),
        ([near(1)], CANNOT_TELL, 1),
        ([(5000, 5000, 5000, True)], RIGHTLY_IDLE, 0),
        ([far(2000), far(200), far(1900)], PAYS, 1900),
        # for most of the time the near CPU was busy again, but the far one would have done
        ([(1200, 100, 100, False)], PAYS, 1200),
        ([far(400)] * 6 + [(2500, 2500, 2500, True)], RIGHTLY_IDLE, 0),
    ],
)
def test_the_judgement_is_that_of_both_ends_of_the_range(rows, judgement, turns_us):
    found = weigh_waits(waits(*rows))
    assert (found.judgement, found.turns_at_ns) == (judgement, turns_us * US)


def test_wakings_do_not_hide_waits_where_cpus_were_wasted():
    """Of 5 ms, 3 are wakings; of the other 2, 1.8 are in a wait longer than any price."""
    table = waits(far(1800), far(200), *[(300, 300, 300, True)] * 10)
    assert weigh_waits(table).judgement == RIGHTLY_IDLE
    found = weigh_waits(table, waking_counts=False)
    assert (found.judgement, found.turns_at_ns) == (PAYS, 1800 * US)
    assert (found.waited_ns, found.waking_ns, found.judged_ns) == (5 * MS, 3 * MS, 2 * MS)
    assert (found.share_least, found.share, found.share_most) == (0.9, 0.9, 0.9)
    assert "90 % of the rest was" in price_sentences(found)[1]
    alone = weigh_waits(waits((300, 0, 0, True)), waking_counts=False)
    assert (alone.judgement, alone.judged_ns) == (RIGHTLY_IDLE, 300 * US)


def test_where_distances_are_unknown_both_ends_take_the_worse_distance():
    for us, known, unknown in ((2000, PAYS, PAYS), (700, PAYS, CANNOT_TELL)):
        assert weigh_waits(waits(near(us))).judgement == known
        assert weigh_waits(waits(near(us)), topology_known=False).judgement == unknown
    assert weigh_waits(waits(far(100))).judgement == RIGHTLY_IDLE
    assert weigh_waits(waits(far(100)), topology_known=False).judgement == CANNOT_TELL


@given(
    st.lists(
        st.tuples(*[st.integers(0, 3000)] * 3, st.booleans()).map(
            lambda w: (*sorted(w[:3], reverse=True), w[3])
        ),
        min_size=1,
    )
)
def test_a_dearer_move_never_pays_for_more(rows):
    found = weigh_waits(waits(*rows))
    if found is None:
        assert sum(r[0] for r in rows) == 0
        return
    assert 0 <= found.share_least <= found.share <= found.share_most <= 1
    parts = found.waking_ns + found.cache_ns + found.node_ns + found.far_ns
    assert parts == found.waited_ns == sum(r[0] for r in rows) * US

    def longer(ns):
        return sum(r[0] for r in rows if not r[3] and r[0] * US >= ns) * 2 * US

    turn = found.turns_at_ns
    assert turn == 0 or longer(turn) >= found.waited_ns > longer(turn + 1)


def queue(*more, allowed=None, **header):
    """Thread 11 waits on CPU 0 from 10 to 60 ms. CPU 1 is idle from 20 to 40 ms, CPU 2 from 30 to 50, CPU 3 always."""
    rows = [
        *(switch(0, cpu, 0, "R", 10 * (cpu + 1)) for cpu in (0, 1, 2)),
        switch(0, 3, 40, "S", 0),
        wakeup(10 * MS, 0, 11),
        switch(20 * MS, 1, 20, "S", 0),
        switch(30 * MS, 2, 30, "S", 0),
        wakeup(40 * MS, 1, 20),
        switch(40 * MS, 1, 0, "R", 20),
        wakeup(50 * MS, 2, 30),
        switch(50 * MS, 2, 0, "R", 30),
        switch(60 * MS, 0, 10, "S", 11),
        switch(1200 * MS, 0, 11, "S", 0),
        *more,
    ]
    if allowed:
        pids = (10, 11, 20, 30, 40)
        header["tasks"] = [{"pid": p, "allowed": allowed if p == 11 else "0-3"} for p in pids]
    return trace_of(sorted(rows, key=lambda r: r["ts_ns"]), cpus=4, **header)


@pytest.mark.parametrize(
    ("allowed", "distances"),
    [
        (
            None,
            (20, 10, 20),
        ),  # the cache 20 to 40, the node also 40 to 50, and before and after only the other node
        ("0-1", (20, 0, 0)),
        ("0,2", (0, 20, 0)),
        ("0,3", (0, 0, 50)),
    ],
)
def test_the_nearest_idle_cpu_that_the_thread_may_use_counts(allowed, distances):
    found = price(check(queue(allowed=allowed)), MACHINE)
    assert (found.cache_ns, found.node_ns, found.far_ns) == tuple(ms * MS for ms in distances)
    assert (found.waits, found.waking_ns, found.judgement) == (1, 0, PAYS)


def test_only_the_window_counts():
    found = price(check(queue(), between=(45 * MS, 1190 * MS)), MACHINE)
    assert (found.cache_ns, found.node_ns, found.far_ns) == (0, 5 * MS, 10 * MS)


def test_a_snapshot_that_the_header_does_not_have_limits_where_a_thread_may_go():
    tasks = [TaskFacts(pid=p, allowed="0,2" if p == 11 else "0-3") for p in (10, 11, 20, 30, 40)]
    result = check(queue(known=False, quotas={}, follows_affinity=True), ignore_affinity=False)
    found = price(result, MACHINE, tasks)
    assert (found.cache_ns, found.node_ns, found.far_ns) == (0, 20 * MS, 0)


def test_a_wait_that_goes_on_behind_another_cache_is_one_wait_of_two_distances():
    """On CPU 0 until 25 ms, with CPU 1 near from 20; then on CPU 2's queue, where CPU 1 is of the node until 40."""
    rows = [
        *(switch(0, cpu, 0, "R", 10 * (cpu + 1)) for cpu in (0, 1, 2)),
        switch(0, 3, 40, "S", 0),
        wakeup(10 * MS, 0, 11),
        switch(20 * MS, 1, 20, "S", 0),
        migrate(25 * MS, 0, 2, 11),
        wakeup(40 * MS, 1, 20),
        switch(40 * MS, 1, 0, "R", 20),
        switch(60 * MS, 2, 30, "S", 11),
        switch(1200 * MS, 2, 11, "S", 0),
    ]
    found = price(check(trace_of(rows, cpus=4)), MACHINE)
    assert (found.waits, found.turns_at_ns) == (1, 50 * MS)
    assert (found.cache_ns, found.node_ns, found.far_ns) == (5 * MS, 15 * MS, 30 * MS)


def waking(wait_us, times=100):
    """Threads 10 and 11 wake on CPU 0 in turn: 10 finds it idle and runs after 30 us, 11 waits behind it for a while."""
    rows = [switch(0, c, 50 + c, "S", 0) for c in range(4)]
    for k in range(times):
        t = 2 * k * MS + MS
        rows += [
            wakeup(t, 0, 10),
            switch(t + 30 * US, 0, 0, "R", 10),
            wakeup(t + 100 * US, 0, 11),
            switch(t + (100 + wait_us) * US, 0, 10, "S", 11),
            switch(t + (200 + wait_us) * US, 0, 11, "S", 0),
        ]
    return trace_of(rows, cpus=4, kernel_release="4.1.3")


@pytest.mark.parametrize(
    ("wait_us", "judgement"), [(20, RIGHTLY_IDLE), (40, CANNOT_TELL), (600, PAYS)]
)
def test_a_thread_that_waits_for_its_own_idle_cpu_gains_nothing_by_moving(wait_us, judgement):
    found = explain(check(waking(wait_us)), MACHINE).price
    assert found.waking_ns == 100 * 30 * US
    assert found.cache_ns == 100 * wait_us * US
    assert found.judgement == judgement


def test_the_sentences_have_the_numbers():
    cannot = " ".join(price_sentences(weigh_waits(waits(far(400)))))
    assert "cannot be told" in cannot
    assert "--refill-us 400" in cannot
    rightly = " ".join(price_sentences(weigh_waits(waits(far(100), (50, 50, 50, True)))))
    assert "Idle, and rightly so" in rightly
    assert "only 0 % of this time" in rightly
    assert "33 % while only their own CPU had to wake up" in rightly
    assert "turns if a move costs 100 us" in rightly
    pays = price_sentences(weigh_waits(waits(far(4000), near(4000))))
    assert "50 % with one behind the same last-level cache" in pays[0]
    assert "would have paid: even if a move costs 500 us" in pays[1]
    assert price_sentences(None) == []
    unknown = price_sentences(weigh_waits(waits(far(400)), topology_known=False))
    assert "--machine" in unknown[-1]


def test_a_doubtful_verdict_never_says_that_moving_pays():
    lossy = check(queue(lost={0: 7}))
    assert lossy.verdict == "unknown"
    found = price(lossy, MACHINE)
    assert (found.judgement, found.verdict_known) == (CANNOT_TELL, False)
    assert "verdict is unknown" in price_sentences(found)[-1]


def test_a_cpu_without_events_is_idle_if_the_check_took_it_for_idle():
    """Two threads share CPU 0, and the other CPUs have no event."""
    turns = [switch(4 * MS * k, 0, 1 + k % 2, "R", 2 - k % 2) for k in range(101)]
    result = check(trace_of([wakeup(1, 0, 2), *turns], cpus=4), silent="idle")
    assert price(result, MACHINE).waited_ns == result.avoidable["avoidable_ns"].sum() > 0


def test_a_trace_without_tasks_or_waste_has_no_price():
    assert explain(check(queue(), between=(70 * MS, 1190 * MS)), MACHINE).price is None
    assert explain(check(queue(), between=(70 * MS, 1190 * MS)), MACHINE).to_json()["price"] is None
    lengths = check(trace_of([nr(0, 0, 0), nr(0, 1, 2), nr(200 * MS, 0, 1)], cpus=2))
    assert lengths.wall_ns == 200 * MS
    assert price(lengths, MACHINE) is None


@pytest.mark.parametrize(
    "name",
    [
        "db64-buggy-64cpu", "gc-buggy-16cpu", "gc-buggy-64cpu", "gi-buggy-16cpu", "lu1ms-buggy-64cpu", "ms-buggy-16cpu",
    ],
)  # fmt: skip
def test_no_bug_of_the_paper_is_called_rightly_idle(name):
    recording = Recording.read(RECORDINGS / name)
    snapshot = read_snapshot(RECORDINGS / name / "tasks.json")
    result = check(with_snapshot(bounded(recording), snapshot, "tasks.json"))
    found = explain(result, recorded_on(recording), recording.kernel, snapshot.tasks)
    assert found.looks_like in FIXES
    assert found.price.judgement == PAYS
    assert found.price.waited_ns == result.avoidable["avoidable_ns"].sum()


@pytest.mark.slow
def test_the_cost_of_a_move_is_that_of_all_replays():
    """Three threads begin on one of two nodes, so that some have to move."""
    w = Workload("three", random_phase=False)
    for k in range(3):
        w.task(f"t{k}", Script().compute(50 * MS).sleep(5 * MS).compute(50 * MS), cpu=0)
    two = {"name": "two", "cpus": 2, "node_of_cpu": [0, 1], "distance": [[10, 20], [20, 10]]}
    trace = replay(w, Machine.from_dict(two), "v4.1").trace
    with pytest.raises(UsageError, match="refill_ns=-1"):
        whatif(trace, refill_ns=-1)
    free, charged = (
        whatif(trace, to=["core"], seeds=1, workers=1, refill_ns=ns) for ns in (0, 20 * MS)
    )
    assert not any("another last-level cache" in reason for reason in free.reasons)
    assert any("another last-level cache costs 20 ms" in reason for reason in charged.reasons)
    for before, after in zip(
        (free.itself, *free.variants), (charged.itself, *charged.variants), strict=True
    ):
        assert before.moves["across_caches_per_s"] > 0
        assert after.window_ns.median >= before.window_ns.median + 10 * MS
    moved = elsewhere(charged.work[0], charged.work[0].machine, None)
    assert moved.costs.refill_ns == 20 * MS
