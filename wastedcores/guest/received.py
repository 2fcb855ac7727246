"""What a guest sent: for each job a folder with files of its /proc and /sys, as they lay there, and the kernel's trace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from wastedcores.guest.places import GuestError

TRACE = "sys/kernel/tracing/trace"


@dataclass(frozen=True)
class Received:
    """One job's files."""

    root: Path  #: The folder that stands for the guest's root.

    def text(self, path: str) -> str | None:
        """Return the text of a file, or None if the guest has no such file."""
        try:
            return (self.root / path).read_text(errors="replace").strip()
        except OSError:
            return None

    def lost(self) -> tuple[dict[int, int], dict[int, int]]:
        """Return the events that each CPU lost, and of these those that were overwritten."""
        lost, overwritten = {}, {}
        for file in (self.root / "sys/kernel/tracing/per_cpu").glob("cpu*/stats"):
            counts = dict(
                line.split(": ", 1) for line in file.read_text().splitlines() if ": " in line
            )
            cpu = int(file.parent.name[3:])
            over = int(counts.get("overrun", 0))
            gone = (
                over + int(counts.get("commit overrun", 0)) + int(counts.get("dropped events", 0))
            )
            if gone:
                lost[cpu] = gone
            if over:
                overwritten[cpu] = over
        return lost, overwritten


def unpack(sent: Path, into: Path) -> list[Received]:
    """Write what a guest sent into a folder for each job."""
    found: list[Received] = []
    complete = 0
    with sent.open("rb") as stream:
        while line := stream.readline():
            word, _, rest = line.decode("utf-8", "replace").rstrip("\n").partition(" ")
            if word == "@@JOB":
                found.append(Received(into / str(len(found))))
            elif word == "@@FILE" and found:
                _file(stream, found[-1].root, rest)
            elif word == "@@DONE":
                complete += 1
            else:
                raise _broken(line)
    if complete != len(found):
        raise GuestError(
            f"the guest sent {complete} of {len(found)} recordings whole; it ended while it was sending."
        )
    return found


def _broken(line: bytes) -> GuestError:
    return GuestError(
        f"what the guest sent is damaged: {line[:60]!r} where a file should begin. Workloads must not write to port 0xe9."
    )


def _file(stream: BinaryIO, root: Path, name: str) -> None:
    target = root / name.lstrip("/")
    if ".." in target.parts:
        raise _broken(name.encode())
    target.parent.mkdir(parents=True, exist_ok=True)
    with target.open("wb") as out:
        while (line := stream.readline()) != b"@@END\n":
            word, _, size = line.partition(b" ")
            if word != b"@@PIECE":
                raise _broken(line)
            left = int(size)
            while left:
                piece = stream.read(min(left, 1 << 20))
                if not piece:
                    raise _broken(piece)
                out.write(piece)
                left -= len(piece)
