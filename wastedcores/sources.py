"""Which code a task runs: a digest of its module and of everything that this imports from the package.

Results that are kept are only worth keeping as long as the code that made them is the same. A digest of the sources
knows that without a version number that somebody has to raise; libraries are left out, because replays are whole
numbers whoever adds them up.
"""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

#: the package whose modules are followed, besides the task's own
PACKAGE = __name__.partition(".")[0]
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)
_NAME = re.compile(r"[\w.]+")


@lru_cache(maxsize=32)
def digest(module: str) -> str:
    """Digest of a module's source and of all that it imports, directly or not, here or inside functions.

    Parameters
    ----------
    module
        Dotted name.

    Returns
    -------
    str
        16 hexadecimal digits; empty if there is no such module here (it may be on a cluster only).
    """
    seen: dict[Path, bytes] = {}
    waiting = [module]
    while waiting:
        for path in _files(waiting.pop(), module.partition(".")[0]):
            if path not in seen:
                seen[path] = path.read_bytes()
                waiting += _imports(seen[path])
    if not seen:
        return ""
    total = hashlib.sha256(module.encode())
    for path in sorted(seen):
        total.update(hashlib.sha256(seen[path]).digest())
    return total.hexdigest()[:16]


def _files(name: str, own: str) -> list[Path]:
    """Files that are run when a name is imported: its packages' and its own; none for a library's."""
    top, *rest = name.split(".")
    if top not in (PACKAGE, own):
        return []
    found = find_spec(top)
    if found is None or not Path(found.origin or "").is_file():
        return []
    at = Path(str(found.origin))
    files = [at]
    for part in rest:
        folder = at.parent / part
        at = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
        if not at.is_file():  # a name inside the module
            break
        files.append(at)
    return files


def _imports(source: bytes) -> list[str]:
    """Names that a source imports, each also with what it takes from there: that may be a module.

    Lines are looked at instead of a syntax tree: twenty times as fast, and a name too many does no harm.
    """
    names: list[str] = []
    for where, what in _FROM.findall(source.decode()):
        names += [f"{where}.{name}" for name in _NAME.findall(what)]
    for what in _IMPORT.findall(source.decode()):
        names += _NAME.findall(what)
    return names
