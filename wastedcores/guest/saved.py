"""Keeps booted guests: the next recording of the same kernel on the same machine goes on from the saved state.

The guest stands still when it has booted, before it is given its jobs (``inside/init``). The emulator then writes the whole
machine into a file, and goes on. A guest that begins from this file is in the same state as the guest that was saved, so its
events are the same.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from wastedcores.guest.emulator import Emulator
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.places import guest_cache

#: how many booted guests are kept; the most recently used guests are
MOST_KEPT = 4
#: no guest is saved when less than this many MB are free; a saved guest with 256 CPUs takes 270 MB
_FREE_MB = 2048
#: options of an emulator that saves a machine or goes on from a saved one: a restored machine runs as soon as it is complete
_RUNNING = ("-global", "migration.store-global-state=off")


def _folder() -> Path:
    return guest_cache() / "booted"


def saved_guest(
    emulator: Emulator, kernel: Kernel, options: list[str], parameters: str, image: bytes
) -> Path:
    """Return the file for a booted guest. Its name depends on everything that decides how the guest boots; it may not exist."""
    built = (emulator.folder / "emulator.json").read_text()
    parts = [built, kernel.sha256, options, parameters, hashlib.sha256(image).hexdigest()]
    name = hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]
    return _folder() / name


def restoring(file: Path) -> list[str]:
    """Return the emulator's options for going on from a file."""
    os.utime(file)
    return [*_RUNNING, "-incoming", f"exec:cat {shlex.quote(str(file))}"]


@contextmanager
def saving(file: Path) -> Iterator[tuple[list[str], tuple[int, ...], dict[str, str]]]:
    """Save the guest of an emulator that is started inside of this context.

    The context yields options for the emulator, file descriptors that it must inherit, and variables for its environment. The
    guest is not saved if there is little space, or if it ends before it has booted.
    """
    file.parent.mkdir(exist_ok=True)
    if shutil.disk_usage(file.parent).free >> 20 < _FREE_MB:
        yield [], (), {}
        return
    mine, theirs = socket.socketpair()
    part = file.with_name(f"{file.name}.{os.getpid()}")
    thread = threading.Thread(target=_save, args=(mine, part, file), daemon=True)
    try:
        options = ["-chardev", f"socket,id=control,fd={theirs.fileno()}", "-mon", "chardev=control,mode=control"]  # fmt: skip
        thread.start()
        yield [*_RUNNING, *options], (theirs.fileno(),), {"LOCKSTEP_FREEZE": "1"}
    finally:
        theirs.close()
        with suppress(OSError):
            mine.shutdown(socket.SHUT_RDWR)
        thread.join()
        mine.close()
        part.unlink(missing_ok=True)


def _save(control: socket.socket, part: Path, file: Path) -> None:
    """Wait until the guest stands still, write it, and let it go on (QEMU's machine protocol)."""
    stream = control.makefile("rw", encoding="utf-8")

    def told(key: str) -> Any:
        for line in stream:
            if key in (message := json.loads(line)):
                return message[key]
            if "error" in message:
                raise OSError(message["error"]["desc"])
        raise EOFError

    def ask(command: str, **arguments: Any) -> Any:
        stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        stream.flush()
        return told("return")

    # the emulator may end at any time, and then nothing is saved
    with suppress(OSError, EOFError, ValueError):
        told("QMP")
        ask("qmp_capabilities")
        while told("event") != "STOP":
            pass
        try:
            ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
            ask("migrate", uri=f"exec:cat > {shlex.quote(str(part))}")
            while (state := ask("query-migrate")["status"]) not in ("completed", "failed"):
                threading.Event().wait(0.02)
            if state == "completed":
                part.rename(file)
                for old in saved_guests()[MOST_KEPT:]:
                    old.unlink(missing_ok=True)
        finally:
            ask("cont")


def saved_guests() -> list[Path]:
    """Return the files of the booted guests, the most recently used guest first."""
    whole = [f for f in _folder().glob("*") if not f.suffix]
    return sorted(whole, key=lambda f: f.stat().st_mtime, reverse=True)
