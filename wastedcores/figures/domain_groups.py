"""The groups of several kernels side by side, and which node can pull from which."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.cpulist import format_cpulist
from wastedcores.figures.domains import LEVEL_COLOURS, name_of, online_domains, subtitle
from wastedcores.figures.theme import CLEAR, GRID, palette, style
from wastedcores.kernels import KernelModel
from wastedcores.topology.cpumask import cpumask_of
from wastedcores.topology.domains import Domain, Domains, build_domains
from wastedcores.topology.machine import Machine

LOCAL, REMOTE = "#c9ced4", "#2a7156"


def groups_compared(
    machine: Machine,
    cpu: int,
    kernels: Sequence[KernelModel | str] = ("v4.1", "v6.1"),
    source: int | None = None,
) -> go.Figure:
    """Draw the groups of a CPU's widest domain, one panel per kernel."""
    panels = [build_domains(machine, k) for k in kernels]
    widest = [online_domains(p, cpu)[-1] if p.of(cpu) else None for p in panels]
    titles = [
        f"kernel {p.kernel.name}" + (f", {name_of(d)}" if d else "")
        for p, d in zip(panels, widest, strict=True)
    ]
    fig = make_subplots(cols=len(panels), rows=1, subplot_titles=titles, horizontal_spacing=0.08)
    for col, d in enumerate(widest, 1):
        if d is not None:
            _group_panel(fig, col, machine, cpu, d, source)
    rows = max((len(d.groups) for d in widest if d), default=1)
    style(
        fig,
        _groups_claim(machine, cpu, panels, widest, source),
        f"{machine.name}; one row per group; grey: the local group, with CPU {cpu} itself; green: CPU {cpu} can pull from it",
        height=230 + 44 * min(rows, 16),
    )
    fig.update_annotations(font_size=13)
    fig.update_layout(margin={"t": 110, "b": 60})
    return fig


def _group_panel(
    fig: go.Figure, col: int, machine: Machine, cpu: int, d: Domain, source: int | None
) -> None:
    node = machine.node_of_cpu
    nodes = sorted({int(n) for n in node[d.cpus]})
    z, text = [], []
    for g in d.groups:
        inside = set(node[g.cpus].tolist())
        kind = 1 if g.span >> cpu & 1 else 2
        z.append([kind if n in inside else 0 for n in nodes])
        text.append([format_cpulist([c for c in g.cpus if node[c] == n]) for n in nodes])
    fig.add_heatmap(
        x=[f"<b>{n}</b>" if n in (source, int(node[cpu])) else str(n) for n in nodes],
        y=[f"group {k + 1}" for k in range(len(d.groups))],
        z=z,
        text=text,
        zmin=0,
        zmax=2,
        colorscale=[
            (0, "#ffffff"),
            (1 / 3, "#ffffff"),
            (1 / 3, LOCAL),
            (2 / 3, LOCAL),
            (2 / 3, REMOTE),
            (1, REMOTE),
        ],
        showscale=False,
        xgap=2,
        ygap=6,
        hovertemplate="%{y}, node %{x}: CPUs %{text}<extra></extra>",
        row=1,
        col=col,
    )
    fig.update_xaxes(title="node", type="category", linecolor=CLEAR, row=1, col=col)
    fig.update_yaxes(autorange="reversed", linecolor=CLEAR, row=1, col=col)


def _groups_claim(
    machine: Machine,
    cpu: int,
    panels: Sequence[Domains],
    widest: Sequence[Domain | None],
    source: int | None,
) -> str:
    if source is None:
        counts = [sum(not g.span >> cpu & 1 for g in d.groups) if d else 0 for d in widest]
        said = ", ".join(f"{c} with {p.kernel.name}" for c, p in zip(counts, panels, strict=True))
        return f"Groups that CPU {cpu} can pull from: {said}"
    there = cpumask_of(machine.cpus_of_node(source))
    can = [
        any(g.span & there and not g.span >> cpu & 1 for d in p.of(cpu) for g in d.groups)
        for p in panels
    ]
    said = "; ".join(
        f"{p.kernel.name}: {'yes' if c else 'never'}" for c, p in zip(can, panels, strict=True)
    )
    return f"Can CPU {cpu} of node {machine.node_of_cpu[cpu]} pull from node {source}? {said}"


# --- which node can pull from which -------------------------------------------------------------------------------------


