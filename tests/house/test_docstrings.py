"""What people call is documented as numpydoc asks: summary, parameters, results, in the order of the signature.

That is what a package exports, and what README, documents and notebooks name. Everything else has a sentence.
"""

from __future__ import annotations

import importlib
import inspect
import re
from functools import cache

import pytest
from numpydoc.validate import validate
from support import ROOT

import wastedcores

#: what is checked: a docstring, its summary and full stop, undocumented, unknown or misordered parameters, results
ALWAYS = {"GL08", "SS01", "SS03", "PR02", "PR03", "PR07", "RT03"}
#: sections that a function with at most one parameter does not need
WITH_TWO_PARAMETERS = {"PR01", "RT01"}


def modules() -> list[str]:
    """Names of the modules whose functions people call: no compiled code, no command line, no private module."""
    names = []
    for path in sorted(ROOT.glob("wastedcores*/**/*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        private = any(part.startswith("_") for part in name.split("."))
        if not private and not name.endswith("_jit") and parts[:2] != ("wastedcores", "cli"):
            names.append(name)
    return names


def dotted_name(module: str, name: str) -> str | None:
    """Where a function or class is defined that a module has, or None if the module has no such thing."""
    try:
        thing = getattr(importlib.import_module(module), name, None)
    except ImportError:
        return None
    qualname = getattr(thing, "__qualname__", None)
    return f"{thing.__module__}.{qualname}" if qualname else None


@cache
def named() -> frozenset[str]:
    """Where everything is defined that ``import wastedcores`` gives, and that README, documents and notebooks name."""
    found = {("wastedcores", name) for name in wastedcores.__all__}
    files = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "notebooks").rglob("*.ipynb"),
    ]
    for path in files:
        text = path.read_text()
        for module, imported in re.findall(r"from (wastedcores[\w.]*) import ([^\n\"\\]+)", text):
            found |= {(module, name) for name in re.findall(r"\w+", imported)}
        found |= set(re.findall(r"\b(wastedcores\w*(?:\.\w+)*)\.(\w+)", text))
        for room in ("words", "figures", "figures.views"):
            called = re.findall(rf"\b{room.split('.')[-1]}\.(\w+)\(", text)
            found |= {(f"wastedcores.{room}", name) for name in called}
    names = {dotted_name(module, name) for module, name in found}
    return frozenset(name for name in names if name)


def public_functions(module_name: str):
    """Each public function and method that the module defines: (dotted name, function)."""
    module = importlib.import_module(module_name)
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module_name:
            continue
        if inspect.isfunction(thing):
            yield f"{module_name}.{name}", thing
        elif inspect.isclass(thing):
            for method_name, method in vars(thing).items():
                function = getattr(method, "__func__", method)
                own = (
                    function.__qualname__.startswith(f"{name}.")
                    if inspect.isfunction(function)
                    else False
                )
                if own and not method_name.startswith("_"):
                    yield f"{module_name}.{name}.{method_name}", function


def faults(dotted: str, function) -> list[str]:
    """What numpydoc finds wrong with one function."""
    parameters = [p for p in inspect.signature(function).parameters if p not in {"self", "cls"}]
    # a method is public if its class is
    module_and_class = function.__qualname__.split(".")
    sections = len(parameters) > 1 and f"{function.__module__}.{module_and_class[0]}" in named()
    codes = ALWAYS | (WITH_TWO_PARAMETERS if sections else set())
    if ".Script." in dotted:  # its methods return the script, as the docstring of the class says
        codes = codes - {"RT01"}
    if not function.__doc__:
        return [f"{dotted}: GL08 no docstring"]
    return [f"{dotted}: {c} {text}" for c, text in validate(dotted)["errors"] if c in codes]


@pytest.mark.parametrize("module", modules())
def test_public_docstrings_are_complete(module):
    found = [
        fault for dotted, function in public_functions(module) for fault in faults(dotted, function)
    ]
    assert not found, "\n".join(found)
