"""The value of ``--machine``, a name, a file or ``live``: find the machine, and the kernel that its source names."""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path

from wastedcores.errors import TopologyError, UnknownKernelError
from wastedcores.kernels import KernelModel
from wastedcores.topology.describe import is_oracle, read_description
from wastedcores.topology.machine import Machine
from wastedcores.topology.presets import PRESETS, preset

#: kernel of presets and of descriptions that name none: that of the paper
DEFAULT_KERNEL = "v4.1"


@dataclass(frozen=True)
class Source:
    """A machine, and the kernel that its source names.

    Attributes
    ----------
    machine
        The machine as booted.
    kernel
        A name for :meth:`wastedcores.kernels.KernelModel.named`.
    sched_debug
        The source says that the kernel was booted with ``sched_debug``.
    """

    machine: Machine
    kernel: str = DEFAULT_KERNEL
    sched_debug: bool = False

    def model(self, kernel: str | None = None, sched_debug: bool | None = None) -> KernelModel:
        """Return the kernel model.

        Parameters
        ----------
        kernel, sched_debug
            Values that replace those of the source.

        Returns
        -------
        KernelModel
            The model.
        """
        debug = self.sched_debug if sched_debug is None else sched_debug
        return KernelModel.named(kernel or self.kernel, sched_debug=debug)


def find_machine(name: str) -> Source:
    """Find a machine.

    Parameters
    ----------
    name
        A preset, ``live``, or a file: a JSON or YAML description, an oracle case, the ``meta.json`` of a guest recording or
        its folder, or a trace whose header has a machine.

    Raises
    ------
    TopologyError
        The name is none of these, or the description is not that of a possible machine.
    """
    if name in PRESETS:
        return Source(preset(name))
    path = Path(name)
    if name == "live" and not path.exists():
        release = platform.release()
        try:
            KernelModel.named(release)
        except UnknownKernelError:
            release = DEFAULT_KERNEL
        return Source(Machine.live(), release)
    if path.is_dir() and (path / "meta.json").exists():
        path = path / "meta.json"
    if not path.exists():
        return Source(preset(name))
    if _is_parquet(path):
        return _from_trace(path)
    data = read_description(path)
    title = data.get("name") or data.get("run") or path.stem
    machine = Machine.from_dict(data, str(title))
    kernel, debug = str(data.get("kernel") or DEFAULT_KERNEL), bool(data.get("sched_debug", False))
    if "variant" in data and not is_oracle(data):
        kernel = KernelModel.of_guest_variant(str(data["variant"])).name
    return Source(machine, kernel, debug)


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
    try:
        kernel = KernelModel.named(header.kernel_release or "").name
    except UnknownKernelError:
        kernel = DEFAULT_KERNEL
    return Source(Machine.from_dict(header.machine, path.stem), kernel)
