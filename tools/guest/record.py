"""Record loads whose truth is known in small emulated machines with Debian's kernels (tests/invariant/guest/README.md).

    sudo .venv/bin/python tools/guest/record.py idle_machines --kernel 6.1 --cpus 4 -o out/ [NAME ...]

The guest is emulated (QEMU without hardware virtualization) and sees this machine's files, so trace-cmd, perf and this
package run there as they are installed here. Wanted are the packages that WASTEDCORES_SLOW=1 sh tools/ci_packages.sh
installs, gcc, and a machine that is otherwise idle and has at least as many CPUs as the load keeps busy.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests"))
from support import guest  # noqa: E402

PACKAGES = {"6.1": "linux-image-amd64", "6.12": "linux-image-6.12-amd64"}
#: numba would compile for the emulated CPU anew, and trace-cmd would store a megabyte of symbols that nobody reads
JOB = """
uname -sr
touch /tmp/none; mount --bind /tmp/none /proc/kallsyms
cd {here}
export NUMBA_DISABLE_JIT=1 PYTHONPATH={root}
{python} {here}/{script}.py {names}
"""


#: A virtual CPU that waits for a CPU of this machine looks like one that computes, so the emulator comes first here, and its
#: timers (all threads that are no virtual CPU) come before its virtual CPUs.
FIRST = ("chrt", "-r", "2")
#: How many ms a thread under SCHED_RR may keep its CPU while another one waits: sched(7), "SCHED_RR: Round-robin scheduling"
SLICE = Path("/proc/sys/kernel/sched_rr_timeslice_ms")


#: An idle machine tells nothing if its virtual CPUs waited for this machine for a larger share of the time.
MOST_DELAY = 0.05


class Host(threading.Thread):
    """Sets the priorities of the virtual CPUs, and measures how long they waited for a CPU of this machine meanwhile.

    Such a wait is time that passes in the guest without being its scheduler's doing.
    """

    def __init__(self, out: Path) -> None:
        super().__init__(daemon=True)
        self.out, self.ended = out, threading.Event()
        self.threads: dict[str, Path] = {}
        self.waited: dict[str, dict[str, int]] = {}

    def run(self) -> None:
        began: dict[str, dict[str, int]] = {}
        while not self.ended.wait(0.1):
            self._find()
            names = {f.name.removesuffix(".started") for f in self.out.glob("*.started")}
            for name in names - began.keys():
                began[name] = self._delays()
            for name in began.keys() - names - self.waited.keys():
                self.waited[name] = {
                    t: d - began[name].get(t, 0) for t, d in self._delays().items()
                }

    def _find(self) -> None:
        """Find the threads of this program's guest, and lower the priority of those that are virtual CPUs."""
        kids = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        kids += [
            k for t in Path("/proc/self/task").glob("*/children") for k in t.read_text().split()
        ]
        for thread in (t for kid in set(kids) for t in Path(f"/proc/{kid}/task").glob("*")):
            try:
                name = (thread / "comm").read_text().strip()
                if name.endswith("/TCG") and name not in self.threads:
                    os.sched_setscheduler(int(thread.name), os.SCHED_RR, os.sched_param(1))
                    self.threads[name] = thread
            except OSError:
                continue  # it has ended

    def _delays(self) -> dict[str, int]:
        return {n: int((t / "schedstat").read_text().split()[1]) for n, t in self.threads.items()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", help="the loads: a module beside this one, without .py")
    parser.add_argument("names", nargs="*", help="only these loads")
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--kernel", choices=PACKAGES, default="6.1")
    parser.add_argument("--cpus", type=int, default=4, help="number of the guest's CPUs")
    parser.add_argument(
        "--tree", type=Path, help="an unpacked kernel package, instead of downloading it"
    )
    parser.add_argument("--seconds", type=int, default=560, help="give up after so long")
    options = parser.parse_intermixed_args()
    if guest.missing():
        sys.exit(f"This needs {guest.missing()} (WASTEDCORES_SLOW=1 sh tools/ci_packages.sh).")
    options.output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        record(folder, options)


def record(folder: Path, options: argparse.Namespace) -> None:
    """Boot the guest once, let it record, and pack what it wrote."""
    out = folder / "out"
    out.mkdir()
    here = Path(__file__).parent
    build = ["gcc", "-O2", "-static", "-pthread", "-o", out / "loads", here / "loads.c", "-lm"]
    subprocess.run(build, check=True)
    tree = options.tree or guest.kernel(folder, PACKAGES[options.kernel])
    script, names = options.script, " ".join(options.names)
    job = JOB.format(root=ROOT, here=here, python=sys.executable, script=script, names=names)
    watch = Host(out)
    watch.start()
    slice_ms = SLICE.read_text()
    try:
        SLICE.write_text("4")
        log = guest.boot(
            tree,
            folder,
            job,
            cpus=options.cpus,
            nodes=1,
            memory_mb=1536,
            seconds=options.seconds,
            before=FIRST,
        )
    finally:
        SLICE.write_text(slice_ms)
        watch.ended.set()
        keep(out, options.output, watch.waited)
    print(log)
    if not log.rstrip().endswith("code 0"):
        sys.exit("The guest did not record everything.")


def keep(out: Path, kept: Path, host_delay_ns: dict[str, dict[str, int]]) -> None:
    """Pack what was recorded, and add to the facts which machine it was."""
    version = subprocess.run(
        ["qemu-system-x86_64", "--version"], capture_output=True, text=True, check=True
    ).stdout.splitlines()[0]
    for facts in out.glob("*.json"):
        if facts.name.endswith(".snapshot.json"):
            continue
        told = json.loads(facts.read_text())
        host = f"on a host of {os.cpu_count()} CPUs"
        told["machine"] = f"{version}, TCG, a thread per virtual CPU (SCHED_RR), {host}"
        told["host_delay_ns"] = delays = host_delay_ns.get(told["name"], {})
        share = sum(delays.values()) / (1e9 * told["counted"]["seconds"] * told["cpus"])
        if told["class"] == "idle machines" and not (delays and share <= MOST_DELAY):
            print(f"{told['name']}: not kept, its CPUs waited {share:.1%} of the time for the host")
            continue
        (kept / facts.name).write_text(json.dumps(told, indent=1) + "\n")
        for file in out.glob(f"{told['name']}.*"):
            if file != facts and file.is_file():
                packed = lzma.compress(file.read_bytes(), preset=9)
                (kept / f"{file.name}.xz").write_bytes(packed)


if __name__ == "__main__":
    main()
