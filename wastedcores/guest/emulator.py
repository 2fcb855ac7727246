"""The emulator: QEMU from Debian's source with this project's patch, which makes virtual CPUs advance in lockstep.

docs/guest.md says why a plugin for an unmodified QEMU cannot do this.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

from wastedcores.guest.debian import Packages, open_packages
from wastedcores.guest.places import (
    GuestError,
    guest_cache,
    lines_of,
    made_whole,
    need_space,
    run,
    tell,
)

_HERE = Path(__file__).parent
PATCH = _HERE / "lockstep.patch"
INSIDE = _HERE / "inside"
#: digest of the upstream source of Debian 12's package; security updates of the package are patches to this source
SOURCE_SHA256 = "91aca71520040edc40b8d437aa3004dae614f58e286cf653ee8996c07af2962f"
CONFIGURE = (
    "--target-list=x86_64-softmmu", "--without-default-features", "--enable-tcg", "--enable-system", "--disable-docs",
    "--disable-tools", "--disable-user", "--disable-werror", "--without-default-devices", "--disable-install-blobs",
    "--enable-fdt=system",
)  # fmt: skip
TARGET = "qemu-system-x86_64"
#: what the build needs: a program, a file, or a library's pkg-config name -> Debian's package that has it
NEEDED = {
    "gcc": "gcc", "make": "make", "ninja": "ninja-build", "meson": "meson", "pkg-config": "pkg-config", "flex": "flex",
    "bison": "bison", "patch": "patch", "dpkg-source": "dpkg-dev", "python3": "python3",
    "glib-2.0": "libglib2.0-dev", "pixman-1": "libpixman-1-dev", "/usr/include/libfdt.h": "libfdt-dev", "libc.a": "libc6-dev",
}  # fmt: skip
_LIBRARIES = ("glib-2.0", "pixman-1", "libbpf")
BUILD_MB = 1500


@dataclass(frozen=True)
class Emulator:
    """The emulator with which a guest is booted."""

    folder: Path  #: Its folder in the cache.
    version: str  #: QEMU's version, with that of Debian's package.
    patch_sha256: str  #: The digest of our patch.

    @property
    def program(self) -> Path:
        """The emulator itself."""
        return self.folder / TARGET

    @property
    def firmware(self) -> list[Path]:
        """The folders of the firmware that it loads."""
        return [self.folder / "firmware/usr/share" / name for name in ("seabios", "qemu")]

    @property
    def busybox(self) -> Path:
        """The programs of the guest's shell."""
        return self.folder / "firmware/bin/busybox"


def _name() -> str:
    """Return the name of the emulator's folder; it is different for each patch and each set of options."""
    seen = hashlib.sha256(PATCH.read_bytes() + " ".join(CONFIGURE).encode())
    return f"emulator-{seen.hexdigest()[:12]}"


def find_emulator() -> Emulator:
    """Return the emulator that was built, or raise an error that says how to build one."""
    folder = guest_cache() / _name()
    if not has_emulator():
        raise GuestError(
            "there is no emulator whose virtual CPUs advance in lockstep yet. Build it once: `wastedcores guest build` (about 6 "
            "CPU minutes; it says before what it fetches)."
        )
    told = json.loads((folder / "emulator.json").read_text())
    return Emulator(folder, told["version"], told["patch_sha256"])


def has_emulator() -> bool:
    """Tell whether the emulator was built."""
    return (guest_cache() / _name() / "emulator.json").exists()


def missing_of(needed: Mapping[str, str]) -> dict[str, str]:
    """Return the programs, libraries and headers that a build needs and this machine lacks, with the packages that have them."""
    return {need: package for need, package in needed.items() if not _is_there(need)}


def require(needed: Mapping[str, str], purpose: str) -> None:
    """Raise an error if this machine lacks something that a build needs; the error tells how to install it."""
    if missing := missing_of(needed):
        raise GuestError(
            f"{purpose} needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there. Install "
            f"them: apt install {' '.join(missing.values())}"
        )


def _is_there(need: str) -> bool:
    if need.startswith("/"):
        return Path(need).exists()
    if need == "libc.a":
        if not shutil.which("gcc"):
            return False
        told = subprocess.run(
            ["gcc", "-print-file-name=libc.a"], capture_output=True, text=True, check=False
        )
        return Path(told.stdout.strip()).is_absolute()
    if need in _LIBRARIES:
        if not shutil.which("pkg-config"):
            return False
        return subprocess.run(["pkg-config", "--exists", need], check=False).returncode == 0
    return shutil.which(need) is not None


