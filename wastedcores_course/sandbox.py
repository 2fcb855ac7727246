"""A sandbox for students' code, made of Linux namespaces by util-linux's ``unshare``.

The code sees a file system with the few folders that Python and this package need, all read-only, and its own folder in memory.
It sees no other process and no network but its own loopback, and it has no privilege. The kernel limits the number of its
processes and threads; a process that watches it (``jail.py``) limits its memory and time. When the sandbox ends, nothing of it is
left.

A sandbox works for an ordinary user if the kernel lets users create namespaces, and for root, who becomes another user inside.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import wastedcores
from wastedcores.errors import WastedCoresError

#: root's sandboxes run as this user, who owns nothing on the machine
_NOBODY = 64_321
_TOOLS = ("unshare", "setpriv", "prlimit")
#: folders of the system that programs need; those that do not exist are left out
_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/alternatives", "/etc/fonts", "/sys/devices/system/cpu",
)  # fmt: skip


class NoSandboxError(WastedCoresError):
    """No sandbox can be made on this machine; the message says what is missing."""


@dataclass(frozen=True)
class Limits:
    """The limits of one sandbox."""

    wall_s: float = 120.0  #: seconds from the start to the end
    #: resident bytes of all processes together, with the files that they write
    memory: int = 2 << 30
    tasks: int = 200  #: processes and threads at the same time
    #: bytes in each of the three places where the code may write: its folder, /tmp and shared memory
    disk: int = 128 << 20


@dataclass(frozen=True)
class Outcome:
    """What became of a command in the sandbox."""

    returncode: int | None  #: its exit code; None if a limit ended it
    #: the limit that ended the command, ``time`` or ``memory``; ``lost`` if the sandbox ended without a result; otherwise empty
    reason: str
    #: the time that the command took, and the CPU time of all its processes (0 without a sandbox)
    seconds: float
    cpu_s: float
    #: the largest memory in bytes, and the largest number of threads, that were seen
    memory: int
    tasks: int
    files: dict[str, bytes]  #: the contents of the files that were asked for, as far as they exist
    log: str  #: the last part of what the command printed


def isolated(
    command: Sequence[str],
    files: Mapping[str, Path],
    results: Sequence[str],
    *,
    limits: Limits = Limits(),
    environment: Mapping[str, str] | None = None,
    hidden: Sequence[Path] = (),
    cache: Path | None = None,
    cache_written: bool = False,
) -> Outcome:
    """Run a command in a sandbox of its own."""
    root = os.geteuid() == 0
    # an ordinary user has the id 0 in its own user namespace, but no privilege
    uid = _NOBODY if root else 0
    if cache and root:
        os.chown(cache, uid, uid)
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "root": folder,
            "uid": uid,
            "shown": _shown(),
            "hidden": [str(path) for path in hidden],
            "files": {name: str(path.resolve()) for name, path in files.items()},
            "results": list(results),
            "cache": str(cache.resolve()) if cache else "",
            "cache_written": cache_written,
            "command": _unprivileged(command, uid, root, limits),
            "environment": _environment(bool(cache)) | dict(environment or {}),
            "rlimits": {"CORE": 0, "FSIZE": limits.disk, "DATA": 2 * limits.memory},
            "wall_s": limits.wall_s,
            "memory": limits.memory,
            "disk": limits.disk,
        }
        return _outcome(in_namespaces(settings, root, limits.wall_s))


def in_namespaces(
    settings: dict[str, Any], root: bool, wall_s: float
) -> subprocess.CompletedProcess[str]:
    """Run ``jail.py`` as process 1 of new namespaces."""
    tools = {name: shutil.which(name, path=f"{os.defpath}:/usr/sbin:/sbin") for name in _TOOLS}
    if sys.platform != "linux" or None in tools.values():
        missing = ", ".join(name for name, path in tools.items() if path is None)
        raise NoSandboxError(
            f"a sandbox needs Linux and util-linux; {missing or 'Linux'} is missing here. {_INSTEAD}"
        )
    user = () if root else ("--user", "--map-root-user")
    spaces = ("--mount", "--pid", "--fork", "--kill-child", "--net", "--ipc", "--uts")
    jail = Path(__file__).with_name("jail.py")
    try:
        return subprocess.run(
            [str(tools["unshare"]), *user, *spaces, sys.executable, "-I", str(jail)],
            input=json.dumps(settings),
            capture_output=True,
            text=True,
            check=False,
            # the watcher inside ends the command earlier, unless the machine itself has killed the watcher
            timeout=wall_s + 60,
        )
    except subprocess.TimeoutExpired as e:
        return subprocess.CompletedProcess(e.cmd, -9, '{"built": true}', "it did not end")


_INSTEAD = (
    "Grade on a machine that allows it, or use --no-sandbox, which runs the students' code with your own rights "
    "(docs/teaching.md)."
)


def _outcome(done: subprocess.CompletedProcess[str]) -> Outcome:
    """Read the two lines that ``jail.py`` prints: one before the command starts, and one at the end."""
    first, *rest = done.stdout.splitlines() or [""]
    if not first:
        raise NoSandboxError(
            f"this machine does not let you create a sandbox ({done.stderr.strip() or 'no message'}). {_INSTEAD}"
        )
    if "impossible" in (built := json.loads(first)):
        raise NoSandboxError(f"a sandbox cannot be made here: {built['impossible']}. {_INSTEAD}")
    try:
        found = json.loads(rest[0])
    except (IndexError, ValueError):  # the machine ran out of memory, for example
        return Outcome(None, "lost", 0.0, 0.0, 0, 0, {}, done.stderr[-20_000:])
    files = {name: base64.b64decode(text) for name, text in found.pop("files").items()}
    log = files.pop("log", b"").decode(errors="replace")
    return Outcome(**found, files=files, log=log[-20_000:])


def _unprivileged(command: Sequence[str], uid: int, root: bool, limits: Limits) -> list[str]:
    """Return the command, preceded by the tools that take all privileges from it.

    Each sandbox has its own innermost user namespace, so the kernel counts the processes of each sandbox separately
    (kernel/ucount.c, since Linux 5.14), and the limit also holds for sandboxes that root starts.
    """
    bounded = ("--bounding-set=-all", "--inh-caps=-all", "--no-new-privs")
    user = ("--reuid", str(uid), "--regid", str(uid), "--clear-groups") if root else ()
    return [
        "/usr/bin/setpriv", *user, "/usr/bin/unshare", "--user", "--map-current-user",
        "/usr/bin/prlimit", f"--nproc={limits.tasks}",
        "/usr/bin/setpriv", *bounded, *command,
    ]  # fmt: skip


def _environment(cached: bool) -> dict[str, str]:
    """Return the environment variables in the sandbox; none of the grader's own variables is passed on."""
    package = str(Path(wastedcores.__file__).parent.parent)
    return {
        "HOME": "/submission",
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "PYTHONPATH": package,
        "LANG": "C.UTF-8",
        "PYTHONDONTWRITEBYTECODE": "1",
        # one thread is enough: several submissions run at a time, and threads that wait for a core only cost memory
        **dict.fromkeys(
            ("POLARS_MAX_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"),
            "1",
        ),
        **({"WASTEDCORES_CACHE_DIR": "/cache"} if cached else {"WASTEDCORES_JIT_CACHE": "0"}),
    }


