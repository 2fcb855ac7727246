"""Answers with --json beside the JSON Schemas that the wheel has."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from support import ROOT

FOLDER = ROOT / "integrations" / "schemas"
#: a value of another type than every key that has one
WRONG = [[{"unheard_of": None}]]
#: so many entries of a list are looked at; the others have the same schema
_LOOKED_AT = 3


def validator(name: str) -> Any:
    schema = json.loads((FOLDER / f"{name}.json").read_text())
    kind = jsonschema.validators.validator_for(schema)
    kind.check_schema(schema)
    return kind(schema)


def fits(name: str, answer: Any, *, free: tuple[str, ...] = ()) -> None:
    """Check that an answer fits its schema, and that it does not if a key is added or a value is of another type.

    ``free`` names the keys whose values may be anything.
    """
    judge = validator(name)
    judge.validate(answer)
    answer = _short(copy.deepcopy(answer))
    judge.validate(answer)
    refused(judge, answer | {"unheard_of": 1}, "an unknown key")
    refused(judge, {k: v for k, v in answer.items() if k != "schema"}, "no schema")
    places = list(_places(answer, free))
    assert len(places) >= len(answer)
    for where, holder, key in places:
        value, holder[key] = holder[key], WRONG
        refused(judge, answer, where)
        holder[key] = value
    judge.validate(answer)


def refused(judge: Any, answer: Any, why: str) -> None:
    if judge.is_valid(answer):
        pytest.fail(f"{why} should be refused")


def _short(value: Any) -> Any:
    """Leave the first entries of long lists of objects."""
    if isinstance(value, dict):
        return {k: _short(v) for k, v in value.items()}
    if isinstance(value, list):
        many = len(value) > _LOOKED_AT and isinstance(value[0], dict)
        return [_short(v) for v in (value[:_LOOKED_AT] if many else value)]
    return value


def _places(value: Any, free: tuple[str, ...], where: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the values of an answer, each as its place, what holds it, and its key."""
    items = value.items() if isinstance(value, dict) else enumerate(value[:_LOOKED_AT])
    for key, inner in list(items):
        if key in free:
            continue
        yield f"{where}/{key}", value, key
        if isinstance(inner, dict | list):
            yield from _places(inner, free, f"{where}/{key}")
