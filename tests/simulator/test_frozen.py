"""The engine logs what it logged when the digests were made, compiled and as plain Python."""

from __future__ import annotations

import json

import pytest
from support import frozen

KNOWN = json.loads(frozen.FILE.read_text())


def agree(kind: str, first: int, last: int, *, plain: bool = False) -> None:
    now = dict(frozen.blocks(kind, first, last, plain))
    assert now == dict(enumerate(KNOWN[kind][first:last], first))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v4.1", "v6.12.107"])
def test_the_first_cases(kind):
    agree(kind, 0, 1)


@pytest.mark.slow
@pytest.mark.parametrize("kind", frozen.KINDS)
def test_some_cases(kind):
    agree(kind, 0, 5)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", frozen.KINDS)
def test_all_cases(kind):
    agree(kind, 5, len(KNOWN[kind]))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["v4.1", "v6.12.107", "real time"])
def test_the_first_cases_in_plain_python(kind):
    agree(kind, 0, 1, plain=True)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", frozen.KINDS)
def test_a_tenth_in_plain_python(kind):
    agree(kind, 0, len(KNOWN[kind]) // 10, plain=True)
