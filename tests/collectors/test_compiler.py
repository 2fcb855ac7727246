"""BPF programs are compiled in a process that ends afterwards: what it finds arrives, and what goes wrong there is told here."""

from __future__ import annotations

import importlib
import os
import struct
import sys
import types

import pytest
from support import ROOT


@pytest.fixture
def compiler(monkeypatch, tmp_path):
    """The collector's module, on a machine that needs no headers to be shown."""
    monkeypatch.syspath_prepend(str(ROOT / "collectors"))
    module = importlib.import_module("_compiler")
    monkeypatch.setattr(module, "headers_problem", lambda: None)
    (tmp_path / "one.c").write_text("int one;")
    yield module
    sys.modules.pop("_compiler", None)


class Lib:
    """As much of libbcc as is asked for: one map and two functions."""

    def __init__(self, fd):
        self.names = [b"loads", b"plain"]
        for name, answer in {
            "bpf_num_tables": lambda m: 1,
            "bpf_table_name": lambda m, n: b"ring",
            "bpf_table_fd_id": lambda m, n: fd,
            "bpf_num_functions": lambda m: 2,
            "bpf_function_name": lambda m, n: self.names[n],
        }.items():
            setattr(self, name, lambda *a, answer=answer: answer(*a))


def pretend(monkeypatch, make, fd=0):
    monkeypatch.setitem(sys.modules, "bcc", types.SimpleNamespace(BPF=make, lib=Lib(fd)))


def code(fd: int) -> bytes:
    """Load the address of a map, which takes two instructions; then a number that only looks alike; then exit."""
    load = struct.pack("<BBhi", 0x18, 0x11, 0, fd) + struct.pack("<BBhi", 0, 0, 0, 0)
    return load + struct.pack("<BBhi", 0x18, 0x01, 0, fd) + struct.pack("<BBhi", 0x95, 0, 0, 0)


def test_maps_arrive_and_the_code_has_their_numbers_here(compiler, monkeypatch, tmp_path):
    read, write = os.pipe()

    class Bpf:
        module = 1

        def __init__(self, text, cflags):
            assert (text, cflags) == ("int one;", ["-DX=1"])

        def dump_func(self, name):
            return code(write) if name == b"loads" else code(10**6)[16:]

    pretend(monkeypatch, Bpf, write)
    maps, functions = compiler.compiled([tmp_path / "one.c"], ["-DX=1"], quiet=False)
    here = maps["ring"]
    assert here != write
    assert functions["loads"] == code(here)[:16] + code(write)[16:]
    assert functions["plain"] == code(10**6)[16:]
    os.write(here, b"it is the same pipe")
    assert os.read(read, 100) == b"it is the same pipe"
    for fd in (read, write, here):
        os.close(fd)


def test_what_the_compiler_says_is_told(compiler, monkeypatch, tmp_path):
    def fail(text, cflags):
        os.write(2, b"one.c:1:5: error: no such thing\nmuch more\n")
        raise RuntimeError("Failed to compile BPF module")

    pretend(monkeypatch, fail)
    with pytest.raises(compiler.CannotLoad, match=r"one\.c \(Failed.*\): one\.c:1:5: error: no such thing$"):  # fmt: skip
        compiler.compiled([tmp_path / "one.c"], [], quiet=True)


def test_a_killed_compiler_and_an_absent_one_are_told(compiler, monkeypatch, tmp_path):
    pretend(monkeypatch, lambda text, cflags: os.kill(os.getpid(), 9))
    with pytest.raises(compiler.CannotLoad, match=r"compiled one\.c was killed"):
        compiler.compiled([tmp_path / "one.c"], [], quiet=False)
    monkeypatch.setitem(sys.modules, "bcc", None)
    with pytest.raises(compiler.CannotLoad, match="has no bcc module"):
        compiler.compiled([tmp_path / "one.c"], [], quiet=False)
