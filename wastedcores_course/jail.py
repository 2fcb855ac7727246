"""The first process of a sandbox: builds the file system, starts a command in it, watches the command, and returns its files.

``sandbox.py`` starts this file as process 1 of new namespaces, with settings as JSON on the standard input. This file uses only
the standard library, because nothing else is visible in the file system that it builds. It prints one JSON object when the file
system is ready, and another one at the end.
The command runs without any capability, so it can neither change a mount nor look into this process.
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import fcntl
import json
import os
import resource
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_LIBC = ctypes.CDLL(None, use_errno=True)
# linux/mount.h, Linux 4.1 and later
_RDONLY, _NOSUID, _NODEV, _REMOUNT, _BIND, _REC, _PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
#: flags that a mount keeps when it is mounted again: nosuid, nodev, noexec, noatime, nodiratime
_KEPT = 2 | 4 | 8 | 1024 | 2048
_DETACH = 2
#: the processes are looked at whenever this time in seconds has passed
_POLL_S = 0.05
_OLD = ".old"
#: devices that Python and its libraries open
_DEVICES = ("null", "zero", "full", "random", "urandom")


def _mount(source: str, target: Path, kind: str = "", flags: int = 0, data: str = "") -> None:
    texts = (source.encode(), str(target).encode(), kind.encode() or None)
    if _LIBC.mount(*texts, ctypes.c_ulong(flags), data.encode() or None):
        number = ctypes.get_errno()
        raise OSError(number, f"{os.strerror(number)}, when mounting {source} on {target}")


def _tmpfs(target: Path, uid: int, size: int) -> None:
    target.mkdir(parents=True, exist_ok=True)
    _mount("tmpfs", target, "tmpfs", _NOSUID | _NODEV, f"mode=755,uid={uid},gid={uid},size={size}")


def _shown(path: str, root: Path) -> None:
    """Mount a file or folder of the machine read-only at the same path below the new root."""
    source, target = Path(path), root / path.lstrip("/")
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    else:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.touch()
    _mount(path, target, flags=_BIND)
    _read_only(target)


def _read_only(target: Path) -> None:
    kept = os.statvfs(target).f_flag & _KEPT
    _mount("none", target, flags=_REMOUNT | _BIND | _RDONLY | kept)


def _build(settings: dict[str, Any]) -> None:
    """Make a root file system that has only what the command may see, and unmount the old root."""
    uid, root, disk = settings["uid"], Path(settings["root"]), settings["disk"]
    _mount("none", Path("/"), flags=_REC | _PRIVATE)
    _tmpfs(root, uid, 1 << 22)
    for name in ("submission", "dev/shm", "tmp"):
        _tmpfs(root / name, uid, disk)
    for path in settings["shown"]:  # after /tmp, because Python or this package may be below it
        _shown(path, root)
    for path in settings["hidden"]:
        covered = root / path.lstrip("/")
        if covered.is_dir():
            _mount("tmpfs", covered, "tmpfs", _RDONLY | _NOSUID | _NODEV, "size=4k")
    _add_devices(root)
    _write(root / "etc/passwd", f"student:x:{uid}:{uid}::/submission:/bin/sh\n".encode())
    _write(root / "etc/group", f"student:x:{uid}:\n".encode())
    _write(root / "etc/hosts", b"127.0.0.1 localhost\n")
    (root / "proc").mkdir()
    _mount("proc", root / "proc", "proc", _NOSUID | _NODEV | 8)
    if settings["cache"]:
        _mount_cache(settings["cache"], root, settings["cache_written"], uid, disk)
    for name, source in settings["files"].items():
        _write(root / "submission" / name, Path(source).read_bytes())
    for folder, folders, files in os.walk(root / "submission"):
        for name in (*folders, *files):
            os.chown(os.path.join(folder, name), uid, uid)
    (root / _OLD).mkdir()
    os.chdir(root)
    _pivot()
    _read_only(Path("/"))


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _add_devices(root: Path) -> None:
    for name in _DEVICES:
        (root / "dev" / name).touch()
        _mount(f"/dev/{name}", root / "dev" / name, flags=_BIND)
    (root / "dev/fd").symlink_to("/proc/self/fd")


def _mount_cache(lower: str, root: Path, written: bool, uid: int, size: int) -> None:
    """Mount the cache of compiled code at /cache; unless it may be ``written``, changes last as long as the sandbox."""
    target, layers = root / "cache", root / ".layers"
    target.mkdir()
    if written:
        _mount(lower, target, flags=_BIND)
        return
    _tmpfs(layers, uid, size)
    for name in ("upper", "work"):
        (layers / name).mkdir(mode=0o700)
        os.chown(layers / name, uid, uid)
    data = f"lowerdir={lower},upperdir={layers}/upper,workdir={layers}/work"
    _mount("overlay", target, "overlay", _NOSUID | _NODEV, data)


def _pivot() -> None:
    number = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine)
    if number is None:
        raise OSError(f"pivot_root() has no known number on {os.uname().machine}")
    if _LIBC.syscall(number, b".", _OLD.encode()):
        raise OSError(ctypes.get_errno(), f"{os.strerror(ctypes.get_errno())}, in pivot_root()")
    os.chdir("/")
    if _LIBC.umount2(f"/{_OLD}".encode(), _DETACH):
        raise OSError(ctypes.get_errno(), "the old root cannot be unmounted")


def _loopback() -> None:
    """Switch on the loopback interface of the new network; a notebook talks to its kernel through it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        request = struct.pack("16sH14x", b"lo", 0)
        flags = struct.unpack("16sH14x", fcntl.ioctl(sock, 0x8913, request))[1]  # SIOCGIFFLAGS
        fcntl.ioctl(sock, 0x8914, struct.pack("16sH14x", b"lo", flags | 1))  # SIOCSIFFLAGS, IFF_UP


