"""CPU lists as the kernel writes them: ``0-3,8,10-11`` (kernel: lib/bitmap.c, ``%*pbl``)."""

from __future__ import annotations

from collections.abc import Iterable

from wastedcores.errors import UsageError
from wastedcores.limits import MAX_CPUS


def parse_cpulist(text: str, where: str = "CPU list") -> list[int]:
    """Read a CPU list such as ``8-23,30``; the ``first-last:used/size`` form of the kernel is accepted too."""
    cpus: set[int] = set()
    for part in text.replace("\n", ",").split(","):
        piece = part.strip()
        if not piece:
            continue
        body, _, stride = piece.partition(":")
        first, dash, last = body.partition("-")
        try:
            a = int(first)
            b = int(last) if dash else a
            used, size = (int(n) for n in stride.split("/")) if stride else (1, 1)
        except ValueError:
            raise UsageError(
                f"{where}: {piece!r} is not a CPU or a range of CPUs; write for example 0-3,8."
            ) from None
        if not 0 <= a <= b or b >= MAX_CPUS or not 0 < used <= size:
            raise UsageError(
                f"{where}: {piece!r} is not an ascending range of CPU numbers from 0 to {MAX_CPUS - 1}; write for example 0-3,8."
            )
        cpus.update(cpu for cpu in range(a, b + 1) if (cpu - a) % size < used)
    return sorted(cpus)


def format_cpulist(cpus: Iterable[int]) -> str:
    """Write CPUs as the kernel does: ``[0, 1, 2, 5]`` becomes ``0-2,5``."""
    out: list[str] = []
    first = last = -2
    for cpu in sorted({int(c) for c in cpus}):
        if cpu == last + 1:
            last = cpu
            continue
        if first >= 0:
            out.append(f"{first}-{last}" if last > first else f"{first}")
        first = last = cpu
    if first >= 0:
        out.append(f"{first}-{last}" if last > first else f"{first}")
    return ",".join(out)
