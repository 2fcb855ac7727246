"""Find out what works on this machine, and which commands would make the rest work.

A check is a function without arguments that returns a :class:`Finding`. To add a check, write the function and list it in
``CHECKS``.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from wastedcores.capture.backends import (
    LIBBPF,
    OBJECT,
    SYSTEM_PYTHON,
    choose,
    command,
    event_kinds,
    headers,
    probe,
    sources,
)
from wastedcores.capture.collector import collectors_for_root, install_command
from wastedcores.errors import CollectorError
from wastedcores.files import leftovers, text_of
from wastedcores.trace.readers.schedtrace.decisions import FUNCTIONS, probes_sentence

TRACEFS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


@dataclass(frozen=True)
class Finding:
    """The outcome of one check."""

    name: str  #: the thing that was looked at
    #: ``ok``, ``missing`` (a command can mend it) or ``limited`` (works in part, or cannot be mended here)
    state: str
    says: str  #: what was found
    needed_for: str = ""  #: what does not work without it
    #: the command that mends it, by family of distributions (:func:`wastedcores.capture.backends.distribution`); ``any``: all
    fix: dict[str, str] = field(default_factory=dict)

    def command(self, family: str) -> str:
        """Return the command for this family of distributions; empty if there is none."""
        return self.fix.get(family, self.fix.get("any", ""))


def _install(debian: str, fedora: str, arch: str) -> dict[str, str]:
    """Return the commands that install these packages, by family of distributions."""
    return {
        "debian": f"sudo apt-get install {debian}",
        "fedora": f"sudo dnf install {fedora}",
        "arch": f"sudo pacman -S {arch}",
    }


def check_python() -> Finding:
    """Report the version of Python; a version before 3.11 cannot run this function."""
    return Finding("python", "ok", f"{platform.python_version()} ({sys.executable})")


def check_libraries() -> Finding:
    """Look for the libraries whose versions decide how fast wastedcores is and which numbers it gives."""
    have, absent = [], []
    for name in ("numpy", "numba", "polars", "plotly", "anywidget", "jupyterlab", "papermill"):
        try:
            have.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            absent.append(name)
    if not absent:
        return Finding("libraries", "ok", ", ".join(have))
    checkout = Path(__file__).parents[2] / "Makefile"
    fix = {"any": "make setup" if checkout.exists() else "pip install 'wastedcores[lab]'"}
    says = f"absent: {', '.join(absent)}"
    return Finding("libraries", "missing", says, "reports, notebooks", fix)


def check_browser() -> Finding:
    """Look for Chromium, which draws pictures of figures and runs the browser tests."""
    from wastedcores.reports.html import browser

    if path := browser():
        return Finding("browser", "ok", path)
    need = "wastedcores figure -o x.png; reports need no browser"
    fix = _install("chromium", "chromium", "chromium")
    return Finding("browser", "missing", "no chromium", need, fix)


def check_perf() -> Finding:
    """Look for the perf tool, which is one way to record a trace."""
    path, says = shutil.which("perf"), "not installed"
    if path is not None:
        done = _run([path, "--version"])
        if done is not None and not done.returncode:
            return Finding("perf", "ok", f"{done.stdout.strip()} ({path})")
        failed = (done.stderr.strip().splitlines() or ["it fails"])[0] if done else ""
        says = f"{path}: {failed or 'it does not answer'}"
    fix = _install("linux-perf   # Ubuntu: linux-tools-$(uname -r)", "perf", "perf")
    return Finding("perf", "missing", says, "perf sched record", fix)


def check_tracefs() -> Finding:
    """Look for the kernel's trace files."""
    state, says, need, fix = "ok", "", "recording", ""
    if mounted := next((p for p in TRACEFS if Path(p, "events").is_dir()), None):
        says = f"{mounted}, with sched events"
        if not Path(mounted, "events/sched/sched_switch").is_dir():
            state, says = "limited", f"{mounted}, but this kernel has no sched events"
    elif os.geteuid() != 0 and Path(TRACEFS[0]).exists():
        state, says, fix = (
            "limited", "only root may look", "sudo ls /sys/kernel/tracing/events/sched",
        )  # fmt: skip
    else:
        state, says, need = "missing", "not mounted", "recording with ftrace or perf"
        fix = "sudo mount -t tracefs tracefs /sys/kernel/tracing"
    return Finding(
        "tracefs", state, says, "" if state == "ok" else need, {"any": fix} if fix else {}
    )


