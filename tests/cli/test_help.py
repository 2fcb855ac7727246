"""What a newcomer reads first."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from wastedcores.cli import VERBS


def said(*words: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "wastedcores", *words],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "COLUMNS": "80"},
    )
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
