"""The guest's first file system: a compressed archive that the kernel unpacks into memory."""

from __future__ import annotations

import gzip
import stat
from collections.abc import Mapping
from pathlib import Path

from wastedcores.guest.emulator import INSIDE, Emulator, runner

FOLDERS = ("bin", "dev", "job", "proc", "sys", "tmp")
#: devices that the first process needs before devtmpfs is there: mode, major and minor number
_DEVICES = {"dev/console": (5, 1), "dev/null": (1, 3)}


def _entry(
    number: int, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    """Return a file as the kernel reads it (Documentation/driver-api/early-userspace/buffer-format.rst: "newc")."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + path
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with these programs and files by path; all of them may be executed."""
    parts = [(f, stat.S_IFDIR | 0o755, b"", (0, 0)) for f in FOLDERS]
    parts += [(name, stat.S_IFCHR | 0o600, b"", device) for name, device in _DEVICES.items()]
    parts += [(name, stat.S_IFREG | 0o755, content, (0, 0)) for name, content in files.items()]
    out = b"".join(_entry(1 + i, *part[:2], *part[2:]) for i, part in enumerate(parts))
    return gzip.compress(out + _entry(0, "TRAILER!!!", 0), 1, mtime=0)


def initramfs(emulator: Emulator, jobs: Mapping[str, bytes]) -> bytes:
    """Return the archive with the shell, the runner, and what lies below ``/job``."""
    files = {"init": (INSIDE / "init").read_bytes(), "bin/runner": runner().read_bytes()}
    files["bin/busybox"] = Path(emulator.busybox).read_bytes()
    return archive(files | {f"job/{name}": content for name, content in jobs.items()})