def check_rights() -> Finding:
    """Find out whether this user may trace."""
    if os.geteuid() == 0:
        return Finding("rights", "ok", "root")
    says = (
        f"not root; perf_event_paranoid is {text_of('/proc/sys/kernel/perf_event_paranoid') or '?'}"
    )
    need = "recording (reading traces and making reports need no rights)"
    fix = {"any": "wastedcores capture …   # asks for sudo itself; or: sudo perf sched record"}
    return Finding("rights", "limited", says, need, fix)


def check_btf() -> Finding:
    """Look for the type information of the running kernel; the BPF collectors take the layout of every structure from it."""
    if Path("/sys/kernel/btf/vmlinux").exists():
        return Finding("kernel BTF", "ok", "/sys/kernel/btf/vmlinux")
    says = "this kernel was built without CONFIG_DEBUG_INFO_BTF"
    return Finding("kernel BTF", "limited", says, "BPF collectors")


def check_headers() -> Finding:
    """Look for headers that bcc can compile against; the headers of any kernel will do, because structures come from BTF."""
    found, where = headers()
    if found:
        return Finding("kernel headers", "ok", where)
    debian = "linux-headers-amd64   # Ubuntu: linux-headers-generic"
    fix = _install(debian, "kernel-devel", "linux-headers")
    return Finding("kernel headers", "missing", where, "BPF collectors", fix)


def check_capture() -> Finding:
    """Find out which backends can capture here."""
    backends = probe()
    says = "; ".join(f"{b.name}: {'works' if b.works else b.why}" for b in backends)
    if backends[0].works:
        return Finding("capture", "ok", says)
    works = any(b.works for b in backends)
    need = "the cheap collectors and the online checker" if works else "capture, watch"
    fix = {"any": backends[0].fix} if backends[0].fix else {}
    return Finding("capture", "missing" if fix else "limited", says, need, fix)


def check_event_kinds() -> Finding:
    """Find out which kinds of events can be recorded on this kernel."""
    kinds = event_kinds()
    absent = [kind for kind, available in kinds.items() if not available]
    says = f"{len(kinds) - len(absent)} of {len(kinds)} kinds"
    if not absent:
        return Finding("event kinds", "ok", says)
    return Finding(
        "event kinds", "limited", f"{says}; not here: {', '.join(absent)}", "those kinds"
    )


@lru_cache(maxsize=1)
def _checker_says() -> dict[str, Any] | str:
    """Load the online checker for a moment and return what it tells, or why it cannot be loaded."""
    try:
        backend = choose("bpf", checker=True)
        done = _run(command("unclaimed.py", ["--probes", "--buffer", "0.0625"], backend))
        if done is None or done.returncode:
            said = done.stderr.strip().partition("\n")[0] if done else "it does not answer"
            return f"it cannot be loaded ({said})"
        return dict(json.loads(done.stdout))
    except (CollectorError, ValueError) as e:
        return str(e).partition(" See also: wastedcores doctor")[0]


def check_checker() -> Finding:
    """Find out in which way the programs of the online checker are loaded into the kernel."""
    need = "watch"
    if os.geteuid() != 0:
        fix = {"any": "sudo wastedcores doctor"}
        return Finding("online checker", "limited", "only root can try", need, fix)
    found = _checker_says()
    if isinstance(found, str):
        return Finding("online checker", "limited", found, need)
    says = f"{OBJECT} through {LIBBPF}: no compiler is needed"
    if found["way"] != "object":
        says = f"bcc compiles it at each start: {found['no_object']}"
    return Finding("online checker", "ok", says)


def check_decisions() -> Finding:
    """Try whether the functions of the load balancer can be probed; the online checker probes them after a violation."""
    need = "reasons of the load balancer in the evidence of watch"
    if os.geteuid() != 0:
        fix = {"any": "sudo wastedcores doctor"}
        return Finding("decisions", "limited", "only root can try", need, fix)
    found = _checker_says()
    if isinstance(found, str):
        return Finding("decisions", "limited", f"the online checker: {found}", need)
    state = "ok" if len(found["how"]) == len(FUNCTIONS) else "limited"
    return Finding("decisions", state, probes_sentence(found), need)


