"""A systemd as process 1 of namespaces of its own, so that a service can be installed where another program is process 1.

It has the machine's kernel, network and files, but an /etc that is a copy, an empty /var and /run, control groups of its own,
and no units besides those that a service needs. Nothing of it is left when the block ends, except what was written to /var.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path("/usr/lib/systemd/systemd")
_UNITS = Path("/usr/lib/systemd/system")
#: begins a command that ends with the process that starts it, also if that is killed
UNTIL_KILLED = ("setpriv", "--pdeathsig", "KILL")
#: `systemctl enable --now` needs the targets, and the fields of a violation need the journal
_KEPT = ["sysinit.target", "basic.target", "multi-user.target", "shutdown.target", "umount.target"]
_KEPT += ["systemd-journald.service", "systemd-journald.socket"]
_GROUPS = Path("/sys/fs/cgroup")

_BOOT = """
set -e
mount --make-rprivate /
mount --bind "$1/etc" /etc
mount --bind "$1/var" /var
mount --bind "$1/units" {units}
mount -t tmpfs tmpfs /usr/lib/systemd/system-generators
mount -t tmpfs -o mode=755 tmpfs /run
{groups}
exec env -i container=wastedcores PATH=/usr/sbin:/usr/bin:/sbin:/bin {program} --system --unit=multi-user.target \
  --log-target=journal --show-status=no
"""


def absent() -> str:
    """Return why no systemd can be started here, with what to do; an empty text if nothing is known to be missing."""
    if os.geteuid() != 0:
        return "it needs root"
    if not PROGRAM.exists() or shutil.which("nsenter") is None:
        return "no systemd: apt-get install systemd util-linux"
    return ""


@dataclass
class Booted:
    """A systemd that runs."""

    pid: int  #: of systemd, outside its namespaces
    folder: Path  #: ``etc`` and ``var`` are its own
    groups: list[Path]  #: its control group in each hierarchy

    def argv(self, *command: str) -> list[str]:
        """Return the command that runs another one beside this systemd."""
        return ["nsenter", "-t", str(self.pid), "-m", "-p", "-C", "-i", "-u", *command]

    def run(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a command beside this systemd, with more variables in its environment."""
        env = os.environ | more
        return subprocess.run(
            self.argv(*command), capture_output=True, text=True, check=False, env=env
        )

    def tell(self, unit: str, name: str) -> str:
        """Return a property of a unit."""
        return self.run("systemctl", "show", "--value", "-p", name, unit).stdout.strip()

    def group(self, unit: str, hierarchy: str) -> Path:
        """Return the control group of a unit in one hierarchy of version 1, or in the only one."""
        own = next((g for g in self.groups if g.parent.name == hierarchy), self.groups[0])
        return own / "system.slice" / unit

    def processes(self, unit: str) -> list[int]:
        """Return the processes of a unit, as this process numbers them."""
        with suppress(OSError):
            text = (self.group(unit, "systemd") / "cgroup.procs").read_text()
            return sorted(map(int, text.split()))
        return []


@contextmanager
def booted(folder: Path) -> Iterator[Booted]:
    """Run a systemd while the block runs; its files are below a folder.

    Raises
    ------
    RuntimeError
        It did not start.
    """
    shutil.copytree("/etc", folder / "etc", symlinks=True)
    (folder / "etc/fstab").unlink(missing_ok=True)
    shutil.rmtree(folder / "etc/systemd/system", ignore_errors=True)
    for name in ("etc/systemd/system", "var/lib", "var/cache", "var/tmp", "units"):
        (folder / name).mkdir(parents=True)
    for name in _KEPT:
        shutil.copy(_UNITS / name, folder / "units")
    wants = folder / "units/sysinit.target.wants"
    wants.mkdir()
    (wants / "systemd-journald.service").symlink_to("../systemd-journald.service")
    hierarchies = _hierarchies()
    groups = [Path(at) / f"wastedcores-{os.getpid()}" for at in hierarchies]
    lines = (
        [f"mount -t tmpfs -o mode=755 tmpfs {_GROUPS}"] if str(_GROUPS) not in hierarchies else []
    )
    for at, how in hierarchies.items():
        lines += [f"mkdir -p {at}", f"mount -t {how} cgroup {at}"]
    boot = folder / "boot.sh"
    boot.write_text(_BOOT.format(units=_UNITS, groups="\n".join(lines), program=PROGRAM))
    for group in groups:
        for old in group.parent.glob("wastedcores-*"):  # of a run that was killed
            number = old.name.rpartition("-")[2]
            if number.isdecimal() and not Path("/proc", number).exists():
                _remove(old)
        group.mkdir()
        if (group.parent / "cpuset.sched_load_balance").exists():
            for name in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group of version 1
                (group / name).write_text((group.parent / name).read_text())
            # balancing is on if any group asks for it, and this one must not if a provocation turns it off in the root
            (group / "cpuset.sched_load_balance").write_text("0")
    join = "".join(f'echo $$ > "{g}/cgroup.procs"\n' for g in groups)
    apart = "exec unshare --fork --kill-child --pid --mount-proc --mount --cgroup --ipc --uts"
    with (folder / "boot.log").open("w") as log:
        outer = subprocess.Popen(
            [
                *UNTIL_KILLED,
                "/bin/sh",
                "-c",
                f'{join}{apart} /bin/sh "$1/boot.sh" "$1"',
                "boot",
                folder,
            ],
            stdout=log,
            stderr=log,
            stdin=subprocess.DEVNULL,
        )
    try:
        yield _ready(outer, folder, groups)
    finally:
        outer.kill()  # and so process 1 of the namespace, with which the kernel ends all others there
        outer.wait()
        for group in groups:
            _remove(group)


def _hierarchies() -> dict[str, str]:
    """Return where each hierarchy of control groups is, with the type and the options that mount it."""
    found = {}
    for line in Path("/proc/self/mounts").read_text().splitlines():
        _, at, kind, options, *_ = line.split()
        if kind == "cgroup2" and at.startswith(str(_GROUPS)):
            found[at] = kind
        elif kind == "cgroup" and at.startswith(str(_GROUPS)):
            common = ("rw", "relatime", "nosuid", "nodev", "noexec", "xattr", "release_agent")
            which = [o for o in options.split(",") if not o.startswith(common)]
            none = ["none"] if which[0].startswith("name=") else []
            found[at] = f"cgroup -o {','.join(none + which)}"
    return found


def _ready(outer: subprocess.Popen[bytes], folder: Path, groups: list[Path]) -> Booted:
    children = Path(f"/proc/{outer.pid}/task/{outer.pid}/children")
    end = time.monotonic() + 60
    while outer.poll() is None and time.monotonic() < end:
        with suppress(OSError, ValueError):
            made = Booted(int(children.read_text()), folder, groups)
            said = made.run("systemctl", "is-system-running").stdout.strip()
            if said in ("running", "degraded"):
                return made
        time.sleep(0.1)
    raise RuntimeError(f"systemd did not start: {(folder / 'boot.log').read_text()[-500:]}")


def _remove(group: Path) -> None:
    """Remove a control group and those in it, whose processes are ending."""
    end = time.monotonic() + 10
    while group.exists() and time.monotonic() < end:
        for below in sorted((p for p in group.rglob("*") if p.is_dir()), reverse=True):
            with suppress(OSError):
                below.rmdir()
        with suppress(OSError):
            group.rmdir()
        time.sleep(0.05)
