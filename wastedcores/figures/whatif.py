"""What the recorded work would have taken under other kernels: recorded, replayed and predicted results with ranges."""

from __future__ import annotations

import plotly.graph_objects as go

from wastedcores.figures.theme import GRID, INK, palette, style
from wastedcores.prediction import Range, Variant, WhatIf

#: the axis covers a range of at least this share of the greatest value
LEAST_WIDTH = 0.1


def predicted(found: WhatIf, title: str = "", *, palette_name: str = "safe") -> go.Figure:
    """Draw the recorded result, its replay, and the prediction for each variant."""
    colours = palette(palette_name)
    in_time = found.itself.window_ns is not None
    unit, scale = ("s", 1e9) if in_time else ("busy CPUs", 1.0)
    recorded = found.window_ns / scale if in_time else found.busy_cpus
    stands = "the kernel that stands for it" if found.stands_in else "the recorded kernel"
    rows = [(f"{found.kernel}, replayed", found.itself), *((v.kernel, v) for v in found.variants)]
    fig = go.Figure()
    for shade, part, name in (
        (
            colours.idle,
            rows[:1],
            f"replay under {stands}",
        ),
        (colours.considered, rows[1:], "prediction"),
    ):
        ranges = [_range(v) for _, v in part]
        fig.add_scatter(
            x=[r.median / scale for r in ranges],
            y=[_wrapped(name) for name, _ in part],
            mode="markers",
            marker={"color": shade, "size": 11},
            error_x={
                "type": "data",
                "symmetric": False,
                "array": [(r.high - r.median) / scale for r in ranges],
                "arrayminus": [(r.median - r.low) / scale for r in ranges],
                "color": shade,
                "thickness": 3,
            },
            customdata=[100 * v.gain.median for _, v in part],
            name=name,
            hovertemplate=f"%{{y}}: %{{x:.4g}} {unit}, gain %{{customdata:.1f}} %<extra></extra>",
        )
    fig.add_vline(
        x=recorded,
        line={"color": INK, "dash": "dot"},
        annotation_text=f"recorded: {recorded:.3g} {unit}",
        annotation_position="top",
    )
    what = "time of the window" if in_time else "CPUs busy on average"
    style(
        fig,
        title or f"What the work of {found.trace.removesuffix('.parquet')} would have taken",
        f"{found.recorded_kernel} on {found.machine} · {found.seeds} seeds · trust: {found.trust}",
        190 + 34 * len(rows),
    )
    fig.update_layout(showlegend=True, margin_t=fig.layout.margin.t + 20)
    fig.update_xaxes(title=f"{what} ({unit})" if in_time else what, showgrid=True, gridcolor=GRID)
    ends = [x / scale for _, v in rows for x in (_range(v).low, _range(v).high)] + [recorded]
    low, high = min(ends), max(ends)
    if high - low < LEAST_WIDTH * high:
        # a narrower axis would make tiny differences look large
        middle, half = (low + high) / 2, LEAST_WIDTH * high / 2
        fig.update_xaxes(range=[middle - half, middle + half])
    fig.update_yaxes(type="category", autorange="reversed", automargin=True)
    return fig


def _range(v: Variant) -> Range:
    return v.window_ns or v.busy_cpus


def _wrapped(kernel: str, width: int = 44) -> str:
    """Break the long name of a kernel with several fixes into lines."""
    first, *fixes = kernel.split("+")
    lines = [first]
    for fix in fixes:
        if len(lines[-1]) + len(fix) > width:
            lines.append("")
        lines[-1] += f"+{fix}"
    return "<br>".join(lines)
