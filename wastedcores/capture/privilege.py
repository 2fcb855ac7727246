"""Finds a copy of the collectors that only root can change, because sudo runs them as root.

Where wastedcores is installed in a home or a virtual environment, whoever acts as its owner could change the collectors and
would become root with the next capture. So such a copy is not run as root.
"""

from __future__ import annotations

import shlex
import stat
from pathlib import Path

from wastedcores.errors import CollectorError
from wastedcores.files import collectors

#: where :func:`install_command` puts a copy
INSTALLED = Path("/usr/local/libexec/wastedcores")
_ENDINGS = ("*.py", "*.c", "*.h")


def changeable(path: Path) -> str | None:
    """Return how somebody else than root could change what a path names; None if only root can.

    Every folder above the path counts, and everything below it, and the same for the target of a symbolic link. In a sticky
    folder, such as /tmp, nobody replaces what belongs to root.
    """
    for name in dict.fromkeys((path.absolute(), path.resolve())):
        below = sorted(name.rglob("*")) if name.is_dir() else []
        for part in (*reversed(name.parents), name, *below):
            about = part.lstat()
            if about.st_uid != 0:
                return f"{part} belongs to user {about.st_uid}"
            mode = about.st_mode
            sticky = stat.S_ISDIR(mode) and mode & stat.S_ISVTX
            if mode & 0o022 and not sticky and not stat.S_ISLNK(mode):
                return f"{part} can be written by others (mode {stat.S_IMODE(mode):o})"
    return None


def collectors_for_root() -> Path:
    """Return the folder from which root may run the collectors: the package's own, or the copy in :data:`INSTALLED`."""
    own = collectors()
    why = changeable(own)
    if why is None:
        return own
    if not INSTALLED.is_dir():
        problem = f"there is no copy in {INSTALLED}"
    elif (others := changeable(INSTALLED)) is not None:
        problem = f"the copy in {INSTALLED} is no safer ({others})"
    elif (differing := _differing(own, INSTALLED)) is not None:
        problem = f"the copy in {INSTALLED} is of another version ({differing} differs)"
    else:
        return INSTALLED
    raise CollectorError(
        f"the collectors in {own} will not be run as root, because others than root can change them: {why}; and {problem}. "
        f"Make a copy that only root can change: {install_command()}"
    )


def install_command() -> str:
    """Return the command that copies the collectors to a place that only root can change."""
    own = collectors()
    files = " ".join(f"{shlex.quote(str(own))}/{ending}" for ending in _ENDINGS)
    return f"sudo install -D -o root -g root -m 644 -t {INSTALLED} {files}"


def _differing(own: Path, copy: Path) -> str | None:
    """Return the name of a file of which the copy is absent or another one; None if all are equal."""
    for file in sorted(f for ending in _ENDINGS for f in own.glob(ending)):
        twin = copy / file.name
        if not twin.is_file() or twin.read_bytes() != file.read_bytes():
            return file.name
    return None
