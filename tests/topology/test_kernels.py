"""Names of kernels, their fixes and modules, and what follows from them."""

from __future__ import annotations

import pytest

from wastedcores.errors import UnknownKernelError
from wastedcores.kernels import PRESETS, KernelModel, recorded_balancer, recorded_kernel


@pytest.mark.parametrize("name", PRESETS)
def test_presets_keep_their_names(name):
    kernel = KernelModel.named(name)
    assert kernel.name == name
    assert KernelModel.named(kernel.name) == kernel


@pytest.mark.parametrize(
    ("name", "canonical"),
    [
        ("4.1.3", "v4.1"),
        ("4.1.52", "v4.1.52"),
        ("4.1.3-nodebug", "v4.1"),
        ("4.1.3-patched", "v4.1+group_construction:patch+missing_domains:patch"),
        ("6.1.0-56-amd64", "v6.1"),
        ("6.18.44-fc-v669", "v6.18.44"),
        ("v4.1+msd+gi", "v4.1+group_imbalance+missing_domains"),
        ("v4.1+gi:patch+sgc:patch+oow:patch+msd:patch", "v4.1+all_fixes:patch"),
        ("6.12.107+deb13-amd64", "v6.12.107"),
        ("6.12.9+bpo-amd64", "v6.12.9"),
        ("6.1.0-0.deb11.25-amd64", "v6.1"),
        ("6.8.0-45-generic", "v6.8"),
        ("6.8.0-1015-aws", "v6.8"),
        ("5.14.0-503.el9.x86_64", "v5.14"),
        ("4.18.0-553.el8_10.x86_64", "v4.18"),
        ("6.11.4-301.fc41.x86_64", "v6.11.4"),
        ("6.17.0-0.rc3.250820gb19a97d57c15.33.fc44.x86_64", "v6.17"),
        ("6.4.0-150600.23.25-default", "v6.4"),
        ("6.18.1-arch1-1", "v6.18.1"),
        ("6.6.87.2-microsoft-standard-WSL2", "v6.6.87"),
        ("5.15.0+rt", "v5.15"),
        ("5.10.204-rt100", "v5.10.204"),
        ("6.18.0-rc3+", "v6.18"),
        ("5.10.66#8SMP", "v5.10.66"),
        ("6.19.3-arch1-1", "v6.19.3"),
        ("7.2.13+deb14-amd64", "v7.2.13"),
        ("6.1.128-136.201.amzn2023.x86_64", "v6.1.128"),
        ("6.6.51+rpt-rpi-v8", "v6.6.51"),
        ("6.18.0-next-20251201-00123-g1f2e3d-dirty", "v6.18"),
        ("6.2.16-4-bpo11-pve", "v6.2.16"),
        ("4.19.316", "v4.19"),
        ("4.1.52+group_construction", "v4.1.52+group_construction"),
        (" v4.12+group_construction:paper ", "v4.12+group_construction"),
        ("v4.19+fork_wait:1", "v4.19+fork_wait:1"),
        ("4.1.3+fork_wait:2+gi", "v4.1+group_imbalance+fork_wait:2"),
    ],
)
def test_names_as_kernels_and_people_write_them(name, canonical):
    assert KernelModel.named(name).name == canonical


@pytest.mark.parametrize(
    "release",
    [
        "6.12.107+deb13-amd64",
        "6.8.0-45-generic",
        "6.18.1-arch1-1",
        "6.18.0-rc3+",
        "7.2.13+deb14-amd64",
        "4.1.3",
    ],
)
def test_a_release_that_is_modelled_needs_no_note(release):
    assert recorded_kernel(release) == (KernelModel.named(release), None)


@pytest.mark.parametrize("release", ["7.3.0-rc1+", "7.12.1-arch1-1", "8.0.0"])
def test_a_newer_release_is_marked_where_it_ran_and_refused_where_it_is_named(release):
    model, note = recorded_kernel(release)
    assert model.name == "v7.2"
    assert release in note
    assert "the domains of v7.2" in note
    with pytest.raises(UnknownKernelError, match=r"newer than v7\.2"):
        KernelModel.named(release)


