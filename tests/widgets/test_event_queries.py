"""The query box of the explorer: a wrong query is a sentence, a right one a layer, and what is drawn is what a report draws."""

from __future__ import annotations

import pytest

from wastedcores.analysis.examined import examine
from wastedcores.figures.event_layers import read_layers, styled
from wastedcores.figures.event_views import EventView
from wastedcores.widgets import explorer
from wastedcores.widgets.explore import explorer_static
from wastedcores.widgets.layers import COLS

QUERY, STYLE = 'kind == "wakeup" and cpu < 1', "colour=by:comm label=woken"


@pytest.fixture(scope="module")
def run():
    return examine("live-balancing-on")


@pytest.fixture
def box(run):
    made = explorer(run)
    made.show.value = "events"
    return made


def names(box):
    return {t.name for t in box.figure.drawn.data}


def submit(text):
    text._handle_custom_msg({"event": "submit"}, [])


@pytest.mark.slow
def test_the_box_is_there_only_for_events(run):
    box = explorer(run)
    assert box.queries.layout.display == "none"
    box.show.value = "events"
    assert box.queries.layout.display == ""


def test_a_query_changes_what_is_drawn_and_the_same_as_headless(box, run):
    before = box.figure.drawn.to_json()
    assert before == explorer_static(run, show="events").to_json()
    box.queries.query.value = QUERY
    box.queries.style_text.value = STYLE
    assert box.figure.drawn.to_json() == before  # typing alone draws nothing
    submit(box.queries.query)
    expected = EventView(run, [styled(QUERY, STYLE)]).figure(box.window, cols=COLS)
    assert box.figure.drawn.to_json() == expected.to_json() != before


def test_a_wrong_query_gets_a_sentence_under_the_box_and_the_figure_stays(box):
    before = box.figure.drawn.to_json()
    for text, says in (
        ("comn == 3", "comm"),
        ("cpu ==", "missing here"),
        ("frequency_khz > 1", "frequency"),
    ):
        box.queries.query.value = text
        submit(box.queries.query)
        assert says in box.queries.says.value
        assert "Traceback" not in box.queries.says.value
        assert box.figure.drawn.to_json() == before
    box.queries.query.value = QUERY
    box.queries.style_text.value = "draw=circles"
    submit(box.queries.style_text)
    assert "expected strokes" in box.queries.says.value
    box.queries.style_text.value = ""
    submit(box.queries.style_text)
    assert "Enter shows" in box.queries.says.value
    assert box.figure.drawn.to_json() != before


def test_typing_offers_completions(box):
    box.queries.query.value = 'kind == "wak'
    assert box.queries.query.options == tuple(
        f'kind == "{kind}"' for kind in ("wakeup", "wakeup_new", "waking")
    )
    box.queries.query.value = 'comm == "'
    offered = box.queries.query.options
    assert offered
    assert all(o.startswith('comm == "') and o.endswith('"') for o in offered)


@pytest.mark.slow
def test_kept_layers_are_switched_and_saved(box, tmp_path):
    box.queries.query.value, box.queries.style_text.value = QUERY, STYLE
    box.queries.keep()
    box.queries.query.value = "cpu > 0"
    box.queries.keep()
    both = box.figure.drawn.to_json()
    (_, first), _ = box.queries.kept
    assert first.description == "woken"
    first.value = False
    assert box.figure.drawn.to_json() != both
    first.value = True
    assert box.figure.drawn.to_json() == both
    box.queries.file.value = str(tmp_path / "mine.toml")
    box.queries.save()
    layers, _ = read_layers(tmp_path / "mine.toml")
    assert layers == [styled(QUERY, STYLE), styled("cpu > 0")]
    for name in (str(tmp_path / "absent" / "mine.toml"), str(tmp_path), ""):
        box.queries.file.value = name
        box.queries.save()
        assert "cannot be written" in box.queries.says.value


def test_a_layer_that_cannot_be_drawn_is_not_kept(run):
    box = explorer(run).queries
    box.query.value, box.style_text.value = 'kind == "switch"', "draw=spans:comm"
    box.keep()
    assert not box.kept
    assert "has no lengths" in box.says.value
    assert box.query.value == 'kind == "switch"'
    box.style_text.value = "red"
    box.keep()
    assert [layer for layer, _ in box.kept] == [styled('kind == "switch"', "red")]
    assert (box.query.value, box.style_text.value) == ("", "")
    assert "Enter shows" in box.says.value
