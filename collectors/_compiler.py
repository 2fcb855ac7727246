# SPDX-License-Identifier: GPL-2.0-only
"""Compile with bcc, in a process that ends afterwards.

bcc brings clang, which would keep some 130 MB in a collector that runs for weeks.
"""

import ctypes
import os
import pickle
import platform
import re
import shutil
import socket
import struct
import sys
import tempfile
from pathlib import Path

#: libbpf's way to look into a map; bcc has its own
_LOOKUP = re.compile(r"bpf_map_lookup_elem\(&(\w+), ")
#: the kernel passes at most this many descriptors in one message (SCM_MAX_FD)
_MOST_FDS = 253


class CannotLoad(Exception):
    """BPF does not work on this machine; the message says what to do."""


def compiled(sources, flags, quiet):
    """Compile files as one text; return the descriptors of its maps and the code of its functions, by their names."""
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        try:
            _send(theirs, sources, flags, quiet)
        finally:
            os._exit(0)
    theirs.close()
    with ours, ours.makefile("rb") as stream:
        _, fds, _, _ = socket.recv_fds(ours, 1, _MOST_FDS)
        answer = stream.read()
    os.waitpid(child, 0)
    if not answer:
        raise CannotLoad(
            "the process that compiled %s was killed: is there too little memory?"
            % sources[-1].name
        )
    problem, maps, code = pickle.loads(answer)
    if problem:
        raise CannotLoad(problem)
    # descriptors in the compiling process -> descriptors in this one
    here = dict(zip(maps.values(), fds, strict=True))
    return {n: here[fd] for n, fd in maps.items()}, {n: _moved(c, here) for n, c in code.items()}


def _moved(code, here):
    """Return a function's code with the descriptors of its maps replaced by those of this process."""
    code = bytearray(code)
    for at in range(0, len(code), 8):
        if (
            code[at] == 0x18 and code[at + 1] >> 4 == 1
        ):  # BPF_LD|BPF_DW|BPF_IMM of BPF_PSEUDO_MAP_FD
            (fd,) = struct.unpack_from("<i", code, at + 4)
            struct.pack_into("<i", code, at + 4, here[fd])
    return bytes(code)


def _send(out, sources, flags, quiet):
    """Compile, and send the descriptors of the maps and then (problem, maps, code)."""
    problem, maps, code = None, {}, {}
    try:
        maps, code = _compile(sources, flags, quiet)
    except (CannotLoad, OSError) as e:
        problem = str(e)
    socket.send_fds(out, [b"."], list(maps.values()))
    out.sendall(pickle.dumps((problem, maps, code)))


def _compile(sources, flags, quiet):
    try:
        from bcc import BPF, lib
    except ImportError as e:
        raise CannotLoad(
            "%s has no bcc module. Debian/Ubuntu: apt-get install python3-bpfcc; Fedora: dnf install bcc; "
            "Arch: pacman -S python-bcc. (The package `bcc` of the Python package index is something else.)"
            % sys.executable
        ) from e
    with Headers(), _Silence(quiet) as said:
        try:
            text = "\n".join(s.read_text() for s in sources)
            module = BPF(text=_LOOKUP.sub(r"\1.lookup(", text), cflags=flags)
        except Exception as e:
            errors = [
                line for line in said.text().splitlines() if "error:" in line or "headers" in line
            ]
            raise CannotLoad(
                "bcc could not compile %s (%s): %s"
                % (" + ".join(s.name for s in sources), e, "; ".join(errors[:3]))
            ) from e
    held = module.module
    for name, result, *more in (
        ("bpf_num_tables", ctypes.c_size_t),
        ("bpf_table_name", ctypes.c_char_p, ctypes.c_size_t),
        ("bpf_table_fd_id", ctypes.c_int, ctypes.c_size_t),
    ):
        getattr(lib, name).restype, getattr(lib, name).argtypes = result, [ctypes.c_void_p, *more]
    tables = range(lib.bpf_num_tables(held))
    maps = {lib.bpf_table_name(held, n).decode(): lib.bpf_table_fd_id(held, n) for n in tables}
    names = [lib.bpf_function_name(held, n) for n in range(lib.bpf_num_functions(held))]
    return maps, {name.decode(): module.dump_func(name) for name in names}


def headers_problem():
    """Return None if bcc finds headers by itself, else a header folder to show it; raises CannotLoad without any."""
    modules = Path("/lib/modules") / platform.release()
    if (modules / "build" / "include/linux/kconfig.h").exists() or (modules / "source").exists():
        return None
    if Path("/sys/kernel/kheaders.tar.xz").exists():
        return None
    found = sorted(Path("/usr/src").glob("linux-headers-*/include/linux/kconfig.h"), key=_version)
    if not found:
        raise CannotLoad(
            "no kernel headers for bcc: neither %s/build nor /usr/src/linux-headers-*. Debian/Ubuntu: "
            "apt-get install linux-headers-amd64 (Ubuntu: linux-headers-generic); Fedora: dnf install kernel-devel; "
            "Arch: pacman -S linux-headers." % modules
        )
    return found[-1].parents[2]


def _version(path):
    return [
        int(x) for x in "".join(c if c.isdigit() else " " for c in path.parents[2].name).split()
    ]


def _merge(out, folders):
    """Make a folder of links that shows several folders as one."""
    out.mkdir()
    names = {}
    for folder in folders:
        for entry in folder.iterdir() if folder.is_dir() else ():
            names.setdefault(entry.name, []).append(entry)
    for name, entries in names.items():
        if len(entries) > 1 and all(e.is_dir() for e in entries):
            _merge(out / name, entries)
        else:
            (out / name).symlink_to(entries[0])


class Headers:
    """Show bcc a complete header tree inside the block, as a temporary folder of links.

    Debian splits a kernel's headers into -amd64 (generated) and -common, and bcc looks only under /lib/modules/RELEASE,
    which does not exist for a kernel that is not the distribution's. Headers of any version will do: the programs take
    only BPF's own types from them and every kernel structure from BTF.
    """

    def __enter__(self):
        self.folder = None
        common = headers_problem()
        if common is not None and "BCC_KERNEL_SOURCE" not in os.environ:
            stem = (
                common.name[: -len("-common")] if common.name.endswith("-common") else common.name
            )
            parts = sorted(p for p in common.parent.glob(stem + "-*") if p != common)
            self.folder = tempfile.mkdtemp(prefix="wastedcores-headers-")
            _merge(Path(self.folder) / "tree", [*parts, common])
            os.environ["BCC_KERNEL_SOURCE"] = str(Path(self.folder) / "tree")
        return self

    def __exit__(self, *exc):
        if self.folder:
            del os.environ["BCC_KERNEL_SOURCE"]
            shutil.rmtree(self.folder, ignore_errors=True)


class _Silence:
    """Keep file descriptor 2 quiet inside the block: bcc's compiler writes warnings there that do not matter to users."""

    def __init__(self, on):
        self.on = on

    def __enter__(self):
        if self.on:
            sys.stderr.flush()
            self.saved, self.file = os.dup(2), tempfile.TemporaryFile()
            os.dup2(self.file.fileno(), 2)
        return self

    def text(self):
        """Return what was written so far."""
        if not self.on:
            return ""
        self.file.seek(0)
        return self.file.read().decode(errors="replace").strip()

    def __exit__(self, *exc):
        if self.on:
            os.dup2(self.saved, 2)
            os.close(self.saved)
            self.file.close()
