# SPDX-License-Identifier: GPL-2.0-only
"""The frequency of each CPU at its ticks: counted cycles where the processor counts them, else what cpufreq tells."""

import ctypes
import os
import platform
import re
import struct
import time
from pathlib import Path

import _bpf

DEVICES = Path("/sys/bus/event_source/devices")
CPUS = Path("/sys/devices/system/cpu")
#: functions of the tick's timer, by the names that the kernel has had (tick_nohz_handler since 6.8)
HANDLERS = ("tick_nohz_handler", "tick_sched_timer")
#: APERF and MPERF: cycles that a CPU ran, and cycles of the constant frequency meanwhile; the constant frequency is the TSC's
COUNTERS = (("msr", "aperf"), ("msr", "mperf"))
TSC = ("msr", "tsc")
#: struct wc_clock in ticks.c
CLOCK_BYTES, KHZ_AT = 24, 16


def tick_handler():
    """Return the address of the tick's function, or None. This needs CAP_SYSLOG, so it comes before privileges are dropped."""
    found = {}
    for line in Path("/proc/kallsyms").read_text().splitlines():
        address, _, name = line.split()[:3]
        if name in HANDLERS:
            found[name] = int(address, 16)
    return next((found[n] for n in HANDLERS if found.get(n)), None)


def counter(pmu, name):
    """Return (type, config) of an event of a PMU, or None if this machine does not have it."""
    try:
        kind = int((DEVICES / pmu / "type").read_text())
        config = re.match(r"event=(0x[0-9a-f]+)", (DEVICES / pmu / "events" / name).read_text())
    except (OSError, ValueError):
        return None
    return (kind, int(config.group(1), 16)) if config else None


def open_counter(event, cpu):
    """Open a counter of one CPU and return its descriptor; raises OSError."""
    attr = ctypes.create_string_buffer(struct.pack("<IIQ", event[0], 128, event[1]), 128)
    fd = _bpf._libc.syscall(_bpf._NR_PERF_EVENT_OPEN[platform.machine()], attr, -1, cpu, -1, 8)
    if fd < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return fd


def reading(fd, tries=16):
    """Return (ns of CLOCK_MONOTONIC, value) of a counter, from the quickest of several readings.

    Another CPU answers late when it sleeps or when a hypervisor has taken it away. In a virtual machine with two CPUs, single
    readings were up to 0.3 ms late.
    """
    best = None
    for _ in range(tries):
        before = time.monotonic_ns()
        value = struct.unpack("<Q", os.read(fd, 8))[0]
        after = time.monotonic_ns()
        if best is None or after - before < best[0]:
            best = after - before, (before + after) // 2, value
    return best[1:]


def base_khz(event, seconds=0.05):
    """Return how often a counter counts per ms of CLOCK_MONOTONIC."""
    fd = open_counter(event, _bpf.online()[0])
    try:
        began, first = reading(fd)
        time.sleep(seconds)
        ended, last = reading(fd)
    finally:
        os.close(fd)
    return round((last - first) * 1_000_000 / (ended - began))


class Frequencies:
    """Where frequencies come from on this machine, for the programs of ticks.c."""

    def __init__(self):
        self.handler = tick_handler()
        self.counters = [counter(*c) if isinstance(c[0], str) else c for c in COUNTERS]
        self.base_khz = 0
        if all(self.counters):
            try:
                self.base_khz = base_khz(counter(*TSC))
            except (OSError, TypeError):
                self.counters = [None, None]
        files = {c: CPUS / ("cpu%d" % c) / "cpufreq/scaling_cur_freq" for c in _bpf.online()}
        self.files = {} if self.base_khz else {c: f for c, f in files.items() if f.exists()}

    @property
    def source(self):
        """The name of the source, or an empty text if there is none."""
        if self.base_khz:
            return "perf counters msr/aperf/ and msr/mperf/"
        return "scaling_cur_freq" if self.files else ""

    def defines(self):
        """Return the constants of ticks.c; none if this kernel's tick cannot be recognised."""
        if self.handler is None:
            return []
        counted = ["-DCOUNTED=1", "-DBASE_KHZ=%dULL" % self.base_khz] if self.base_khz else []
        return ["-DWANT_TICK=1", "-DTICK_HANDLER=0x%xULL" % self.handler, *counted]

    def start(self, programs, cpus):
        """Open the counters of all CPUs for the loaded programs, or map the table that update() fills."""
        self.clocks = programs.mmap("clocks", cpus * CLOCK_BYTES, write=True)
        if self.base_khz:
            actual, base = self.counters
            for name, event in (("actual_cycles", actual), ("base_cycles", base)):
                for cpu in _bpf.online():
                    fd = open_counter(event, cpu)
                    programs.fds.append(fd)
                    programs.put(name, struct.pack("<I", cpu), struct.pack("<i", fd))
        self.update()

    def update(self):
        """Tell the programs the present frequencies, where nothing counts cycles."""
        for cpu, file in self.files.items():
            try:
                khz = int(file.read_text())
            except (OSError, ValueError):
                khz = 0
            struct.pack_into("<Q", self.clocks, cpu * CLOCK_BYTES + KHZ_AT, khz)
