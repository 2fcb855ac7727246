"""The widgets in JupyterLab, driven as a reader drives them: what they show, how much they send, and how fast."""

from __future__ import annotations

import ast
import json
import os
import re
import time

import pytest
from support.chromium import chromium, drag
from support.figure_audit import faults
from support.lab import Received, evaluate, jupyterlab, run_all, write_notebook

from wastedcores.figures.theme import NARROW
from wastedcores.files import notebooks
from wastedcores.reports.html import browser

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
from wastedcores.trace.named import fetch
from wastedcores.widgets import explorer
box = explorer(examine(fetch("live-balancing-off")))
box"""
#: shows the runqueues of the whole trace, and prints whether something else was shown
WHOLE = """before = box.look, box.finder.text.value
box.details.value = ""
with box.hold():
    box.show.value, box.finder.text.value, box.window = "runqueues", "", box.run.scene.window
print((box.look, box.finder.text.value) != before)"""
LABS = """import ipywidgets
import wastedcores as wc
from wastedcores.analysis.decisions import decisions
from wastedcores.simulator.plain.modules import Module
from wastedcores.widgets import balancing_stepper, decision_stepper, design_lab, domain_playground, replay_lab, side_by_side
class AlwaysZero(Module):
    name = "always_zero"
    def suggest_cpu(self, k, p, waker_cpu, why):
        return 0
