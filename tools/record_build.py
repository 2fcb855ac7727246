"""Record a real build: Linux's own directory kernel/sched, as in the fork/wait paper (root, BPF, gcc and make).

    sudo .venv/bin/python tools/record_build.py -o out/ --source /usr/src/linux-source-6.1

The source is a tree of Linux, for example that of Debian's package linux-source-6.1 (which needs flex, bison, bc, libelf-dev and
libssl-dev). It is cleaned and configured first, which is not recorded. The files of the compiler and of the source are read once
before the recording, so that the build does not wait for the disk. This writes out/kernel-build.parquet and facts about the
machine.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
from pathlib import Path

from wastedcores.capture.record import capture

NAME = "kernel-build"
#: what a workload is recovered from; runqueue lengths follow from these
EVENTS = ("switch", "wakeup", "wakeup_new", "migrate", "fork", "exec", "exit")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="the folder to write into")
    parser.add_argument("--source", type=Path, required=True, help="the tree of Linux")
    parser.add_argument("--target", default="kernel/sched/", help="what make builds")
    parser.add_argument("--config", default="defconfig", help="the configuration that make writes")
    parser.add_argument("--jobs", type=int, default=32, help="make -j")
    parser.add_argument(
        "--name", default="a virtual machine", help="the name of this machine in the data"
    )
    parser.add_argument(
        "--load", default="not otherwise idle", help="how busy this machine is, in the data"
    )
    options = parser.parse_args()
    if not (options.source / "kernel" / "sched").is_dir():
        sys.exit(f"{options.source} is no tree of Linux.")
    options.output.mkdir(parents=True, exist_ok=True)
    make = ["make", "-C", str(options.source)]
    build = [*make, f"-j{options.jobs}", options.target]
    for warm in (True, False):
        subprocess.run([*make, "-s", "mrproper"], check=True)
        subprocess.run([*make, "-s", options.config], check=True)
        if warm:
            subprocess.run(build, check=True, stdout=subprocess.DEVNULL)
    file = options.output / f"{NAME}.parquet"
    told = capture(file, run=build, events=EVENTS, backend="bpf", progress=print).header
    if "exit code" in told.provenance or told.lost_total or told.truncated_last_line:
        sys.exit(f"{file}: the build failed, or events were lost; record it again.")
    cpuinfo = Path("/proc/cpuinfo").read_text().splitlines()
    models = (s.partition(":")[2].strip() for s in cpuinfo if "model name" in s)
    version = subprocess.run(
        [*make, "-s", "kernelversion"], check=True, capture_output=True, text=True
    )
    compiler = subprocess.run(["gcc", "--version"], check=True, capture_output=True, text=True)
    facts = {
        "name": options.name,
        "model": next(models, platform.machine()),
        "load": options.load,
        "built": f"{options.target} of Linux {version.stdout.strip()}, {options.config}, make -j{options.jobs}",
        "compiler": compiler.stdout.splitlines()[0],
        "tool": Path(__file__).name,
    }
    (options.output / "build.json").write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
