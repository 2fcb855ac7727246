"""One boot of a guest: the emulator's command line, what its console says, and the ways in which it can end."""

from __future__ import annotations

import errno
import gzip
import io
import os
import shlex
import shutil
import signal
import stat
import subprocess
import tarfile
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import UsageError
from wastedcores.guest.emulator import INSIDE, Emulator, runner
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.machines import GuestMachine
from wastedcores.guest.places import GuestError, tell
from wastedcores.guest.saved import restoring, saved_guest, saving
from wastedcores.guest.scx import LOADED, Scheduler

FOLDERS = ("bin", "dev", "job", "proc", "sys", "tmp")
#: devices that the first process needs before devtmpfs is there: mode, major and minor number
_DEVICES = {"dev/console": (5, 1), "dev/null": (1, 3)}


def _entry(
    number: int, name: str, mode: int, content: bytes = b"", device: tuple[int, int] = (0, 0)
) -> bytes:
    """Return a file as an entry of an initramfs (Documentation/driver-api/early-userspace/buffer-format.rst: "newc")."""
    path = name.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % f for f in fields) + path
    return _padded(head) + _padded(content)


def _padded(part: bytes) -> bytes:
    return part + bytes(-len(part) % 4)


def archive(files: Mapping[str, bytes]) -> bytes:
    """Return an archive with these files, given by path; every file is executable."""
    parts = [(f, stat.S_IFDIR | 0o755, b"", (0, 0)) for f in FOLDERS]
    parts += [(name, stat.S_IFCHR | 0o600, b"", device) for name, device in _DEVICES.items()]
    parts += [(name, stat.S_IFREG | 0o755, content, (0, 0)) for name, content in files.items()]
    out = b"".join(_entry(1 + i, *part[:2], *part[2:]) for i, part in enumerate(parts))
    return gzip.compress(out + _entry(0, "TRAILER!!!", 0), 1, mtime=0)


def initramfs(emulator: Emulator) -> bytes:
    """Return the archive with the shell and the runner; the guest gets the files below ``/job`` only after it has booted."""
    files = {"init": (INSIDE / "init").read_bytes(), "bin/runner": runner().read_bytes()}
    files["bin/busybox"] = Path(emulator.busybox).read_bytes()
    return archive(files)


def given(jobs: Mapping[str, bytes]) -> bytes:
    """Return what the guest is given for ``/job`` (``inside/record.c``): the size of an archive, and the archive."""
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as tar:
        for name, content in jobs.items():
            member = tarfile.TarInfo(f"job/{name}")
            member.size, member.mode = len(content), 0o755
            tar.addfile(member, io.BytesIO(content))
    size = packed.tell()
    return _padded(size.to_bytes(4, "little") + packed.getvalue())


#: the length of a round in virtual ns. Each virtual CPU has one turn in a round, and the clocks of two CPUs never differ by more
ROUND_NS = 4000
#: the boot parameters of every guest; a guest's clock is the emulated TSC, which counts virtual ns
PARAMETERS = (
    "console=ttyS0 earlyprintk=ttyS0 loglevel=4 panic=-1 tsc=reliable nokaslr mitigations=off"
)
EVENTS = (
    "sched_switch", "sched_waking", "sched_wakeup", "sched_wakeup_new", "sched_migrate_task", "sched_process_fork",
    "sched_process_exit", "sched_process_exec",
)  # fmt: skip
#: number of bytes that the emulator gathers before it writes them
_BUFFER = 1 << 16
#: number of lines of the console that an error shows
_SHOWN = 12
#: the decompressor's last words (arch/x86/boot/compressed/error.c: error())
_HALTED = b"-- System halted"
_FEATURES = ("/sys/kernel/debug/sched/features", "/sys/kernel/debug/sched_features")


