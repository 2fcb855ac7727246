"""Fetches packages of Debian without installing them; apt checks their signatures, and its package lists are in our cache.

The packages come from the addresses that this machine's apt uses, so a local mirror is used if there is one.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from wastedcores.guest.places import GuestError, guest_cache, run, tell

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
#: the suites of Debian that are searched for kernels, and the suite whose emulator is patched
SUITES = (
    "bookworm", "bookworm-updates", "bookworm-backports", "trixie", "trixie-updates", "trixie-backports", "sid",
)  # fmt: skip
EMULATOR_SUITE = "bookworm"


def mirrors() -> dict[str, str]:
    """Return the addresses from which this machine's apt takes Debian's packages: ``main``, and ``security`` if it has this."""
    found: dict[str, str] = {}
    if shutil.which("apt-get"):
        told = subprocess.run(
            ["apt-get", "indextargets", "--format", "$(ORIGIN) $(RELEASE) $(REPO_URI)", "Created-By: Packages"],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        for line in told.stdout.splitlines():
            origin, release, address = line.split(" ", 2)
            if origin == "Debian":
                found["security" if release.endswith("-security") else "main"] = address
    return found


@dataclass(frozen=True)
class Packages:
    """Debian's packages for x86-64; their lists are in the cache, separate from the lists of this machine's apt."""

    folder: Path
    log: Path

    def _options(self) -> list[str]:
        where = self.folder
        return [
            f"-oDir::Etc::sourcelist={where}/debian.sources", "-oDir::Etc::sourceparts=-", f"-oDir::State::lists={where}/lists",
            f"-oDir::Cache={where}/cache", "-oDir::State::status=/dev/null", "-oAPT::Sandbox::User=root",
            "-oAPT::Architecture=amd64", "-oAPT::Architectures::=amd64",
        ]  # fmt: skip

    def download(self, names: list[str], into: Path) -> list[Path]:
        """Fetch packages and return their files."""
        run(["apt-get", *self._options(), "download", *names], self.log, "fetching packages", into)
        return sorted(into.glob("*.deb"))

    def download_source(self, name: str, into: Path) -> Path:
        """Fetch a source package and return its description (``.dsc``)."""
        command = ["apt-get", *self._options(), "source", "--download-only", name]
        run(command, self.log, "fetching the source", into)
        return next(into.glob("*.dsc"))

    def versions(self, prefix: str) -> dict[str, str]:
        """Return the packages whose names begin with ``prefix``, with the newest version of each."""
        names = run(
            ["apt-cache", *self._options(), "pkgnames", prefix], self.log, "listing packages"
        )
        if not names:
            return {}
        shown = run(
            ["apt-cache", *self._options(), "madison", *names], self.log, "listing packages"
        )
        found: dict[str, str] = {}
        for line in shown:
            fields = [field.strip() for field in line.split("|")]
            if len(fields) == 3 and fields[2].endswith("Packages"):
                found.setdefault(fields[0], fields[1])
        return found

    def unpack(self, package: Path, into: Path) -> None:
        """Unpack a package without installing it."""
        run(["dpkg-deb", "-x", package, into], self.log, f"unpacking {package.name}")


def open_packages(purpose: str, *, sources: bool) -> Packages:
    """Update the lists of the packages or, with ``sources``, also those of the sources, and return the packages."""
    for tool in ("apt-get", "dpkg-deb"):
        if not shutil.which(tool):
            raise GuestError(
                f"{purpose} comes from Debian's packages, and this machine has no {tool}. Use Debian 12 or 13 (a container will "
                "do), or give files of your own: `guest build --source DIR`, `guest record --bzimage FILE`."
            )
    found = mirrors()
    if "main" not in found or not KEYRING.exists():
        raise GuestError(
            f"{purpose} comes from Debian's packages, and this machine's apt "
            + (
                f"has no keys for them in {KEYRING}"
                if "main" in found
                else "has no address of them"
            )
            + ". Add Debian's own archive (apt install debian-archive-keyring), or give files of your own: `guest build --source "
            "DIR`, `guest record --bzimage FILE`."
        )
    folder = guest_cache() / ("sources" if sources else "packages")
    for part in ("lists/partial", "cache/archives/partial"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    kind = "deb deb-src" if sources else "deb"
    suites: tuple[str, ...] = (EMULATOR_SUITE,) if sources else SUITES
    entries = [(found["main"], suites)]
    if "security" in found:
        suites = ("bookworm-security",) if sources else ("bookworm-security", "trixie-security")
        entries.append((found["security"], suites))
    (folder / "debian.sources").write_text(
        "\n".join(
            f"Types: {kind}\nURIs: {address}\nSuites: {' '.join(suites)}\nComponents: main\nSigned-By: {KEYRING}\n"
            for address, suites in entries
        )
    )
    packages = Packages(folder, folder / "log.txt")
    packages.log.write_text("")
    tell("updating the lists of Debian's packages ...")
    purpose = f"{purpose}: updating the lists of Debian's packages (is the network there?)"
    try:
        run(
            ["apt-get", *packages._options(), "-oAPT::Update::Error-Mode=any", "update"],
            packages.log,
            purpose,
        )
    except GuestError:
        if not any((folder / "lists").glob("*Packages*")):
            raise
        tell("wastedcores: note: the lists could not all be updated; those that are there are used")
    return packages
