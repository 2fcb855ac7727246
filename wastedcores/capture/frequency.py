"""How this machine tells the current frequency of its CPUs: counted cycles are best, what a driver asked for is next."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

#: MSR_IA32_MPERF and MSR_IA32_APERF (arch/x86/include/asm/msr-index.h): cycles at the base frequency, and actual cycles
MPERF, APERF = 0xE7, 0xE8


@dataclass(frozen=True)
class Source:
    """One way to learn a frequency."""

    name: str
    works: bool  #: whether it works here
    says: str  #: what was found


def sources(root: Path = Path("/")) -> list[Source]:
    """Return the ways to learn the frequency of a CPU, the best first."""
    devices = root / "sys/bus/event_source/devices/msr/events"
    counters = [e for e in ("aperf", "mperf") if (devices / e).exists()]
    perf = Source(
        "perf counters msr/aperf/ and msr/mperf/",
        len(counters) == 2,
        "the kernel offers them"
        if len(counters) == 2
        else "the kernel does not offer them (no aperfmperf)",
    )
    cpufreq = root / "sys/devices/system/cpu/cpu0/cpufreq"
    driver = _read(cpufreq / "scaling_driver")
    event = any(
        (root / tracing / "events/power/cpu_frequency").is_dir()
        for tracing in ("sys/kernel/tracing", "sys/kernel/debug/tracing")
    )
    tells = Source(
        "event power:cpu_frequency",
        bool(event and driver),
        f"driver {driver}"
        if event and driver
        else "no cpufreq driver emits it"
        if event
        else "the kernel does not have it",
    )
    now = _read(cpufreq / "scaling_cur_freq")
    current = Source(
        "scaling_cur_freq", now is not None, f"{now} kHz" if now else "there is no cpufreq folder"
    )
    return [perf, _registers(root), tells, current]


def _registers(root: Path) -> Source:
    """Try to read both registers of CPU 0."""
    device = root / "dev/cpu/0/msr"
    name = "registers APERF and MPERF in /dev/cpu/*/msr"
    try:
        file = os.open(device, os.O_RDONLY)
    except OSError as e:
        return Source(name, False, f"{device}: {e.strerror}")
    try:
        values = [os.pread(file, 8, register) for register in (MPERF, APERF)]
    except OSError as e:
        return Source(name, False, f"the CPU refuses them ({e.strerror})")
    finally:
        os.close(file)
    counts = all(len(v) == 8 and any(v) for v in values)
    return Source(name, counts, "they count" if counts else "they do not count")


def _read(path: Path) -> str | None:
    try:
        return path.read_text().strip() or None
    except OSError:
        return None