def check_bcc() -> Finding:
    """Look for bcc in the distribution's own Python; the package index has a different project with this name."""
    says = f"there is no {SYSTEM_PYTHON}"
    if Path(SYSTEM_PYTHON).exists():
        done = _run([SYSTEM_PYTHON, "-c", "import bcc; bcc.BPF; print(bcc.__version__)"])
        if done is not None and not done.returncode:
            return Finding("bcc", "ok", f"{done.stdout.strip()} for {SYSTEM_PYTHON}")
        says = f"{SYSTEM_PYTHON} has no bcc"
    fix = _install("python3-bpfcc bpfcc-tools", "bcc python3-bcc", "bcc bcc-tools python-bcc")
    return Finding("bcc", "missing", says, "BPF collectors", fix)


def check_collectors() -> Finding:
    """Find out whether users other than root can change what sudo runs as root."""
    try:
        return Finding("collectors", "ok", f"only root can change {collectors_for_root()}")
    except CollectorError as e:
        why = str(e).partition(" Make a copy")[0]
        return Finding("collectors", "missing", why, "capture, watch", {"any": install_command()})


def check_cpus() -> Finding:
    """Count CPUs and nodes; with one CPU there is nothing to waste."""
    cpus = os.cpu_count() or 1
    nodes = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    says = f"{cpus} CPUs, {nodes} NUMA node{'s' if nodes != 1 else ''}, Linux {platform.release()}"
    return Finding("CPUs", "ok" if cpus > 1 else "limited", says)


def check_frequency() -> Finding:
    """Find out how the current frequency of a CPU can be read; on a virtual machine there is often no way."""
    found = sources()
    says = "; ".join(f"{s.name}: {'works' if s.works else s.says}" for s in found)
    if any(s.works for s in found):
        return Finding("frequency", "ok", says)
    return Finding("frequency", "limited", says, "figure --kind frequency of a recording")


def check_cpuset() -> Finding:
    """Look for the switch that turns load balancing off, which the live demonstration needs."""
    knob = Path("/sys/fs/cgroup/cpuset/cpuset.sched_load_balance")
    if knob.exists():
        return Finding("cpuset v1", "ok", f"{knob} = {knob.read_text().strip()}")
    need = "tools/record_live_pair.py (a real violation on demand)"
    return Finding("cpuset v1", "limited", "no cgroup-v1 cpuset hierarchy", need)


#: where tracefs keeps its instances
_INSTANCES = ("/sys/kernel/tracing/instances", "/sys/kernel/debug/tracing/instances")


def check_leftovers() -> Finding:
    """Look in the current folder for files that killed captures, imports and reports have left behind."""
    left = leftovers(Path())
    if not left:
        return Finding("leftovers", "ok", "nothing was left unfinished in this folder")
    names = ", ".join(str(p) for p in left)
    fix = f"rm -r {shlex.quote(str(left[0]))}"
    if left[0].name.endswith(".raw"):
        fix = f"wastedcores import {shlex.quote(str(left[0]))}   # or delete it"
    return Finding(
        "leftovers", "limited", f"unfinished: {names}", "the disk space they take", {"any": fix}
    )


def check_instances() -> Finding:
    """Look for trace instances whose collectors have ended; the kernel goes on recording into them."""
    name = "trace instances"
    folder = next(
        (p for p in map(Path, _INSTANCES) if os.access(p, os.R_OK | os.X_OK) and p.is_dir()), None
    )
    if folder is None:
        return Finding(name, "ok", "none can be seen by this user")
    orphans = [
        p for p in sorted(folder.glob("wastedcores-*")) if not Path("/proc", p.name[12:]).exists()
    ]
    if not orphans:
        return Finding(name, "ok", "no killed collector left one")
    fix = f"sudo rmdir {shlex.quote(str(orphans[0]))}   # the next capture through tracefs does it, too"
    names = ", ".join(p.name for p in orphans)
    return Finding(
        name, "limited", f"still recording: {names}", "the time and memory they take", {"any": fix}
    )


CHECKS: list[Callable[[], Finding]] = [
    check_python, check_libraries, check_cpus, check_browser, check_rights, check_tracefs, check_perf, check_btf, check_headers,
    check_bcc, check_collectors, check_capture, check_checker, check_event_kinds, check_decisions, check_frequency, check_cpuset,
    check_leftovers, check_instances,
]  # fmt: skip


def examine() -> list[Finding]:
    """Run every check and return the findings; a check that fails is a finding, too."""
    found = []
    for check in CHECKS:
        try:
            found.append(check())
        except OSError as e:
            found.append(
                Finding(check.__name__.removeprefix("check_"), "limited", f"the check failed: {e}")
            )
    return found


def _run(command: list[str]) -> subprocess.CompletedProcess[str] | None:
    """Run a command and return its outcome, or None if it cannot run or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
