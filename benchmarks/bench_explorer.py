"""The trace explorer in JupyterLab and Chromium at 10^7 events: bytes and time of a zoom, and memory after 200 interactions.

The peer is commit 45ad77d, the last one before the explorer became one figure that is replaced in place. Both builds draw the
same trace, one after the other in one run. A zoom lasts from the release of the mouse until the new figure is in the page.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
BEFORE = "45ad77d"
ZOOMS, INTERACTIONS, WARM = 8, 200, 20

_CELL = """from wastedcores.analysis.examined import examine
from wastedcores.trace.io import open_trace
from wastedcores.widgets import explorer
box = explorer(examine(open_trace({path!r})))
box"""
#: in both builds a zoom is over when the sentence above the figure has changed and the figure is drawn
_OLD = """() => { const plots = [...document.querySelectorAll('.jupyter-widgets .js-plotly-plot')];
    return plots.some(p => !p.seen && p.querySelector('.hm image')) }"""
_MARK = (
    "document.querySelectorAll('.jupyter-widgets .js-plotly-plot').forEach(p => { p.seen = true })"
)
_BOX = """(() => { const all = document.querySelectorAll('.jupyter-widgets .nsewdrag'), e = all[0];
    e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();
    return [r.left, r.top, r.width, r.height] })()"""


def _zoom(tab: Any, received: Any, new: bool) -> tuple[float, int]:
    """Drag over the middle third of the figure and return the seconds until it is drawn and the bytes received."""
    from support.chromium import drag

    box, before = tab.evaluate(_BOX), received.bytes
    count = tab.evaluate("+(document.querySelector('.wc-live')?.dataset.count ?? 0)")
    tab.evaluate(_MARK)
    drag(tab, box, 1 / 3, 2 / 3)
    begin = time.perf_counter()
    if new:
        tab.wait_for_function(f"+document.querySelector('.wc-live').dataset.count > {count}")
    else:
        tab.wait_for_function(_OLD)
    took = time.perf_counter() - begin
    tab.wait_for_timeout(500)
    return took, received.bytes - before


def interact(tab: Any, turn: int) -> None:
    """Do one of five things that a reader does, and wait until the figure is drawn again.

    Parameters
    ----------
    tab
        The page with an explorer named ``box``.
    turn
        The number of the interaction.
    """
    from support.chromium import drag
    from support.lab import evaluate

    count = tab.evaluate("+document.querySelector('.wc-live').dataset.count")
    box = tab.evaluate(_BOX)
    kind = turn % 5
    if kind == 0:
        drag(tab, box, 0.3, 0.7)
    elif kind in (1, 2):
        tab.mouse.move(box[0] + box[2] / 2, box[1] + box[3] / 2)
        tab.keyboard.press("sd"[kind - 1])
    elif kind == 3:
        evaluate(tab, f"box.palette.value = {('paper', 'safe')[turn // 5 % 2]!r}")
    else:
        tab.keyboard.press("Home")
    tab.wait_for_function(f"+document.querySelector('.wc-live').dataset.count > {count}")


def memory(tab: Any) -> tuple[float, float]:
    """Return the bytes of the page's JavaScript objects after a garbage collection, and of the kernel's memory.

    Parameters
    ----------
    tab
        The page.

    Returns
    -------
    float, float
        Both in MB.
    """
    from support.lab import evaluate

    session = tab.context.new_cdp_session(tab)
    for _ in range(3):
        session.send("HeapProfiler.collectGarbage")
    used = session.send("Runtime.getHeapUsage")["usedSize"]
    kernel = evaluate(
        tab,
        "import gc; gc.collect(); print(next(l.split()[1] for l in open('/proc/self/status') if l.startswith('VmRSS')))",
    )
    return used / 1e6, float(kernel) / 1e3


def measure(tree: Path, path: Path, folder: Path, new: bool) -> dict[str, Any]:
    """Return what one build needs for the same zooms.

    Parameters
    ----------
    tree
        The build's sources.
    path
        The trace.
    folder
        An empty folder.
    new
        Whether it is the build with one figure; only that one does the 200 interactions.

    Returns
    -------
    dict
        ``first`` bytes until the first figure, ``seconds`` and ``bytes`` per zoom, ``page`` and ``kernel`` memory in MB before
        and after the interactions.
    """
    from support.chromium import chromium
    from support.lab import Received, jupyterlab, run_all, write_notebook

    (folder / "n").mkdir(parents=True)
    write_notebook(folder / "n" / "one", _CELL.format(path=str(path)))
    with (
        jupyterlab(folder, {"PYTHONPATH": str(tree)}) as address,
        chromium(1400, 1000) as (tab, *_),
    ):
        received = Received(tab)
        run_all(tab, address, "one")
        tab.wait_for_function(
            "document.querySelectorAll('.jupyter-widgets .hm image').length", timeout=240_000
        )
        tab.wait_for_timeout(3000)
        found: dict[str, Any] = {"first": received.bytes}
        zooms = [_zoom(tab, received, new) for _ in range(ZOOMS)]
        found["seconds"], found["bytes"] = (statistics.median(v) for v in zip(*zooms, strict=True))
        found["most"] = max(s for s, _ in zooms)
        if new:
            for turn in range(WARM):
                interact(tab, turn)
            before = memory(tab)
            for turn in range(INTERACTIONS):
                interact(tab, turn)
            found["page"], found["kernel"] = zip(before, memory(tab), strict=True)
    return found


def run() -> list[dict]:
    """Return the rows for RESULTS.md."""
    make = "import sys; from pathlib import Path; from benchmarks.bench_figures import make_trace; make_trace(Path(sys.argv[1]))"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = folder / "before"
        before.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", BEFORE], capture_output=True, check=True
        )
        subprocess.run(["tar", "x", "-C", str(before)], input=archive.stdout, check=True)
        path = folder / "ten-million.parquet"
        subprocess.run([sys.executable, "-c", make, str(path)], cwd=before, check=True)
        old = measure(before, path, folder / "old", new=False)
        new = measure(ROOT, path, folder / "new", new=True)
    note = f"10^7 events, 64 CPUs, median of {ZOOMS} zooms by a factor of 3, 1400 x 1000 pixels"
    rows = [
        {
            "id": "zoom_bytes",
            "name": "bytes that the page receives per zoom",
            "value": round(new["bytes"] / 1e3, 1),
            "unit": "kB",
            "goal": "< 200",
            "met": new["bytes"] < 200e3,
            "peer": f"{BEFORE}: {old['bytes'] / 1e3:,.0f} kB",
            "note": note,
        },
        {
            "id": "zoom_time",
            "name": "time per zoom, from the mouse's release to the new figure in the browser",
            "value": round(new["seconds"], 3),
            "unit": "s",
            "goal": "< 0.4",
            "met": new["seconds"] < 0.4,
            "peer": f"{BEFORE}: {old['seconds']:.2f} s",
            "note": f"longest {new['most']:.2f} s, before {old['most']:.2f} s",
        },
        {
            "id": "first_bytes",
            "name": "bytes that the page receives until the first figure",
            "value": round(new["first"] / 1e6, 2),
            "unit": "MB",
            "peer": f"{BEFORE}: {old['first'] / 1e6:.2f} MB",
            "note": "the plotting library included; further figures of the page do not need it again",
        },
    ]
    for id, name in (("page", "the page's JavaScript objects"), ("kernel", "the kernel")):
        begin, end = new[id]
        rows.append(
            {
                "id": f"growth_{id}",
                "name": f"growth of the memory of {name} in {INTERACTIONS} interactions",
                "value": round(100 * (end / begin - 1), 1),
                "unit": "%",
                "goal": "<= 20",
                "met": end <= 1.2 * begin,
                "note": f"{begin:.0f} MB after {WARM} interactions, {end:.0f} MB after {WARM + INTERACTIONS}",
            }
        )
    return rows


if __name__ == "__main__":
    for row in run():
        print(row)
