"""Record the live pair through tracefs in a small emulated machine with Debian's kernel.

    sudo .venv/bin/python tools/record_guest_pair.py -o out/ [--cpus 2] [--pairs 4]

tools/record_live_pair.py records the pairs in the guest (qemu without hardware virtualization), which sees this machine's
files, so the same Python and the same package run there. It writes them into the folders 1, 2, ... of out/out/pairs, and this
program prints the verdict about each. Wanted are the packages that WASTEDCORES_SLOW=1 sh tools/ci_packages.sh installs, and a
machine that is otherwise idle.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests"))
from record_live_pair import work  # noqa: E402
from support import guest  # noqa: E402

from wastedcores.invariant.checking import check  # noqa: E402
from wastedcores.trace.io import open_trace  # noqa: E402

#: Nothing is compiled: numba would compile for the emulated CPU anew, which takes minutes there. The results are the same.
JOB = """
uname -sr
mount -t tmpfs none /sys/fs/cgroup
mkdir /sys/fs/cgroup/cpuset
mount -t cgroup -o cpuset none /sys/fs/cgroup/cpuset
cd {root}
NUMBA_DISABLE_JIT=1 PYTHONPATH={root} {python} tools/record_live_pair.py --backend tracefs -o /tmp/out/pairs \\
    --name "a QEMU guest (TCG) with {cpus} CPUs" --load "otherwise idle, on a busy host" \\
    --tool record_guest_pair.py --pairs {pairs}
"""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("-o", "--output", type=Path, required=True, help="a new folder")
    parser.add_argument("--cpus", type=int, default=2, help="number of the guest's CPUs")
    parser.add_argument("--pairs", type=int, default=4, help="number of pairs to record")
    options = parser.parse_args()
    if options.output.exists():
        parser.error(f"{options.output} exists; name a folder that is to be made")
    if guest.missing():
        sys.exit(f"This needs {guest.missing()} (WASTEDCORES_SLOW=1 sh tools/ci_packages.sh).")
    options.output.mkdir(parents=True)
    job = JOB.format(root=ROOT, python=sys.executable, cpus=options.cpus, pairs=options.pairs)
    log = guest.boot(guest.kernel(options.output), options.output, job, cpus=options.cpus, nodes=1)
    print(log)
    if not log.rstrip().endswith("code 0"):
        sys.exit("The guest did not record all pairs.")
    for file in sorted(options.output.glob("out/pairs/*/*.parquet")):
        trace = open_trace(file)
        print(file.parent.name, file.stem, check(trace.with_header(window=work(trace))).verdict)


if __name__ == "__main__":
    main()
