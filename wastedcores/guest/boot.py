"""One boot of a guest: the emulator's command line, what its console says, and the ways in which it can end."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from wastedcores.errors import UsageError
from wastedcores.guest.emulator import Emulator
from wastedcores.guest.initramfs import initramfs
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import GuestMachine
from wastedcores.guest.places import GuestError, tell
from wastedcores.topology.cpulist import format_cpulist

#: virtual ns in which each virtual CPU has its turn; their clocks are never further apart
ROUND_NS = 4000
#: what every guest is booted with; its clock is the emulated TSC, which counts virtual ns
PARAMETERS = "console=ttyS0 loglevel=4 panic=-1 tsc=reliable nokaslr mitigations=off"
EVENTS = (
    "sched_switch",
    "sched_waking",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_migrate_task",
    "sched_process_fork",
    "sched_process_exit",
    "sched_process_exec",
)
#: lines of the console that an error shows
_SHOWN = 12
_FEATURES = ("/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features")


@dataclass(frozen=True)
class Options:
    """How a guest is booted.

    Attributes
    ----------
    features
        Scheduler features to set, such as ``NO_NI_RANDOM``.
    sysctls
        Settings by name, such as ``kernel.sched_autogroup_enabled``.
    parameters
        Further boot parameters.
    buffer_kb
        The trace buffer of each CPU. Events that do not fit are lost, and counted.
    timeout_s
        Host seconds after which the guest is stopped.
    console
        A file that keeps what the guest's console said.
    """

    features: tuple[str, ...] = ()
    sysctls: Mapping[str, str] = field(default_factory=dict)
    parameters: str = ""
    buffer_kb: int = 2048
    timeout_s: float = 3600
    console: Path | None = None


def setup_script(machine: GuestMachine, options: Options) -> str:
    """Return the shell commands that prepare a guest before its first job."""
    lines = []
    m = machine.machine
    steps = [("offline", c) for c in range(m.cpus) if c not in m.boot_online] + list(m.hotplug)
    for what, cpu in steps:
        lines.append(_put(str(int(what == "online")), f"/sys/devices/system/cpu/cpu{cpu}/online"))
    for name, value in options.sysctls.items():
        lines.append(_put(value, "/proc/sys/" + name.replace(".", "/")))
    for feature in options.features:
        new, old = (_put(feature, f) for f in _FEATURES)
        lines.append(f"if [ -e {_FEATURES[0]} ]; then {new}; else {old}; fi")
    lines.append("sleep 0.5")  # hotplug leaves work behind
    return "\n".join(lines) + "\n"


def _put(value: str, path: str) -> str:
    said = f"@@ERROR {path} takes no {value}"
    return f"echo {shlex.quote(value)} > {shlex.quote(path)} || echo {shlex.quote(said)}"


def check_options(options: Options) -> None:
    """Refuse options that no kernel takes."""
    for feature in options.features:
        if not feature.replace("_", "").isalnum() or not feature.isupper():
            raise UsageError(
                f"--feature {feature}: expected a name as the kernel prints it, such as NO_NI_RANDOM."
            )
    for name in options.sysctls:
        if "." not in name or "/" in name or ".." in name:
            raise UsageError(
                f"--sysctl {name}: expected a name such as kernel.sched_autogroup_enabled=0."
            )


def command(
    emulator: Emulator, kernel: Kernel, machine: GuestMachine, image: Path, parameters: str
) -> list[str]:
    """Return the emulator's command line."""
    firmware = [word for folder in emulator.firmware for word in ("-L", str(folder))]
    return [
        str(emulator.program), *firmware, "-nodefaults", "-accel", "tcg,thread=single,tb-size=512",
        "-icount", "shift=0,sleep=off", "-nic", "none", "-display", "none", "-monitor", "none", "-vga", "none",
        "-serial", "stdio", "-no-reboot", "-rtc", "base=2026-01-01,clock=vm", "-seed", "1",
        "-device", "isa-debugcon,iobase=0xe9,chardev=sent", "-chardev", "null,id=sent", *machine.options(),
        "-kernel", str(kernel.image), "-initrd", str(image), "-append", parameters,
    ]  # fmt: skip


