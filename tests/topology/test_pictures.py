"""The figures and the playground show the domains as they are."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from wastedcores.errors import TopologyError
from wastedcores.figures.domain_groups import groups_compared, pull_matrix, pull_table
from wastedcores.figures.domains import domain_areas, node_graph
from wastedcores.topology.domains import build_domains
from wastedcores.topology.presets import preset
from wastedcores.words import help_sentence


def title(fig):
    """Return a figure's title without the breaks that fold it."""
    return fig.layout.title.text.replace("<br>", " ")


@pytest.fixture(scope="module")
def box():
    return preset("bulldozer8x8")


def test_areas_nest_and_hold_the_cpus_of_each_domain(box):
    doms = build_domains(box, "v4.1")
    fig = domain_areas(doms, 9)
    place = {int(t): x for t, x in zip(fig.data[0].text, fig.data[0].x, strict=True)}
    assert len(place) == 64
    areas = sorted(fig.layout.shapes, key=lambda s: s.x1)
    for area, d in zip(areas, doms.of(9), strict=True):
        assert {c for c, x in place.items() if area.x0 < x < area.x1} == set(d.cpus)
    for inner, outer in pairwise(areas):
        assert (outer.x0, outer.y0) < (inner.x0, inner.y0)
        assert outer.y1 > inner.y1
    assert "4 domains" in title(fig)
    assert "NUMA ≤ 22" in title(fig)


def test_offline_cpu_has_no_picture(box):
    with pytest.raises(TopologyError, match="CPU 9 is not online; online are 0-8,10-63"):
        domain_areas(build_domains(box.offline(9), "v4.1"), 9)


def test_lines_join_neighbours_only(box):
    fig = node_graph(box, (1, 2))
    lines = fig.data[0]
    ends = np.array([(x, y) for x, y in zip(lines.x, lines.y, strict=True) if x is not None])
    at = {
        (round(x, 6), round(y, 6)): n
        for n, (x, y) in enumerate(zip(fig.data[1].x, fig.data[1].y, strict=True))
    }
    nodes = [at[round(x, 6), round(y, 6)] for x, y in ends]
    joined = {frozenset(p) for p in zip(nodes[::2], nodes[1::2], strict=True)}
    assert joined == {
        frozenset((i, j)) for i in range(8) for j in range(8) if box.distance[i, j] == 16
    }
    assert title(fig).startswith("Nodes 1 and 2 are 22 apart")


def test_groups_side_by_side_show_the_bug(box):
    fig = groups_compared(box, 16, ("v4.1", "v4.1+group_construction"), source=1)
    buggy, fixed = (np.array(t.z) for t in fig.data)
    assert buggy.tolist() == [[1, 1, 1, 0, 1, 0, 1, 0], [0, 1, 1, 1, 1, 1, 0, 1]]
    assert (fixed == 2).any(axis=1).tolist() == [False, True]
    assert "v4.1: never; v4.1+group_construction: yes" in title(fig)
    plain = groups_compared(box, 40, ("v4.1", "v6.1"))
    assert title(plain).startswith("Groups that CPU 40 can pull from: 1 with v4.1, 2 with v6.1")


def test_pull_matrix_marks_never(box):
    table = pull_table(build_domains(box, "v4.1"))
    never = {tuple(p) for p in np.argwhere(table < 0).tolist()}
    # nodes 1, 2 and 4 are in both groups, so they never pull from nodes that are two hops away
    assert never == {(1, 2), (1, 5), (1, 6), (2, 1), (4, 7)}
    assert (pull_table(build_domains(box, "v4.1+group_construction")) >= 0).all()
    fig = pull_matrix(build_domains(box, "v4.1"), list(range(8, 24)))
    assert [list(row) for row in fig.data[0].text] == [["SMT", "never"], ["never", "SMT"]]
    assert title(fig).startswith("Node 1 never pulls from node 2; node 2 never pulls from node 1")
    lost = pull_matrix(build_domains(box.offline(20).online(20), "v4.1"))
    assert title(lost).startswith("No node can pull from any other")
    some = pull_matrix(build_domains(box, "v4.1"))
    assert title(some).startswith("5 of 56 times")


def test_one_cpu_per_node_has_nothing_to_pull_at_home():
    table = pull_table(
        build_domains(preset("bulldozer8x8").from_dict({"node_of_cpu": [0, 1]}), "v6.1")
    )
    assert (table >= 0).all()


def test_sentence_in_words_and_html(box):
    said = help_sentence(build_domains(box, "v4.1"), list(range(8, 24)))
    assert "from 8-15 to 16-23: contained in every group" in said.text
    assert "<td>8-15</td><td>16-23</td>" in said.html
    assert "from every CPU to every other" in help_sentence(build_domains(box, "v6.1")).text


@pytest.mark.parametrize("name", ["xeon-e7-8870", "i5-4670k", "epyc-7742-nps4", "ring8"])
def test_machines_of_every_kind_can_be_drawn(name):
    machine = preset(name)
    doms = build_domains(machine, "v6.1")
    for fig in (
        domain_areas(doms, 0),
        node_graph(machine),
        pull_matrix(doms),
        groups_compared(machine, 0),
    ):
        fig.to_json()


@pytest.mark.slow
def test_playground_follows_its_controls():
    from wastedcores.widgets import Choice, domain_playground, domain_playground_static

    play = domain_playground()
    assert "8-15" in play.says.value
    assert all(f.drawn is not None for f in play.figures)
    play.kernel.value = "v6.1"
    assert "from every CPU to every other" in play.says.value
    play.machine.value = "bd-paper-16"
    assert play.pin.value == ()
    play.kernel.value = "v4.1"
    play.hotplug.value = 5
    assert "level missing after hotplug" in play.says.value
    assert play.choice == Choice("bd-paper-16", "v4.1", "v4.1+group_construction", (), None, 5)
    sentence, *figures = domain_playground_static(play.choice)
    assert sentence.html == play.says.value
    assert [f.layout.title.text for f in figures] == [
        f.drawn.layout.title.text for f in play.figures
    ]


def test_playground_explains_what_it_cannot_show():
    from wastedcores.widgets import Choice, domain_playground

    play = domain_playground(Choice(machine="uma8", pin_nodes=(), hotplug_cpu=3, cpu=3))
    assert "every CPU" in play.says.value
    play.kernel.options = [*play.kernel.options, "v9.9"]
    play.kernel.value = "v9.9"
    assert "is newer than v7.2" in play.says.value
    assert all(f.drawn is None for f in play.figures)
    with pytest.raises(TopologyError, match="CPU 9 is not online; online are 0-7"):
        domain_playground(Choice(machine="uma8", pin_nodes=(), cpu=9))
