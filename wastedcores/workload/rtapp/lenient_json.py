"""rt-app's JSON as its files really are: comments, trailing commas, keys given twice, a bare ``"suspend"``.

rt-app reads them through workgen (doc/workgen in scheduler-tools/rt-app), which makes keys unique and fills values in,
and json-c, which takes C comments and trailing commas. Order matters and keys repeat, so an object is a list of pairs.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wastedcores.errors import WorkloadError

#: text, a comment of either kind, or a comma before a bracket closes
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*|,(?=\s*[}\]])', re.S)
#: "suspend" without a value, in an object
_BARE = re.compile(r'([{,]\s*"(?:suspend|yield)\w*")(?=\s*[,}])')


class Pairs(list[tuple[str, Any]]):
    """An object: its keys and values in order, some keys more than once."""

    def only(self, key: str, default: Any = None) -> Any:
        """Value of a key that can be there once; the last one counts, as in json-c."""
        return dict(self).get(key, default)


def parse(text: str, name: str) -> Pairs:
    """Read a file's text.

    Parameters
    ----------
    text, name
        What is in the file, and its name for messages.

    Raises
    ------
    WorkloadError
        No JSON, or no object at its top.
    """
    plain = _TOKEN.sub(_clean, text)
    # a comment between a comma and a bracket hid the comma
    plain = _TOKEN.sub(_clean, plain)
    plain = _BARE.sub(r'\1: ""', plain)
    try:
        found = json.loads(plain, object_pairs_hook=Pairs)
    except json.JSONDecodeError as e:
        line = plain.splitlines()[e.lineno - 1].strip()[:60] if plain.strip() else ""
        raise WorkloadError(
            f"{name}, line {e.lineno}: not JSON ({e.msg}) near {line!r}; expected an rt-app file with an object "
            '"tasks"'
        ) from e
    except RecursionError:
        raise WorkloadError(
            f"{name}: objects inside objects without end; expected rt-app's"
        ) from None
    if not isinstance(found, Pairs):
        raise WorkloadError(
            f'{name}: holds no object; expected an rt-app file: {{"tasks": {{...}}}}'
        )
    return found


def _clean(match: re.Match[str]) -> str:
    token = match[0]
    if token.startswith('"'):
        return token
    # as many lines as before, so that messages name the right one
    return "\n" * token.count("\n") or " "