def build_emulator(source: Path | None = None, jobs: int | None = None) -> Emulator:
    """Fetch, patch and compile the emulator with ``jobs`` compilers at a time, unless the cache has it already.

    ``source`` is a folder with the unpacked source of QEMU 7.2, which is not changed; None stands for Debian 12's source.
    """
    try:
        return find_emulator()
    except GuestError:
        pass
    require(NEEDED, "building the emulator")
    jobs = jobs or len(os.sched_getaffinity(0))
    need_space(guest_cache(), BUILD_MB, "building the emulator")
    tell(
        f"building QEMU 7.2 with the lockstep patch: fetches 25 MB, needs {BUILD_MB} MB of disk while it runs and 50 MB "
        f"afterwards, and takes about 6 CPU minutes, here with {jobs} compiler{'s' if jobs > 1 else ''} at a time"
    )
    log = guest_cache() / "build.log"
    target = guest_cache() / _name()
    began = time.monotonic()
    with made_whole(target) as part:
        if part is None:
            return find_emulator()
        log.write_text(f"began {time.strftime('%Y-%m-%d %H:%M:%S')}\n")
        packages = open_packages("the emulator's source and its firmware", sources=True)
        for package in packages.download(["qemu-system-data", "seabios", "busybox-static"], part):
            packages.unpack(package, part / "firmware")
            package.unlink()
        tree, version = _source(source, packages, part, log)
        run(["patch", "-p1", "-i", PATCH], log, "applying the lockstep patch", tree)
        _compile(tree, jobs, log)
        (tree / "build" / TARGET).rename(part / TARGET)
        shutil.copytree(
            tree / "pc-bios", part / "firmware/usr/share/qemu", dirs_exist_ok=True, symlinks=True
        )
        shutil.rmtree(part / "tree", ignore_errors=True)
        shutil.copy(log, part / "build.log")
        digest = hashlib.sha256(PATCH.read_bytes()).hexdigest()
        program = hashlib.sha256((part / TARGET).read_bytes()).hexdigest()
        told = {
            "version": version,
            "patch_sha256": digest,
            "program_sha256": program,
            "configure": CONFIGURE,
            "jobs": jobs,
            "seconds": round(time.monotonic() - began),
        }
        (part / "emulator.json").write_text(json.dumps(told, indent=1))
    tell(f"built {target / TARGET}; the log is {target / 'build.log'}")
    return find_emulator()


def _source(given: Path | None, packages: Packages, part: Path, log: Path) -> tuple[Path, str]:
    """Put the source into a separate folder, so that it can be changed; return the folder and the version."""
    tree = part / "tree" / "qemu"
    tree.parent.mkdir()
    if given is not None:
        if not (given / "VERSION").exists() or not (given / "VERSION").read_text().startswith(
            "7.2"
        ):
            raise GuestError(
                f"--source {given}: not a source of QEMU 7.2, for which the patch is made (its file VERSION says so). Leave the "
                "option out to take Debian 12's."
            )
        shutil.copytree(given, tree, symlinks=True)
        return tree, (tree / "VERSION").read_text().strip()
    description = packages.download_source("qemu/bookworm", tree.parent)
    whole = next(tree.parent.glob("qemu_*.orig.tar.*"))
    digest = hashlib.sha256(whole.read_bytes()).hexdigest()
    if digest != SOURCE_SHA256:
        raise GuestError(
            f"{whole.name}: its SHA-256 is {digest}, expected {SOURCE_SHA256}: the archive has another upstream source than the "
            "one for which the patch was made. Unpack a source of QEMU 7.2 yourself and give it: `guest build --source DIR`."
        )
    run(
        ["dpkg-source", "--no-check", "-x", description, tree],
        log,
        "unpacking the source",
        tree.parent,
    )
    return tree, description.stem.removeprefix("qemu_")


def _compile(tree: Path, jobs: int, log: Path) -> None:
    build_folder = tree / "build"
    build_folder.mkdir(exist_ok=True)
    meson = shutil.which("meson") or "meson"
    tell("configuring ...")
    run(
        ["../configure", f"--meson={meson}", *CONFIGURE],
        log,
        "configuring the emulator",
        build_folder,
    )
    with tqdm(desc="compiling", unit="file", total=1240, disable=None) as bar:
        fifths = 0
        for line in lines_of(
            ["ninja", f"-j{jobs}", TARGET], log, "compiling the emulator", build_folder
        ):
            if step := re.match(r"\[(\d+)/(\d+)\]", line):
                bar.total = int(step[2])
                bar.update(int(step[1]) - bar.n)
                if bar.disable and int(step[1]) * 5 // bar.total > fifths:  # no terminal, no bar
                    fifths += 1
                    tell(f"compiled {20 * fifths} %")


def inside_sha256() -> str:
    """Return the digest of the programs that run inside of every guest. Other programs would change a guest's events a little."""
    parts = sorted(f for f in INSIDE.iterdir() if f.is_file())
    return hashlib.sha256(b"".join(f.read_bytes() for f in parts)).hexdigest()


def runner() -> Path:
    """Return the program that runs jobs inside of the guest; it is compiled unless the cache has it from the same source."""
    parts = sorted(INSIDE.glob("*.[ch]"))
    return static_program("runner", "runs workloads", parts, ["-pthread"], ["-lm"])


def static_program(
    name: str, purpose: str, parts: list[Path], options: list[str], libraries: list[str]
) -> Path:
    """Return a program for the guest; it is compiled unless the cache has it from the same source."""
    digest = hashlib.sha256(b"".join(p.read_bytes() for p in parts)).hexdigest()[:12]
    program = guest_cache() / f"{name}-{digest}"
    if not program.exists():
        if not shutil.which("gcc") or not _is_there("libc.a"):
            raise GuestError(
                f"the program that {purpose} inside of the guest has to be compiled, and there is no gcc or no static C "
                "library. Install them: apt install gcc libc6-dev"
            )
        made = program.with_suffix(f".{os.getpid()}")
        sources = [p for p in parts if p.suffix == ".c"]
        command: list[str | Path] = ["gcc", "-O2", "-static", *options, "-o", made]
        command += [*sources, *libraries]
        run(command, guest_cache() / f"{name}.log", f"compiling the guest's {name}")
        made.rename(program)
    return program
