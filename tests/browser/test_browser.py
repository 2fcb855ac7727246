"""The report in a real browser."""

from __future__ import annotations

import re

import numpy as np
import plotly.graph_objects as go
import pytest
from support import scorecards
from support.chromium import chromium
from support.figure_audit import WIDTHS, audit

from wastedcores.analysis.scene import Scene
from wastedcores.analysis.states import States
from wastedcores.figures.heatmaps import heatmap
from wastedcores.reports.html import browser, figure_page
from wastedcores.reports.notebook import report

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        browser() is None, reason="needs chromium (tools/ci_packages.sh installs it)"
    ),
]


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    out = tmp_path_factory.mktemp("browser") / "r"
    return report(
        "live-balancing-off",
        against="live-balancing-on",
        out=out,
        parameters={"seeds": 1},
        progress=False,
    ).html


def fetched(addresses):
    """The addresses that are neither inside the page nor parts of it."""
    return {a.partition("#")[0] for a in addresses if not a.startswith(("data:", "blob:"))}


def test_report_opens_offline(page):
    with chromium() as (tab, errors, asked):
        tab.goto(page.as_uri())
        tab.wait_for_function("document.readyState === 'complete'")
        count = tab.evaluate("document.querySelectorAll('.wc-figure').length")
        drawn = "document.querySelectorAll('.wc-figure .main-svg').length"
        tab.wait_for_function(f"{drawn} >= {count}")
        assert count >= 5
        # every figure has content, not only a frame: heat maps are images, curves, points and bars are paths
        inked = """[...document.querySelectorAll('.wc-figure')].every(
            f => f.querySelector('.hm image, .scatterlayer path.js-line, .scatterlayer path.point, .barlayer path'))"""
        assert tab.evaluate(inked)
        assert errors == []
        assert fetched(asked) == {page.as_uri()}
        # the code is in the page, but hidden until the reader asks for it
        visible = (
            "[...document.querySelectorAll('.wc-code')].filter(e => e.offsetHeight > 0).length"
        )
        assert tab.evaluate(visible) == 0
        tab.evaluate("document.querySelector('#show-code').click()")
        assert tab.evaluate(visible) > 5


def test_report_first_screen_has_verdict_numbers_and_picture(page):
    with chromium(1280, 900) as (tab, *_):
        tab.goto(page.as_uri())
        tab.wait_for_function("document.querySelectorAll('.wc-figure .hm image').length")
        bottom = tab.evaluate(
            "document.querySelector('.wc-figure .hm').getBoundingClientRect().bottom"
        )
        assert (
            tab.evaluate("document.querySelector('.wc-violations').getBoundingClientRect().top")
            < 300
        )
        assert bottom < 900


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_report_cuts_no_text_and_none_overlaps(page, scheme):
    with chromium(1400, 900) as (tab, errors, _):
        tab.goto(page.as_uri())
        assert [fault for width in WIDTHS for fault in audit(tab, width, scheme)] == []
        assert errors == []


def test_audit_names_what_is_wrong_with_a_figure(tmp_path):
    """Each fault of this figure is named; otherwise the audit of a report would prove nothing."""
    bad = go.Figure(go.Scatter(x=[1, 2], y=[None, None]), {"height": 300})
    for x, text in ((1, "first words"), (1, "second words"), (1.99, "beyond the edge " * 9)):
        bad.add_annotation(x=x, y=1, text=text, showarrow=False, xanchor="left")
    file = tmp_path / "bad.html"
    file.write_text(figure_page(bad), "utf-8")
    with chromium(1400, 900) as (tab, *_):
        tab.goto(file.as_uri())
        found = "\n".join(audit(tab, WIDTHS[0]))
    for fault in ('"first words" overlaps "second words"', "is cut", "nothing is drawn"):
        assert fault in found


def test_report_numbers_of_two_runs_are_seen_at_once(page):
    with chromium(1100, 900) as (tab, *_):
        tab.goto(page.as_uri())
        tab.wait_for_function("document.querySelectorAll('.wc-numbers').length")
        assert tab.evaluate("document.querySelectorAll('.wc-numbers .wc-badge').length") == 2
        table = "document.querySelector('.wc-scroll:has(.wc-numbers)')"
        assert tab.evaluate(f"{table}.scrollWidth <= {table}.clientWidth")


