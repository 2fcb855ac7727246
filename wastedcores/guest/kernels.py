"""Kernels by name: ``debian:6.12`` and the like, fetched from Debian's packages, or the image in a file."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tqdm import tqdm

from wastedcores.errors import UnknownKernelError, UsageError
from wastedcores.files import file_digest
from wastedcores.guest.debian import Packages, open_packages
from wastedcores.guest.emulator import require
from wastedcores.guest.places import (
    PART,
    GuestError,
    guest_cache,
    lines_of,
    made_whole,
    need_space,
    run,
    tell,
)
from wastedcores.kernels import KernelModel

#: the file of configuration options that a guest needs in addition to those of `make allnoconfig`
CONFIG = Path(__file__).parent / "guest.config"
IMAGE = Path("arch/x86/boot/bzImage")
#: what the build needs: a program or a header -> Debian's package that has it
NEEDED = {
    "gcc": "gcc", "make": "make", "flex": "flex", "bison": "bison", "bc": "bc", "patch": "patch", "perl": "perl",
    "/usr/include/libelf.h": "libelf-dev",
}  # fmt: skip
BUILD_MB = 4000


def built_kernel(source: Path, patches: Sequence[Path] = (), jobs: int | None = None) -> Kernel:
    """Build a kernel from source, unless the cache has a kernel built from the same source and patches."""
    release = release_of(source)
    texts = [_read(patch) for patch in patches]
    name = "+".join((f"source:{release}", *(patch.stem for patch in patches)))
    target = guest_cache() / "built" / f"{release}-{_digest(source, texts)}"
    if (target / "kernel.json").exists():
        return read_kernel(target / "kernel.json")
    require(NEEDED, "building a kernel")
    jobs = jobs or len(os.sched_getaffinity(0))
    need_space(guest_cache(), BUILD_MB, "building a kernel")
    given = (source / ".config").exists()
    took = "as long as its .config asks for" if given else "about 6 CPU minutes"
    tell(
        f"building Linux {release} with {len(texts)} patch{'' if len(texts) == 1 else 'es'}: takes {took}, here with {jobs} "
        f"compiler{'s' if jobs > 1 else ''} at a time, and needs {BUILD_MB} MB of disk while it runs and 10 MB afterwards"
    )
    log = guest_cache() / "kernel.log"
    with made_whole(target) as part:
        if part is None:
            return read_kernel(target / "kernel.json")
        log.write_text("")
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
    """Return the release of a kernel's source, such as ``6.12.107``, from the first lines of its Makefile."""
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
    """Return a digest that changes whenever a file of the source, a patch or the configuration changes."""
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


# names of packages with kernels, but not of those that end in -rt or -cloud
_PACKAGE = re.compile(r"linux-image-(\d+\.\d+\.\d[\w.+~]*(?:-\d+)?)-amd64")


@dataclass(frozen=True)
class Kernel:
    """A kernel that can be booted.

    Attributes
    ----------
    name
        The name by which it was asked for.
    image
        Its compressed image.
    sha256
        The image's digest.
    version
        Version of its package, such as ``6.12.107-1``; empty for a file.
    config_sha256
        The digest of its configuration; empty if this is not known.
    """

    name: str
    image: Path
    sha256: str
    version: str = ""
    config_sha256: str = ""

    @classmethod
    def of_image(cls, path: Path) -> Kernel:
        """Take the image in a file."""
        try:
            with path.open("rb") as f:
                head = f.read(0x210)
        except OSError as e:
            raise GuestError(f"{path}: cannot be read ({e.strerror}).") from e
        # Documentation/arch/x86/boot.rst: the magic number of the boot protocol
        if len(head) < 0x210 or head[0x202:0x206] != b"HdrS":
            raise GuestError(
                f"{path}: not a compressed kernel image for x86 (the file has no boot header at 0x202). Expected a bzImage, "
                "such as arch/x86/boot/bzImage of a built tree, or a /boot/vmlinuz-RELEASE; not vmlinux and not a package."
            )
        return cls(path.name, path, file_digest(path))

    def model(self, features: tuple[str, ...] = ()) -> str | None:
        """Return the name of the model of this kernel with some features; None if its release or a feature is not modelled."""
        if not self.release:
            return None
        try:
            return KernelModel.named("+".join((f"v{self.release}", *features))).name
        except UnknownKernelError:
            return None

    @property
    def release(self) -> str:
        """The stable release of its package, such as ``6.1.192``; empty if nothing tells it."""
        return self.version.partition("-")[0]


