"""Finds the machine for a value of ``--machine`` (a name, a file or ``live``), and the kernel that its source names."""

from __future__ import annotations

import platform
from dataclasses import dataclass, replace
from pathlib import Path

from wastedcores.errors import TopologyError
from wastedcores.kernels import KernelModel, recorded_kernel
from wastedcores.topology.describe import is_oracle, read_description
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS, preset

#: the kernel for presets, which is the paper's kernel
DEFAULT_KERNEL = "v4.1"


@dataclass(frozen=True)
class Source:
    """A machine, and the kernel that its source names."""

    machine: Machine  #: the machine as booted
    #: the kernel as the source names it: a release or the name of a model; None if the source names no kernel
    kernel: str | None = None
    sched_debug: bool = False  #: whether the kernel was booted with ``sched_debug``
    path: Path | None = None  #: the file that was read, or None
    #: the kernel to use if none is named: for presets, which run no kernel, the paper's kernel; otherwise None
    default: str | None = None

    def model(self, kernel: str | None = None, sched_debug: bool | None = None) -> KernelModel:
        """Return the kernel model."""
        return self.model_and_note(kernel, sched_debug)[0]

    def model_and_note(
        self, kernel: str | None = None, sched_debug: bool | None = None
    ) -> tuple[KernelModel, str | None]:
        """Return the kernel model and, if it may differ from the kernel that the source names, a sentence that says so."""
        debug = self.sched_debug if sched_debug is None else sched_debug
        if kernel is not None:
            return KernelModel.named(kernel, sched_debug=debug), None
        named = self.kernel or self.default
        if named is None:
            raise TopologyError(
                f"{self.path or self.machine.name}: does not say which kernel ran on this machine, and each builds other "
                "domains. Name one: --kernel v6.12."
            )
        model, note = recorded_kernel(named)
        return replace(model, sched_debug=debug), note


def find_machine(name: str) -> Source:
    """Find a machine: a preset, ``live``, or a file.

    A file is a JSON or YAML description, an oracle case, the ``meta.json`` of a guest recording or its folder, or a trace whose
    header has a machine.
    """
    if name in PRESETS:
        return Source(preset(name), default=DEFAULT_KERNEL)
    path = Path(name)
    if name == "live" and not path.exists():
        return Source(Machine.live(), platform.release())
    if path.is_dir() and (path / "meta.json").exists():
        path = path / "meta.json"
    if not path.exists():
        return Source(preset(name), default=DEFAULT_KERNEL)
    if _is_parquet(path):
        return _from_trace(path)
    data = read_description(path)
    title = data.get("name") or data.get("run") or path.stem
    machine = Machine.from_dict(data, str(title))
    kernel = data.get("kernel") or None
    if not isinstance(kernel, str | None):
        raise TopologyError(
            f"{path}: kernel {kernel!r} is not a text, and as numbers 5.1 and 5.10 are the same; write it in quotes, as in "
            'kernel: "5.10".'
        )
    if "variant" in data and not is_oracle(data):
        kernel = KernelModel.of_guest_variant(str(data["variant"])).name
    return Source(machine, kernel, bool(data.get("sched_debug", False)), path)


def _is_parquet(path: Path) -> bool:
    try:
        with path.open("rb") as f:
            return f.read(4) == b"PAR1"
    except OSError:
        return False


def _from_trace(path: Path) -> Source:
    from wastedcores.trace.parquet import read_parquet

    header = read_parquet(path).header
    if header.machine is None:
        raise TopologyError(
            f"{path}: this trace does not say on which machine it was taken; name a preset or a description."
        )
    kernel = header.kernel_model or header.kernel_release
    return Source(Machine.from_dict(header.machine, path.stem), kernel, path=path)
