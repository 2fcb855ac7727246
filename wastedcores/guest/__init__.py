"""Boots any kernel on any machine, with virtual CPUs in lockstep, and records its schedule exactly.

Interface::

    emulator = find_emulator()                               the emulator that `wastedcores guest build` made
    kernel = find_kernel("debian:6.12")                      or Kernel.of_image(Path("bzImage"))
    trace = record("group-imbalance", kernel, machine)       a Trace, as from any other recorder
    compared = compare("group-imbalance", kernel, machine)   recordings beside replays, with several seeds each

docs/guest.md says what lockstep means, what is exact, and what is not modelled.
"""

from wastedcores.guest.compare import Comparison, compare
from wastedcores.guest.emulator import build_emulator, find_emulator, has_emulator
from wastedcores.guest.kernels import Kernel, fetch_kernel, find_kernel
from wastedcores.guest.record import Work, record, record_all

__all__ = [
    "Comparison", "Kernel", "Work", "build_emulator", "compare", "fetch_kernel", "find_emulator", "find_kernel",
    "has_emulator", "record", "record_all",
]  # fmt: skip