pair = side_by_side("live-balancing-off", "live-balancing-on")
replays = replay_lab("missing-domains", n=4, limit_s=0.2)
replays.machine.value = "bd-paper-16"
stepper = balancing_stepper()
recorded = wc.replay_scenario("group-imbalance", "v4.1", "bd-paper-16", 1, {"jobs": 20}, decisions=True)
calls = decision_stepper(decisions(recorded.trace))
ipywidgets.VBox([pair, replays, design_lab(AlwaysZero()), stepper, domain_playground(), calls])"""
#: anywidget waits two seconds for a module; in the notebook named "labs" it gives up at once, as on a busy machine
BUSY = """if (location.pathname.includes('labs')) {
    const usual = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = (ms) => usual(ms === 2000 ? 0 : ms) }"""
#: rows and columns of controls that are wider than their place
CUT = """[...document.querySelectorAll('.widget-hbox, .widget-vbox, .widget-gridbox')]
    .filter(e => e.scrollWidth > e.clientWidth + 1).map(e => e.textContent.slice(0, 60))"""
GAVE_UP = "[anywidget] Failed to initialize model."
#: bytes of a page with eight figures: 2.51 MB, of which 1.47 are the compressed plotting library; twice that would be 3.98 MB
FIRST = 2_600_000


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
    write_notebook(folder / "n" / "labs", LABS)
    with jupyterlab(folder) as address:
        yield address


@pytest.fixture(scope="module")
def window(lab):
    """One browser for all tests, because each new one fetches and compiles JupyterLab again; with the list of its errors."""
    with chromium(1400, 1000) as (tab, errors, _):
        tab.add_init_script(BUSY)
        yield tab, errors


@pytest.fixture
def errors(window):
    """The errors of the page during a test, of which none is left at its end."""
    window[1].clear()
    yield window[1]
    # on a busy machine anywidget says this, and no widget depends on it (the page of the labs proves it)
    assert [error for error in window[1] if GAVE_UP not in error] == []


@pytest.fixture(scope="module")
def opened(lab, window):
    """A function that runs a notebook in a page of this size, unless it is open, and returns the page and its bytes."""
    tab, pages = window[0], {}

    def run(name, width=1400, height=1000, maps=1):
        tab.set_viewport_size({"width": width, "height": height})
        if name not in pages:
            pages.clear()
            pages[name] = Received(tab)
            run_all(tab, lab, name)
            tab.wait_for_function(
                f"document.querySelectorAll('.wc-live .hm image').length >= {maps}",
                timeout=120_000,
            )
            # kept, because a second try of a test finds the page open already
            pages[name].gave_up = any(GAVE_UP in error for error in window[1])
        return tab, pages[name]

    return run


THEME = "window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab %s'}).then(() => 1)"
#: the background of the figure, and of what is around it
PAPERS = """[document.querySelector('.wc-live .main-svg').style.background,
    getComputedStyle(document.querySelector('.wc-live')).backgroundColor]"""


@pytest.fixture
def explored(opened, errors):
    """The page of the explorer, which shows the runqueues of the whole trace."""
    tab, received = opened("explorer")
    count = drawn(tab)
    if evaluate(tab, WHOLE) == "True":
        wait_drawn(tab, count)
    return tab, received


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


def waiting(tab) -> list[str]:
    """The texts that a click has opened: who waited."""
    said = tab.evaluate(
        "[...document.querySelectorAll('.widget-html-content')].map(e => e.textContent)"
    )
    return [text for text in said if "burn:" in text]


def test_a_figure_follows_the_theme_of_the_notebook(explored):
    tab, _ = explored
    light = tab.evaluate(PAPERS)
    tab.evaluate(THEME % "Dark")
    tab.wait_for_function(f"{PAPERS}[0] === 'rgb(21, 25, 29)'")
    assert tab.evaluate(PAPERS) == ["rgb(21, 25, 29)"] * 2
    tab.evaluate(THEME % "Light")
    tab.wait_for_function(f"{PAPERS}[0] === {json.dumps(light[0])}")
    assert tab.evaluate(PAPERS) == light == ["white", "rgb(255, 255, 255)"]


def test_explorer_is_driven_with_mouse_and_keyboard(explored):
    """One page: bytes of the first figure and of a zoom, then each way to look elsewhere."""
    tab, received = explored
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
    time.sleep(1)
    before = waiting(tab)
    tab.mouse.dblclick(box[0] + box[2] * 0.4, box[1] + box[3] * 0.4)
    tab.wait_for_function(
        "[...document.querySelectorAll('.widget-html-content')].some(e => e.textContent.startsWith('1.32 s of'))"
    )
    assert window_ms(tab)[0] == 0
    # its two clicks asked for nothing
    tab.wait_for_timeout(1000)
    assert waiting(tab) == before
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


def test_a_click_is_not_followed_by_a_complaint(explored):
    tab, _ = explored
    left, top, width, height = heat_map(tab)
    tab.evaluate("document.querySelector('.wc-note').textContent = 'as before'")
    tab.mouse.click(left + width * 0.4, top + height * 0.4)
    tab.wait_for_function("document.querySelector('.wc-note').textContent !== 'as before'")
    tab.wait_for_timeout(11_000)  # the figure complains after 10 seconds
    assert tab.evaluate("document.querySelector('.wc-note').textContent") == ""


def test_episodes_are_visited_and_left_again(explored):
    """The buttons go to the next and the previous episode and back, and the menu goes to the worst one."""
    tab, _ = explored
    whole = window_ms(tab)
    told = "[((s - f) / 1e6, (e - f) / 1e6) for s, e in zip(t['start_ns'], t['end_ns'])]"
    episodes = json.loads(
        evaluate(
            tab,
            f"import json; t = box.run.result.episodes; f = box.run.scene.window[0]; print(json.dumps({told}))",
        )
    )

    def press(name):
        count = drawn(tab)
        tab.locator(f"button[title='{name}']").click()
        wait_drawn(tab, count)
        return window_ms(tab)

    def middle(ends):
        return sum(ends) / 2

    later = next(e for e in episodes if middle(e) > middle(whole) + 0.001)
    there = press("next episode")
    assert there[0] <= later[0]
    assert there[1] >= later[1]
    assert there[1] - there[0] < max(1.25 * (later[1] - later[0]), 0.01)
    before = press("previous episode")
    assert middle(before) < middle(there)
    assert press("back") == there
    assert press("back") == whole
    count = drawn(tab)
    menu = tab.locator(".widget-dropdown", has_text="go to").locator("select")
    longest = menu.locator("option").nth(1).inner_text()
    menu.select_option(index=1)
    wait_drawn(tab, count)
    start = float(re.search(r"at\s([\d.]+)", longest)[1])
    assert window_ms(tab)[0] < start < window_ms(tab)[1]
    assert (
        menu.evaluate("e => e.selectedIndex") == 0
    )  # so that the same episode can be chosen again


def test_finding_a_task_selecting_a_span_and_opening_the_view_again(explored):
    """A name in the box marks its runs; shift and drag says who waited; the line below opens the same view."""
    tab, _ = explored
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


def test_a_narrow_cell_scrolls_instead_of_covering_words(explored):
    """Figures are laid out for a certain width; a window of 800 pixels leaves a cell of about half of it."""
    tab, _ = explored
    count = drawn(tab)
    tab.set_viewport_size({"width": 800, "height": 1000})
    wait_drawn(tab, count)
    cell = "document.querySelector('.wc-live')"
    assert tab.evaluate(f"{cell}.clientWidth") < NARROW
    assert tab.evaluate(f"{cell}.scrollWidth") == NARROW
    assert tab.evaluate("document.querySelector('.wc-map').clientWidth") == NARROW
    assert faults(tab) == []
    assert tab.evaluate(CUT) == []
    screenshot(tab, "explorer-800")


def test_a_query_changes_the_events_and_a_wrong_one_gets_a_sentence(explored):
    tab, _ = explored
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


@pytest.mark.usefixtures("errors")
def test_traces_replays_modules_and_steps_are_driven_from_their_controls(opened):
    """One page for the other widgets, whose figures appear although anywidget gave up waiting for them."""
    tab, received = opened("labs", 1100, 3000, maps=2)
    assert received.gave_up
    tab.wait_for_function("document.querySelectorAll('.wc-live .bars .point').length")
    drive_pair(tab, received)
    drive_replays(tab)
    drive_modules(tab)
    drive_steps(tab)
    drive_domains(tab)
    drive_calls(tab)
    assert received.bytes < FIRST  # eight figures, one plotting library
    assert faults(tab) == []
    assert tab.evaluate(CUT) == []
    screenshot(tab, "labs")


def drive_pair(tab, received):
    """Both heat maps and the difference are zoomed together, and one trace is moved, in one figure."""
    assert "Better or worse cannot be said" in tab.locator(".wc-reading").first.inner_text()
    before, count = received.bytes, drawn(tab)
    drag(tab, heat_map(tab), 0.25, 0.5)
    wait_drawn(tab, count)
    tab.wait_for_timeout(300)  # whatever else a zoom may send
    assert received.bytes - before < 200_000
    shown, whole = json.loads(
        evaluate(tab, "print([list(pair.figure.window), list(pair.figure.pair.window)])")
    )
    long = whole[1] - whole[0]
    assert shown[0] == pytest.approx(whole[0] + 0.25 * long, abs=0.01 * long)
    assert shown[1] == pytest.approx(whole[0] + 0.5 * long, abs=0.01 * long)
    count = drawn(tab)
    fill(tab, "move by ms", "100")
    wait_drawn(tab, count)
    title = tab.evaluate("document.querySelector('.wc-live .gtitle').textContent")
    assert "moved by 100 ms" in title


def drive_replays(tab):
    """The button replays both kernels, and other fixes give another table."""
    button = tab.locator("button", has_text=re.compile("^ *replay *$"))
    count = drawn(tab, 1)
    button.click()
    wait_drawn(tab, count, 1)
    table = tab.locator(".wc-table", has_text="v4.1+missing_domains")
    assert "none left" in table.inner_text()
    tab.locator("select[multiple]").first.select_option(["group_imbalance"])
    count = drawn(tab, 1)
    button.click()
    wait_drawn(tab, count, 1)
    other = tab.locator(".wc-table", has_text="v4.1+group_imbalance")
    other.wait_for()
    assert "none left" not in other.inner_text()


def drive_modules(tab):
    """A module of one's own is run at a press, and a table says what the core refused."""
    fill(tab, "iterations", "5")
    count = drawn(tab, 2)
    tab.locator("button", has_text=re.compile("^ *run *$")).click()
    refused = tab.get_by_text("The core refused")
    refused.wait_for()
    assert re.search(r"refused \d+ suggestions", refused.inner_text())
    wait_drawn(tab, count, 2)


