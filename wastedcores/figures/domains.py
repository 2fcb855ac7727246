"""Scheduling domains as nested areas (paper, Figure 1), and nodes with their distances (paper, Figure 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError
from wastedcores.figures.theme import INK, MUTED, palette, style
from wastedcores.topology.cpumask import cpumask_of, cpus_in
from wastedcores.topology.domains import Domain, Domains
from wastedcores.topology.lint import level_name
from wastedcores.topology.machine import Machine

# --- which node can pull from which -------------------------------------------------------------------------------------


#: one green per level, light inside and dark outside; no other figure uses these colours
LEVEL_COLOURS = ("#eef6ec", "#d3e8cf", "#acd3ab", "#7cb88a", "#4c9670", "#2a7156", "#12493a")
#: if there are more CPUs than this, they are drawn without their numbers
MOST_LABELS = 130
#: height of an area's name, in rows of CPUs
BAND = 0.8
#: areas from this one outwards are so dark that their names are white
DARK = 3


def name_of(d: Domain) -> str:
    """Return the name of a domain's level, such as ``MC`` or ``NUMA ≤ 16``."""
    return level_name(d).replace("<=", " ≤ ")


def subtitle(domains: Domains) -> str:
    """Return machine, kernel and hotplug state in one line."""
    m = domains.machine
    text = f"{m.name}: {m.cpus} CPUs, {m.nodes} node{'s' if m.nodes > 1 else ''}; kernel {domains.kernel.name}"
    return text if domains.when == "boot" else f"{text}; {domains.when}"


def online_domains(domains: Domains, cpu: int) -> tuple[Domain, ...]:
    """Return the domains of an online CPU, the smallest first."""
    if not 0 <= cpu < domains.machine.cpus or cpu not in domains.cpus:
        raise TopologyError(
            f"machine {domains.machine.name!r}: CPU {cpu} is not online; online are {format_cpulist(domains.cpus)}."
        )
    return domains.of(cpu)


# --- Figure 1 ---------------------------------------------------------------------------------------------------------