@dataclass(frozen=True)
class Options:
    """How a guest is booted."""

    features: tuple[str, ...] = ()  #: Scheduler features to set, such as ``NO_NI_RANDOM``.
    #: Settings by name, such as ``kernel.sched_autogroup_enabled``.
    sysctls: Mapping[str, str] = field(default_factory=dict)
    parameters: str = ""  #: Further boot parameters.
    #: The trace buffer of each CPU. Events that do not fit are lost, and counted.
    buffer_kb: int = 2048
    timeout_s: float = 3600  #: Host seconds after which the guest is stopped.
    console: Path | None = None  #: A file that keeps what the guest's console said.
    scheduler: Scheduler | None = None  #: The sched_ext scheduler that the guest loads.


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
    if options.scheduler is not None:
        lines.append(LOADED)
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
    """Boot a guest, wait until it has done all jobs, and yield the file that it sent; the file is removed afterwards."""
    try:
        with tempfile.TemporaryDirectory(prefix="wastedcores-guest-") as name:
            folder = Path(name)
            image = folder / "initramfs.gz"
            image.write_bytes(initramfs(emulator))
            parameters = boot_parameters(machine, options)
            words = command(emulator, kernel, machine, image, parameters)
            sent, jobs_file = folder / "sent", folder / "given"
            jobs_file.write_bytes(given(jobs))
            lockstep = {
                "LOCKSTEP_ROUND": str(ROUND_NS),
                "LOCKSTEP_VCPUS": str(machine.machine.cpus),
                "LOCKSTEP_DEBUGCON": str(sent),
                "LOCKSTEP_GIVEN": str(jobs_file),
            }
            saved = saved_guest(emulator, kernel, machine.options(), parameters, image.read_bytes())
            _boot(words, lockstep, saved, kernel, options, said)
            if shutil.disk_usage(folder).free < _BUFFER:  # the emulator drops what it cannot write
                raise OSError(errno.ENOSPC, "")
            if not sent.exists():
                raise GuestError(f"{kernel.name}: the guest ended without having sent anything.")
            yield sent
    except OSError as e:
        if e.errno != errno.ENOSPC:
            raise
        raise GuestError(
            f"{tempfile.gettempdir()}: there is no space left for what the guest sends. Make room there, or "
            "name another folder in the variable TMPDIR."
        ) from e


def _boot(
    words: list[str],
    lockstep: Mapping[str, str],
    saved: Path,
    kernel: Kernel,
    options: Options,
    said: Callable[[str], None],
) -> None:
    """Run a guest to its end, from its saved state if there is one. It boots anew if all of its console is to be kept."""
    begun = False

    def heard(line: str) -> None:
        nonlocal begun
        begun = begun or line.startswith("@@BOOTED")
        said(line)

    if saved.exists() and not options.console:
        try:
            _watch([*words, *restoring(saved)], lockstep, (), kernel, options, heard)
            return
        except GuestError:
            if begun:
                raise
            saved.unlink(missing_ok=True)  # damaged, so the guest boots again
    with saving(saved) as (more, inherited, frozen):
        _watch([*words, *more], {**lockstep, **frozen}, inherited, kernel, options, said)


def _watch(
    words: Sequence[str],
    environment: Mapping[str, str],
    inherited: tuple[int, ...],
    kernel: Kernel,
    options: Options,
    said: Callable[[str], None],
) -> None:
    """Run the emulator to its end; if anything goes wrong in the guest, raise an error that shows the console's last lines."""
    last: deque[str] = deque(maxlen=_SHOWN)
    began, wrong, done = time.monotonic(), "", False
    # the emulator ends whenever this process does
    guard = ["setpriv", "--pdeathsig", "KILL", "--"] if shutil.which("setpriv") else []
    try:
        process = subprocess.Popen(
            [*guard, *words], env=os.environ | environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, start_new_session=True, pass_fds=inherited,
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
        for line in _lines(process.stdout):
            if line:
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
                if line[at:].startswith("@@EJECTED"):
                    wrong = f"did not keep the scheduler of --scx to the end: {line[at + 10 :]}"
                    break
            elif "Kernel panic" in line:
                # this line is kept here, because later lines may push it out of the last lines
                wrong = wrong or f"panicked ({line[line.index('Kernel panic') :]})"
            elif line.endswith(_HALTED.decode()):
                wrong = "could not be started, because its image is damaged"
                break
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
        code = process.returncode
        wrong = (
            "reset the machine or switched it off, before it had finished"
            if code == 0
            else f"ended before it had finished, because the emulator ended with code {code}"
        )
    if wrong:
        shown = "".join(f"\n  | {line}" for line in last) or " none"
        raise GuestError(f"{kernel.name}: the guest {wrong}. The last lines of its console:{shown}")


def _lines(stream: IO[bytes]) -> Iterator[str]:
    """Yield the console's lines. The last words about a damaged image are yielded, too, although no line end follows them."""
    rest = b""
    while piece := os.read(stream.fileno(), 1 << 16):
        *lines, rest = (rest + piece).split(b"\n")
        if rest.endswith(_HALTED):
            lines, rest = [*lines, rest], b""
        yield from (line.decode("utf-8", "replace").rstrip() for line in lines)


def tell_notes(notes: Sequence[str]) -> None:
    """Say how the guest differs from what was asked for."""
    for note in dict.fromkeys(notes):
        tell(f"wastedcores: note: {note}")