def pull_matrix(domains: Domains, pin: Sequence[int] | None = None) -> go.Figure:
    """Draw the lowest level at which a CPU of the row's node can pull from the column's node."""
    table = pull_table(domains, pin)
    names = sorted({int(v) for v in table[table >= 0].tolist()})
    labels = {k: _level_label(domains, k) for k in names}
    nodes = sorted({int(domains.machine.node_of_cpu[c]) for c in _counted(domains, pin)})
    cut = table[np.ix_(nodes, nodes)]
    never = int((cut < 0).sum())
    step = {-1: 0} | {k: i + 1 for i, k in enumerate(names)}
    z = np.vectorize(lambda v: step[int(v)])(cut)
    shades = [palette().violation, *_shades(len(names))]
    n = len(shades)
    text = [["never" if v < 0 else labels[int(v)] for v in row] for row in cut]
    fig = go.Figure(
        go.Heatmap(
            z=z,
            x=[str(k) for k in nodes],
            y=[str(k) for k in nodes],
            text=text,
            texttemplate="%{text}" if len(nodes) <= 10 else None,
            textfont={"size": 10},
            zmin=-0.5,
            zmax=n - 0.5,
            colorscale=[(e, c) for i, c in enumerate(shades) for e in (i / n, (i + 1) / n)],
            xgap=1.5,
            ygap=1.5,
            hovertemplate="node %{y} pulls from node %{x}: %{text}<extra></extra>",
            colorbar={
                "tickvals": list(range(n)),
                "ticktext": ["never", *(labels[k] for k in names)],
                "title": {"text": "lowest level"},
                "thickness": 14,
                "outlinewidth": 0,
            },
        )
    )
    claim = "Every node can pull from every node" if not never else _never_claim(cut, nodes)
    where = "" if pin is None else f"; tasks pinned to CPUs {format_cpulist(pin)}"
    style(fig, claim, subtitle(domains) + where, height=max(420, 170 + 40 * min(len(nodes), 14)))
    fig.update_xaxes(title="from node (has the load)", type="category", linecolor=GRID)
    fig.update_yaxes(title="node that pulls", type="category", autorange="reversed", linecolor=GRID)
    return fig


def _never_claim(cut: np.ndarray, nodes: Sequence[int]) -> str:
    pairs = [(nodes[i], nodes[j]) for i, j in np.argwhere(cut < 0).tolist()]
    every = len(nodes) * (len(nodes) - 1)
    if len(pairs) <= 3:
        return "; ".join(f"node {i} never pulls from node {j}" for i, j in pairs).capitalize()
    if len(pairs) == every:
        return "No node can pull from any other"
    return f"{len(pairs)} of {every} times a node can never pull from another directly"


def _shades(count: int) -> list[str]:
    usable = LEVEL_COLOURS[:-2]
    if count <= len(usable):
        return list(usable[:count])
    return [usable[min(i, len(usable) - 1)] for i in range(count)]


def _level_label(domains: Domains, index: int) -> str:
    level = domains.levels[index]
    return f"{level.name} ≤ {level.distance}" if level.overlap else level.name


def _counted(domains: Domains, pin: Sequence[int] | None) -> list[int]:
    return sorted(set(domains.cpus) & set(domains.cpus if pin is None else pin))


def pull_table(domains: Domains, pin: Sequence[int] | None = None) -> np.ndarray:
    """Return the lowest level at which each node can pull from each other node."""
    m = domains.machine
    counted = _counted(domains, pin)
    allowed = cpumask_of(counted)
    of_node = [cpumask_of(m.cpus_of_node(n)) & allowed for n in range(m.nodes)]
    table = np.full((m.nodes, m.nodes), -1, dtype=np.int64)
    for cpu in counted:
        row = table[m.node_of_cpu[cpu]]
        if of_node[m.node_of_cpu[cpu]] == 1 << cpu:
            # a node's only CPU cannot pull from its own node; this is not marked as a fault
            row[m.node_of_cpu[cpu]] = max(row[m.node_of_cpu[cpu]], 0)
        for d in domains.of(cpu):
            remote = 0
            for g in d.groups:
                if not g.span >> cpu & 1:
                    remote |= g.span
            for n, there in enumerate(of_node):
                if there & remote and (row[n] < 0 or d.index < row[n]):
                    row[n] = d.index
    return table
