"""The ways to capture on this machine: BPF (built before, or compiled by the distribution's bcc) or the kernel's tracefs."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from wastedcores.capture.collector import changeable, collectors_for_root
from wastedcores.errors import CollectorError, UsageError
from wastedcores.files import collectors, text_of

#: MSR_IA32_MPERF and MSR_IA32_APERF (arch/x86/include/asm/msr-index.h): cycles at the base frequency, and actual cycles
MPERF, APERF = 0xE7, 0xE8


@dataclass(frozen=True)
class Source:
    """One way to learn the frequency of a CPU."""

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
    driver = text_of(cpufreq / "scaling_driver")
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
    now = text_of(cpufreq / "scaling_cur_freq") or None
    current = Source(
        "scaling_cur_freq", now is not None, f"{now} kHz" if now else "there is no cpufreq folder"
    )
    return [perf, _registers(root), tells, current]


def _registers(root: Path) -> Source:
    """Try to read the registers APERF and MPERF of CPU 0."""
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


#: names of the backends, best first
BACKENDS = ("bpf", "tracefs")
#: family of distributions -> words in the ID or ID_LIKE of /etc/os-release
_FAMILIES = {
    "debian": ("debian", "ubuntu"),
    "fedora": ("fedora", "rhel", "centos"),
    "arch": ("arch",),
}
#: what the BPF backend needs, by family
_INSTALL = {
    "debian": "sudo apt-get install python3-bpfcc linux-headers-amd64; on Ubuntu linux-headers-generic",
    "fedora": "sudo dnf install bcc kernel-devel",
    "arch": "sudo pacman -S bcc python-bcc linux-headers",
}
#: where the distribution keeps its own Python
SYSTEM_PYTHON = "/usr/bin/python3"
#: the programs of the online checker, which tools/build_bpf.py builds, and the library that loads them
OBJECT, LIBBPF = "checker.bpf.o", "libbpf.so.1"
_TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


@dataclass(frozen=True)
class Backend:
    """A way to capture.

    Attributes
    ----------
    name
        One of :data:`BACKENDS`.
    works
        True if the backend can be used here, as far as this can be found out without root.
    why
        What was found, or what is missing.
    fix
        The command that would make it work; empty if no command is known or needed.
    compiles
        True if bcc compiles the programs when they start.
    """

    name: str
    works: bool
    why: str
    fix: str = ""
    compiles: bool = False


def distribution(os_release: Path = Path("/etc/os-release")) -> str:
    """Return the distribution's family: ``debian``, ``fedora``, ``arch``, or ``any`` if it is none of these."""
    words: set[str] = set()
    if os_release.exists():
        for line in os_release.read_text().splitlines():
            key, _, value = line.partition("=")
            if key in ("ID", "ID_LIKE"):
                words |= set(value.strip('"').split())
    return next((name for name, ids in _FAMILIES.items() if words & set(ids)), "any")


@lru_cache(maxsize=1)
def bcc_python() -> str | None:
    """Return a Python that has bcc: ``$WASTEDCORES_BCC_PYTHON``, or else the distribution's or the first on the PATH.

    A Python that users other than root can change is not considered.
    """
    named = os.environ.get("WASTEDCORES_BCC_PYTHON")
    for python in [named] if named else [SYSTEM_PYTHON, shutil.which("python3")]:
        # the interpreter is executed just below, perhaps by root, so only root may be able to change it
        if (
            python
            and Path(python).exists()
            and not changeable(Path(python))
            and _imports_bcc(python)
        ):
            return python
    return None


def _imports_bcc(python: str) -> bool:
    test = "import bcc, sys; sys.exit(not hasattr(bcc, 'BPF'))"  # on the package index, another project has the name bcc
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


def headers() -> tuple[bool, str]:
    """Return whether bcc can find kernel headers, and where they are or what is missing.

    bcc looks under /lib/modules/RELEASE only. The collectors show bcc any linux-headers package that is installed. Its version
    does not matter, because the programs take only BPF's own types from the headers.
    """
    modules = Path("/lib/modules") / os.uname().release
    if (modules / "build").exists():
        return True, f"{modules}/build"
    if Path("/sys/kernel/kheaders.tar.xz").exists():
        return True, "/sys/kernel/kheaders.tar.xz"
    others = sorted(Path("/usr/src").glob("linux-headers-*/include/linux/kconfig.h"))
    if others:
        where = others[-1].parents[2]
        return True, f"{where} (of another kernel; the collectors show them to bcc)"
    return False, f"neither {modules}/build nor /usr/src/linux-headers-*"


def object_problem() -> str | None:
    """Return why the online checker's object cannot be loaded here; None if the object and libbpf are both there."""
    if not (collectors() / OBJECT).exists():
        return f"{OBJECT} was not built with this package"
    try:
        ctypes.CDLL(LIBBPF)
    except OSError:
        return f"there is no {LIBBPF} (the package libbpf1 or libbpf)"
    return None


def probe(checker: bool = False) -> list[Backend]:
    """Return every backend, best first, with whether it works here for recording or, with ``checker``, for the online checker."""
    return [_probe_bpf(checker), _probe_tracefs()]


