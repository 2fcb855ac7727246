"""Committed data tells nothing about a real machine: no name of a host, no user's folder, no boot command line of its own.

Files under ``tests/trace/foreign`` were published by others, as its README says, and are kept as they are.
"""

from __future__ import annotations

import gzip
import io
import lzma
import re
import subprocess

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support import ROOT

PROSE = {".py", ".md", ".toml", ".sh", ".c", ".h", ".js", ".css", ".ipynb"}
#: names of hosts that belong to no machine: the guests have none, and the bundled recordings say "vm"
NO_HOST = {"(none)", "vm", "example", "null"}
#: boot parameters of the guests that tools/ and the recorders start, and of made-up machines
BOOT = re.compile(
    r"(or|r)\.\w+=\S+|autogroup|console=ttyS0|cpuset\S*|earlyprintk=\S+|init=/init|isolcpus=\S+|log_buf_len=8M|loglevel=\d"
    r"|maxcpus=\d+|mitigations=(off|auto)|noautogroup|nohz_full=\S+|nokaslr|panic=-1|quiet|rcu_nocbs=\S+|rdinit=/init|sched_debug"
    r"|sched_verbose|tsc=reliable|possible_cpus=\d+|rw|ro"
)
PRIVATE = {
    "a user's or a developer's folder": re.compile(rb"(?:/root|/work|/home|/Users)/[\w.\-]+"),
    "the boot command line of a machine": re.compile(
        rb"BOOT_IMAGE=|root=(?:UUID|LABEL|PARTUUID)=|vsock-port|firecracker|reboot=k|cryptdevice="
    ),
}
HOST = re.compile(
    rb'"host(?:name)?": ?"?([^",{} ][^",}]*)'
)  # what a schema says of it is an object
BOOTED_WITH = re.compile(rb'"(?:boot_parameters|cmdline|append)": ?"([^"]*)"')


def data_files() -> dict[str, list]:
    """Each folder with the committed files in it that are no prose and no code."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    found: dict[str, list] = {}
    for name in filter(None, listed.stdout.decode().split("\0")):
        path = ROOT / name
        if path.suffix not in PROSE and not name.startswith("tests/trace/foreign/"):
            found.setdefault(str(path.parent.relative_to(ROOT)), []).append(path)
    return found  # none in a source archive, which has no history


FILES = data_files()


def test_a_checkout_lists_its_files():
    """Git refuses to list those of a checkout that belongs to somebody else."""
    assert FILES or not (ROOT / ".git").exists()


def contents(path) -> bytes:
    """The bytes of a file, decompressed; of a Parquet file also its metadata and the different texts of each column."""
    raw = path.read_bytes()
    if raw[:6] == b"\xfd7zXZ\0":
        return lzma.decompress(raw)
    if raw[:2] == b"\x1f\x8b":
        return gzip.decompress(raw)
    if raw[:4] != b"PAR1":
        return raw
    try:
        file = pq.ParquetFile(io.BytesIO(raw))
    except (OSError, ValueError, pa.ArrowException):  # damaged on purpose
        return raw
    found = [raw, *(file.metadata.metadata or {}).values()]
    for column in file.schema_arrow:
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            found += [
                str(t).encode() for t in file.read([column.name]).column(0).unique().to_pylist()
            ]
    return b"\n".join(found)


def private(data: bytes) -> list[str]:
    """What a file tells about the machine on which it was made."""
    found = [f"{what}: {m.group()!r}" for what, p in PRIVATE.items() for m in [p.search(data)] if m]
    found += [
        f"the name of a host: {h!r}"
        for h in {m.decode("utf-8", "replace").strip() for m in HOST.findall(data)} - NO_HOST
    ]
    words = {w for m in BOOTED_WITH.findall(data) for w in m.decode("utf-8", "replace").split()}
    return found + [f"an unknown boot parameter: {w!r}" for w in words if not BOOT.fullmatch(w)]


#: somebody's file, put together so that this file does not name one
PATH = b"/".join([b"", b"home", b"anna", b"thesis", b"run.py"])


@pytest.mark.parametrize(
    "text",
    [
        b'{"host": "build-7.example.com"}',
        b'{"hostname":"db3"}',
        b'{"boot_parameters": "quiet root=/dev/sda1"}',
        b"linux BOOT_IMAGE=/vmlinuz quiet",
        b"\0\0" + PATH + b"\0",
        b"/".join([b"", b"root", b".bashrc"]),
    ],
)
def test_what_a_machine_says_about_itself_is_noticed(text):
    assert len(private(text)) == 1


def test_compressed_files_are_read(tmp_path):
    (tmp_path / "x.xz").write_bytes(lzma.compress(PATH))
    (tmp_path / "x.gz").write_bytes(gzip.compress(PATH))
    assert private(contents(tmp_path / "x.xz")) == private(contents(tmp_path / "x.gz")) != []
    pq.write_table(pa.table({"comm": [PATH.decode()] * 9}), tmp_path / "x.parquet")
    assert private(contents(tmp_path / "x.parquet"))


@pytest.mark.parametrize("folder", FILES)
def test_committed_files_tell_nothing_about_a_real_machine(folder):
    found = {path.name: private(contents(path)) for path in FILES[folder]}
    assert {name: what for name, what in found.items() if what} == {}
