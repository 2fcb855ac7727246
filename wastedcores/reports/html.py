"""Makes figures for a browser: as a page that needs no network, or as parts of such a page."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from wastedcores.errors import WastedCoresError
from wastedcores.figures.dark import PAPER, dark_colours
from wastedcores.files import written_whole

#: the names of Chromium's program in different distributions
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
#: options to run Chromium without a window and without requests to its vendor
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


def browser() -> str | None:
    """Return the path of an installed Chromium, or None."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def screenshot(page: Path, picture: Path, width: int, height: int) -> None:
    """Write a PNG picture of a local page."""
    program = browser()
    if program is None:
        raise WastedCoresError(
            f"{picture}: a .png needs Chromium, which is not installed. On Debian and Ubuntu: sudo apt-get install "
            "chromium. Or write .html."
        )
    with tempfile.TemporaryDirectory() as profile:
        shot = Path(profile) / "shot.png"
        command = [program, *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        command += ["--virtual-time-budget=10000", f"--screenshot={shot}", page.absolute().as_uri()]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
        except subprocess.TimeoutExpired as e:
            raise WastedCoresError(
                f"{picture}: {program} did not finish within 120 s; write .html instead."
            ) from e
        if not shot.exists():
            last = (done.stderr.strip().splitlines() or ["no message"])[-1]
            raise WastedCoresError(
                f"{picture}: {program} made no picture ({last}); write .html instead."
            )
        with written_whole(picture) as part:
            shutil.copyfile(shot, part)


#: the type under which notebooks store a figure
MIME = "application/vnd.plotly.v1+json"
#: only buttons that are useful here; none of them sends anything to another site
CONFIG = {
    "responsive": True,
    "displaylogo": False,
    "modeBarButtons": [["toImage"], ["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]],
}


def plotly_js() -> str:
    """Return the source of the plotting library (4.7 MB)."""
    return get_plotlyjs()


def scripts() -> str:
    """Return what a page with figures needs: the plotting library (4.7 MB), and code that draws figures in the page's colours."""
    draw = Path(__file__).with_name("figure.js").read_text("utf-8")
    return f"{plotly_js()}\nconst wcDark = {json.dumps(dark_colours())};\n{draw}"


def figure_div(figure: dict, name: str) -> str:
    """Return a figure as a div and a script; the page must include :func:`scripts`."""
    # "</script" inside a script would end it, and after "<!--<script" the script's own "</script" would not end it
    data, layout = (
        json.dumps(figure.get(k, {})).replace("<", "\\u003c") for k in ("data", "layout")
    )
    height = figure.get("layout", {}).get("height", 450)
    return (
        f'<div class="wc-figure"><div id="{name}" class="plotly-graph-div" style="height:{height}px"></div></div>'
        f'<script>wcDraw("{name}",{data},{layout},{json.dumps(CONFIG)});</script>'
    )


def write_figure(fig: go.Figure, path: Path, *, width: int = 1280) -> None:
    """Write a figure as a page that works offline (``.html``), as ``.json``, or as ``.png`` by means of Chromium."""
    if path.suffix not in (".html", ".json", ".png"):
        raise WastedCoresError(
            f"{path}: a figure is written as .html, .json or .png; got {path.suffix or 'no ending'!r}."
        )
    if path.is_dir() or not path.parent.is_dir():
        raise WastedCoresError(
            f"{path}: cannot write there (no such folder, or a folder itself). Choose another with -o."
        )
    try:
        if path.suffix == ".png":
            with tempfile.TemporaryDirectory() as folder:
                source = Path(folder) / "figure.html"
                source.write_text(figure_page(fig), "utf-8")
                screenshot(source, path, width, int(fig.layout.height or 450))
            return
        text = fig.to_json() + "\n" if path.suffix == ".json" else figure_page(fig)
        with written_whole(path) as part:
            part.write_text(text, "utf-8")
    except OSError as e:
        raise WastedCoresError(
            f"{path}: cannot write there ({e.strerror}). Choose another place with -o."
        ) from e


def figure_page(fig: go.Figure) -> str:
    """Return a page with one figure that needs no network."""
    figure = json.loads(fig.to_json())
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><link rel="icon" href="data:,">'
        f"<title>{escape(str(fig.layout.title.text or 'figure').partition('<br>')[0])}</title>"
        "<style>body { margin: 0 } @media screen and (prefers-color-scheme: dark) "
        f"{{ body {{ background: {PAPER} }} }}</style><script>{scripts()}</script></head>"
        f"<body>{figure_div(figure, 'figure')}</body></html>\n"
    )