def _start(settings: dict[str, Any]) -> int:
    """Start the command without privileges and return its process id."""
    pid = os.fork()
    if pid:
        return pid
    try:
        log = os.open("/submission/log", os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o644)
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.setsid()
        os.chdir("/submission")
        Path("/proc/self/oom_score_adj").write_text("1000")
        for name in ("CORE", "FSIZE", "DATA"):
            limit = settings["rlimits"].get(name, 0)
            resource.setrlimit(getattr(resource, f"RLIMIT_{name}"), (limit, limit))
        os.execve(settings["command"][0], settings["command"], settings["environment"])
    except OSError as e:
        os.write(2, f"the sandbox cannot start {settings['command'][0]}: {e}\n".encode())
    finally:
        os._exit(127)


def _watch(command: int, settings: dict[str, Any]) -> dict[str, Any]:
    """Wait until the command ends or breaks a limit, and then kill all processes that still run."""
    began, most, reason, code = time.monotonic(), 0, "", None
    tasks = 0
    while code is None and not reason:
        time.sleep(_POLL_S)
        code = _reaped(command)
        memory, tasks_now = _use()
        most, tasks = max(most, memory), max(tasks, tasks_now)
        # pages that processes share must count only once; this second sum takes longer, so it is asked for only here
        if memory > settings["memory"] and _shared_once() > settings["memory"]:
            reason = "memory"
        elif time.monotonic() - began > settings["wall_s"]:
            reason = "time"
    with contextlib.suppress(ProcessLookupError):
        os.kill(-1, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    use = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "returncode": code,
        "reason": reason,
        "seconds": time.monotonic() - began,
        "cpu_s": use.ru_utime + use.ru_stime,
        "memory": most,
        "tasks": tasks,
    }


def _reaped(command: int) -> int | None:
    """Reap all ended processes, as process 1 must, and return the command's exit code if it is one of them."""
    code = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return code
        if pid == 0:
            return code
        if pid == command:
            code = os.waitstatus_to_exitcode(status)


def _use() -> tuple[int, int]:
    """Return the resident bytes of all other processes and of the file systems in memory, and the number of threads."""
    memory = tasks = 0
    for line in _of_others("status"):
        if line.startswith((b"RssAnon:", b"RssShmem:")):
            memory += int(line.split()[1]) << 10
        elif line.startswith(b"Threads:"):
            tasks += int(line.split()[1])
    return memory + _files(), tasks


def _shared_once() -> int:
    """Return the same bytes as :func:`_use`, except that a page counts once even if several processes share it."""
    found = [
        int(line.split()[1]) << 10
        for line in _of_others("smaps_rollup")
        if line.startswith((b"Pss_Anon:", b"Pss_Shmem:"))
    ]
    return sum(found) + _files()


def _of_others(file: str) -> Iterator[bytes]:
    """Return the lines of a file in /proc of all other processes; as bytes, because names of processes may be no valid text."""
    for name in os.listdir("/proc"):
        if name.isdigit() and name != "1":
            with contextlib.suppress(OSError):
                yield from Path(f"/proc/{name}/{file}").read_bytes().splitlines()


def _files() -> int:
    """Return the bytes of the file systems in memory."""
    memory = 0
    for path in ("/submission", "/tmp", "/dev/shm", "/.layers"):
        if os.path.isdir(path):
            use = os.statvfs(path)
            memory += (use.f_blocks - use.f_bfree) * use.f_frsize
    return memory


def _collected(names: list[str], most: int) -> dict[str, str]:
    """Return the named files of /submission in base64, except links, files that are too big, and what is not a regular file."""
    found = {}
    for name in names:
        try:
            handle = os.open(f"/submission/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError:
            continue
        about = os.fstat(handle)
        if stat.S_ISREG(about.st_mode) and about.st_size <= most:
            with open(handle, "rb") as file:
                found[name] = base64.b64encode(file.read(most)).decode()
    return found


def main() -> None:
    """Build the sandbox, run the command, and print what became of it."""
    settings = json.load(sys.stdin)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.umask(0o022)
    try:
        _loopback()
        _build(settings)
    except OSError as e:
        print(json.dumps({"impossible": str(e)}))
        return
    print(json.dumps({"built": True}), flush=True)
    outcome = _watch(_start(settings), settings)
    outcome["files"] = _collected(["log", *settings["results"]], settings["disk"])
    print(json.dumps(outcome))


if __name__ == "__main__":
    main()