@pytest.mark.parametrize(
    ("release", "model"),
    [
        ("5.14.0-503.el9.x86_64", "v5.14"),
        ("4.18.0-553.el8_10.x86_64", "v4.18"),
        ("5.15.0-205.149.5.1.el9uek.x86_64", "v5.15"),
        ("6.4.0-150600.23.25-default", "v6.4"),
        ("4.12.14-122.37-default", "v4.12"),
        ("4.12.14-lp150.12.61-default", "v4.12"),
        ("5.10.0-136.12.0.86.oe2203sp1.x86_64", "v5.10"),
        ("5.10.134-16.al8.x86_64", "v5.10.134"),
        ("5.4.119-19.0009.tl3", "v5.4"),
        ("6.1.75-android14-11-g2c1b9d-ab12345", "v6.1.75"),
        ("6.12.1-zen1-1-zen", "v6.12.1"),
        ("6.11.0-1-liquorix-amd64", "v6.11"),
        ("6.12.3-2-cachyos", "v6.12.3"),
    ],
)
def test_a_vendors_kernel_with_later_changes_is_marked(release, model):
    found, note = recorded_kernel(release)
    assert found.name == model
    assert "its vendor" in note
    balancer = recorded_balancer(release)
    assert not balancer.replayed
    assert "its vendor" in balancer.reason


@pytest.mark.parametrize(
    "release",
    ["6.6.51+rpt-rpi-v8", "6.17.0-300.fc43.aarch64", "6.1.0-18-armmp", "5.15.0-1061-raspi"],
)
def test_another_architecture_is_marked(release):
    assert "not for x86-64" in recorded_kernel(release)[1]


@pytest.mark.parametrize("release", ["6.19.3-arch1-1", "7.0.1+deb14-amd64", "7.1.5"])
def test_a_release_between_those_that_were_compared_is_marked(release):
    assert "between v6.18 and v7.2" in recorded_kernel(release)[1]


@pytest.mark.parametrize(
    ("release", "nearest"),
    [
        ("5.15.0-119-generic", "v6.1"),
        ("5.10.204", "v6.1"),
        ("6.1.0-56-amd64", "v6.1"),
        ("6.1.128", "v6.1.166"),
        ("6.8.0-45-generic", "v6.6"),
        ("6.11.4", "v6.6"),
        ("6.12.9", "v6.12"),
        ("6.12.94", "v6.12.107"),
        ("6.14.0", "v6.12"),
        ("6.17.2", "v6.18"),
        ("6.18.5", "v6.18"),
        ("7.2.6", "v7.2.13"),
        ("7.9.0", "v7.2.13"),
    ],
)
def test_no_modern_kernel_is_replayed_as_v4_1(release, nearest):
    balancer = recorded_balancer(release)
    assert (balancer.nearest, balancer.replayed) == (nearest, False)
    assert nearest in balancer.reason


@pytest.mark.parametrize(
    "release", ["4.1.3", "4.19.0-26-amd64", "5.4.0-190-generic", "v4.1+all_fixes", "core"]
)
def test_kernels_before_5_5_are_replayed(release):
    assert recorded_balancer(release).replayed


def test_the_name_of_a_series_does_not_tell_the_stable_release():
    assert "does not tell" in recorded_balancer("6.8.0-45-generic").reason
    assert "does not tell" not in recorded_balancer("6.8.4").reason


def test_fixes_have_readings():
    k = KernelModel.named("v4.1+group_construction:patch+overload_on_wakeup")
    assert k.fixes == {"group_construction": "patch", "overload_on_wakeup": "paper"}
    assert k.every_cpu_balances
    assert not KernelModel.named("v4.1+group_construction").every_cpu_balances
    assert (k.group_imbalance, k.missing_domains) == (None, None)


