"""A digest of the code that a run executes, so that results of other code are never reused.

The digest covers all source files of the package except those that only present results: rewording a page does not make
any replay necessary.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

#: the package that every task uses
PACKAGE = __name__.partition(".")[0]
#: rooms that no replay passes through
PRESENTATION = ("capture", "cli", "figures", "reports", "widgets", "words")


@lru_cache(maxsize=32)
def digest(module: str) -> str:
    """Return a digest of this package's sources and of those of the task's own top-level package."""
    own = module.partition(".")[0]
    if not _files(own):
        return ""
    total = hashlib.sha256(own.encode())
    for top in dict.fromkeys((PACKAGE, own)):
        for path in _files(top):
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:16]


def _files(top: str) -> list[Path]:
    """Return the sorted source files of a top-level package or module, or nothing if it does not exist."""
    found = find_spec(top)
    if found is None or not found.origin or not Path(found.origin).is_file():
        return []
    origin = Path(found.origin)
    if origin.name != "__init__.py":
        return [origin]
    hidden = PRESENTATION if top == PACKAGE else ()
    return sorted(
        p
        for p in origin.parent.rglob("*.py")
        if p.relative_to(origin.parent).parts[0] not in hidden
    )
