"""Results show themselves in one line, and as a small table in a notebook."""

from __future__ import annotations

import pytest

import wastedcores as wc
from wastedcores.shown import Shown
from wastedcores.simulator import replay_scenario


def _results():
    yield wc.open("live-balancing-off"), "live-balancing-off.parquet"
    yield wc.check("live-balancing-off"), "violations (persistent)"
    yield wc.compare({"off": "live-balancing-off"}), "off: violations"
    yield wc.Machine.preset("bulldozer8x8"), "bulldozer8x8"
    yield wc.build_domains(wc.Machine.preset("bd-paper-16"), "v4.1"), "SMT of 2 CPUs"
    yield (
        replay_scenario("recorded-gc", machine="bd-paper-16", given={"limit_s": 0.01}),
        "kernel: v4.1",
    )


@pytest.mark.parametrize("number", range(6))
def test_a_result_is_one_short_line_and_a_table(number):
    result, says = list(_results())[number]
    assert isinstance(result, Shown)
    assert says in repr(result)
    assert "\n" not in repr(result)
    assert len(repr(result)) < 500
    table = result._repr_html_()
    assert table.count("<tr>") == len(result._facts()) >= 1
    assert says.partition(": ")[2] or says in table


def test_what_a_trace_contains_is_not_markup():
    named = wc.open("live-balancing-on").with_header(kernel_release="<script>")
    assert "<script>" not in named._repr_html_()
