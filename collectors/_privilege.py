# SPDX-License-Identifier: GPL-2.0-only
"""The privileges of a collector: it keeps what it needs to load its programs, and then none."""

import ctypes
import os
import platform
import struct
from pathlib import Path

CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN = 39, 38, 21
PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 8, 38
DISABLED = Path("/proc/sys/kernel/unprivileged_bpf_disabled")
_libc = ctypes.CDLL(None, use_errno=True)


def _capset(caps):
    bits = sum(1 << c for c in caps)
    low, high = bits & 0xFFFFFFFF, bits >> 32
    header = ctypes.create_string_buffer(struct.pack("<Ii", 0x20080522, 0))
    data = ctypes.create_string_buffer(struct.pack("<6I", low, low, 0, high, high, 0))
    if _libc.capset(header, data) != 0:
        raise OSError(ctypes.get_errno(), "capset")


def least_privilege(perf_events=False):
    """Become the user who called sudo and keep only CAP_BPF and CAP_PERFMON (CAP_SYS_ADMIN before 5.8).

    This is called before anything is compiled or loaded; when everything is attached, drop_all() gives up the rest. Perf
    events also need CAP_SYS_ADMIN where Debian's and Ubuntu's kernel.perf_event_paranoid is above 2, because their patch
    does not know CAP_PERFMON. Returns a description of the privileges that are left.
    """
    if os.geteuid() != 0:
        return "uid %d" % os.geteuid()
    try:
        import resource

        resource.setrlimit(
            resource.RLIMIT_MEMLOCK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        )
    except (ValueError, OSError):
        pass
    keep = (CAP_BPF, CAP_PERFMON) if _release() >= [5, 8] else (CAP_SYS_ADMIN,)
    if perf_events and int(Path("/proc/sys/kernel/perf_event_paranoid").read_text()) > 2:
        keep = (*keep, CAP_SYS_ADMIN)
    uid, gid = int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0))
    if uid:
        _libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    _capset(keep)
    _libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    return "+".join({39: "CAP_BPF", 38: "CAP_PERFMON", 21: "CAP_SYS_ADMIN"}[c] for c in keep)


def drop_all(calls_bpf=False):
    """Give up every capability: none is needed once programs are attached and memory is mapped.

    Some collectors attach loaded programs later, and read iterators. Before Linux 5.19 every call of bpf() needs CAP_BPF if the
    kernel keeps unprivileged users from it (__sys_bpf(), kernel/bpf/syscall.c; changed by c8644cd0efe7). They keep it there.
    """
    keep = (CAP_BPF,) if calls_bpf and [5, 8] <= _release() < [5, 19] and _disabled() else ()
    if os.geteuid() == 0 or "SUDO_UID" in os.environ:
        try:
            _capset(keep)
        except OSError:
            pass


def _release():
    return [int(x) for x in platform.release().split("-")[0].split(".")[:2]]


def _disabled():
    """Return whether unprivileged users may not call bpf()."""
    try:
        return int(DISABLED.read_text()) != 0
    except (OSError, ValueError):
        return False