@pytest.mark.parametrize(
    ("name", "builder", "generation", "loses"),
    [
        ("v3.19", "v4.1", "v4.1", True),
        ("v4.1", "v4.1", "v4.1", True),
        ("v4.1.52", "v4.1.52", "v4.1", True),
        ("v4.1+group_construction", "authors", "v4.1", True),
        ("v4.1+missing_domains", "v4.1", "v4.1", False),
        ("v4.9", "v4.1", "v4.1", False),
        ("v4.12", "v4.1", "v4.1", False),
        ("v4.13", "v4.13", "v4.1", False),
        ("v5.4", "v4.13", "v4.1", False),
        ("v5.5", "v4.13", "v5.5", False),
        ("v5.13", "v5.13", "v5.5", False),
        ("v6.1.166", "v5.13", "v5.5", False),
        ("v6.6", "v5.13", "v6.6", False),
        ("v6.11.3", "v5.13", "v6.6", False),
        ("v6.18", "v5.13", "v6.12", False),
        ("v7.2", "v5.13", "v6.12", False),
    ],
)
def test_what_a_version_means(name, builder, generation, loses):
    k = KernelModel.named(name)
    assert (k.group_builder, k.generation, k.loses_numa_levels) == (builder, generation, loses)


@pytest.mark.parametrize(
    ("variant", "fixes"),
    [
        ("buggy", {}),
        ("gi", {"group_imbalance": "patch"}),
        ("sgc", {"group_construction": "paper"}),
        ("sgclit", {"group_construction": "patch"}),
        ("oow", {"overload_on_wakeup": "patch"}),
        ("msd", {"missing_domains": "patch"}),
        (
            "all",
            {
                "group_imbalance": "patch",
                "group_construction": "paper",
                "overload_on_wakeup": "patch",
                "missing_domains": "patch",
            },
        ),
        ("6.1", {}),
        ("6.12", {}),
        ("7.2", {}),
    ],
)
def test_guest_variants(variant, fixes):
    assert KernelModel.of_guest_variant(variant).fixes == fixes


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v9.9", r"newer than v7\.2"),
        (
            "3.10.0-1160.el7.x86_64",
            "is older than v3.19, the oldest kernel that is modelled; give v3.19",
        ),
        ("v2.6", "is older than v3.19"),
        ("linux", "is unknown"),
        ("", "is unknown"),
        ("v4.l", r"did you mean v4\.[14]\?"),
        ("v4.1+group_constructon", r"did you mean group_construction\?"),
        ("v4.1+everything", "known are group_imbalance"),
        ("v4.1+group_imbalance:literal", "not a reading of a fix"),
        ("4.1.3+group_constructon", r"did you mean group_construction\?"),
        ("4.1.3+wakeup_v4_1", "optimisation module"),
        ("6.12.107 deb13", "is unknown"),
        ("6.12.107+NO_NI_RANDO", r"did you mean NO_NI_RANDOM\?"),
        ("6.12.107+noautogrup", r"did you mean noautogroup\?"),
        ("4.1.3+all_fixs", r"did you mean all_fixes\?"),
        ("4.19.0+fork_wait", "write fork_wait:1 or fork_wait:2"),
        ("v4.1+gi+group_imbalance:patch", "group_imbalance is given twice"),
        ("v4.1+fork_wait:1+fork_wait:2", "fork_wait is given twice"),
        ("v4.1+everything:literal", "unknown fix 'everything'"),
        ("v6.12.107+noautogroup:1", r"takes no value; write \+noautogroup"),
        ("v4.13+group_construction", "before 4.13"),
        ("v4.9+missing_domains", "before 4.9"),
        ("v6.1+group_imbalance", "before 5.5"),
        ("v6.1+all_fixes", "since when Linux has its own cure"),
        ("v4.1-all_fixes", r"write v4\.1\+all_fixes"),
        ("4.1-oow", r"write 4\.1\+oow"),
        ("v6.12.107-NO_NI_RANDOM", r"write v6\.12\.107\+NO_NI_RANDOM"),
    ],
)
def test_unknown_names_are_explained(name, message):
    with pytest.raises(UnknownKernelError, match=message):
        KernelModel.named(name)


def test_unknown_variant_lists_them():
    with pytest.raises(UnknownKernelError, match="alllit"):
        KernelModel.of_guest_variant("fixed")


def test_sched_debug_is_part_of_the_kernel():
    k = KernelModel.named("v4.1", sched_debug=True)
    assert k.sched_debug
    assert k != KernelModel.named("v4.1")