def domain_areas(domains: Domains, cpu: int) -> go.Figure:
    """Draw the domains of one CPU as nested areas around it."""
    mine = online_domains(domains, cpu)
    place, ends, height = _layout(domains, cpu, mine)
    fig = go.Figure()
    for k in reversed(range(len(mine))):
        _area(fig, mine[k], k, ends[k], height)
    cpus = list(place)
    node = domains.machine.node_of_cpu
    small = len(cpus) > MOST_LABELS
    fig.add_scatter(
        x=[place[c][0] for c in cpus],
        y=[place[c][1] for c in cpus],
        mode="markers" if small else "markers+text",
        text=[str(c) for c in cpus],
        textfont={"size": 9, "color": ["white" if c == cpu else INK for c in cpus]},
        marker={
            "symbol": "square",
            "size": 8 if small else 21,
            "color": [palette().violation if c == cpu else "white" for c in cpus],
            "line": {"color": MUTED, "width": 0.6},
        },
        customdata=[[int(node[c]), _first_level(mine, c)] for c in cpus],
        hovertemplate="CPU %{text}, node %{customdata[0]}<br>%{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    _node_names(fig, domains, mine, place)
    top = (
        f"the widest, {name_of(mine[-1])}, has {mine[-1].weight}"
        if mine
        else "it balances with nobody"
    )
    style(
        fig,
        f"CPU {cpu} balances in {len(mine)} domain{'s' if len(mine) != 1 else ''}; {top} of {len(domains.cpus)} CPUs",
        subtitle(domains),
        height=int(110 + 33 * (height + 1 + (0.25 + BAND) * len(mine))),
    )
    fig.update_xaxes(visible=False, range=[-1.6, max(x for x, _ in place.values()) + 1.2])
    fig.update_yaxes(
        visible=False, range=[-height - 0.4 - 0.25 * len(mine), 0.6 + BAND * len(mine)]
    )
    fig.update_layout(margin={"l": 16, "b": 20})
    return fig


def _layout(
    domains: Domains, cpu: int, mine: Sequence[Domain]
) -> tuple[dict[int, tuple[float, float]], list[float], int]:
    """Place the CPUs in columns. CPUs of inner domains come first, so each domain covers all columns up to its last one."""
    node = domains.machine.node_of_cpu
    height = max(1, min(8, max(np.bincount(node[list(domains.cpus)]))))
    if len(domains.cpus) > 256:
        height = 16
    place: dict[int, tuple[float, float]] = {}
    ends: list[float] = []
    x, seen = 0.0, 0
    everyone = cpumask_of(domains.cpus)
    for span in [*(d.span for d in mine), everyone | 1 << cpu]:
        fresh = sorted(cpus_in(span & ~seen), key=lambda c: c != cpu)
        for n in sorted({int(node[c]) for c in fresh}):
            here = [c for c in fresh if node[c] == n]
            for k, c in enumerate(here):
                place[c] = (x + k // height, -(k % height))
            x += (len(here) - 1) // height + 1.35
        seen |= span
        ends.append(x - 0.75)
    return place, ends, int(height)


def _area(fig: go.Figure, d: Domain, k: int, end: float, height: int) -> None:
    margin = 0.25 * k
    top = BAND * (k + 1) + 0.5
    fig.add_shape(
        type="rect",
        x0=-0.6 - 0.09 * k,
        x1=end + 0.09 * k,
        y0=-height + 0.35 - margin,
        y1=top,
        fillcolor=LEVEL_COLOURS[min(k + 1, len(LEVEL_COLOURS) - 1)],
        line={"color": "white", "width": 2},
        layer="below",
    )
    fig.add_annotation(
        x=-0.6 - 0.09 * k,
        y=top,
        xanchor="left",
        yanchor="top",
        text=f"<b>{name_of(d)}</b>: {d.weight} CPUs",
        showarrow=False,
        font={"size": 11, "color": "white" if k >= DARK else INK},
    )


def _first_level(mine: Sequence[Domain], cpu: int) -> str:
    for d in mine:
        if d.span >> cpu & 1:
            return f"first shared at {level_name(d)}"
    return "in no domain of this CPU"


def _node_names(
    fig: go.Figure, domains: Domains, mine: Sequence[Domain], place: dict[int, tuple[float, float]]
) -> None:
    if domains.machine.nodes == 1 or domains.machine.nodes > 40:
        return
    node = domains.machine.node_of_cpu
    low = min(y for _, y in place.values())
    depth = {int(node[c]): k for k, d in reversed([*enumerate(mine)]) for c in d.cpus}
    for n in sorted({int(node[c]) for c in place}):
        xs = [place[c][0] for c in place if node[c] == n]
        fig.add_annotation(
            x=sum(xs) / len(xs),
            y=low - 0.5,
            yanchor="top",
            text=f"node {n}",
            showarrow=False,
            font={"size": 10, "color": "white" if depth.get(n, -1) >= DARK else INK},
        )


# --- Figure 4 ---------------------------------------------------------------------------------------------------------


def node_graph(machine: Machine, mark: Sequence[int] = ()) -> go.Figure:
    """Draw the nodes in a circle; a line joins two nodes if no other nodes are closer to each other."""
    n, d = machine.nodes, machine.distance
    angle = np.pi / 2 - 2 * np.pi * np.arange(n) / max(n, 1)
    x, y = np.cos(angle), np.sin(angle)
    far = np.unique(d[~np.eye(n, dtype=bool)])
    fig = go.Figure()
    if len(far):
        pairs = [(i, j) for i in range(n) for j in range(i) if min(d[i, j], d[j, i]) == far[0]]
        fig.add_scatter(
            x=[v for i, j in pairs for v in (x[i], x[j], None)],
            y=[v for i, j in pairs for v in (y[i], y[j], None)],
            mode="lines",
            line={"color": MUTED, "width": 2 if n <= 16 else 0.7},
            hoverinfo="skip",
            showlegend=False,
        )
    stressed = set(mark)
    rows = [", ".join(f"{j}: {d[i, j]}" for j in range(n) if j != i) for i in range(n)]
    fig.add_scatter(
        x=x,
        y=y,
        mode="markers+text",
        text=[str(i) for i in range(n)],
        textfont={
            "size": 15 if n <= 16 else 9,
            "color": ["white" if i in stressed else INK for i in range(n)],
        },
        marker={
            "size": 44 if n <= 16 else 18,
            "color": [palette().violation if i in stressed else LEVEL_COLOURS[1] for i in range(n)],
            "line": {"color": MUTED, "width": 1.2},
        },
        customdata=[[format_cpulist(machine.cpus_of_node(i)) or "none", rows[i]] for i in range(n)],
        hovertemplate="node %{text}<br>CPUs %{customdata[0]}<br>distance to %{customdata[1]}<extra></extra>",
        showlegend=False,
    )
    style(fig, _graph_claim(machine, far, mark), _graph_key(machine, far), height=480)
    fig.update_xaxes(visible=False, range=[-1.5, 1.5])
    fig.update_yaxes(visible=False, range=[-1.25, 1.25], scaleanchor="x")
    fig.update_layout(margin={"l": 16, "b": 16})
    return fig


def _graph_claim(machine: Machine, far: np.ndarray, mark: Sequence[int]) -> str:
    if len(mark) == 2:
        i, j = mark
        return f"Nodes {i} and {j} are {machine.distance[i, j]} apart; neighbours are at {far[0]}"
    if len(far) <= 1:
        return f"All {machine.nodes} nodes are equally far apart" if len(far) else "One node"
    return f"{machine.nodes} nodes, {len(far)} distances: not every node is next to every other"


def _graph_key(machine: Machine, far: np.ndarray) -> str:
    if not len(far):
        return machine.name
    rest = f"; no line: {', '.join(map(str, far[1:]))}" if len(far) > 1 else ""
    return f"{machine.name}; line: distance {far[0]}{rest}"
