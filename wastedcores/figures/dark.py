"""The colours of figures on a dark page.

A figure is made in the colours of :mod:`wastedcores.figures.theme`. A page in dark mode replaces each of these
colours by its counterpart here (``reports/figure.js``), so a figure need not know where it is shown. Hues keep their
meaning. The order of lightness is reversed: many tasks are bright, and one task is close to the dark background.
"""

from __future__ import annotations

from urllib.parse import quote

from wastedcores.figures.theme import GRID, INK, MUTED, Palette, palette

PAPER = "#15191d"
#: the counterpart of the palette "safe"
SAFE = Palette(
    "safe, dark",
    ("#3d94dd", "#262b30", "#8f3b16", "#de6420", "#ffb52e", "#fff6d0"),
    idle="#3d94dd",
    waiting="#de6420",
    violation="#dc6bbb",
    short="#7a4a6d",
    considered="#2cc49b",
)


def dark_colours() -> dict[str, str]:
    """Return each colour of the figures, as a figure's JSON contains it, with its counterpart on a dark page."""
    light = palette("safe")
    pairs = {
        '"white"': f'"{PAPER}"',
        "#ffffff": PAPER,
        INK: "#e4e7ea",
        MUTED: "#a3adb7",
        GRID: "#3a4148",
        # the levels of a machine: the nearest level is the darkest here
        "#eef6ec": "#12291c",
        "#d3e8cf": "#1a3d2a",
        "#acd3ab": "#245a3e",
        "#7cb88a": "#2f7a55",
        "#4c9670": "#66b88f",
        "#2a7156": "#8fd3ae",
        "#12493a": "#c4ecd3",
        # backgrounds of rows and of ranges, and a line that is marked
        "#f5f6f7": "#1c2126",
        "#dfeee4": "#1d3a2a",
        "#f7d9a6": "#5a4317",
        "#c4bfb6": "#6d7278",
        "#c9cdd1": "#565d65",
        "#c9ced4": "#565d65",
        # colours that would be too dark on a dark page
        "#000000": "#f2f4f6",
        "#0000ff": "#7f97ff",
        "#4d6b2f": "#8fb562",
        "#7b5ea7": "#a98bd6",
        "#d7191c": "#f4605f",
        "#d62728": "#f26a69",
        "#8c564b": "#c08a7e",
        # the hatching of what is unknown
        "#f4f4f4": "#20252b",
        "#9aa0a6": "#59616a",
    }
    pairs |= dict(zip(light.tasks, SAFE.tasks, strict=True))
    pairs |= {
        getattr(light, name): getattr(SAFE, name)
        for name in ("idle", "waiting", "violation", "short", "considered")
    }
    # the hatching is an image in a data URI, in which a colour is percent-encoded
    pairs |= {quote(c): quote(pairs[c]) for c in ("#f4f4f4", "#9aa0a6")}
    # colours that have an opacity, and the colours of single segments, are written as decimal numbers
    hexes = {c: d for c, d in pairs.items() if c.startswith("#")}
    return pairs | {
        f"{name}({_decimal(c)}": f"{name}({_decimal(d)}"
        for c, d in hexes.items()
        for name in ("rgb", "rgba")
    }


def _decimal(colour: str) -> str:
    return ",".join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))
