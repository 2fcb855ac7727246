"""Loads a user's scheduler (``--scx FILE``, a BPF object for sched_ext) into the guest, if the file and the kernel allow it."""

from __future__ import annotations

import hashlib
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from wastedcores.errors import UsageError
from wastedcores.files import find
from wastedcores.guest.emulator import INSIDE, require, static_program
from wastedcores.guest.kernels import Kernel
from wastedcores.guest.places import GuestError, guest_cache, run

#: the name of this project's own scheduler, which is compiled when it is first used
OWN = "work-conserving"
SOURCE = "collectors/scx/work_conserving.bpf.c"
CLANG = ("clang", "-target", "bpf", "-O2", "-g", "-I/usr/include/x86_64-linux-gnu")
#: the options that a kernel's configuration must have so that the kernel can load a scheduler
CONFIG = ("BPF_SYSCALL", "BPF_JIT", "DEBUG_INFO_BTF", "SCHED_CLASS_EXT")
#: what the loader needs, and what compiling a scheduler needs
NEEDED = {"pkg-config": "pkg-config", "libbpf": "libbpf-dev"}
COMPILER = {"clang": "clang", "/usr/include/bpf/bpf_helpers.h": "libbpf-dev"}
#: the command in the guest that loads the scheduler
LOADED = "/job/scx /job/scheduler.bpf.o"
_BPF_MACHINE = (247).to_bytes(2, "little")  # elf.h: EM_BPF


@dataclass(frozen=True)
class Scheduler:
    """A scheduler that the guest's kernel runs instead of its own."""

    name: str  #: The name of its file.
    content: bytes = field(repr=False)  #: The BPF object.

    @property
    def sha256(self) -> str:
        """The digest of the file."""
        return hashlib.sha256(self.content).hexdigest()

    def files(self) -> dict[str, bytes]:
        """Return the loader and the object, by their names in the guest."""
        # A scheduler in the section .struct_ops.link is removed when the loader ends, and libbpf 1.1 does not know this section.
        # A scheduler in .struct_ops stays, so the section is renamed. Its name occurs twice: for the section and for a BTF type.
        unlinked = self.content.replace(b".struct_ops.link\0", b".struct_ops".ljust(17, b"\0"))
        return {"scx": loader().read_bytes(), "scheduler.bpf.o": unlinked}


def find_scheduler(given: str) -> Scheduler:
    """Return the scheduler that ``--scx`` asks for: the scheduler in a BPF object, or this project's own if its name is given."""
    path = _compiled() if given == OWN else Path(given)
    try:
        content = path.read_bytes()
    except OSError as e:
        raise UsageError(
            f"--scx {given}: cannot be read ({e.strerror}). Expected a BPF object, or {OWN}."
        ) from e
    if content[:5] != b"\x7fELF\x02" or content[18:20] != _BPF_MACHINE:
        raise UsageError(
            f"--scx {given}: not a BPF object (the file is no 64-bit ELF for the machine 247). Expected what `{' '.join(CLANG)} "
            "-c FILE.bpf.c -o FILE.bpf.o` makes."
        )
    if b".struct_ops" not in content or b"\0sched_ext_ops\0" not in content:
        raise UsageError(
            f"--scx {given}: a BPF object without a scheduler. Expected a section .struct_ops or .struct_ops.link with a "
            f"struct sched_ext_ops, and its type information (clang -g); {SOURCE} is an example."
        )
    return Scheduler(path.name, content)


def check_kernel(kernel: Kernel) -> None:
    """Refuse a kernel whose configuration shows that it cannot load a scheduler; if it is not known, the guest's loader tries."""
    file = kernel.image.with_name("config")
    if not kernel.config_sha256 or not file.exists():
        return
    there = set(file.read_text().splitlines())
    if lacks := [name for name in CONFIG if f"CONFIG_{name}=y" not in there]:
        raise GuestError(
            f"{kernel.name}: the kernel cannot load the scheduler of --scx: its configuration lacks "
            f"{', '.join(f'CONFIG_{name}' for name in lacks)}. Expected Linux 6.12 or later with these built in. Debian's "
            "6.18 has them (--kernel debian:6.18); a kernel of your own needs a .config with them."
        )


def loader() -> Path:
    """Return the program that loads a scheduler in the guest; it is compiled unless the cache has it from the same source."""
    require(
        NEEDED, "the program that loads a scheduler inside of the guest has to be linked, which"
    )
    asked = ["pkg-config", "--static", "--cflags", "--libs", "libbpf"]
    libraries = subprocess.run(asked, capture_output=True, text=True, check=True).stdout.split()
    parts = [INSIDE / "scx" / "load.c"]
    return static_program("scx", "loads a scheduler", parts, [], libraries)


def _compiled() -> Path:
    """Return the object of this project's own scheduler; it is compiled unless the cache has it from the same source."""
    source = find(*SOURCE.split("/"))
    digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
    target = guest_cache() / f"work_conserving-{digest}.bpf.o"
    if not target.exists():
        require(COMPILER, f"compiling {OWN}")
        made = target.with_suffix(".part")
        options = [f"-fdebug-prefix-map={source.parent}=.", "-c", source.name, "-o", str(made)]
        run([*CLANG, *options], guest_cache() / "scx.log", f"compiling {OWN}", source.parent)
        made.rename(target)
    return target
