"""The object of the online checker reads the same members as the programs that bcc compiles, and is refused when it is stale."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support import ROOT

COLLECTORS = ROOT / "collectors"
HEADER = (COLLECTORS / "object.h").read_text()
MODULES = ("_object", "_decisions", "_probes", "_bpf", "_compiler", "_btf")


@pytest.fixture
def modules(monkeypatch):
    """The collectors' modules, which import each other."""
    monkeypatch.syspath_prepend(str(COLLECTORS))
    yield {name: importlib.import_module(name) for name in MODULES}
    for name in MODULES:
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The object, built here twice."""
    if shutil.which("clang") is None or not Path("/usr/include/bpf/bpf_core_read.h").exists():
        pytest.skip("no clang or libbpf-dev: apt-get install clang llvm libbpf-dev")
    folder = tmp_path_factory.mktemp("object")
    code = (
        "import sys, pathlib; sys.path.insert(0, 'tools'); import build_bpf\n"
        "for to in sys.argv[1:]: build_bpf.build(pathlib.Path(to))\n"
    )
    files = [folder / "one.o", folder / "two.o"]
    subprocess.run([sys.executable, "-B", "-c", code, *files], cwd=ROOT, check=True)
    return files


def test_the_same_sources_make_the_same_bytes(built):
    assert built[0].read_bytes() == built[1].read_bytes()


def test_both_ways_read_the_same_members(modules):
    wanted = {**modules["_bpf"].OFFSETS, **modules["_decisions"].OFFSETS}
    found = dict(re.findall(r"^#define (OFF_\w+) (?:AT|EITHER)\((.*)\)$", HEADER, re.MULTILINE))
    # ticks.c has its own timer; the span has a rule
    assert set(wanted) - set(found) == {"OFF_TIMER_FUNCTION"}
    for macro, members in found.items():
        struct, first, *other = members.split(", ")
        assert (struct, first, *other[1:]) == tuple(wanted[macro]), macro


def test_the_kernel_has_members_of_the_kinds_that_the_object_declares(modules, built, tmp_path):
    """libbpf takes a member of another kind for an absent one, without a word."""
    btf = modules["_btf"]
    objcopy = shutil.which("llvm-objcopy") or shutil.which("llvm-objcopy-14")
    if not Path(btf.VMLINUX).exists() or objcopy is None:
        pytest.skip("needs a kernel with BTF and llvm-objcopy: apt-get install llvm")
    raw = tmp_path / "btf"
    subprocess.run([objcopy, f"--dump-section=.BTF={raw}", built[0], tmp_path / "o"], check=True)
    ours, kernel = btf.Btf(raw), btf.Btf()

    def kind(types, struct, path):
        tid = types.id_of(btf.STRUCT, struct)
        for name in path.split("."):
            hit = types._find(types.strip(tid), name) if tid else None
            tid = hit[0] if hit else 0
        return types._type(types.strip(tid))[1] if tid else None

    compared = 0
    for struct, path in set(re.findall(r"(?:AT|EXISTS)\((\w+), ([\w.]+)\)", HEADER)):
        theirs = kind(kernel, struct, path)
        if theirs is not None:
            assert kind(ours, struct, path) == theirs, (struct, path)
            compared += 1
    assert compared > 40


def test_an_object_of_other_sources_is_not_loaded(modules, built, tmp_path, monkeypatch):
    module = modules["_object"]
    monkeypatch.setattr(module, "_library", lambda: None)
    monkeypatch.setattr(module, "FILE", tmp_path / "checker.bpf.o")
    assert "was not built" in module.problem()
    for source in (*COLLECTORS.glob("*.c"), *COLLECTORS.glob("*.h")):
        shutil.copy(source, tmp_path)
    shutil.copy(built[0], tmp_path / "checker.bpf.o")
    assert module.problem() is None
    (tmp_path / "look.c").write_text("// changed")
    assert "other sources" in module.problem()
    with pytest.raises(modules["_bpf"].CannotLoad, match="other sources"):
        module.Object({"on_timer"}, {})


def test_without_type_information_the_answer_says_so(modules, monkeypatch, tmp_path):
    monkeypatch.setattr(modules["_btf"], "VMLINUX", str(tmp_path / "absent"))
    with pytest.raises(modules["_bpf"].CannotLoad, match="CONFIG_DEBUG_INFO_BTF"):
        modules["_bpf"].Programs((), (), 1)
