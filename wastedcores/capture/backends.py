"""What can capture here: BPF through the distribution's bcc, or the kernel's tracefs."""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wastedcores.errors import CollectorError, UsageError
from wastedcores.files import collectors

#: Names of the ways to capture, best first.
BACKENDS = ("bpf", "tracefs")
_INSTALL = {
    "debian": "sudo apt-get install python3-bpfcc linux-headers-amd64",
    "ubuntu": "sudo apt-get install python3-bpfcc linux-headers-$(uname -r)",
    "fedora": "sudo dnf install bcc kernel-devel",
    "arch": "sudo pacman -S bcc python-bcc linux-headers",
}


@dataclass(frozen=True)
class Backend:
    """A way to capture.

    Attributes
    ----------
    name
        One of :data:`BACKENDS`.
    works
        Can it be used here, as far as can be told without root.
    why
        What was found, or what is missing.
    fix
        The command that would make it work; empty if none is known or needed.
    """

    name: str
    works: bool
    why: str
    fix: str = ""


@lru_cache(maxsize=1)
def bcc_python() -> str | None:
    """A Python that has bcc: ``$WASTEDCORES_BCC_PYTHON``, the distribution's, or one on the PATH."""
    named = os.environ.get("WASTEDCORES_BCC_PYTHON")
    for python in [named] if named else ["/usr/bin/python3", shutil.which("python3")]:
        if python and _imports_bcc(python):
            return python
    return None


def _imports_bcc(python: str) -> bool:
    test = "import bcc, sys; sys.exit(not hasattr(bcc, 'BPF'))"  # another project has the name on the package index
    try:
        run = subprocess.run(
            [python, "-B", "-E", "-s", "-c", test],
            capture_output=True,
            timeout=60,
            check=False,
            cwd="/",
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return run.returncode == 0


def system_python() -> str:
    """Any Python that root may run: the distribution's if there is one."""
    found = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else shutil.which("python3")
    if not found:
        raise CollectorError(
            "no python3 to run the collector with. Debian/Ubuntu: sudo apt-get install python3."
        )
    return found


def distribution() -> str:
    """``debian``, ``ubuntu``, ``fedora``, ``arch`` or what /etc/os-release says."""
    words: list[str] = []
    try:
        for line in Path("/etc/os-release").read_text().splitlines():
            key, _, value = line.partition("=")
            if key in ("ID", "ID_LIKE"):
                words += value.strip('"').split()
    except OSError:
        pass
    return next((w for w in words if w in _INSTALL), words[0] if words else "unknown")


def install_command() -> str:
    """How this distribution installs bcc and headers."""
    return _INSTALL.get(distribution(), _INSTALL["debian"])


def headers() -> tuple[bool, str]:
    """Does bcc find kernel headers; how, or what is missing.

    bcc looks under /lib/modules/RELEASE only; the collectors show it any linux-headers package there is, because the
    programs take nothing but BPF's own types from them.
    """
    modules = Path("/lib/modules") / os.uname().release
    if (modules / "build").exists():
        return True, f"{modules}/build"
    if Path("/sys/kernel/kheaders.tar.xz").exists():
        return True, "/sys/kernel/kheaders.tar.xz"
    others = sorted(Path("/usr/src").glob("linux-headers-*/include/linux/kconfig.h"))
    if others:
        return (
            True,
            f"{others[-1].parents[2]} (of another kernel; shown to bcc by the collectors)",
        )
    return False, f"neither {modules}/build nor /usr/src/linux-headers-*"


def probe() -> list[Backend]:
    """Every backend and whether it works here."""
    return [_probe_bpf(), _probe_tracefs()]


def _probe_bpf() -> Backend:
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return Backend(
            "bpf", False, "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"
        )
    python = bcc_python()
    if python is None:
        return Backend("bpf", False, "no Python here has the bcc module", install_command())
    found, where = headers()
    if not found:
        return Backend("bpf", False, f"no kernel headers for bcc: {where}", install_command())
    if not may_become_root():
        return Backend("bpf", False, "needs root: sudo is absent", "run as root")
    return Backend("bpf", True, f"{python}, headers {where}")


def _probe_tracefs() -> Backend:
    if not may_become_root():
        return Backend("tracefs", False, "needs root: sudo is absent", "run as root")
    for folder in ("/sys/kernel/tracing", "/sys/kernel/debug/tracing"):
        try:
            if (Path(folder) / "instances").exists():
                return Backend("tracefs", True, folder)
        except OSError:
            return Backend("tracefs", True, f"{folder} (not readable without root)")
    if "tracefs" in Path("/proc/filesystems").read_text():
        return Backend("tracefs", True, "not mounted; the collector mounts it")
    return Backend("tracefs", False, "this kernel has no tracefs (CONFIG_TRACING)")


#: kind -> the tracepoint the bpf backend takes it from; affinity is noticed at switches
TRACEPOINTS = {
    "nr_running": "sched_update_nr_running_tp",
    "switch": "sched_switch",
    "wakeup": "sched_wakeup",
    "wakeup_new": "sched_wakeup_new",
    "migrate": "sched_migrate_task",
    "fork": "sched_process_fork",
    "exec": "sched_process_exec",
    "exit": "sched_process_exit",
    "cpu_idle": "cpu_idle",
    "frequency": "cpu_frequency",
    "load": "pelt_cfs_tp",
    "affinity": "sched_switch",
}


def event_kinds() -> dict[str, bool]:
    """Each kind that a collector can record, and whether this kernel has what it needs.

    ``considered`` needs kprobes (or fentry, which cannot be told without trying).
    """
    try:
        types = Path("/sys/kernel/btf/vmlinux").read_bytes()
    except OSError:
        types = b""
    kinds = {k: f"\0btf_trace_{t}\0".encode() in types for k, t in TRACEPOINTS.items()}
    kinds["considered"] = Path("/sys/bus/event_source/devices/kprobe/type").exists()
    return kinds


def may_become_root() -> bool:
    """Root, or sudo is there (it may still ask, or refuse)."""
    return os.geteuid() == 0 or shutil.which("sudo") is not None


def choose(name: str = "auto") -> Backend:
    """The backend of that name, or the best that works.

    Raises
    ------
    UsageError
        No backend has that name.
    CollectorError
        It does not work here; says why and how to mend it.
    """
    if name not in ("auto", *BACKENDS):
        raise UsageError(f"backend {name!r}: expected auto, {' or '.join(BACKENDS)}.")
    found = [b for b in probe() if name in ("auto", b.name)]
    working = [b for b in found if b.works]
    if working:
        return working[0]
    reasons = "; ".join(f"{b.name}: {b.why}" + (f" ({b.fix})" if b.fix else "") for b in found)
    raise CollectorError(f"nothing can capture here. {reasons}. See also: wastedcores doctor.")


def command(script: str, arguments: list[str], backend: Backend) -> list[str]:
    """The argument list that runs a collector, with sudo where needed; no shell takes part."""
    python = (bcc_python() if backend.name == "bpf" else None) or system_python()
    prefix = [] if os.geteuid() == 0 else ["sudo", "--"]
    return [*prefix, python, "-B", "-E", "-s", str(collectors() / script), *arguments]
