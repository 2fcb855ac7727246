"""The variation of a lab for each student: other numbers of the same difficulty."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import blake2b
from typing import Any

from wastedcores.course.lab import module_of
from wastedcores.errors import UsageError

#: A variation that does not have what the lab needs is drawn again, at most so many times.
MOST_DRAWS = 200


def variation(lab: int, student: str, secret: bytes = b"") -> Any:
    """Draw the numbers of a lab for a student."""
    who = student.strip().lower()
    if not who:
        raise UsageError("student: the id is empty; write your id into the parameters cell.")
    module = module_of(lab)
    # blake2b takes keys of at most 64 bytes
    key = blake2b(secret).digest() if secret else b""
    digest = blake2b(f"{lab} {who}".encode(), key=key).digest()
    # random.Random, and not numpy: its sequence for a seed is the same in all versions of Python
    rng = random.Random(int.from_bytes(digest, "big"))
    for _ in range(MOST_DRAWS):
        drawn = module.draw(rng)
        if module.is_fair(drawn):
            return drawn
    raise UsageError(
        f"lab {lab}, student {student!r}: no variation after {MOST_DRAWS} draws; this is a mistake in the lab."
    )


def write_variations(lab: int, drawn: Sequence[Any]) -> str:
    """Return variations as a text."""
    return json.dumps({"lab": lab, "variations": [asdict(v) for v in drawn]})


def read_variations(lab: int, text: str) -> list[Any]:
    """Read variations."""
    found = json.loads(text)
    if found["lab"] != lab:
        return []
    kind = module_of(lab).Variation
    return [kind(**{name: _tuples(x) for name, x in v.items()}) for v in found["variations"]]


def _tuples(value: Any) -> Any:
    """JSON has no tuples; a variation has nothing else."""
    return tuple(_tuples(x) for x in value) if isinstance(value, list) else value
