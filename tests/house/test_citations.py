"""A file, module or section that the tree mentions exists, and the tree needs nothing that lies beside it."""

from __future__ import annotations

import importlib
import re
from functools import cache
from pathlib import Path

import pytest
from support import ROOT

TOP = (
    "benchmarks", "collectors", "datasets", "docs", "notebooks", "tests", "tools", "wastedcores", "wastedcores_course",
    "wastedcores_studies",
)  # fmt: skip
SUFFIXES = {".py", ".md", ".ipynb", ".c", ".h", ".toml", ".sh", ".yml"}

#: mentions that are no files of this tree: files of other projects, and what a build or a report writes
NOT_HERE = re.compile(
    r"""
      ^tools/(perf|lib|include|sched_log|sched_wakeup|sanity_checker_4\.1|visualizations_4\.1)
    | ^wastedcores/_bundled
    | ^collectors/\*\.o$
    | ^report\.ipynb$
    | ^nbgrader_config\.py$
    | ^SCHEMA_CHANGES\.md$
    """,
    re.VERBOSE,
)
#: names that look like modules: a header, the name that captures carry, a unit of systemd
NO_MODULES = {
    "wastedcores.h",
    "wastedcores.simulator.reference",  # a benchmark asks an older commit for it
    "wastedcores.schedtrace",
    "wastedcores.check",
    "wastedcores.service",
}


def files() -> list[Path]:
    found = [
        p for p in ROOT.iterdir() if p.is_file() and (p.suffix in SUFFIXES or p.name == "Makefile")
    ]
    for top in TOP:
        found += [
            p
            for p in (ROOT / top).rglob("*")
            if p.suffix in SUFFIXES and not {"__pycache__", ".ipynb_checkpoints"} & set(p.parts)
        ]
    return sorted(found)


FILES = files()


@cache
def names() -> set[str]:
    return {p.name for p in FILES}


def exists(path: str, mentioned_in: Path) -> bool:
    """Whether the path, which may be a pattern, is found from the root, the package, the tests or the file's own folder."""
    for base in (
        ROOT,
        ROOT / "wastedcores",
        ROOT / "tests",
        mentioned_in.parent,
        mentioned_in.parent.parent,
    ):
        if any(True for _ in base.glob(path)) or any(True for _ in base.glob(f"{path}.*")):
            return True
    return False


def identity(path: Path) -> str:
    return str(path.relative_to(ROOT))


def folder(path: Path) -> str:
    """The two first folders of a file; a test for each file would cost more than what it looks at."""
    return "/".join(path.relative_to(ROOT).parts[:-1][:2])


def every_file(test):
    """Run the test on each file of the tree, folder by folder."""

    def on_files(where):
        for file in FILES:
            if folder(file) == where:
                test(file)

    on_files.__name__, on_files.__doc__ = test.__name__, test.__doc__
    return pytest.mark.parametrize("where", sorted({folder(f) for f in FILES}))(on_files)


def mentions(file: Path) -> set[str]:
    """Paths in a file: those that begin with a folder of the root and, outside the tests, all documents and modules."""
    text = file.read_text()
    begin = re.findall(rf"(?<![\w/.~>-])(?:{'|'.join(TOP)})/[\w./*+-]*\w", text)
    end = re.findall(r"(?<![\w/.~<>*}-])(?:\w+/)*\w+\.(?:py|md|ipynb)\b(?![./(])", text)
    if (ROOT / "tests") in file.parents:  # tests make files of all names
        end = []
    return {m for m in {*begin, *end} if not NOT_HERE.search(m)}


@every_file
def test_mentioned_files_exist(file):
    absent = [
        m for m in mentions(file) if not exists(m, file) and not ("/" not in m and m in names())
    ]
    assert not absent, f"{identity(file)} mentions {sorted(absent)}"


def resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name in one."""
    parts = dotted.split(".")
    for n in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:n]))
        except ImportError:
            continue
        for part in parts[n:]:
            if not hasattr(thing, part):
                return part in getattr(thing, "__annotations__", {})
            thing = getattr(thing, part)
        return True
    return False


@every_file
def test_mentioned_modules_exist(file):
    text = file.read_text()
    if (
        file.name == "CHANGELOG.md"
    ):  # the first column of a table of renamed modules has the old names
        text = re.sub(r"^\s*\|[^|]*\|", "", text, flags=re.MULTILINE)
    dotted = set(
        re.findall(
            r"(?<![\w/.-])wastedcores(?:_course|_studies)?(?:\.[A-Za-z_]\w*)+(?![\w/-])", text
        )
    )
    absent = [d for d in dotted - NO_MODULES if not resolves(d)]
    assert not absent, f"{identity(file)} mentions {sorted(absent)}"


@cache
def sections(doc: Path) -> set[str]:
    return set(re.findall(r"^#+ (\d+(?:\.\d+)*)\.? ", doc.read_text(), re.MULTILINE))


@every_file
def test_cited_sections_exist(file):
    for doc, numbers in re.findall(
        r"(docs/[\w-]+\.md), sections? ((?:\d+(?:\.\d+)*(?:, (?=\d)| and | to )?)+)",
        file.read_text(),
    ):
        have = sections(ROOT / doc)
        for number in re.findall(r"\d+(?:\.\d+)*", numbers):
            assert number in have, f"{identity(file)}: {doc} has no section {number}"


@every_file
def test_nothing_outside_the_repository_is_needed(file):
    found = re.findall(r"\b[s]hared_dir\b|(?<![\w./-])[s]hared/\w+", file.read_text())
    assert not found, f"{identity(file)} needs a folder beside the checkout: {found}"
