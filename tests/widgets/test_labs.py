"""The widgets that replay: they show what the functions behind them return, and refuse in a sentence."""

from __future__ import annotations

import numpy as np
import pytest

from wastedcores.analysis.compare import compare
from wastedcores.analysis.examined import examine
from wastedcores.errors import ModelWarning, UsageError
from wastedcores.figures.heatmaps import heatmap
from wastedcores.kernels import KernelModel
from wastedcores.simulator import replay, replay_scenario
from wastedcores.simulator.plain.modules import Module
from wastedcores.widgets import design_lab, replay_lab
from wastedcores.widgets.replays import _gain
from wastedcores.words.replays import refused, runs_compared
from wastedcores.workload.scenarios import SCENARIOS, as_text, scenario

SMALL = {"n": 4, "limit_s": 0.2}


@pytest.fixture
def box():
    box = replay_lab("missing-domains", **SMALL)
    box.machine.value = "bd-paper-16"
    return box


@pytest.mark.slow
def test_both_kernels_are_replayed_and_compared(box):
    assert box.kernels == ("v4.1", "v4.1+missing_domains")
    assert box.figure.drawn is None  # nothing is computed before the button is pressed
    box.run_button.click()
    runs = {k: replay_scenario("missing-domains", k, "bd-paper-16", 1, SMALL) for k in box.kernels}
    found = compare(runs)
    assert box.table.value == runs_compared(found).html
    before, after = found.table["wasted_core_s"]
    assert f"{1 - after / before:.0%} less core time is wasted" in box.says.value
    start, end = box.figure.pair.window
    for i, run in enumerate(runs.values()):
        scene = examine(run.trace).scene
        z = np.asarray(box.figure.drawn.data[i].z)
        seen = scene.states.bin(
            *(t + scene.window[0] for t in (start, end)), cols=600, cpus=scene.cpus
        )
        inside = z >= 0
        assert inside.mean() > 0.9
        assert np.array_equal(z[inside], np.minimum(seen.longest, 5)[inside])


def test_fields_follow_the_scenario_and_errors_are_sentences(box):
    for name in SCENARIOS:
        box.scenario.value = name
        fields = {c.description: c.value for c in box.parameters.children}
        assert fields == {k: as_text(v) for k, v in scenario(name).parameters().items()}
        assert box.given() == {}
        assert box.machine.value == scenario(name).machine
    box.scenario.value = "missing-domains"
    next(c for c in box.parameters.children if c.description == "limit_s").value = "soon"
    box.table.value = "the numbers of a replay before"
    box.run_button.click()
    assert "limit_s" in box.says.value
    assert box.table.value == ""
    assert box.figure.contents.figure["figure"] is None
    assert not box.run_button.disabled
    box.fixes.value = ()
    box.run_button.click()
    assert "at least one fix" in box.says.value


def test_the_menus_offer_what_a_replay_has_and_numbers_come_with_their_warning():
    box = replay_lab("missing-domains", n=4, limit_s=0.01)
    assert all(KernelModel.named(name).is_replayed for name in box.kernel.options)
    box.machine.value = "bd-paper-16"
    for name in box.kernel.options:
        box.kernel.value = name
        before, after = map(KernelModel.named, box.kernels)
        assert before != after
    box.kernel.value = "v4.19"
    assert box.fixes.value == ("group_imbalance", "overload_on_wakeup")
    with pytest.warns(ModelWarning):
        box.run_button.click()
    assert "Kernel v4.19: the replay uses the domains and groups of v4.19" in box.says.value
    assert "do not read its numbers as those of a real v4.19." in box.says.value


@pytest.mark.parametrize(
    ("before_s", "after_s", "says"),
    [(0, 0, "nothing to gain"), (0, 0.5, "with them 500 ms of core time"), (2, 1, "50% less"), (1, 2, "100% more")],
)  # fmt: skip
def test_the_gain_is_said_in_both_directions(before_s, after_s, says):
    assert says in _gain(before_s, after_s)


def test_values_are_written_as_they_are_read_and_what_is_unknown_is_refused():
    box = replay_lab("tpch", pools=(3, 2))
    pools = next(c for c in box.parameters.children if c.description == "pools")
    assert (pools.value, box.given()) == ("3+2", {"pools": "3+2"})
    assert scenario("tpch").values(box.given())["pools"] == (3, 2)
    for ask, says in (
        (lambda: replay_lab("missing-domains", nn=4), "no parameter 'nn'; did you mean n"),
        (lambda: replay_lab("missing-domains", n="many"), "n=many; expected a whole number"),
        (lambda: replay_lab("missing-domain"), "Did you mean missing-domains"),
        (lambda: design_lab(scenario="missing-domain"), "Did you mean missing-domains"),
    ):
        with pytest.raises(UsageError, match=says):
            ask()


class AlwaysZero(Module):
    """Suggests CPU 0 for every wakeup, which the core must refuse while another CPU is idle."""

    name = "always_zero"

    def suggest_cpu(self, k, p, waker_cpu, why):
        return 0


class Broken(Module):
    """Answers with a text."""

    name = "broken"

    def suggest_cpu(self, k, p, waker_cpu, why):
        return "zero"


def test_refusals_of_a_module_are_listed():
    box = design_lab(AlwaysZero())
    next(c for c in box.parameters.children if c.description == "iterations").value = "5"
    box.run_button.click()
    work = scenario("overload-on-wakeup").workload(examine_machine(), 1, {"iterations": 5})
    trace = replay(work, "bd-paper-16", until_ns=1_000_000_000, modules=[AlwaysZero()]).trace
    assert box.table.value == refused(trace).html
    assert "always_zero: " in box.table.value
    same = heatmap(examine(trace).scene, cols=900)
    assert np.array_equal(box.figure.drawn.data[0].z, same.data[0].z)
    message = {"kind": "look", "lo": 0.24, "hi": 0.25, "by": "a view", "number": 1}
    box.figure.contents._handle_custom_msg(message, [])
    assert box.figure.contents.figure["view"]["window"] == [0.24, 0.25]


def test_a_broken_module_is_named():
    box = design_lab(Broken())
    box.run_button.click()
    assert "suggest_cpu" in box.says.value
    assert box.figure.drawn is None
    with pytest.raises(UsageError, match="with parentheses"):
        design_lab(AlwaysZero)


def examine_machine():
    """The machine that the widget offers first."""
    from wastedcores.topology.machine import Machine

    return Machine.preset("bd-paper-16")
