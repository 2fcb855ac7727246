"""The domains that real kernels printed, case by case: levels, spans, groups in order, masks, flags, balance CPUs."""

from __future__ import annotations

import pytest
from support.domain_oracle import KERNELS, first_difference, load, model_events, names

CASES = [(kernel, name) for kernel in KERNELS for name in names(kernel)]


@pytest.mark.parametrize(("kernel", "name"), CASES)
def test_the_model_builds_what_the_kernel_printed(kernel, name):
    difference = first_difference(load(kernel, name))
    assert difference is None, difference


def test_all_323_cases_are_here():
    assert len(CASES) == 323


def test_a_wrong_model_is_noticed_and_named():
    case = load("4.1.3", "bd-paper-8x2-pair")
    case["kernel"] = "4.12"
    assert "after cpu5 online, cpu 0: kernel has levels ['MC'], model" in first_difference(case)
    case["kernel"] = "4.1.3-patched"
    assert "boot, cpu 1, domain 1 (NUMA)" in first_difference(case)
    case["kernel"] = "6.1"
    assert "domain 0 (MC): kernel has flags 0x22f, model 0x122e" in first_difference(case)


@pytest.mark.parametrize("kernel", ["6.12", "7.2"])
def test_cases_of_kernels_of_today_compare_flags_and_numbers(kernel):
    cases = [load(kernel, name) for name in names(kernel)]
    assert all(e["debugfs"] for case in cases for e in case["events"])
    assert min(min(len(d) for d in case["events"][0]["debugfs"].values()) for case in cases) == 0
    assert (
        sum(len(d) for case in cases for e in case["events"] for d in e["debugfs"].values()) > 4000
    )


@pytest.mark.parametrize(
    ("kernel", "name", "field", "value"),
    [
        ("6.12", "steps-die", "min_interval", 99),
        ("7.2", "boot-isol", "max_interval", 99),
        ("7.2", "gnr-snc3", "flags", ["SD_NUMA"]),
        ("6.12", "die-1s2d4c", "imbalance_pct", 125),
    ],
)
def test_a_wrong_flag_or_number_is_noticed(kernel, name, field, value):
    case = load(kernel, name)
    case["events"][-1]["debugfs"]["0"][-1][field] = value
    assert f"kernel has {field}" in first_difference(case)


@pytest.mark.parametrize(
    ("kernel", "name", "other"),
    [
        ("7.2", "gnr-snc3", "6.18.1"),
        ("7.2", "boot-isol", "6.12.107"),
        ("6.12", "ring4x2", "7.2.13"),
    ],
)
def test_the_differences_between_6_12_and_7_2_are_seen(kernel, name, other):
    case = load(kernel, name)
    case["kernel"] = other
    assert first_difference(case) is not None


def test_a_wrong_group_order_is_noticed():
    case = load("6.1", "ring8x2")
    groups = case["events"][0]["domains"]["5"][2]["groups"]
    groups[0], groups[1] = groups[1], groups[0]
    assert "boot, cpu 5, domain 2 (NUMA): kernel has groups" in first_difference(case)


def test_model_events_have_the_files_titles():
    case = load("4.1.3", "bd-paper-8x2-pair")
    assert [e.when for e in model_events(case)] == [
        "boot",
        "after cpu5 offline",
        "after cpu5 online",
    ]
