"""The commands and options that the documents show exist."""

from __future__ import annotations

import re

import pytest
import typer
from support import ROOT

from wastedcores.cli import app, register_verbs

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("*/*.md"), *ROOT.glob("datasets/*/*.md")])
register_verbs()
VERBS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def commands(text: str) -> list[str]:
    """Each ``wastedcores VERB ...`` in an indented line or between backticks."""
    quoted = re.findall(r"`(wastedcores [a-z][^`]*)`", re.sub(r"\s*\n\s*", " ", text))
    shown = re.findall(r"^    (?:\$ )?(wastedcores [a-z].*)$", text, re.MULTILINE)
    return [c.split(" | ")[0] for c in quoted + shown]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_shown_commands_exist(document):
    for command in commands(document.read_text()):
        _, verb, *words = command.split()
        assert verb in VERBS, command
        called = VERBS[verb]
        if words and hasattr(called, "commands"):
            called = called.commands[words.pop(0)]
        known = {o for p in called.params for o in (*p.opts, *p.secondary_opts)} | {
            "--help",
            "-h",
        }
        own = words[: words.index("--")] if "--" in words else words
        for word in own:
            if re.match(r"--?[A-Za-z]", word):
                assert word in known, command
