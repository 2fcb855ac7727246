"""What a newcomer reads first."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from wastedcores.cli import VERBS, _register
from wastedcores.cli._app import app


def said(*words: str) -> str:
    _register()
    run = CliRunner().invoke(app, words, env={"COLUMNS": "80"}, prog_name="wastedcores")
    assert run.exit_code == 0
    return run.stdout


def test_every_verb_is_listed_with_a_whole_sentence():
    listed = said("--help").partition("Commands:")[2].strip().splitlines()
    assert [line.split()[0] for line in listed] == [v.rstrip("_") for v in VERBS]
    assert all(line.rstrip()[-1] in ".?" and not line.endswith("...") for line in listed)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_fits_80_columns_and_has_an_example(verb):
    text = said(verb.rstrip("_"), "--help")
    assert max(map(len, text.splitlines())) <= 80
    assert f"  wastedcores {verb.rstrip('_')}" in text
