"""Figures of the decisions of a balancing pass: the queues of all CPUs beside the deciding line of Algorithm 1."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from wastedcores.errors import UsageError
from wastedcores.figures.theme import INK, MUTED, palette, style
from wastedcores.topology.machine import Machine

if TYPE_CHECKING:
    from wastedcores.simulator.plain.stepping import Decision
from wastedcores.words.balancing import ALGORITHM_1, decision, decision_place

#: colours of a thread, of a thread that has just moved, and of the load of a group
THREAD, MOVED, LOAD = "#c4bfb6", palette().waiting, palette().violation
#: pixels above the panels, for a title of one line and a sentence of two lines
ABOVE = 96


def balancing_step(machine: Machine, steps: Sequence[Decision], number: int = 0) -> go.Figure:
    """Draw the queues after one decision of a pass, and the line of Algorithm 1 that decided."""
    if not 0 <= number < len(steps):
        raise UsageError(f"decision {number}: expected 0 to {len(steps) - 1}.")
    d = steps[number]
    fig = make_subplots(cols=2, rows=1, column_widths=[0.47, 0.53], horizontal_spacing=0.02)
    cpus, node = range(machine.cpus), machine.node_of_cpu
    top = max(s.cpu_load(c) for s in steps for c in cpus) or 1
    for trace in (_queues(d), *_groups(d, 1.1 * top)):
        fig.add_trace(trace, row=1, col=1)
    for trace in (marked_line(d.line), algorithm()):
        fig.add_trace(trace, row=1, col=2)
    title = f"{number} of {len(steps) - 1}. {decision_place(d)}"
    style(fig, title, decision(d), height=560)
    fig.update_xaxes(
        range=[-0.6, machine.cpus - 0.4],
        tickvals=list(cpus),
        ticktext=[f"CPU {c}<br>node {node[c]}" for c in cpus],
        row=1,
        col=1,
    )
    fig.update_yaxes(title="load of the threads", range=[0, 1.2 * top], row=1, col=1)
    fig.update_xaxes(visible=False, range=[0, 1], row=1, col=2)
    fig.update_yaxes(visible=False, range=[len(ALGORITHM_1) + 0.6, 0.4], row=1, col=2)
    # the panels have the same place in every step
    return fig.update_layout(
        height=560, margin_t=ABOVE, margin_b=64, showlegend=False, barmode="overlay"
    )


def balancing_steps(machine: Machine, steps: Sequence[Decision]) -> go.Figure:
    """Draw all decisions of a pass, with a slider that steps forward and back."""
    each = [balancing_step(machine, steps, i) for i in range(len(steps))]
    return with_slider(each, "decision ", above=44).update_layout(height=650, margin_b=154)


def _queues(d: Decision) -> go.Bar:
    """Draw one bar per thread, stacked on its CPU."""
    x, y, base, colours, text = [], [], [], [], []
    for cpu, queue in enumerate(d.queues):
        below = 0
        for i in queue:
            x.append(cpu)
            y.append(d.loads[i])
            base.append(below)
            colours.append(MOVED if i in d.moved else THREAD)
            text.append(str(d.loads[i]))
            below += d.loads[i]
    return go.Bar(
        x=x, y=y, base=base, text=text, textposition="inside", insidetextanchor="middle", textangle=0,
        width=0.7,
        marker={"color": colours, "line": {"color": "white", "width": 1.5}},
        hovertemplate="CPU %{x}: a thread of load %{text}<extra></extra>",
    )  # fmt: skip


def _groups(d: Decision, above: float) -> tuple[go.Scatter, go.Scatter]:
    """Draw the average load of each compared group as a line over each of its CPUs, and write the load above the bars."""
    x: list[float | None] = []
    y: list[float | None] = []
    for g in d.groups:
        for cpu in g.cpus:
            x += [cpu - 0.46, cpu + 0.46, None]
            y += [g.average, g.average, None]
    lines = go.Scatter(
        x=x, y=y, mode="lines", line={"color": LOAD, "width": 2.5, "dash": "dot"}, hoverinfo="skip"
    )
    names = go.Scatter(
        x=[sum(g.cpus) / len(g.cpus) for g in d.groups],
        y=[above] * len(d.groups),
        text=[f"<b>{'local' if g.local else 'group'}</b><br>avg {g.average}" for g in d.groups],
        mode="text",
        textfont={"size": 11, "color": LOAD},
        hoverinfo="skip",
    )
    return lines, names


def marked_line(line: int) -> go.Scatter:
    """Mark a line of Algorithm 1; 0 marks none."""
    return go.Scatter(
        x=[0, 1], y=[line or None] * 2, mode="lines", line={"color": "#f7d9a6", "width": 19}, hoverinfo="skip"
    )  # fmt: skip


def algorithm() -> go.Scatter:
    """Write Algorithm 1, with one line of text for each of its lines."""
    text = [
        f"<span style='color:{MUTED}'>{f'{n:>2}'.replace(' ', '&nbsp;&nbsp;')}</span>  {line.replace('  ', '&nbsp;&nbsp;')}"
        for n, line in enumerate(ALGORITHM_1, 1)
    ]
    return go.Scatter(
        x=[0.01] * len(text), y=list(range(1, len(text) + 1)), text=text, mode="text", textposition="middle right",
        textfont={"size": 10, "color": INK}, cliponaxis=False, hoverinfo="skip",
    )  # fmt: skip


def with_slider(each: Sequence[go.Figure], prefix: str, *, above: int) -> go.Figure:
    """Combine figures with equal numbers of plotly traces into one, with a slider that shows one of them."""
    fig = each[0]
    traces = len(fig.data)
    for other in each[1:]:
        fig.add_traces([t.update(visible=False) for t in other.data])
    entries = [
        {
            "method": "update",
            "label": str(i),
            "args": [
                {"visible": [j // traces == i for j in range(len(fig.data))]},
                {"title.text": one.layout.title.text},
            ],
        }
        for i, one in enumerate(each)
    ]
    slider = {"steps": entries, "currentvalue": {"prefix": prefix}, "pad": {"t": above}}
    return fig.update_layout(sliders=[slider])
