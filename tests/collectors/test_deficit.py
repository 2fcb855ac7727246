"""The run-delay check finds CPUs whose threads wait too long, from the waiting time that the kernel counts per task."""

from __future__ import annotations

import importlib.util

import pytest

from wastedcores.files import collectors

SECOND = 1_000_000_000


@pytest.fixture(scope="module")
def deficit():
    spec = importlib.util.spec_from_file_location("_deficit", collectors() / "_deficit.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_shares_are_seconds_of_waiting_per_second_on_the_cpu_a_task_is_on_now(deficit):
    before = {1: (5 * SECOND, 0), 2: (0, 0), 3: (7 * SECOND, 1)}
    now = {1: (6 * SECOND, 0), 2: (SECOND, 1), 3: (7 * SECOND, 1), 4: (9 * SECOND, 0)}
    assert deficit.shares(before, now, [0, 1], 2.0) == {
        0: 0.5,
        1: 0.5,
    }  # task 4 is new and counts from now on


def test_a_pid_that_began_again_and_an_offline_cpu_count_nothing(deficit):
    assert deficit.shares({1: (SECOND, 0)}, {1: (0, 0), 2: (0, 9)}, [0], 1.0) == {0: 0.0}


@pytest.mark.parametrize(
    ("share", "bad"),
    [
        ({0: 0.9, 1: 0.0}, [0]),
        ({0: 0.2, 1: 0.0}, []),
        ({0: 0.9, 1: 0.8}, []),
        ({0: 0.9, 1: 0.8, 2: 0.05}, [0, 1]),
        ({0: 0.0}, []),
    ],
)
def test_a_deficit_is_much_waiting_beside_hardly_any(deficit, share, bad):
    assert deficit.deficits(share) == bad
