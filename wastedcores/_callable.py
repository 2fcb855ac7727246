"""Modules that can be called as the function of their own name.

``wastedcores.compare``, ``wastedcores.replay`` and ``wastedcores.report`` are modules and public functions. Python binds a
submodule to its package's attribute when it is imported, by whomever: the function of that name would be there until then,
and a module that cannot be called from then on. So the module itself can be called, and is the public name from the start.
"""

from __future__ import annotations

import inspect
import sys
from importlib import import_module
from types import ModuleType
from typing import Any


class CallableModule(ModuleType):
    """A module with a function of its own name, which runs when the module is called."""

    @property
    def _function(self) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    @property
    def __signature__(self) -> inspect.Signature:
        return inspect.signature(self._function)

    def __reduce__(self) -> tuple[Any, tuple[str]]:
        return import_module, (self.__name__,)


def make_callable(name: str) -> None:
    """Make a module callable; its own last line, with ``__name__``."""
    sys.modules[name].__class__ = CallableModule