def _folder() -> Path:
    return guest_cache() / "kernels"


def fetched_kernels() -> list[Kernel]:
    """Return the kernels in the cache, the newest last."""
    files = [f for f in _folder().glob("*/kernel.json") if f.parent.suffix != PART]
    return sorted(map(read_kernel, files), key=lambda k: _order(k.version))


def read_kernel(file: Path) -> Kernel:
    """Return the kernel that a file in the cache describes."""
    told = json.loads(file.read_text())
    return Kernel(
        told["name"],
        file.parent / "vmlinuz",
        told["sha256"],
        told["version"],
        told["config_sha256"],
    )


def _of_name(name: str) -> str:
    """Return the release in a name such as ``debian:6.12``."""
    match = re.fullmatch(r"debian:(\d+\.\d+[\w.+~-]*)", name)
    if not match:
        raise UsageError(
            f"--kernel {name}: expected debian: and a release, such as debian:6.12 (`wastedcores guest kernels` lists them). A "
            "kernel of your own: --bzimage FILE."
        )
    return match[1]


def find_kernel(name: str) -> Kernel:
    """Return a kernel by name, from the cache or else from Debian's packages.

    The name is ``debian:`` and the beginning of a release, such as ``debian:6.12``.
    """
    release = _of_name(name)
    for kernel in reversed(fetched_kernels()):
        if _matches(kernel.name, release) or _matches(kernel.version, release):
            return kernel
    return fetch_kernel(name)


def _matches(known: str, release: str) -> bool:
    known = known.removeprefix("debian:")
    return known.startswith(release) and not known[len(release) : len(release) + 1].isdigit()


def available_kernels() -> dict[str, str]:
    """Return the kernels that Debian's packages have now, newest last: release -> version of its package."""
    return _available(open_packages("a kernel", sources=False))


def _available(packages: Packages) -> dict[str, str]:
    found = packages.versions("linux-image-")
    kernels = {m[1]: v for n, v in found.items() if (m := _PACKAGE.fullmatch(n))}
    return {r: kernels[r] for r in sorted(kernels, key=lambda r: _order(kernels[r]))}


def _order(version: str) -> list[int]:
    # "~" sorts before everything, even the end (deb-version(7))
    return [-1 if n == "~" else int(n) for n in re.findall(r"\d+|~", version)] + [0]


def fetch_kernel(name: str) -> Kernel:
    """Fetch the newest kernel of this name (see :func:`find_kernel`) from Debian's packages, and keep it."""
    release = _of_name(name)
    packages = open_packages(f"the kernel {name}", sources=False)
    found = _available(packages)
    fitting = [r for r, v in found.items() if _matches(r, release) or _matches(v, release)]
    if not fitting:
        raise GuestError(
            f"{name}: Debian's packages have no such kernel now, only {', '.join(f'debian:{r}' for r in found) or 'none'}. A "
            "kernel of your own: --bzimage FILE."
        )
    chosen = fitting[-1]
    need_space(guest_cache(), 900, "unpacking a kernel's package")
    tell(f"fetching the kernel {chosen} {found[chosen]} (10 to 110 MB) ...")
    # from 7.2 on, the image and its configuration lie in two different packages
    parts = [f"linux-{kind}-{chosen}-amd64" for kind in ("binary", "base")]
    names = parts if packages.versions(parts[0]) else [f"linux-image-{chosen}-amd64"]
    target = _folder() / f"{chosen}-{found[chosen]}".replace(":", "_")
    with made_whole(target) as part:
        if part is None:
            return read_kernel(target / "kernel.json")
        for package in packages.download(names, part):
            packages.unpack(package, part / "x")
            package.unlink()
        images = sorted(f for f in (part / "x").rglob("vmlinuz*") if f.is_file())
        if not images:
            raise GuestError(f"{', '.join(names)}: there is no kernel image in these packages.")
        images[0].rename(part / "vmlinuz")
        config = next((part / "x").rglob("config-*"), None)
        digest = file_digest(config) if config else ""
        if config:
            config.rename(part / "config")
        shutil.rmtree(part / "x")
        kernel = Kernel(
            f"debian:{chosen}",
            target / "vmlinuz",
            file_digest(part / "vmlinuz"),
            found[chosen],
            digest,
        )
        told = asdict(kernel) | {"image": "vmlinuz"}
        (part / "kernel.json").write_text(json.dumps(told, indent=1))
    return kernel
