"""The collectors' C header agrees with the package's reader and with the collectors' own Python."""

from __future__ import annotations

import re
import subprocess
import sys

import numpy as np
import pytest
from support import ROOT

from wastedcores.trace.readers.schedtrace import reader, records

COLLECTORS = ROOT / "collectors"
HEADER = (COLLECTORS / "wastedcores.h").read_text()
SIZES = {"u64": 8, "s64": 8, "u32": 4, "u16": 2, "u8": 1, "char": 1}


def defines() -> dict[str, int]:
    return {
        name: int(value, 0)
        for name, value in re.findall(
            r"^#define (WC_\w+)\s+(0x[0-9a-fA-F]+|\d+)", HEADER, re.MULTILINE
        )
    }


def struct(name: str) -> tuple[list[tuple[str, int, int]], int]:
    """Return [(member, offset, size)] and the size of a C structure, with the compiler's alignment."""
    body = re.search(rf"struct {name} \{{(.*?)\n\}};", HEADER, re.DOTALL).group(1)
    body = re.sub(r"/\*.*?\*/", "", body, flags=re.DOTALL)
    members, at, widest = [], 0, 1
    for kind, declared in re.findall(r"(\w+)\s+([^;]+);", body):
        for one in declared.split(","):
            member, count = re.fullmatch(r"\s*(\w+)(?:\[(\d+)\])?", one).groups()
            size = SIZES[kind]
            at = (at + size - 1) // size * size
            members.append((member, at, size * int(count or 1)))
            at += size * int(count or 1)
            widest = max(widest, size)
    return members, (at + widest - 1) // widest * widest


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("wc_record", reader.RECORD),
        ("wc_block", reader.BLOCK),
        ("wc_task", reader.TASK),
        ("wc_counters", reader.COUNTERS),
    ],
)
def test_struct_is_the_readers_dtype(name, dtype):
    members, size = struct(name)
    expected = [(n, dtype.fields[n][1], dtype.fields[n][0].itemsize) for n in dtype.names]
    assert members == expected
    assert size == dtype.itemsize


def test_record_is_at_most_20_bytes():
    assert struct("wc_record")[1] <= 20


def test_kinds_and_blocks_have_the_same_numbers():
    d = defines()
    special = {"WC_VERSION", "WC_BLOCK_MAGIC"}
    kinds = {
        n[3:].lower(): v
        for n, v in d.items()
        if n not in special and not n.startswith(("WC_BLOCK_", "WC_OP_", "WC_IN_"))
    }
    into = {n[6:].lower(): v for n, v in d.items() if n.startswith("WC_IN_")}
    assert into == {name: i for i, name in enumerate(records.INTO)}
    assert kinds == reader.KINDS
    assert d["WC_VERSION"] == reader.VERSION
    assert d["WC_BLOCK_MAGIC"] == reader.BLOCK_MAGIC
    blocks = (reader.EVENTS_BLOCK, reader.TASKS_BLOCK, reader.COUNTERS_BLOCK, reader.END_BLOCK)
    names = ("EVENTS", "TASKS", "COUNTERS", "END")
    assert tuple(d[f"WC_BLOCK_{n}"] for n in names) == blocks
    assert [d["WC_OP_" + (o or "other").upper()] for o in records.OPS] == [0, 1, 2, 3]


def test_collectors_python_has_the_same_numbers():
    text = (COLLECTORS / "_recorder.py").read_text()
    block = re.search(r'BLOCK = struct\.Struct\("(.*?)"\)', text).group(1)
    assert np.dtype(reader.BLOCK).itemsize == __import__("struct").calcsize(block)
    assert re.search(r'FORMAT = "(.*?)"', text).group(1) == reader.FORMAT
    assert int(re.search(r"MAGIC = (0x\w+)", text).group(1), 0) == reader.BLOCK_MAGIC
    assert "EVENTS, TASKS, COUNTERS, END, DECISIONS = 1, 2, 3, 4, 5" in text


@pytest.mark.parametrize("name", ["schedtrace", "considered", "unclaimed"])
def test_a_collector_is_a_pair_with_an_example_and_prints_its_program_without_root(name):
    for suffix in (".c", ".py", "_example.txt"):
        assert (COLLECTORS / f"{name}{suffix}").is_file()
    assert (
        (COLLECTORS / f"{name}.c")
        .read_text()
        .startswith("// SPDX-License-Identifier: GPL-2.0-only")
    )
    shown = subprocess.run(
        [sys.executable, "-B", COLLECTORS / f"{name}.py", "--ebpf"],
        capture_output=True,
        text=True,
        check=True,
    )
    for part in ("ring", "schedtrace", "snapshot", name):
        assert (COLLECTORS / f"{part}.c").read_text() in shown.stdout
    helped = subprocess.run(
        [sys.executable, "-B", COLLECTORS / f"{name}.py", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "examples:" in helped.stdout


def test_lines_of_the_examples_are_under_80_columns():
    for path in COLLECTORS.glob("*_example.txt"):
        long = [line for line in path.read_text().splitlines() if len(line) >= 80]
        assert not long, path.name