def _probe_bpf(checker: bool) -> Backend:
    install = _INSTALL.get(distribution(), _INSTALL["debian"])
    if not Path("/sys/kernel/btf/vmlinux").exists():
        return Backend(
            "bpf", False, "this kernel has no /sys/kernel/btf/vmlinux (CONFIG_DEBUG_INFO_BTF)"
        )
    why = object_problem() if checker else None
    if checker and why is None:
        return _unless_root_is_out_of_reach(Backend("bpf", True, f"{OBJECT} through {LIBBPF}"))
    without = f"{why}, and " if why else ""
    python = bcc_python()
    if python is None:
        return Backend("bpf", False, f"{without}no Python here has the bcc module", install)
    found, where = headers()
    if not found:
        return Backend(
            "bpf", False, f"{without}there are no kernel headers for bcc: {where}", install
        )
    how = f"compiled by bcc for {python}, headers {where}" + (f"; {why}" if why else "")
    return _unless_root_is_out_of_reach(Backend("bpf", True, how, compiles=True))


def _probe_tracefs() -> Backend:
    for folder in _TRACEFS:
        try:
            if (Path(folder) / "instances").exists():
                return _unless_root_is_out_of_reach(Backend("tracefs", True, folder))
        except OSError:
            why = f"{folder} (readable only by root)"
            return _unless_root_is_out_of_reach(Backend("tracefs", True, why))
    if "tracefs" in Path("/proc/filesystems").read_text():
        why = "not mounted; the collector mounts it"
        return _unless_root_is_out_of_reach(Backend("tracefs", True, why))
    return Backend("tracefs", False, "this kernel has no tracefs (CONFIG_TRACING)")


def _unless_root_is_out_of_reach(backend: Backend) -> Backend:
    """Return the backend, marked as not working if this user is not root and there is no sudo."""
    if os.geteuid() == 0 or shutil.which("sudo") is not None:
        return backend
    return Backend(backend.name, False, "it needs root, and sudo is absent", "run as root")


#: kind -> the tracepoint from which the bpf backend takes this kind; changes of affinity are noticed at switches
TRACEPOINTS = {
    "nr_running": "sched_update_nr_running_tp", "switch": "sched_switch", "wakeup": "sched_wakeup",
    "wakeup_new": "sched_wakeup_new", "migrate": "sched_migrate_task", "fork": "sched_process_fork",
    "exec": "sched_process_exec", "exit": "sched_process_exit", "cpu_idle": "cpu_idle", "frequency": "cpu_frequency",
    "load": "pelt_cfs_tp", "cpu_online": "cpuhp_exit", "affinity": "sched_switch", "transitions": "sys_enter",
    "tick": "hrtimer_expire_entry",
}  # fmt: skip


def event_kinds() -> dict[str, bool]:
    """Return, for each kind of event that a collector can record, whether this kernel has what the kind needs.

    ``considered`` needs kprobes or fentry. Only a try shows whether fentry works, so fentry is taken as absent here.
    """
    try:
        types = Path("/sys/kernel/btf/vmlinux").read_bytes()
    except OSError:
        types = b""
    kinds = {k: f"\0btf_trace_{t}\0".encode() in types for k, t in TRACEPOINTS.items()}
    # since Linux 6.18, each task has a flag that tells whether it is throttled
    kinds["throttle"] = b"\0throttled_limbo_list\0" in types
    kinds["considered"] = Path("/sys/bus/event_source/devices/kprobe/type").exists()
    return kinds


def choose(name: str = "auto", checker: bool = False) -> Backend:
    """Return the backend of this name, or for ``auto`` the best that works for recording or for the online checker.

    Raises
    ------
    UsageError
        No backend has this name.
    CollectorError
        The backend that was asked for does not work here, or none does; the message says why, and how to make it work.
    """
    if name not in ("auto", *BACKENDS):
        raise UsageError(f"backend {name!r}: expected auto, {' or '.join(BACKENDS)}.")
    found = [b for b in probe(checker) if name in ("auto", b.name)]
    working = [b for b in found if b.works]
    if working:
        return working[0]
    reasons = "; ".join(f"{b.name}: {b.why}" + (f" ({b.fix})" if b.fix else "") for b in found)
    raise CollectorError(f"nothing can capture here. {reasons}. See also: wastedcores doctor.")


def command(script: str, arguments: list[str], backend: Backend) -> list[str]:
    """Return the argument list that runs a collector, with sudo where it is needed. No shell is involved."""
    python = bcc_python() if backend.compiles else None
    if python is None:
        python = SYSTEM_PYTHON if Path(SYSTEM_PYTHON).exists() else shutil.which("python3")
    if python is None:
        raise CollectorError(
            "there is no python3 to run the collector with. Debian/Ubuntu: sudo apt-get install python3."
        )
    why = changeable(Path(python))
    if why is not None:
        raise CollectorError(
            f"{python} will not be run as root, because others than root can change it: {why}. Install the distribution's "
            "python3."
        )
    prefix = [] if os.geteuid() == 0 else ["sudo", "--"]
    return [*prefix, python, "-B", "-E", "-s", str(collectors_for_root() / script), *arguments]
