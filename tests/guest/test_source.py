"""Kernels from source: a tree that `make` and `patch` really work on, small enough to be built in a moment."""

from __future__ import annotations

import pytest
from support.typed import typed

from wastedcores.errors import UsageError
from wastedcores.guest import kernels, places
from wastedcores.guest.kernels import built_kernel
from wastedcores.guest.places import GuestError

MAKEFILE = """# SPDX-License-Identifier: GPL-2.0
VERSION = 6
PATCHLEVEL = 12
SUBLEVEL = 107
EXTRAVERSION =

allnoconfig:
\tcp $(KCONFIG_ALLCONFIG) .config
olddefconfig:
\techo CONFIG_MINE=y >> .config
bzImage:
\t@echo "  CC      init/main.o"
\tmkdir -p arch/x86/boot
\tcat init.c > arch/x86/boot/bzImage
"""
PATCH = """--- a/init.c
+++ b/init.c
@@ -1 +1 @@
-int scheduler;
+int better_scheduler;
"""


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """A source of "Linux", and an empty cache."""
    monkeypatch.setenv("WASTEDCORES_DATA_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kernels, "NEEDED", {"make": "make", "patch": "patch"})
    folder = tmp_path / "linux"
    folder.mkdir()
    (folder / "Makefile").write_text(MAKEFILE)
    (folder / "Kconfig").write_text("")
    (folder / "init.c").write_text("int scheduler;\n")
    return folder


@pytest.fixture
def patch(tmp_path):
    file = tmp_path / "better.patch"
    file.write_text(PATCH)
    return file


def test_a_patched_kernel_is_built_once_and_the_source_stays(tree, patch, capsys):
    kernel = built_kernel(tree, [patch])
    assert kernel.image.read_text() == "int better_scheduler;\n"
    assert (tree / "init.c").read_text() == "int scheduler;\n"
    assert sorted(p.name for p in tree.iterdir()) == ["Kconfig", "Makefile", "init.c"]
    assert (kernel.name, kernel.version) == ("source:6.12.107+better", "")
    assert "CPU minutes" in capsys.readouterr().err  # the time is said beforehand
    assert built_kernel(tree, [patch]) == kernel
    assert "building" not in capsys.readouterr().err
    assert not (kernel.image.parent / "tree").exists()


def test_without_a_patch_the_release_is_known(tree):
    kernel = built_kernel(tree)
    assert kernel.image.read_text() == "int scheduler;\n"
    assert kernel.model() == "v6.12.107"
    assert (kernel.image.parent / "config").read_bytes() == kernels.CONFIG.read_bytes()


def test_a_changed_file_is_another_kernel_and_a_configuration_of_its_own_is_kept(tree):
    first = built_kernel(tree)
    (tree / "init.c").write_text("int other_scheduler;\n")
    (tree / ".config").write_text("CONFIG_HZ=1000\n")
    second = built_kernel(tree)
    assert second.sha256 != first.sha256
    assert (second.image.parent / "config").read_text() == "CONFIG_HZ=1000\nCONFIG_MINE=y\n"


def test_a_patch_that_does_not_fit_shows_why_and_leaves_nothing(tree, patch, tmp_path):
    (tree / "init.c").write_text("void main;\n")
    with pytest.raises(GuestError, match=r"applying better.patch failed: .*1 out of 1 hunk FAILED"):
        built_kernel(tree, [patch])
    assert not list((tmp_path / "cache/guest/built").iterdir())


def test_a_source_that_does_not_compile_shows_its_last_lines(tree):
    (tree / "Makefile").write_text(MAKEFILE.replace("cat init.c >", "gcc-of-nobody init.c"))
    with pytest.raises(
        GuestError, match=r"compiling the kernel failed: make ended with code 2.*gcc-of-nobody"
    ):
        built_kernel(tree)


def test_what_is_missing_is_named_before_anything_is_copied(tree, monkeypatch, tmp_path):
    monkeypatch.setattr(
        kernels, "NEEDED", {"no-such-compiler": "gcc", "/no/header.h": "libelf-dev"}
    )
    with pytest.raises(
        GuestError,
        match=r"needs no-such-compiler, /no/header.h, which are .*apt install gcc libelf-dev",
    ):
        built_kernel(tree)
    monkeypatch.setattr(kernels, "NEEDED", {})
    usage = type("usage", (), {"free": 10 << 20})
    monkeypatch.setattr(places.shutil, "disk_usage", lambda path: usage)
    with pytest.raises(GuestError, match="building a kernel needs 4000 MB, and 10 MB are free"):
        built_kernel(tree)
    assert not (tmp_path / "cache/guest/built").exists()


def test_what_is_no_source_and_what_is_no_patch(tree, patch, tmp_path):
    with pytest.raises(UsageError, match="not a source of Linux"):
        built_kernel(tmp_path)
    with pytest.raises(UsageError, match="absent: cannot be read"):
        built_kernel(tree, [tmp_path / "absent"])
    with pytest.raises(UsageError, match="not a patch"):
        built_kernel(tree, [tree / "init.c"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--source", "a", "--kernel", "debian:6.12"), "--kernel debian:6.12 and --source a: give one of them"),
        (("--source", "a", "--bzimage", "b"), "--bzimage b and --source a: give one of them"),
        (("--patch", "a"), "--patch a: name the source to which it is applied"),
    ],
)  # fmt: skip
def test_options_that_contradict_each_other(words, said):
    done = typed("guest", "boot", *words)
    assert done.code == 2
    assert said in done.err
