# SPDX-License-Identifier: GPL-2.0-only
"""Probes on functions of the kernel: which symbols there are, and kprobes that are opened now and enabled later."""

import ctypes
import os
import platform
import re
import struct
from pathlib import Path

import _bpf

KPROBE_TYPE = Path("/sys/bus/event_source/devices/kprobe/type")
FEXIT = 25  # BPF_TRACE_FEXIT
_SET_BPF, _ENABLE, _DISABLE = 0x40042408, 0x2400, 0x2401  # PERF_EVENT_IOC_*


def symbols(functions):
    """Return for each function the symbol that this kernel has for it (with the compiler's suffix), or None.

    ``functions`` has for each name the names that the kernel has had, the newest first.
    """
    text = Path("/proc/kallsyms").read_text()
    found = {}
    for name, names in functions.items():
        found[name] = None
        for kernel_name in names:
            hits = re.findall(
                r"^\S+ [tT] (%s(?:\.(?:isra|constprop|part)\.\d+)*)$" % kernel_name,
                text,
                re.MULTILINE,
            )
            if hits:
                found[name] = min(hits, key=len)
                break
    return found


def span_offset(btf):
    """Return the offset of sched_domain.span."""
    found = btf.offset("sched_domain", "span")
    weight = btf.offset("sched_domain", "span_weight")
    if found is None and weight is not None:
        # some BTF (seen on 6.18) lacks the flexible array at the end of the structure: it is the next aligned long
        return (weight + 4 + 7) // 8 * 8
    return found


def open_kprobe(programs, func, symbol, at_return):
    """Open a perf event on the kprobe PMU (since 4.17), put the program on it, and return it; it is not enabled yet."""
    prog = programs.load(func, _bpf.TYPE_KPROBE)
    name = ctypes.create_string_buffer(symbol.encode())
    kind = int(KPROBE_TYPE.read_text())
    # perf_event_attr: type, size, config (bit 0: return), sample_period, sample_type, read_format, flags (bit 0:
    # disabled), wakeup, bp_type, config1 = kprobe_func, config2 = probe_offset
    attr = struct.pack(
        "<IIQQQQQIIQQ", kind, 128, int(at_return), 1, 0, 0, 1, 1, 0, ctypes.addressof(name), 0
    )
    attr = ctypes.create_string_buffer(attr + bytes(128 - len(attr)), 128)
    fd = _bpf._libc.syscall(_bpf._NR_PERF_EVENT_OPEN[platform.machine()], attr, -1, 0, -1, 8)
    if fd < 0:
        raise _bpf.CannotLoad("kprobe on %s: %s" % (symbol, os.strerror(ctypes.get_errno())))
    programs.fds.append(fd)
    _ioctl(fd, _SET_BPF, prog, symbol)
    return fd


def enable(fd):
    """Let an open kprobe run its program."""
    _ioctl(fd, _ENABLE, 0, "enable")


def disable(fd):
    """Stop an open kprobe; it can be enabled again."""
    _ioctl(fd, _DISABLE, 0, "disable")


def _ioctl(fd, request, arg, what):
    if _bpf._libc.ioctl(fd, ctypes.c_ulong(request), ctypes.c_ulong(arg)) < 0:
        raise _bpf.CannotLoad("kprobe on %s: %s" % (what, os.strerror(ctypes.get_errno())))
