"""The engine as plain Python for one replay: :class:`PlainEngine`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from wastedcores.errors import UsageError
from wastedcores.jit.plain import Plain, maker
from wastedcores.jit.structs import Null, Reference
from wastedcores.simulator.design import nearness
from wastedcores.simulator.engine.world import cpuset, rows_jit
from wastedcores.simulator.engine.world.structs import Rq
from wastedcores.topology.machine import Machine
from wastedcores.workload.program import Program


class RunQueues(Sequence[Rq]):
    """The runqueues, indexed by the number of the CPU."""

    def __init__(self, k: Any, cpus: int) -> None:
        self.k, self.cpus = k, cpus

    def __len__(self) -> int:
        return self.cpus

    def __getitem__(self, cpu: Any) -> Any:
        if not 0 <= cpu < self.cpus:
            raise IndexError(f"there is no CPU {cpu}; there are CPUs 0 to {self.cpus - 1}.")
        return Rq(self.k, cpu)


class PlainEngine(Plain):
    """The engine as plain Python. It also knows the machine and the program."""

    def __init__(self, machine: Machine, program: Program) -> None:
        super().__init__()
        self.machine = machine
        self.comms = [spec.comm for spec in (*program.templates, *program.tasks)]
        self.rqs: Sequence[Rq] = ()
        self.m = np.empty((0, 0), np.int64)
        self.k: Any = None
        self._shown: dict[int, ReadOnly] = {}
        # a short cut, because this function is called most often
        self.replace(rows_jit.cpu_rq, maker(Rq))

    def kernel(self, m: np.ndarray) -> Any:
        """Return the kernel object of a table. For the same table it is always the same object."""
        if self.k is None or m is not self.m:
            self.m, self.k = m, super().kernel(m)
            self.rqs = RunQueues(self.k, self.machine.cpus)
            self._shown.clear()
        return self.k

    def run(self, entry: Any) -> Callable[[np.ndarray], int]:
        """Return an entry function of the engine as a function that takes the table."""
        return lambda m: self.of(entry)(self.kernel(m))  # type: ignore[no-any-return]

    @cached_property
    def near(self) -> list[list[int]]:
        """For each CPU, a list of all CPUs, the nearest first."""
        return nearness(self.machine).tolist()  # type: ignore[no-any-return]

    def cpus_of(self, mask: int) -> frozenset[int]:
        """Return the CPUs of the set whose row is ``mask``."""
        return frozenset(cpuset.cpus_of(self.m[mask], self.machine.cpus))

    def shown(self, value: Any) -> Any:
        """Return a read-only view of a part of the kernel, always the same view for the same part."""
        if not isinstance(value, (Reference, Null, RunQueues)):
            return tuple(value) if isinstance(value, ctypes.Array) else value
        # a view keeps its value alive, so no other value gets the same id
        if id(value) not in self._shown:
            self._shown[id(value)] = ReadOnly(value, self.shown)
        return self._shown[id(value)]


class ReadOnly:
    """A view of a struct of the kernel, or of the runqueues, through which nothing can be changed."""

    __slots__ = ("_of", "_shown")
    _of: Any
    _shown: Callable[[Any], Any]

    def __init__(self, of: Any, shown: Callable[[Any], Any]) -> None:
        object.__setattr__(self, "_of", of)
        object.__setattr__(self, "_shown", shown)

    def __getattr__(self, name: str) -> Any:
        return self._shown(getattr(self._of, name))

    def __getitem__(self, place: Any) -> Any:
        return self._shown(self._of[place])

    def __iter__(self) -> Iterator[Any]:
        return map(self._shown, self._of)

    def __len__(self) -> int:
        return len(self._of)

    def __bool__(self) -> bool:
        return bool(self._of)

    def __setattr__(self, name: str, value: Any) -> None:
        raise UsageError(
            f"{name} = {value!r}: a module may read the kernel and its threads, and answer; it never changes them."
        )

    def __setitem__(self, place: Any, value: Any) -> None:
        self.__setattr__(f"[{place!r}]", value)

    def __repr__(self) -> str:
        return repr(self._of)
