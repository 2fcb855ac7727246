"""The widgets in JupyterLab, driven as a reader drives them: what they show, how much they send, and how fast."""

from __future__ import annotations

import json
import os
import re
import time

import pytest
from support.chromium import chromium, drag
from support.lab import Received, evaluate, jupyterlab, run_all, write_notebook

from wastedcores.files import notebooks
from wastedcores.reports.screenshot import browser

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        browser() is None, reason="needs chromium (tools/ci_packages.sh installs it)"
    ),
    # the pipes of the server are closed only after they have been collected
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

EXPLORER = """from wastedcores.analysis.examined import examine
from wastedcores.trace.datasets import fetch
from wastedcores.widgets import explorer
box = explorer(examine(fetch("live-balancing-off")))
box"""
#: bytes of a whole page load's widgets: one compressed plotting library, and no more
FIRST = 2_500_000


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """JupyterLab on a folder with notebooks; yields its address."""
    folder = tmp_path_factory.mktemp("lab")
    (folder / "n").mkdir()
    text = (notebooks() / "01_is_my_machine_wasting.ipynb").read_text()
    text = text.replace("group-imbalance-buggy", "live-balancing-off")
    (folder / "n" / "one.ipynb").write_text(
        text.replace("group-imbalance-fixed", "live-balancing-on")
    )
    write_notebook(folder / "n" / "explorer", EXPLORER)
    with jupyterlab(folder) as address:
        yield address


@pytest.fixture(scope="module")
def window(lab):
    """One browser for all tests, because each new one fetches and compiles JupyterLab again; with the list of its errors."""
    with chromium(1400, 1000) as (tab, errors, _):
        yield tab, errors


@pytest.fixture
def opened(lab, window):
    """A function that runs a notebook in a fresh page of this size, waits for heat maps, and returns the page and its bytes."""
    tab, errors = window
    errors.clear()

    def run(name, width=1400, height=1000, maps=1):
        tab.set_viewport_size({"width": width, "height": height})
        received = Received(tab)
        run_all(tab, lab, name)
        tab.wait_for_function(
            f"document.querySelectorAll('.wc-live .hm image').length >= {maps}", timeout=120_000
        )
        return tab, received

    yield run
    assert errors == []


def drawn(tab, place=0):
    """How often a figure was drawn."""
    return tab.evaluate(f"+(document.querySelectorAll('.wc-live')[{place}]?.dataset.count ?? 0)")


def wait_drawn(tab, before, place=0):
    """Wait until a figure is drawn again."""
    tab.wait_for_function(
        f"+document.querySelectorAll('.wc-live')[{place}].dataset.count > {before}", timeout=60_000
    )


def heat_map(tab):
    """Left, top, width and height of the heat map in the window."""
    return tab.evaluate("""(() => { const e = document.querySelector('.wc-live .nsewdrag');
        e.scrollIntoView({block: 'center'}); const r = e.getBoundingClientRect();
        return [r.left, r.top, r.width, r.height] })()""")


def window_ms(tab):
    """The window that the kernel shows, in ms since the start of the trace."""
    told = evaluate(tab, "print([(t - box.run.scene.window[0]) / 1e6 for t in box.window])")
    return json.loads(told)


def screenshot(tab, name):
    """Keep a picture for a person to look at, if one is asked for."""
    if where := os.environ.get("WASTEDCORES_SCREENSHOTS"):
        tab.screenshot(path=f"{where}/{name}.png")


@pytest.mark.long
def test_notebook_with_explorer(opened):
    """Notebook 01 runs to its end without a warning, and dragging makes the kernel bin that window again."""
    tab, _ = opened("one", maps=0)
    tab.evaluate("document.querySelector('.jp-WindowedPanel-outer')?.scrollTo(0, 1e6)")
    tab.wait_for_function("document.querySelectorAll('.wc-live .hm image').length", timeout=120_000)
    assert not tab.evaluate(
        "document.querySelectorAll('.jp-RenderedText[data-mime-type*=\"stderr\"]').length"
    )
    says = (
        "[...document.querySelectorAll('.jupyter-widgets .widget-html-content')].map(e => e.textContent)"
        ".find(t => / of 1\\.32 s/.test(t))"
    )
    whole = tab.evaluate(says)
    assert re.match(r"1\.32 s of 1\.32 s", whole), whole
    drag(tab, heat_map(tab), 0.25, 0.5)
    now = tab.wait_for_function(f"{says} !== {json.dumps(whole)} && {says}").json_value()
    length = re.match(r"(\d+) ms of 1\.32 s", now)
    assert length, now
    assert 320 <= int(length[1]) <= 340
    screenshot(tab, "lab")


