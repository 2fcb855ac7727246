"""A recording and a replay of the same workload, examined together."""

from __future__ import annotations

import pytest

import wastedcores as wc
from wastedcores.errors import DatasetError, UsageError
from wastedcores_studies.recordings.recording import recorded_and_replayed, windows


def test_bundled_recording_and_its_replay():
    recorded, replayed = recorded_and_replayed("group-construction-buggy")
    assert recorded.cpus == replayed.cpus == list(range(8, 24))
    lengths = [end - start for start, end in windows(recorded, replayed)]
    assert lengths == pytest.approx([3.0e9, 3.0e9], rel=0.01)
    busy = [r.result.mean(r.result.busy_ns) for r in (recorded, replayed)]
    assert busy == pytest.approx([8, 8], abs=0.1)
    # the headers name the window, so a comparison needs no further information
    found = wc.compare({r.label: r.trace for r in (recorded, replayed)})
    assert found.table["makespan_s"].to_list() == pytest.approx([3.0, 3.0], rel=0.01)


@pytest.mark.parametrize(
    ("name", "kernel"),
    [
        ("missing-domains-fixed", "v4.1+missing_domains:patch"),
        ("lu-pinned-buggy", "v4.1"),
        ("overload-on-wakeup-fixed", "v4.1+overload_on_wakeup:patch"),
    ],
)
def test_every_kind_is_replayed_under_the_kernel_it_was_recorded_on(name, kernel):
    recorded, replayed = recorded_and_replayed(name, seed=2)
    assert replayed.trace.header.kernel_release == kernel
    assert replayed.trace.header.cpus == recorded.trace.header.cpus == 64
    assert replayed.label == "replayed, seed 2"


class _Asked(Exception):
    pass


@pytest.mark.parametrize(
    ("name", "kernel"), [("gi-6.1-64cpu", "v6.1.192+noautogroup"), ("gi-gi-64cpu", "v4.1+group_imbalance:patch")]
)  # fmt: skip
def test_a_recording_is_replayed_with_its_guests_setting_of_autogroups(name, kernel, monkeypatch):
    def replay(workload, machine, kernel, seed):
        raise _Asked(kernel.name)

    monkeypatch.setattr("wastedcores_studies.recordings.recording.replay", replay)
    with pytest.raises(_Asked) as asked:
        recorded_and_replayed(name)
    assert str(asked.value) == kernel


def test_a_data_set_that_is_no_recording_of_a_workload():
    with pytest.raises(UsageError, match="does not say which workload"):
        recorded_and_replayed("live-balancing-on")
    with pytest.raises(DatasetError, match="no data set of that name"):
        recorded_and_replayed("gc-buggy-63cpu")


def test_recording_of_the_repository():
    recorded, replayed = recorded_and_replayed("gc-sgclit-16cpu")
    assert recorded.cpus == replayed.cpus == [2, 3, 4, 5]
    assert recorded.trace.header.cpus == 16
    start, end = windows(recorded)[0]
    assert (end - start) / 1e9 == pytest.approx(3.0, rel=0.01)
