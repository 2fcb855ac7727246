"""The balancing pass on a static page: the slider steps forward and back."""

from __future__ import annotations

import pytest
from support.chromium import chromium

from wastedcores.lecture import EXAMPLES
from wastedcores.reports.html import browser, write_figure
from wastedcores.widgets import balancing_stepper_static

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.skipif(
        browser() is None, reason="needs chromium (tools/ci_packages.sh installs it)"
    ),
]


def test_slider_steps_forward_and_back(tmp_path):
    file = tmp_path / "steps.html"
    write_figure(balancing_stepper_static(EXAMPLES["averages of groups"]), file)
    with chromium() as (tab, errors, _):
        tab.goto(file.as_uri())
        tab.wait_for_function("document.querySelectorAll('.bars .point').length")
        title = "document.querySelector('.gtitle').textContent"
        rail = tab.evaluate("""(() => {
            const r = document.querySelector('.slider-rail-touch-rect').getBoundingClientRect();
            return [r.left, r.top + r.height / 2, r.width] })()""")
        seen = {}
        for number in (6, 14, 0):
            # the ends of the rail are half a grip inside it
            tab.mouse.click(rail[0] + 10 + (rail[2] - 20) * number / 14, rail[1])
            tab.wait_for_function(f"{title}.startsWith('{number} of 14')")
            seen[number] = tab.evaluate(title)
        assert "line 19" in seen[6]
        assert "line 8" in seen[14]
        assert "Before balancing" in seen[0]
        assert errors == []
