"""Recordings of kinds of work that the replay was not built with, judged by code of their own (support/kept_back)."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest
from support import ROOT
from support.kept_back.judging import judge, recordings, shares, summary, table
from support.kept_back.measuring import helped, measure, worker
from support.kept_back.predicting import predict
from support.kept_back.reading import (
    MIGRATE,
    NEW,
    SWITCH,
    WAKE,
    Event,
    Run,
    meta_of,
    recorded,
    replayed,
    running_aside,
)
from support.kept_back.work import machine_of, model_of, workload

from wastedcores.simulator import replay

#: the shares of all quantities of a kernel that must agree (docs/kept-back.md), so that no change makes it worse unseen
AT_LEAST = {"6.1": 0.90, "6.12": 0.90}
PAGE = ROOT / "docs" / "kept-back.md"


def test_threads_are_helped_one_to_one():
    assert helped([0b11, 0b11, 0b11], 0b11) == 2
    assert helped([0b01, 0b01], 0b11) == 1
    assert helped([0b11, 0b01, 0b10], 0b11) == 2
    assert helped([0b011, 0b001, 0b110], 0b111) == 3  # the first one has to give way
    assert helped([0b100], 0b011) == 0


def test_a_run_in_numbers():
    """Two CPUs: b-1 runs on CPU 0 and b-2 waits there for 400 us beside the idle CPU 1, which then takes it."""
    us = 1000
    events = [
        Event(0, NEW, 0, 1, 0, False),
        Event(0, SWITCH, 0, 1, 0, False),
        Event(100 * us, WAKE, 0, 2, 0, False),
        Event(500 * us, MIGRATE, 1, 2, 0, False),
        Event(500 * us, SWITCH, 1, 2, 0, False),
        Event(1000 * us, SWITCH, 0, 0, 1, False),
    ]
    run = Run(events, {0: "swapper", 1: "b-1", 2: "b-2"}, (0, 1000 * us))
    found = measure(run, [0, 1], {})
    assert found == pytest.approx(
        {
            "seconds": 0.001,
            "busy CPUs": 1.5,
            "CPUs wasted": 0.4,
            "idle beside waiting": 0.4,
            "episodes per s": 1000,
            "longest episode, ms": 0.4,
            "moves per s": 1000,
        }
    )
    bound = measure(run, [0, 1], {"b": 0b01})
    assert bound["CPUs wasted"] == 0


def test_the_readers_window_and_busy_cpus_are_what_the_guest_measured():
    folder = next(f for f in recordings() if f.name == "bar8-two4-6.1")
    run = recorded(folder)
    assert (run.window[1] - run.window[0]) / 1e9 == pytest.approx(0.543121, rel=1e-3)
    found = measure(run, list(range(8)), {})
    # 8 processes compute 250 times 2 ms each
    assert found["busy CPUs"] == pytest.approx(8 * 250 * 0.002 / 0.543121, rel=0.02)


def test_debian_12_is_replayed_without_autogroups_but_with_the_weights_of_control_groups():

    models = {f.name: model_of(meta_of(f)) for f in recordings()}
    assert models["per16-two4-6.1"] == "v6.1.192+noautogroup"
    assert models["per16-two4-6.12"] == "v6.12.107"
    assert len(models) == 34


def test_a_machine_that_booted_with_some_of_its_cpus_is_replayed():
    """Periodic tasks on a machine whose last three CPUs did not boot: nothing runs there, and the replay ends."""

    folder = next(f for f in recordings() if f.name == "per16-two4-6.12")
    meta = meta_of(folder)
    meta["machine"] |= {"boot_online": "0-4"}
    machine = machine_of(meta)
    assert machine.online_cpus == (0, 1, 2, 3, 4)
    run = replayed(replay(workload(meta, 1, []), machine, model_of(meta), 1, load=False))
    assert {e.cpu for e in run.events if e.kind == SWITCH} == set(range(5))
    assert measure(run, [0, 1, 2, 3, 4], {})["busy CPUs"] > 4


def test_a_kernel_thread_that_ran_when_the_window_began_is_part_of_the_work():
    """Ciphers are tested on CPU 6 for the first 100.586 ms of this recording; kworkers are too short to count."""
    folder = next(f for f in recordings() if f.name == "bar8-two4-6.12")
    run = recorded(folder)
    aside = running_aside(run, lambda comm: comm == "shell" or worker(comm))
    assert aside == [("cryptomgr_test", 6, 100_586_000)]
    meta = meta_of(folder)
    found = replayed(
        replay(workload(meta, 1, aside), machine_of(meta), model_of(meta), 1, load=False)
    )
    (again,) = running_aside(found, lambda comm: comm == "shell" or worker(comm))
    assert again.comm == "cryptomgr_test"
    assert again.ns == pytest.approx(100_586_000, rel=0.1)  # work that shared its CPU comes on top


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_periodic_tasks_and_pipes_agree_as_the_page_says():
    page = PAGE.read_text()
    for name in ("chainp-llc2-6.12", "per18-uma8-6.12"):
        folder = next(f for f in recordings() if f.name == name)
        found = table(judge(folder))
        assert f"| `{name}` | {found['agrees'].sum()} of {found.height} |" in page


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_shares_of_the_page():
    found = table([row for folder in recordings() for row in judge(folder)])
    for kernel, least in AT_LEAST.items():
        assert found.filter(kernel=kernel)["agrees"].mean() >= least
    page = PAGE.read_text()
    assert summary(found) in page
    for by in ("work", "machine", "quantity"):
        assert shares(found, by) in page
    assert np.isfinite(found["median"].to_numpy()).all()
    assert found.select(pl.col("run").n_unique()).item() == 34


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["6.1", "6.12"])
def test_locks_are_predicted_from_their_traces(kernel):
    """Recovered from the trace alone: within 5 % under the recorded kernel, within 10 % of the recording of the other one."""
    found = predict(next(f for f in recordings() if f.name == f"mtx-three-{kernel}"), seeds=3)
    assert abs(found.itself) <= 0.05
    assert abs(found.other) <= 0.10


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_the_shares_of_what_if():
    """As docs/what-if.md says: 34 are answered, 29 within 5 % of their own recording and 32 within 10 % of the other kernel's."""
    found = [predict(folder) for folder in recordings()]
    assert all(p.itself is not None for p in found)
    assert sum(abs(p.itself) <= 0.05 for p in found) >= 29
    assert sum(abs(p.other) <= 0.10 for p in found) >= 32
    assert all(abs(p.other) <= 0.10 for p in found if p.trust != "low")