def drive_steps(tab):
    """The buttons step through a balancing pass, and another kernel has other steps."""
    title = "document.querySelectorAll('.wc-live')[3].querySelector('.gtitle').textContent"
    assert "Before balancing" in tab.evaluate(title)
    tab.locator("button", has_text=re.compile("^ *forward *$")).first.click()
    tab.wait_for_function(f"{title}.startsWith('1 of ')")
    tab.locator("button", has_text=re.compile("^ *back *$")).first.click()
    tab.wait_for_function(f"{title}.includes('Before balancing')")
    count, steps = drawn(tab, 3), evaluate(tab, "print(len(stepper.decisions))")
    kernel = tab.locator(".widget-dropdown", has_text="kernel").nth(1).locator("select")
    kernel.select_option("v4.1+group_imbalance")
    wait_drawn(tab, count, 3)
    assert evaluate(tab, "print(len(stepper.decisions))") != steps


def drive_domains(tab):
    """Another kernel to compare with is drawn beside the first."""
    menu = tab.locator(".widget-dropdown", has_text="compare").locator("select")
    title = "document.querySelectorAll('.wc-live')[5].querySelector('.gtitle').textContent"
    assert "v6.12" not in tab.evaluate(title)
    menu.select_option("v6.12")
    tab.wait_for_function(f"{title}.includes('v6.12')")


def drive_calls(tab):
    """A result chooses among the calls of the balancer, and the buttons go through the lines of one call."""
    title = "document.querySelectorAll('.wc-live')[7].querySelector('.gtitle').textContent"
    result = tab.locator(".widget-dropdown", has_text="result").locator("select")
    result.select_option("balanced")
    kept = "len(calls._chosen), set(calls._chosen['result']), len(calls.calls)"
    few, results, many = ast.literal_eval(evaluate(tab, f"print(({kept}))"))
    assert results == {"balanced"}
    assert 0 < few < many
    tab.get_by_text(re.compile(f"^{few:,} calls, ")).wait_for()
    seen = [tab.evaluate(title)]
    for name in ("forward", "forward", "back"):
        count = drawn(tab, 7)
        tab.locator("button", has_text=re.compile(f"^ *{name} *$")).last.click()
        wait_drawn(tab, count, 7)
        seen.append(tab.evaluate(title))
    assert seen[1] == seen[3]
    assert len(set(seen)) == 3
    told = evaluate(
        tab,
        "from wastedcores.words.decisions import call_steps\n"
        "print([step.text for step in call_steps(calls.chosen)][:3])",
    )
    for step, shown in zip(ast.literal_eval(told), seen[:3], strict=True):
        # a title is folded into lines
        assert step.replace(" ", "")[:60] in shown.replace(" ", "")


def fill(tab, name, value):
    """Write into the text field with this name and leave it."""
    field = tab.locator(".widget-text", has_text=name).locator("input").last
    field.fill(value)
    field.press("Tab")


@pytest.mark.long
def test_notebook_with_explorer(opened, errors):
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