def test_times_late_in_a_trace_are_in_the_unit_of_the_axis(tmp_path):
    at, end = 20_975 * 10**6, 30 * 10**9
    ts = np.array([0, 0, at + 40 * 10**6], np.int64)
    told = [(ts, np.array([0, 1, 0], np.int32), np.array([2, 0, 1], np.int32))]
    late = Scene(States.collect(told, 2, 0, end), cpus=(0, 1))
    file = tmp_path / "late.html"
    heatmap(late, (at, at + 10**8), title="late").write_html(file)
    with chromium() as (tab, errors, _):
        tab.goto(file.as_uri())
        ticks = "[...document.querySelectorAll('.x3tick text')].map(t => t.textContent)"
        tab.wait_for_function(f"{ticks}.length > 2")
        said = tab.evaluate(ticks)
        assert all(re.fullmatch(r"(20,9[789]\d|21,0[0-7]\d)(\.\d+)?", t) for t in said), said
        assert errors == []


def test_report_on_a_phone_does_not_scroll_sideways(page):
    with chromium(500, 900) as (tab, *_):
        tab.goto(page.as_uri())
        tab.wait_for_function("document.querySelectorAll('.wc-figure .main-svg').length")
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


@pytest.fixture(scope="module")
def scorecard_page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scorecard")
    scorecards.write(folder / "runs", factor=1.6)
    given = {"folder": str(folder / "runs")}
    return report(notebook="08", parameters=given, out=folder / "page", progress=False).html


_DRAWN = """document.readyState === 'complete' && document.querySelectorAll('.wc-figure').length > 5 &&
    [...document.querySelectorAll('.wc-figure')].every(f => f.querySelector('.main-svg'))"""


def test_scorecard_says_in_one_screen_what_was_reproduced_and_what_not(scorecard_page):
    with chromium(1280, 900) as (tab, errors, asked):
        tab.goto(scorecard_page.as_uri())
        tab.wait_for_function(_DRAWN)
        # the invented numbers miss by 1.6, so the list of what was not reproduced has its greatest length
        assert tab.evaluate("document.querySelectorAll('.wc-card').length") == 4
        bottom = "document.querySelector('.wc-cards').getBoundingClientRect().bottom"
        assert tab.evaluate(bottom) < 300
        links = "[...document.querySelectorAll('.wc-score a')].map(a => a.getAttribute('href').slice(1))"
        assert tab.evaluate(f"{links}.length") > 20
        assert tab.evaluate(f"{links}.every(id => document.getElementById(id))")
        tab.evaluate("document.querySelector('.wc-score a[href^=\"#row-\"]').click()")
        assert tab.evaluate("document.querySelector('tr:target').getBoundingClientRect().top") < 900
        assert errors == []
        assert fetched(asked) == {scorecard_page.as_uri()}


@pytest.mark.parametrize("width", [1280, 800, 500])
def test_scorecard_breaks_no_word_and_does_not_scroll_sideways(scorecard_page, width):
    with chromium(width, 900) as (tab, *_):
        tab.goto(scorecard_page.as_uri())
        tab.wait_for_function(_DRAWN)
        assert tab.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        # every word of a table is on one line; a line can break after a hyphen
        broken = """(() => { const bad = []; const range = document.createRange();
            for (const td of document.querySelectorAll('.wc-score td')) {
                const walk = document.createTreeWalker(td, NodeFilter.SHOW_TEXT);
                while (walk.nextNode()) for (const m of walk.currentNode.data.matchAll(/[^ -]+/g)) {
                    range.setStart(walk.currentNode, m.index);
                    range.setEnd(walk.currentNode, m.index + m[0].length);
                    if (new Set([...range.getClientRects()].map(r => Math.round(r.top))).size > 1) bad.push(m[0]);
                } }
            return bad })()"""
        assert tab.evaluate(broken) == []
        # no part of a table is beyond the edge of the window, unless the window is that of a phone
        cut = "[...document.querySelectorAll('.wc-scroll')].filter(e => e.scrollWidth > e.clientWidth).length"
        if width > 640:
            assert tab.evaluate(cut) == 0
