"""Lower layers never import higher ones; the special libraries stay where they belong."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest
from support import ROOT

PACKAGE = ROOT / "wastedcores"
#: packages beside it, which it does not import; only the command line knows them
SIBLINGS = (ROOT / "wastedcores_course", ROOT / "wastedcores_studies")

#: longest matching prefix wins
LAYERS = {
    "wastedcores": 0,
    "wastedcores.errors": -1,
    "wastedcores.units": 0,
    "wastedcores.shown": 0,
    "wastedcores.files": 0,
    "wastedcores.lazy": -1,
    "wastedcores.limits": -1,
    "wastedcores.jit": 0,
    "wastedcores.topology.clocks": 0,
    "wastedcores.cpulist": 0,
    "wastedcores.topology.machine": 1,
    "wastedcores.topology._numbers": 0,
    "wastedcores.topology.presets": 1,
    "wastedcores.topology.describe": 1,
    "wastedcores.topology.sysfs": 1,
    "wastedcores.kernels": 1,
    "wastedcores.topology": 2,
    "wastedcores.trace": 1,
    "wastedcores.runqueues": 2,
    "wastedcores.queries": 2,
    "wastedcores.invariant": 3,
    "wastedcores.workload": 3,
    "wastedcores.simulator": 4,
    "wastedcores.recovery": 4,
    "wastedcores.analysis": 5,
    "wastedcores.words": 7,
    "wastedcores.figures": 8,
    "wastedcores.reports": 9,
    "wastedcores.sweep": 5,
    "wastedcores.prediction": 6,
    "wastedcores.lecture": 5,
    "wastedcores.widgets": 10,
    "wastedcores.capture": 10,
    "wastedcores.guest": 11,
    "wastedcores_course": 12,
    "wastedcores_studies.probes": 12,
    "wastedcores_studies.proofs": 12,
    "wastedcores_studies.recordings": 12,
    "wastedcores_studies": 13,
    "wastedcores.cli": 14,
    "wastedcores.__main__": 15,
}

#: modules of constants that compiled code may read
CONSTANTS = {
    "wastedcores.limits",
    "wastedcores.runqueues.cpu_row",
    "wastedcores.runqueues.state",
    "wastedcores.runqueues.task_row",
    "wastedcores.topology.clocks",
    "wastedcores.workload.ops",
    "wastedcores.trace.readers.support.tracepoints",
}

#: library -> where it may be imported
ONLY_IN = {
    "numba": ("wastedcores.jit",),
    "plotly": ("wastedcores.figures", "wastedcores.reports"),
    "ipywidgets": ("wastedcores.widgets",),
    "anywidget": ("wastedcores.widgets",),
    "papermill": ("wastedcores.reports",),
    "typer": ("wastedcores.cli",),
    "perfetto": ("wastedcores.reports.perfetto", "wastedcores.trace.readers.perfetto"),
}


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def room(module: str) -> str:
    """The folder to which a module belongs: a room, or a package beside the main one."""
    parts = module.split(".")
    two = ".".join(parts[:2])
    return two if parts[0] == PACKAGE.name or two in LAYERS else parts[0]


def layer(module: str) -> int:
    while module not in LAYERS:
        module = module.rpartition(".")[0]
    return LAYERS[module]


@cache
def imports(path: Path) -> list[str]:
    names = []
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):  # what only annotations need is not imported when the program runs
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING":
            node.body = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [a.name for a in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            base = node.module or ""
            submodules = [f"{base}.{a.name}" for a in node.names]
            names += [s if s in MODULES else base for s in submodules]
    return names


FILES = sorted(p for package in (PACKAGE, *SIBLINGS) for p in package.rglob("*.py"))
MODULES = {module_name(p) for p in FILES}


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_module_imports_only_lower_layers(path):
    me = module_name(path)
    for name in imports(path):
        if name not in MODULES or name == "wastedcores":
            continue
        same_place = room(name) == room(me)
        assert layer(name) < layer(me) or (same_place and layer(name) <= layer(me)), (
            f"{me} imports {name}"
        )


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_special_libraries_stay_where_they_belong(path):
    me = module_name(path)
    for name in imports(path):
        for library, places in ONLY_IN.items():
            if library == "numba" and me.endswith("_jit"):  # compiled code lies beside its caller
                continue
            if name.split(".")[0] == library:
                assert me.startswith(places), f"{me} imports {library}"


def test_compiled_code_takes_arrays_and_knows_no_objects():
    """What is compiled imports numpy, numba, other compiled code and plain constants."""
    engine = set((PACKAGE / "simulator" / "engine").rglob("*.py"))
    for path in sorted(engine | set(PACKAGE.rglob("*_jit.py"))):
        for name in imports(path):
            assert (
                name.split(".")[0] in {"numpy", "numba", "llvmlite"} | sys.stdlib_module_names
                or name.endswith("_jit")
                or f"{name}.".startswith(("wastedcores.jit.", "wastedcores.simulator.engine."))
                or name in CONSTANTS
            ), f"{path}: {name}"


def test_every_package_module_has_a_layer():
    tops = {room(module_name(p)) for p in FILES}
    listed = {m for m in LAYERS if m == room(m)}
    assert tops <= listed, f"add to LAYERS: {sorted(tops - listed)}"


def test_the_drawing_of_the_house_shows_every_room_on_its_floor():
    """CONTRIBUTING.md draws the floors; what is below the lowest one stands on it, too."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    drawn = {
        (room, int(floor))
        for floor, rooms in re.findall(r"^    (?:floor| {5}) +(\d+) +(.+)$", text, re.MULTILINE)
        for room in re.findall(r"\w+", re.sub(r"\(.*?\)", "", rooms))
    }
    listed = {
        (room(name).removeprefix("wastedcores."), max(floor, 0))
        for name, floor in LAYERS.items()
        if name != "wastedcores" and not name.startswith("wastedcores_studies.")
    }
    assert drawn == listed - {("__main__", 15), ("topology", 0)}


def test_nobody_imports_collectors_and_they_import_nobody():
    for path in FILES:
        assert not any(n.split(".")[0] == "collectors" for n in imports(path)), path
    for path in (ROOT / "collectors").glob("*.py"):
        for name in imports(path):
            top = name.split(".")[0]
            beside = (ROOT / "collectors" / f"{top}.py").exists()
            assert top in sys.stdlib_module_names or top == "bcc" or beside, f"{path}: {name}"
