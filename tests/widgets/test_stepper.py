"""The stepper without a browser: it shows the figures of the steps, and its static figure has the same ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from wastedcores.figures.balancing import balancing_step
from wastedcores.lecture import EXAMPLES, TOPOLOGIES
from wastedcores.widgets import balancing_stepper, balancing_stepper_static
from wastedcores.words.balancing import ALGORITHM_1, decision

EXAMPLE = EXAMPLES["averages of groups"]


def shown(box):
    """The title, the bars and the marked line."""
    fig = box.figure.drawn
    bars, marked = fig.data[0], fig.data[3]
    return fig.layout.title.text, list(zip(bars.x, bars.y, bars.base, strict=True)), marked.y[0]


def of_step(example, i):
    fig = balancing_step(example.machine, example.decisions(), i)
    bars, marked = fig.data[0], fig.data[3]
    return fig.layout.title.text, list(zip(bars.x, bars.y, bars.base, strict=True)), marked.y[0]


@pytest.mark.slow
def test_forward_and_back():
    box = balancing_stepper(EXAMPLE)
    assert box.state == EXAMPLE
    assert box.back.disabled
    last = len(EXAMPLE.decisions()) - 1
    for i in range(1, last + 1):
        box.forward.click()
        assert box.number.value == i
        if i in (1, 6):
            assert shown(box) == of_step(EXAMPLE, i)
    assert box.forward.disabled
    box.forward.click()
    assert box.number.value == last
    box.back.click()
    assert shown(box) == of_step(EXAMPLE, last - 1)


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_example_can_be_chosen(name):
    box = balancing_stepper()
    box.example.value = EXAMPLES[name]
    assert box.state == EXAMPLES[name]
    assert box.number.value == 0
    box.step(len(box.decisions))
    assert shown(box)[0] == of_step(EXAMPLES[name], len(box.decisions) - 1)[0]


def test_loads_weights_and_topology_can_be_changed():
    box = balancing_stepper(EXAMPLES["group imbalance"])
    box.step(4)
    box.rows[0][1].value = 20  # the weight of the lonely thread
    assert box.number.value == 0
    assert box.decisions[0].cpu_load(0) == 2000
    assert box.example.label == "your own"
    box.rows[0][4].value = True
    assert box.state.threads[0].allowed == (0,)
    for topology in TOPOLOGIES:
        box.topology.value = topology
        assert box.decisions == replace(box.state, topology=topology).decisions()
    box.kernel.value = "v4.1+group_imbalance"
    assert box.decisions == box.state.decisions()


def test_no_thread_at_all():
    box = balancing_stepper(EXAMPLE)
    for row in box.rows:
        row[0].value = 0
    box.step(len(box.decisions))
    assert not any(map(any, box.decisions[-1].queues))


def test_static_figure_has_the_same_steps():
    steps = EXAMPLE.decisions()
    fig = balancing_stepper_static(EXAMPLE)
    (slider,) = fig.layout.sliders
    assert len(slider.steps) == len(steps)
    for i, entry in enumerate(slider.steps):
        visible, layout = entry.args
        on = [t for t, seen in zip(fig.data, visible["visible"], strict=True) if seen]
        alone = balancing_step(EXAMPLE.machine, steps, i)
        assert [t.y for t in on] == [t.y for t in alone.data]
        assert layout["title.text"] == alone.layout.title.text


def test_an_idle_cpu_keeps_its_place():
    fig = balancing_stepper_static(EXAMPLES["missing domains"])
    first, last = fig.layout.xaxis.range
    assert first < 0 < 3 < last


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_decision_names_a_line_and_reads_as_a_sentence(name):
    for d in EXAMPLES[name].decisions(passes=3)[1:]:
        assert ALGORITHM_1[d.line - 1].strip()
        said = decision(d)
        assert said.endswith(".")
        assert "{" not in said
        assert "CPU  " not in said
