"""A small emulated machine (qemu) with Debian's kernel that sees this machine's files read-only."""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
from pathlib import Path

#: the kernel modules with which the guest sees this machine's files
MODULES = ("virtio_pci", "9pnet_virtio", "9p")
_INIT = """#!/bin/busybox sh
B=/bin/busybox
$B mount -t proc proc /proc; $B mount -t sysfs sys /sys; $B mount -t devtmpfs dev /dev
for m in {modules}; do $B insmod /modules/$m.ko || echo "insmod $m failed"; done
$B mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=512000 host /host || echo "no host"
$B mount -t 9p -o trans=virtio,version=9p2000.L out /out || echo "no out"
$B mount --move /proc /host/proc; $B mount --move /sys /host/sys; $B mount --move /dev /host/dev
$B mount -t tmpfs tmp /host/tmp; $B mkdir /host/tmp/out; $B mount --bind /out /host/tmp/out
$B mount -t tracefs nodev /host/sys/kernel/tracing
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp PYTHONDONTWRITEBYTECODE=1
$B chroot /host /bin/sh -e /tmp/out/job.sh > /out/log.txt 2>&1
echo "code $?" >> /out/log.txt
$B sync
echo o > /host/proc/sysrq-trigger
$B sleep 10
"""


def missing() -> str:
    """Return the names of programs that have to be installed; empty if none."""
    need = [
        p
        for p in ("qemu-system-x86_64", "busybox", "cpio", "apt-get", "dpkg-deb")
        if not shutil.which(p)
    ]
    return ", ".join(need)


def kernel(folder: Path, newest: str = "linux-image-amd64") -> Path:
    """Unpack the kernel on which a package of Debian depends in ``folder`` without installing it, and return the folder."""
    depends = subprocess.run(
        ["apt-cache", "depends", newest], capture_output=True, text=True, check=True
    ).stdout
    names = [w for w in depends.split() if w.startswith("linux-image-")]
    package = next(w for w in names if w != newest)
    subprocess.run(
        ["apt-get", "download", "-qq", package], cwd=folder, check=True, capture_output=True
    )
    deb = next(folder.glob("linux-image-*.deb"))
    subprocess.run(["dpkg-deb", "-x", deb, folder / "x"], check=True)
    return folder / "x"


def modules(release: Path) -> dict[str, bytes]:
    """Return MODULES and the modules on which they depend by name, in the order in which they load; newer kernels pack them."""
    files = {f.name.partition(".")[0].replace("-", "_"): f for f in release.rglob("*.ko*")}
    builtin = {Path(line).stem.replace("-", "_") for line in (release / "modules.builtin").open()}
    order: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in builtin:
            return
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        depends = re.search(rb"\0depends=([^\0]*)\0", content)
        for need in depends.group(1).decode().split(",") if depends else []:
            if need:
                add(need.replace("-", "_"))
        order[name] = content

    for name in MODULES:
        add(name)
    return order


def boot(
    tree: Path,
    folder: Path,
    job: str,
    *,
    cpus: int = 4,
    nodes: int = 4,
    memory_mb: int = 512,
    seconds: int = 1700,
    before: tuple[str, ...] = (),
) -> str:
    """Run a shell script as root in the guest, where it writes its results to /tmp/out; return what it printed.

    Each node has ``memory_mb`` of memory, and ``before`` is a command that starts the emulator, such as ``chrt -r 1``.
    """
    root = folder / "initramfs"
    for d in ("bin", "modules", "host", "out", "proc", "sys", "dev"):
        (root / d).mkdir(parents=True, exist_ok=True)
    shutil.copy(shutil.which("busybox"), root / "bin/busybox")
    release = next((tree / "lib/modules").iterdir())
    loaded = modules(release)
    for name, content in loaded.items():
        (root / "modules" / f"{name}.ko").write_bytes(content)
    init = root / "init"
    init.write_text(_INIT.format(modules=" ".join(loaded)))
    init.chmod(0o755)
    names = subprocess.run(["find", "."], cwd=root, capture_output=True, check=True).stdout
    image = folder / "initramfs.cpio"
    with image.open("wb") as f:
        subprocess.run(
            ["cpio", "-o", "-H", "newc", "--quiet"], cwd=root, input=names, stdout=f, check=True
        )
    out = folder / "out"
    out.mkdir(exist_ok=True)
    (out / "job.sh").write_text(job)
    per = cpus // nodes
    numa = []
    for n in range(nodes):
        numa += ["-object", f"memory-backend-ram,id=m{n},size={memory_mb}M"]
        numa += ["-numa", f"node,nodeid={n},cpus={n * per}-{n * per + per - 1},memdev=m{n}"]
    with (folder / "console.txt").open("wb") as console:
        subprocess.run(
            [
                *before,
                "qemu-system-x86_64",
                "-machine",
                "q35",
                "-accel",
                "tcg,thread=multi",
                "-cpu",
                "max",
                "-smp",
                f"{cpus},sockets={nodes},cores={per}",
                "-m",
                f"{memory_mb * nodes}M",
                *numa,
                "-name",
                "guest,debug-threads=on",
                "-nographic",
                "-no-reboot",
                "-kernel",
                str(next((tree / "boot").glob("vmlinuz-*"))),
                "-initrd",
                str(image),
                "-append",
                "console=ttyS0 quiet panic=-1 rdinit=/init nokaslr",
                "-virtfs",
                "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap",
                "-virtfs",
                f"local,path={out},mount_tag=out,security_model=none,multidevs=remap",
            ],
            check=False,
            timeout=seconds,
            stdin=subprocess.DEVNULL,
            stdout=console,
            env={**os.environ},
        )
    log = out / "log.txt"
    return (
        log.read_text()
        if log.exists()
        else (folder / "console.txt").read_text(errors="replace")[-3000:]
    )
