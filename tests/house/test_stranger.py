"""The answers of the stranger's test in CONTRIBUTING.md are files that exist, with the names they are said to have."""

from __future__ import annotations

import ast
import re

import pytest
from support import ROOT

ANSWERS = re.findall(
    r"^\| ([^|]+\?) \| ([^|]+) \|$",
    (ROOT / "CONTRIBUTING.md").read_text().partition("## The stranger's test")[2],
    re.MULTILINE,
)


def test_there_are_forty_questions():
    assert len(ANSWERS) >= 40


@pytest.mark.parametrize(("question", "answer"), ANSWERS, ids=[q for q, _ in ANSWERS])
def test_answer_exists(question, answer):
    found = re.findall(r"`([\w./-]+)`(?:: `(\w+)`)?", answer)
    assert found
    for path, name in found:
        assert (ROOT / path).exists(), path
        if name:
            names = set()
            for node in ast.parse((ROOT / path).read_text()).body:
                names |= {getattr(node, "name", "")}
                targets = getattr(node, "targets", [getattr(node, "target", None)])
                names |= {t.id for t in targets if isinstance(t, ast.Name)}
            assert name in names, f"{path} has no {name}"
