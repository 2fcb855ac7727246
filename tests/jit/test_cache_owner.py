"""The cache of compiled code consists of pickles, so it is not used where somebody else may have written it."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

CODE = """
from wastedcores.jit import cache, compile
f = compile.jit(lambda x: x + 1)
f(1)
print(cache.CACHE_ROOT is not None, sum(f.stats.cache_hits.values()))
"""
PLACES = ("base", "jit", "root", "function", "inside", "file")


@pytest.fixture
def folder():
    """A cache below folders that everybody may enter."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        Path(name).chmod(0o755)
        Path(name, "compiled_here.py").write_text(CODE)
        yield Path(name) / "cache"


def run(folder: Path) -> tuple[bool, bool, str]:
    """Compile a function; return whether there is a cache, whether it served the function, and the warnings."""
    environment = os.environ | {"WASTEDCORES_CACHE_DIR": str(folder), "WASTEDCORES_JIT_CACHE": "1"}
    environment.pop("NUMBA_DISABLE_JIT", None)
    done = subprocess.run(
        [sys.executable, folder.parent / "compiled_here.py"],
        capture_output=True,
        text=True,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    root, hits = done.stdout.split()
    return root == "True", hits == "1", done.stderr


def parts(folder: Path) -> dict[str, Path]:
    """The folders and one file of a cache, from the outside in, as caches of earlier versions were: open to read."""
    root = next((folder / "jit").iterdir())
    function = next(root.iterdir())
    inside = next(function.iterdir())
    file = next(p for p in inside.rglob("*.nbc"))
    found = dict(zip(PLACES, (folder, folder / "jit", root, function, inside, file), strict=True))
    for path in found.values():
        path.chmod(0o755 if path.is_dir() else 0o644)
    return found


def test_a_new_cache_is_private_and_used(folder):
    before = os.umask(0)
    try:
        assert run(folder) == (True, False, "")
        assert folder.stat().st_mode & 0o077 == 0
        assert run(folder) == (True, True, ""), "others cannot enter, whatever the files allow"
    finally:
        os.umask(before)


@pytest.mark.slow
def test_an_earlier_cache_that_others_may_read_is_used(folder):
    run(folder)
    parts(folder)
    assert run(folder) == (True, True, "")


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o020, 0o002], ids=["group", "others"])
@pytest.mark.parametrize("place", PLACES)
def test_what_others_may_write_is_not_used(place, mode, folder):
    run(folder)
    path = parts(folder)[place]
    path.chmod(path.stat().st_mode | mode)
    _, served, warned = run(folder)
    assert not served
    assert warned.count("is writable by others") == 1


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
@pytest.mark.parametrize("place", PLACES)
def test_what_another_user_owns_is_not_used(place, folder):
    run(folder)
    os.chown(parts(folder)[place], 65534, -1)
    _, served, warned = run(folder)
    assert not served
    assert warned.count("belongs to user 65534, and this is user 0") == 1


@pytest.mark.slow
def test_a_folder_above_that_others_may_write_is_not_used_unless_sticky(folder):
    run(folder)
    folder.parent.chmod(0o777)
    assert run(folder)[0] is False
    folder.parent.chmod(0o1777)
    assert run(folder) == (True, True, "")