@pytest.mark.parametrize(
    ("release", "replayed", "stand_in"),
    [
        ("6.12.107+deb13-amd64", True, None),
        ("4.1.3", True, None),
        ("6.12.94+deb13-amd64", False, "v6.12.107"),
        ("6.8.0-45-generic", False, "v6.12.107"),
        ("6.1.0-56-amd64", False, "v6.1.192"),
        ("6.1.150", False, "v6.1.166"),
        ("5.15.0-119-generic", False, "v6.1.192"),
        ("v6.1.192", True, None),
        ("6.18.15+deb13-amd64", True, None),
        ("6.18.44-fc-v782", False, "v6.18.15"),
        ("7.2.13+deb14-amd64", True, None),
        ("7.3.1-arch1-1", False, "v7.2.13"),
        ("5.10.0-8-amd64", False, None),
        ("6.12.0-55.el10.x86_64", False, None),
        ("6.6.87-cachyos", False, None),
    ],
)
def test_a_near_release_stands_for_one_that_is_not_modelled(release, replayed, stand_in):
    """Only a release with the same fair class does, since 5.15, and never for a kernel whose vendor changed the scheduler."""
    found = recorded_balancer(release)
    assert (found.replayed, found.stand_in) == (replayed, stand_in)
    assert bool(found.reason) != replayed


def test_features_are_switched_off_by_name():
    kernel = KernelModel.named("v6.12.107+no_ni_random+NO_SIS_UTIL+overload_on_wakeup")
    assert kernel.name == "v6.12.107+overload_on_wakeup+NO_NI_RANDOM+NO_SIS_UTIL"
    assert KernelModel.named(kernel.name) == kernel
    assert kernel.rules.newidle == "cost"
    assert not kernel.rules.scan_limited
    assert kernel.rules.delayed_dequeue
    assert KernelModel.named("v6.12.107").rules.newidle == "random"


def test_slices_are_set_by_name():
    kernel = KernelModel.named("6.12.107+base_slice_ns:3000000+NO_NI_RANDOM")
    assert kernel.name == "v6.12.107+NO_NI_RANDOM+base_slice_ns:3000000"
    assert KernelModel.named(kernel.name) == kernel
    assert kernel.base_slice_ns == 3_000_000
    assert KernelModel.named("v6.12.107").base_slice_ns is None


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v6.12.107+NO_NI_RANDO", r"did you mean NO_NI_RANDOM\?"),
        ("v4.1+NO_NI_RANDOM", r"switches off a feature that only .*v6\.12\.107"),
        ("v6.1.166+NO_DELAY_DEQUEUE", "does not have the feature DELAY_DEQUEUE"),
        ("v6.12.107+overload_on_wakeup:patch", r"the authors' patch is for Linux 4\.1"),
        (
            "v6.1.192+base_slice_ns:3000000",
            r"of v6\.12\.107, v6\.18\.15, v7\.2\.13 only; kernels before v6\.6 do not",
        ),
        ("v6.12.107+base_slice_ns", r"whole number of ns from 100000 to 100000000"),
        ("v6.12.107+base_slice_ns:3ms", r"'3ms' is not a length of slices"),
        ("v6.12.107+base_slice_ns:99999", r"'99999' is not a length of slices"),
    ],
)
def test_switches_that_a_release_does_not_have(name, message):
    with pytest.raises(UnknownKernelError, match=message):
        KernelModel.named(name)


def test_the_strategies_of_the_fork_wait_paper_are_no_fixes():
    kernel = KernelModel.named("v4.1+all_fixes+fork_wait:2")
    assert (kernel.name, kernel.fork_wait) == ("v4.1+all_fixes+fork_wait:2", 2)
    assert KernelModel.named(kernel.name) == kernel
    assert KernelModel.named("v4.1+all_fixes").fork_wait == 0
    for wrong in ("v4.1+fork_wait", "v4.1+fork_wait:3", "v4.1+fork_wait:patch"):
        with pytest.raises(UnknownKernelError, match="write fork_wait:1 or fork_wait:2"):
            KernelModel.named(wrong)
