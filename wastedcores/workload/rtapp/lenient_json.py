"""A reader for the JSON of real rt-app files, with comments, trailing commas, repeated keys and a bare ``"suspend"``.

rt-app reads its files through workgen (doc/workgen in scheduler-tools/rt-app), which makes keys unique and fills in values,
and through json-c, which accepts C comments and trailing commas. Order matters and keys repeat, so an object is a list of
pairs here.
"""

from __future__ import annotations

import json
import re
from typing import Any

from wastedcores.errors import WorkloadError

#: a text, a comment of either kind, or a comma before a closing bracket
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*|,(?=\s*[}\]])', re.S)
#: a key "suspend" or "yield" without a value
_BARE = re.compile(r'([{,]\s*"(?:suspend|yield)\w*")(?=\s*[,}])')


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its keys and values in order, with repeated keys."""

    def only(self, key: str, default: Any = None) -> Any:
        """Return the value of a key that should occur once. The last one counts, as in json-c."""
        return dict(self).get(key, default)


def parse(text: str, name: str) -> Pairs:
    """Read the text of a file."""
    plain = _TOKEN.sub(_clean, text)
    # a comment between a comma and a bracket hid the comma from the first pass
    plain = _TOKEN.sub(_clean, plain)
    plain = _BARE.sub(r'\1: ""', plain)
    try:
        found = json.loads(plain, object_pairs_hook=Pairs)
    except json.JSONDecodeError as e:
        # JSON counts "\n" only, so no splitlines()
        line = plain.split("\n")[e.lineno - 1].strip()[:60]
        raise WorkloadError(
            f"{name}, line {e.lineno}: not JSON ({e.msg}) near {line!r}; expected an rt-app file with an object "
            '"tasks".'
        ) from e
    except (RecursionError, ValueError) as e:
        why = "objects are nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise WorkloadError(f"{name}: not JSON ({why}); expected an rt-app file.") from None
    if not isinstance(found, Pairs):
        raise WorkloadError(
            f'{name}: holds no object; expected an rt-app file: {{"tasks": {{...}}}}.'
        )
    return found


def _clean(match: re.Match[str]) -> str:
    """Replace a comment or a trailing comma."""
    token = match[0]
    if token.startswith('"'):
        return token
    # keep the number of lines, so that messages name the right one
    return "\n" * token.count("\n") or " "
