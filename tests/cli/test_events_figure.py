"""``wastedcores figure --kind events``: the command line draws what the API draws."""

from __future__ import annotations

import json

import pytest
from support.typed import typed

from wastedcores.analysis.examined import examine
from wastedcores.figures.event_layers import styled
from wastedcores.figures.event_views import events

QUERY, STYLE = 'kind == "wakeup" and cpu < 1', "draw=strokes colour=by:comm label=woken"


def drawn(tmp_path, *options):
    out = tmp_path / "f.json"
    done = typed("figure", "live-balancing-on", "--kind", "events", "-o", out, *options)
    assert done.code == 0, done.err
    return json.loads(out.read_text())


@pytest.mark.slow
def test_command_line_file_and_api_draw_the_same(tmp_path):
    by_options = drawn(tmp_path, "--query", QUERY, "--style", STYLE)
    file = tmp_path / "layers.toml"
    file.write_text(f"[[layer]]\nquery = '{QUERY}'\ncolour = 'by:comm'\nlabel = 'woken'\n")
    by_file = drawn(tmp_path, "--layers", str(file))
    by_api = json.loads(events(examine("live-balancing-on"), [styled(QUERY, STYLE)]).to_json())
    assert by_options == by_file == by_api
    assert drawn(tmp_path) != by_api


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--kind", "events", "--query", "comn == 3"], "character 1: there is no column 'comn'"),
        (["--kind", "events", "--style", "red"], "there are 1 --style and 0 --query"),
        (["--kind", "events", "--query", "True", "--style", "draw=x"], "expected strokes"),
        (["--kind", "tasks", "--query", "True"], "are for events"),
    ],
)
def test_wrong_options_get_a_sentence_and_exit_code_2(options, says):
    done = typed("figure", "live-balancing-on", *options)
    assert done.code == 2
    assert says in " ".join(done.err.split())


def test_frequency_needs_events_that_tell_it(tmp_path):
    done = typed("figure", "live-balancing-on", "--kind", "frequency", "-o", tmp_path / "f.json")
    assert done.code == 2
    assert "no 'tick' and no 'frequency' events" in " ".join(done.err.split())
