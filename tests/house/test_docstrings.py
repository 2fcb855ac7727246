"""Public functions and methods are documented as numpydoc asks: summary, parameters, results, in the order of the signature."""

from __future__ import annotations

import importlib
import inspect

import pytest
from numpydoc.validate import validate
from support import ROOT

#: functions here have the kernel's parameters, which the glossary in the package's docstring explains once
WITH_A_GLOSSARY = "wastedcores.simulator.reference"

#: what is checked: a docstring, its summary and full stop, undocumented, unknown or misordered parameters, results
ALWAYS = {"GL08", "SS01", "SS03", "PR02", "PR03", "PR07", "RT03"}
#: sections that a function with at most one parameter does not need
WITH_TWO_PARAMETERS = {"PR01", "RT01"}


def modules() -> list[str]:
    """Names of the modules whose functions people call: no compiled code, no command line, no private module."""
    names = []
    for path in sorted((ROOT / "wastedcores").rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        private = any(part.startswith("_") for part in name.split("."))
        if not private and not name.endswith("_jit") and parts[1] != "cli":
            names.append(name)
    return names


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
    sections = len(parameters) > 1 and not dotted.startswith(WITH_A_GLOSSARY)
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
