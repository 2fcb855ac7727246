"""Keeps the guest's emulator, kernels and programs in a folder of the cache, and runs the programs that make them."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wastedcores.errors import WastedCoresError
from wastedcores.trace.named import cache

#: the end of the name of a folder that is not complete
PART = ".part"


class GuestError(WastedCoresError):
    """A guest could not be built, booted or recorded."""


def guest_cache() -> Path:
    """Return the folder for guests in the user's cache; it is made if it does not exist."""
    folder = cache() / "guest"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise GuestError(
            f"{folder}: cannot be made ({e.strerror}). The variable WASTEDCORES_DATA_DIR names another place for the cache."
        ) from e
    return folder


def need_space(folder: Path, megabytes: int, purpose: str) -> None:
    """Raise an error if a folder's file system has less free space than ``purpose`` needs."""
    free = shutil.disk_usage(folder).free >> 20
    if free < megabytes:
        raise GuestError(
            f"{folder}: {purpose} needs {megabytes} MB, and {free} MB are free. Make room there, or name another place for the "
            "cache in the variable WASTEDCORES_DATA_DIR."
        )


def lines_of(
    command: Sequence[str | Path], log: Path, purpose: str, folder: Path | None = None
) -> Iterator[str]:
    """Run a program, yield the lines that it prints, and append them to a log. If it fails, the error shows the last lines."""
    with log.open("a", encoding="utf-8") as kept:
        print("$", *command, file=kept, flush=True)
        try:
            process = subprocess.Popen(
                [str(c) for c in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as e:
            raise GuestError(
                f"{purpose}: {command[0]} cannot be started ({e.strerror}). `wastedcores guest doctor` says what is missing."
            ) from e
        with process:
            try:
                assert process.stdout is not None
                for line in process.stdout:
                    kept.write(line)
                    yield line.rstrip("\n")
            except BaseException:
                process.kill()
                raise
    if process.returncode:
        last = " / ".join(log.read_text("utf-8", "replace").splitlines()[-4:])
        raise GuestError(
            f"{purpose} failed: {command[0]} ended with code {process.returncode}. The last lines: {last}. All of what was "
            f"printed is in {log}."
        )


def run(
    command: Sequence[str | Path], log: Path, purpose: str, folder: Path | None = None
) -> list[str]:
    """Run a program to its end and return the lines that it printed."""
    return list(lines_of(command, log, purpose, folder))


@contextmanager
def made_whole(folder: Path) -> Iterator[Path | None]:
    """Make a folder that appears under its name when it is complete; what an interrupted run left is removed.

    Only one process at a time makes the folder. If another process made it while this process waited, the context yields None.
    """
    part = folder.with_name(folder.name + PART)
    there = folder.exists()
    with _locked(part):
        if folder.exists() and not there:
            part.rmdir()
            yield None
            return
        for left in part.iterdir():
            shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
        try:
            yield part
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Make a folder and lock it. If another process renames or removes the folder before it is locked, make and lock it again."""
    waiting = False
    while True:
        folder.mkdir(parents=True, exist_ok=True)
        try:
            file = os.open(folder, os.O_RDONLY)
        except FileNotFoundError:
            continue
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if not waiting:
                    tell(f"another process is making {folder.with_suffix('')}; waiting for it ...")
                waiting = True
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                mine = os.path.samestat(os.fstat(file), folder.stat())
            except FileNotFoundError:
                mine = False
            if mine:
                yield
                return
        finally:
            os.close(file)


def tell(text: str) -> None:
    """Say on standard error what is being done."""
    print(text, file=sys.stderr, flush=True)