def test_a_query_changes_the_events_and_a_wrong_one_gets_a_sentence(opened):
    tab, _ = opened("explorer")
    assert not tab.get_by_placeholder('kind == "switch" and cpu < 8').is_visible()
    line = "[...document.querySelectorAll('.widget-text')].find(e => e.textContent.includes('this view'))"
    right = "getBoundingClientRect().right"
    assert tab.evaluate(f"{line}.{right} <= {line}.parentElement.{right}"), "over the cell's edge"
    count = drawn(tab)
    tab.get_by_role("button", name="events", exact=True).click()
    wait_drawn(tab, count)
    title = "document.querySelector('.wc-live .gtitle').textContent"
    default = tab.evaluate(title)
    assert "segments" in default
    box = tab.get_by_placeholder('kind == "switch" and cpu < 8')
    box.click()
    box.press_sequentially("comn == 3")
    says = "document.querySelector('.wc-query-says').textContent"
    tab.wait_for_function(f"{says}.includes('did you mean')")
    screenshot(tab, "events-wrong")
    count = drawn(tab)
    box.press("Enter")
    tab.wait_for_timeout(500)
    assert drawn(tab) == count
    box.fill('kind == "wak')
    # the browser has the completions in the list of the box
    options = "[...document.querySelectorAll('datalist option')].map(o => o.value)"
    tab.wait_for_function(f"{options}.includes('kind == \"wakeup\"')")
    box.fill('kind == "wakeup" and cpu == 0')
    tab.get_by_placeholder("draw=spans:run_ns").fill("colour=#ff0000")
    tab.wait_for_function(f"{says}.includes('Enter shows')")
    box.press("Enter")
    wait_drawn(tab, count)
    tab.wait_for_function(f"{title} !== {json.dumps(default)}")
    kernel = evaluate(tab, "print(len(box.subject.events.drawn[0].segments.start))")
    many = int(re.search(r": ([\d,]+) segment", tab.evaluate(title))[1].replace(",", ""))
    assert many == int(kernel) > 0
    screenshot(tab, "events")
    assert "Traceback" not in tab.evaluate("document.body.textContent")


@pytest.mark.long
def test_explorer_is_driven_with_mouse_and_keyboard(opened):
    """One page: bytes of the first figure and of a zoom, then each way to look elsewhere."""
    tab, received = opened("explorer")
    assert received.bytes < FIRST
    cells = tab.evaluate("document.querySelectorAll('.jp-Cell').length")
    box = heat_map(tab)
    before, count = received.bytes, drawn(tab)
    drag(tab, box, 0.25, 0.5)
    wait_drawn(tab, count)
    tab.wait_for_timeout(300)  # whatever else a zoom may send
    assert received.bytes - before < 200_000
    lo, hi = window_ms(tab)
    assert 325 < lo < 335
    assert 655 < hi < 665
    # w zooms in at the mouse, which is in the middle; d moves to the right by a fifth
    for key, width, shift in (
        ("w", 0.7, 0),
        ("s", 1.0, 0),
        ("d", 1.0, 0.2),
        ("ArrowLeft", 1.0, 0),
    ):
        count = drawn(tab)
        tab.mouse.move(box[0] + box[2] / 2, box[1] + box[3] / 2)
        tab.keyboard.press(key)
        wait_drawn(tab, count)
        start, end = window_ms(tab)
        assert end - start == pytest.approx((hi - lo) * width, rel=0.01), key
        assert (start + end) / 2 == pytest.approx((lo + hi) / 2 + shift * (hi - lo), abs=3), key
    # JupyterLab would delete the cell
    tab.keyboard.press("d")
    tab.keyboard.press("d")
    assert tab.evaluate("document.querySelectorAll('.jp-Cell').length") == cells
    time.sleep(0.5)
    tab.mouse.dblclick(box[0] + box[2] * 0.4, box[1] + box[3] * 0.4)
    tab.wait_for_function(
        "[...document.querySelectorAll('.widget-html-content')].some(e => e.textContent.startsWith('1.32 s of'))"
    )
    assert window_ms(tab)[0] == 0
    # the map of the whole trace: a press in its middle goes there
    drag(tab, box, 0.1, 0.2)
    tab.wait_for_function(
        "[...document.querySelectorAll('.widget-html-content')].some(e => e.textContent.startsWith('13'))"
    )
    count = drawn(tab)
    left, top, width, height = tab.evaluate("""(() => {
        const r = document.querySelector('.wc-map').getBoundingClientRect();
        return [r.left, r.top, r.width, r.height] })()""")
    tab.mouse.click(left + width / 2, top + height / 2)
    wait_drawn(tab, count)
    lo, hi = window_ms(tab)
    assert (lo + hi) / 2 == pytest.approx(1315.5 / 2, abs=5)
    screenshot(tab, "explorer")


@pytest.mark.long
def test_finding_a_task_selecting_a_span_and_opening_the_view_again(opened):
    """A name in the box marks its runs; shift and drag says who waited; the line below opens the same view."""
    tab, _ = opened("explorer", width=800)
    name = evaluate(tab, "print(box.subject.stays.filter(box.subject.stays['pid'] > 0)['comm'][0])")
    count = drawn(tab)
    field = tab.get_by_placeholder("name, pid or name:pid")
    field.fill(name)
    field.press("Enter")
    wait_drawn(tab, count)
    tab.wait_for_function(
        "document.querySelectorAll('.wc-live .scatterlayer path.js-line').length > 2"
    )
    assert (
        "marked yellow"
        in tab.locator(".jupyter-widgets.widget-html", has_text="in all").inner_text()
    )
    box = heat_map(tab)
    tab.keyboard.down("Shift")
    drag(tab, [box[0], box[1], box[2], box[3] / 2], 0.3, 0.4)
    tab.keyboard.up("Shift")
    said = tab.locator(".wc-reading", has_text="waited")
    said.wait_for()
    start, end = re.search(r"Between ([\d.,]+) and ([\d.,]+) ms", said.inner_text()).groups()
    assert float(start) == pytest.approx(0.3 * 1316, abs=8)
    assert float(end) == pytest.approx(0.4 * 1316, abs=8)
    assert "on CPU 0" in said.inner_text()
    assert window_ms(tab)[0] == 0  # selecting does not zoom
    count = drawn(tab)
    drag(tab, heat_map(tab), 0.2, 0.3)
    wait_drawn(tab, count)
    told = evaluate(tab, "print(box.cell.value)")
    again = evaluate(
        tab,
        f"{told.replace('; explorer(', '; again = explorer(')}\nprint(again.look == box.look, again.finder.text.value)",
    )
    assert again == f"True {name}"
    screenshot(tab, "explorer-800")
