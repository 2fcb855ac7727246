"""Kernels from source: a tree, patched, configured for the guest, built, and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from tqdm import tqdm

from wastedcores.errors import UsageError
from wastedcores.files import file_digest
from wastedcores.guest.emulator import missing_of
from wastedcores.guest.kernels import Kernel, read_kernel
from wastedcores.guest.places import (
    GuestError,
    guest_cache,
    lines_of,
    made_whole,
    need_space,
    run,
    tell,
)

#: what the guest needs, beside `make allnoconfig`
CONFIG = Path(__file__).parent / "guest.config"
IMAGE = Path("arch/x86/boot/bzImage")
#: what the build needs: a program or a header, and Debian's package that has it
NEEDED = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "perl": "perl",
    "/usr/include/libelf.h": "libelf-dev",
}  # fmt: skip
BUILD_MB = 4000


def built_kernel(source: Path, patches: Sequence[Path] = (), jobs: int | None = None) -> Kernel:
    """Build a kernel from source, unless the same one is in the cache."""
    release = release_of(source)
    texts = [_read(patch) for patch in patches]
    name = "+".join((f"source:{release}", *(patch.stem for patch in patches)))
    target = guest_cache() / "built" / f"{release}-{_digest(source, texts)}"
    if (target / "kernel.json").exists():
        return read_kernel(target / "kernel.json")
    if missing := missing_of(NEEDED):
        raise GuestError(
            f"building a kernel needs {', '.join(missing)}, which {'is' if len(missing) == 1 else 'are'} not there. Install "
            f"them: apt install {' '.join(missing.values())}"
        )
    jobs = jobs or len(os.sched_getaffinity(0))
    need_space(guest_cache(), BUILD_MB, "building a kernel")
    given = (source / ".config").exists()
    took = "as long as its .config asks for" if given else "about 6 CPU minutes"
    tell(
        f"building Linux {release} with {len(texts)} patch{'' if len(texts) == 1 else 'es'}: takes {took}, here with {jobs} "
        f"compiler{'s' if jobs > 1 else ''} at a time, and needs {BUILD_MB} MB of disk while it runs and 10 MB afterwards"
    )
    log = guest_cache() / "kernel.log"
    log.write_text("")
    with made_whole(target) as part:
        tree = part / "tree"
        shutil.copytree(source, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        for patch in patches:
            run(["patch", "-p1", "-i", patch.resolve()], log, f"applying {patch.name}", tree)
        goal = "olddefconfig" if given else "allnoconfig"
        run(["make", f"KCONFIG_ALLCONFIG={CONFIG}", goal], log, "configuring the kernel", tree)
        _compile(tree, jobs, log)
        (tree / IMAGE).rename(part / "vmlinuz")
        (tree / ".config").rename(part / "config")
        shutil.rmtree(tree)
        shutil.copy(log, part / "build.log")
        kernel = Kernel(
            name, target / "vmlinuz", file_digest(part / "vmlinuz"), "" if patches else release, file_digest(part / "config")
        )  # fmt: skip
        (part / "kernel.json").write_text(
            json.dumps(asdict(kernel) | {"image": "vmlinuz"}, indent=1)
        )
    return kernel


def release_of(source: Path) -> str:
    """Return the release of a source, such as ``6.12.107``, from the first lines of its Makefile."""
    try:
        head = (source / "Makefile").read_text(errors="replace")[:2000]
    except OSError:
        head = ""
    found = dict(
        re.findall(r"^(VERSION|PATCHLEVEL|SUBLEVEL|EXTRAVERSION) *= *(\S*) *$", head, re.MULTILINE)
    )
    if not {"VERSION", "PATCHLEVEL"} <= found.keys() or not (source / "Kconfig").exists():
        raise UsageError(
            f"--source {source}: not a source of Linux. Expected a folder with a Makefile that begins with VERSION = and "
            "PATCHLEVEL =, and a Kconfig; unpack an archive of kernel.org, or `apt source linux`."
        )
    least = found.get("SUBLEVEL", "0")
    return f"{found['VERSION']}.{found['PATCHLEVEL']}.{least}{found.get('EXTRAVERSION', '')}"


def _read(patch: Path) -> bytes:
    try:
        text = patch.read_bytes()
    except OSError as e:
        raise UsageError(f"--patch {patch}: cannot be read ({e.strerror}).") from e
    if b"\n+++ " not in b"\n" + text:
        raise UsageError(
            f"--patch {patch}: not a patch; expected what `git diff` or `diff -ru` writes (no line begins with +++)."
        )
    return text


def _digest(source: Path, patches: Sequence[bytes]) -> str:
    """Return a digest that changes whenever a file of the source, a patch or the configuration does."""
    seen = hashlib.sha256(CONFIG.read_bytes())
    for text in patches:
        seen.update(hashlib.sha256(text).digest())
    seen.update(str(source.resolve()).encode())
    for folder, folders, files in os.walk(source):
        folders[:] = sorted(set(folders) - {".git"})
        for file in sorted(files):
            facts = os.lstat(os.path.join(folder, file))
            seen.update(f"{folder}/{file} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:12]


def _compile(tree: Path, jobs: int, log: Path) -> None:
    with tqdm(desc="compiling", unit="file", disable=None) as bar:
        for line in lines_of(["make", f"-j{jobs}", "bzImage"], log, "compiling the kernel", tree):
            bar.update(line.startswith("  CC "))
    if not (tree / IMAGE).exists():
        raise GuestError(
            f"compiling the kernel made no {IMAGE}; all of what was printed is in {log}."
        )