def boot_parameters(machine: GuestMachine, options: Options) -> str:
    """Return the guest's boot parameters."""
    isolated = machine.machine.isolated
    words = [
        PARAMETERS,
        f"isolcpus={format_cpulist(isolated)}" if isolated else "",
        options.parameters,
    ]
    text = " ".join(" ".join(words).split())
    if len(text) > 2000:
        raise UsageError(
            f"--append: {len(text)} characters of boot parameters; the kernel takes 2047."
        )
    return text


@contextmanager
def booted(
    emulator: Emulator,
    kernel: Kernel,
    machine: GuestMachine,
    jobs: Mapping[str, bytes],
    options: Options,
    said: Callable[[str], None] = lambda line: None,
) -> Iterator[Path]:
    """Boot a guest, wait until it has done all jobs, and give the file that it sent, which is removed afterwards.

    Parameters
    ----------
    emulator, kernel, machine
        What is booted, and with what.
    jobs
        Files below ``/job``.
    options
        How it is booted.
    said
        Called with each line of the console that begins with ``@@``.
    """
    with tempfile.TemporaryDirectory(prefix="wastedcores-guest-") as name:
        folder = Path(name)
        image = folder / "initramfs.gz"
        image.write_bytes(initramfs(emulator, jobs))
        words = command(emulator, kernel, machine, image, boot_parameters(machine, options))
        sent = folder / "sent"
        lockstep = {
            "LOCKSTEP_ROUND": str(ROUND_NS),
            "LOCKSTEP_VCPUS": str(machine.machine.cpus),
            "LOCKSTEP_DEBUGCON": str(sent),
        }
        _watch(words, os.environ | lockstep, kernel, options, said)
        if not sent.exists():
            raise GuestError(f"{kernel.name}: the guest ended without having sent anything.")
        yield sent


def _watch(
    words: Sequence[str],
    environment: Mapping[str, str],
    kernel: Kernel,
    options: Options,
    said: Callable[[str], None],
) -> None:
    """Run the emulator to its end; whatever goes wrong in the guest becomes an error with the console's last lines."""
    last: deque[str] = deque(maxlen=_SHOWN)
    began, wrong, done = time.monotonic(), "", False
    try:
        process = subprocess.Popen(
            words, env=dict(environment), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True,
        )  # fmt: skip
    except OSError as e:
        raise GuestError(
            f"{words[0]}: cannot be started ({e.strerror}). `wastedcores guest doctor` says more; removing that folder and "
            "`wastedcores guest build` make it again."
        ) from e
    late = threading.Event()

    def stop() -> None:
        late.set()
        process.send_signal(signal.SIGKILL)

    timer = threading.Timer(options.timeout_s, stop)
    timer.start()
    try:
        assert process.stdout is not None
        for raw in process.stdout:
            line = raw.decode("utf-8", "replace").rstrip()
            last.append(line)
            if options.console:
                with options.console.open("a", encoding="utf-8") as kept:
                    kept.write(f"{time.monotonic() - began:9.2f} {line}\n")
            at = line.find("@@")
            if at >= 0:
                said(line[at:])
                done = done or line[at:] == "@@ALL"
                if line[at:].startswith("@@ERROR"):
                    wrong = f"could not be set up: {line[at + 8 :]}"
                    break
            elif "Kernel panic" in line or "Unable to mount root" in line:
                wrong = wrong or "panicked"
    finally:
        timer.cancel()
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
    if late.is_set():
        wrong = (
            f"was stopped after {options.timeout_s:.0f} s, before it had finished. It hangs, or needs longer: --timeout SECONDS, "
            "a smaller machine or workload, or --until"
        )
    if not wrong and not done:
        wrong = (
            f"ended by itself, before it had finished (the emulator's code is {process.returncode})"
        )
    if wrong:
        shown = "".join(f"\n  | {line}" for line in last)
        raise GuestError(f"{kernel.name}: the guest {wrong}. The last lines of its console:{shown}")


def tell_notes(notes: Sequence[str]) -> None:
    """Say how the guest differs from what was asked for."""
    for note in dict.fromkeys(notes):
        tell(f"wastedcores: note: {note}")
