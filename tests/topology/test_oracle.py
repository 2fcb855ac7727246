"""What real kernels printed, case by case: levels, spans, groups and their order, masks, flags, balance CPUs."""

from __future__ import annotations

import pytest
from support import DOMAIN_GOLDEN as GOLDEN
from support.domain_oracle import first_difference, load, model_events

KERNELS = ("4.1.3", "4.1.3-nodebug", "4.1.3-patched", "4.12", "6.1")


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda p: p.stem)
def test_bundled_case(path):
    difference = first_difference(load(path))
    assert difference is None, difference


@pytest.mark.parametrize("kernel", KERNELS)
def test_every_case_of_the_oracle(kernel, shared_dir):
    cases = sorted((shared_dir / "oracle" / kernel).glob("*.json"))
    assert cases
    differences = [d for path in cases if (d := first_difference(load(path)))]
    assert not differences, "\n".join(differences)


def test_a_wrong_model_is_noticed_and_named():
    case = load(GOLDEN / "4.1.3-bd-paper-8x2-pair.json")
    case["kernel"] = "4.12"
    assert "after cpu5 online, cpu 0: kernel has levels ['MC'], model" in first_difference(case)
    case["kernel"] = "4.1.3-patched"
    assert "boot, cpu 1, domain 1 (NUMA)" in first_difference(case)
    case["kernel"] = "6.1"
    assert "domain 0 (MC): kernel has flags 0x22f, model 0x122e" in first_difference(case)


def test_a_wrong_group_order_is_noticed():
    case = load(GOLDEN / "6.1-ring8x2.json")
    groups = case["events"][0]["domains"]["5"][2]["groups"]
    groups[0], groups[1] = groups[1], groups[0]
    assert "boot, cpu 5, domain 2 (NUMA): kernel has groups" in first_difference(case)


def test_model_events_have_the_files_titles():
    case = load(GOLDEN / "4.1.3-bd-paper-8x2-pair.json")
    assert [e.when for e in model_events(case)] == [
        "boot",
        "after cpu5 offline",
        "after cpu5 online",
    ]
