"""Build checker.bpf.o of the collectors, the programs of the online checker, for machines without a compiler: ``make bpf``.

It needs clang, libbpf-dev and llvm (for llvm-strip). The object is for all x86-64 kernels since 5.8 that have BTF. ``make dist``
puts it into the wheel, and it is not committed. The same clang makes the same bytes of the same sources.
"""

from __future__ import annotations

import importlib
import shutil
import subprocess
import sys
from pathlib import Path

COLLECTORS = Path(__file__).resolve().parents[1] / "collectors"
CLANG = ["clang", "-target", "bpf", "-D__TARGET_ARCH_x86", "-O2", "-g", "-Wall", "-Werror"]
#: loops whose bound is known only when the object is loaded are not unrolled, which is no mistake
ALLOWED = ["-Wno-unused-function", "-Wno-pass-failed"]
#: the headers of Debian's and Ubuntu's libc are beside those of the processor
INCLUDE = ["-I/usr/include/x86_64-linux-gnu"]


def build(to: Path) -> None:
    """Compile the object and leave only what libbpf reads; raises CalledProcessError."""
    sys.path.insert(0, str(COLLECTORS))
    digest = importlib.import_module("_object").digest()
    flags = [*ALLOWED, *INCLUDE, f'-DSOURCES="{digest}"', f"-fdebug-prefix-map={COLLECTORS}=."]
    subprocess.run([*CLANG, *flags, "-c", "checker.c", "-o", to], cwd=COLLECTORS, check=True)
    strip = shutil.which("llvm-strip") or shutil.which("llvm-strip-14")
    if strip:
        subprocess.run([strip, "-g", to], check=True)


if __name__ == "__main__":
    if not shutil.which("clang"):
        sys.exit("there is no clang: sudo apt-get install clang llvm libbpf-dev")
    build(COLLECTORS / "checker.bpf.o")
