"""The nodes on which threads end, on real kernels (oracle/behaviour) and in the replay.

The criterion follows from the recording itself. Every replay has to show exactly the recorded number of threads per node, from
the first second on, because all but one of the 27 scenarios were that stable. In the remaining one (eight threads on the four
CPUs of nodes 1 and 2 under the authors' patches) threads went on changing CPUs until the end, from CPU 2 to 4 and back. With
the patch every idle CPU balances for the CPUs of its group, even if its group has only one of the two nodes. A thread that may
not run on it goes to the first CPU of the group that is allowed (LBF_DST_PINNED). In the replay the way back often comes only
in the next pass, 16 ms later; in the kernel's six samples it had always come. For that scenario the test compares the number of
samples with two threads on each CPU, and the mean number of threads, by the criterion of docs/recorded-vs-replayed.md.

Of Linux 6.1 only the domains are compared, because the samples are of Debian's 6.1.0, whose balancer the replay does not have.
"""

from __future__ import annotations

import numpy as np
import pytest
from support.behaviour_oracle import (
    FILES,
    kernel_model,
    load,
    machine,
    per_node,
    scenarios,
    wanders,
)

from wastedcores.errors import ModelWarning, UnknownKernelError
from wastedcores.simulator import replay_scenario
from wastedcores.topology.domains import domain_events
from wastedcores_studies.recordings.agreement import agrees

REPLAYED = ("4.1.3", "4.1.3-patched", "4.12")
SEEDS = range(1, 11)
CASES = [(k, name) for k in REPLAYED for name in scenarios(k)]
WANDERING = [("4.1.3-patched", "gc-n1n2-double")]


def test_threads_wander_in_one_recorded_scenario():
    assert [c for c in CASES if wanders(scenarios(c[0])[c[1]])] == WANDERING
    assert len(CASES) == 27


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "name"), [c for c in CASES if c not in WANDERING])
def test_threads_end_on_the_recorded_nodes(kernel, name):
    case, scenario = load(kernel), scenarios(kernel)[name]
    recorded = scenario["samples"][-1]["per_node"]
    for seed in SEEDS:
        assert per_node(kernel, case, scenario, seed, 2) == [recorded] * 2, f"seed {seed}"


def test_threads_that_wander_are_on_the_recorded_nodes_on_average():
    ((kernel, name),) = WANDERING
    case, scenario = load(kernel), scenarios(kernel)[name]
    recorded = scenario["mean_per_node"]
    like_recorded = [s["per_node"] for s in scenario["samples"]]
    means, alike = [], []
    for seed in range(1, 21):
        samples = per_node(kernel, case, scenario, seed, len(like_recorded))
        means.append(np.mean(samples, axis=0))
        alike.append(sum(a == b for a, b in zip(samples, like_recorded, strict=True)))
    assert agrees(len(like_recorded), alike), sorted(alike)
    for node in range(8):
        replays = [m[node] for m in means]
        assert agrees(recorded[node], replays), f"node {node}: {recorded[node]}, {sorted(replays)}"


@pytest.mark.parametrize("kernel", FILES)
def test_number_of_domains_before_and_after_hotplug(kernel):
    case = load(kernel)
    m = machine(case).after([("offline", 5), ("online", 5)])
    for event in domain_events(m, kernel_model(kernel)):
        recorded = {int(c): n for c, n in case["domains_after_hotplug"][event.when].items()}
        modelled = {cpu: len(event.of(cpu)) for cpu in event.cpus}
        # the kernel still prints an offline CPU, without domains
        assert modelled == {c: n for c, n in recorded.items() if n}, event.when


def test_what_the_replay_does_not_stand_for():
    with pytest.raises(UnknownKernelError, match="the balancer of exactly this release"):
        replay_scenario("recorded-gc", "6.1")
    with pytest.warns(ModelWarning, match=r"balances, wakes and tracks load as v4\.1 does"):
        replay_scenario("recorded-gc", "4.12", "bd-paper-16", given={"limit_s": 0.01})