def _shown() -> list[str]:
    """Return the paths that a program inside can see: the system, Python, and this package as students' machines have it."""
    package = Path(wastedcores.__file__).parent
    beside = (Path(__file__).parent.name, "pyproject.toml", "datasets")
    mine = [package, *(package.parent / name for name in beside)]
    prefixes = {
        sys.prefix,
        sys.base_prefix,
        *(os.path.realpath(p) for p in (sys.prefix, sys.base_prefix)),
    }
    found: list[str] = []
    for path in sorted({*_SYSTEM, *prefixes, *map(str, mine)}):
        inside = any(path.startswith(f"{other}/") for other in found)
        if os.path.exists(path) and not inside:
            found.append(path)
    return found


def unprotected(
    command: Sequence[str],
    files: Mapping[str, Path],
    results: Sequence[str],
    *,
    limits: Limits,
    environment: Mapping[str, str],
) -> Outcome:
    """Run a command without a sandbox, with the rights of this process; only its time is limited."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        for name, path in files.items():
            shutil.copy(path, here / name)
        paths = {k: str(here / v) if v in (*files, *results) else v for k, v in environment.items()}
        python = str(Path(wastedcores.__file__).parent.parent)
        whole = {**os.environ, "PYTHONPATH": python, **paths}
        began = time.monotonic()
        with (here / "log").open("wb") as log:
            process = subprocess.Popen(
                command,
                cwd=here,
                env=whole,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
            try:
                code, reason = process.wait(limits.wall_s), ""
            except subprocess.TimeoutExpired:
                code, reason = None, "time"
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        found = {name: (here / name).read_bytes() for name in results if (here / name).is_file()}
        text = (here / "log").read_text(errors="replace")[-20_000:]
        return Outcome(code, reason, time.monotonic() - began, 0.0, 0, 0, found, text)
