"""A recording and a replay of the same workload, examined for the figures that show two traces side by side.

Interface::

    recorded, replayed = recorded_and_replayed("group-imbalance-buggy", seed=1)    a bundled data set
    recorded, replayed = recorded_and_replayed("gc-sgc-64cpu")                     a run of datasets/recordings
    fg.side_by_side(recorded.scene, replayed.scene, windows(recorded, replayed))
"""

from __future__ import annotations

from pathlib import Path

from wastedcores.analysis.examined import Examined, examine
from wastedcores.errors import UsageError
from wastedcores.files import datasets
from wastedcores.kernels import KernelModel
from wastedcores.recordings.recording import KINDS, Recording
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.trace.datasets import fetch
from wastedcores.trace.header import Window
from wastedcores.trace.io import open_trace
from wastedcores.trace.trace import Trace
from wastedcores.workload.scenarios import scenario


def recorded_and_replayed(
    name: str, seed: int = 1, folder: str | Path = ""
) -> tuple[Examined, Examined]:
    """Examine a recording, and a replay of its workload on its machine under its kernel.

    Parameters
    ----------
    name
        A recording in ``folder``, or a bundled data set (``wastedcores data`` lists them).
    seed
        Seed of the replay.
    folder
        A folder of recordings; by default ``datasets/recordings`` of a checkout.

    Returns
    -------
    recorded, replayed
        Both are bounded by the measured window and the CPUs that count.

    Raises
    ------
    DatasetError
        There is no recording and no data set of that name.
    UsageError
        The data set is no recording of a workload that can be replayed.
    """
    path = (Path(folder) if folder else datasets() / "recordings") / name
    if path.is_dir():
        recording = Recording.read(path)
        trace, kind, given = recording.trace, recording.kind, recording.parameters
        machine, kernel = recording.machine, recording.kernel
        window = recording.window
    else:
        # the data sets were recorded with the default parameters of the scenarios
        trace, window = open_trace(fetch(name)), None
        kind, machine, kernel = _of(trace, name)
        given = {"patched_boot": True} if kernel.overload_on_wakeup else {}
    w = scenario(f"recorded-{kind}").workload(machine, seed, given)
    r = replay(w, machine, kernel, seed)
    cpus = [c for n in w.counted_nodes or () for c in machine.cpus_of_node(n)] or None
    if window is not None:
        trace = _bounded(trace, window, cpus)
    replayed = _bounded(r.trace, (r.summary.start_ns, r.summary.end_ns), cpus)
    return examine(trace, "recorded"), examine(replayed, f"replayed, seed {seed}")


def _bounded(trace: Trace, window: tuple[int, int], cpus: list[int] | None) -> Trace:
    """Return the trace with its measured window, and the CPUs that count, in its header."""
    measured = Window(start_ns=window[0], end_ns=window[1])
    return trace.with_header(window=measured, counted_cpus=cpus)


def _of(trace: Trace, name: str) -> tuple[str, Machine, KernelModel]:
    header = trace.header
    kind = (header.recording or "")[:2]  # gi-..., lu1ms-..., db64-...
    if kind not in KINDS or header.kernel_model is None:
        raise UsageError(
            f"{name}: the data set does not say which workload it is a recording of. Take a recording of a guest, such as "
            "group-imbalance-buggy, or one of a folder of recordings."
        )
    return kind, Machine.preset(f"bd-paper-{header.cpus}"), KernelModel.named(header.kernel_model)


def windows(*runs: Examined) -> tuple[tuple[int, int], ...]:
    """Return the measured window of each trace in ns, as :func:`wastedcores.figures.side_by_side` expects them."""
    return tuple((r.result.start_ns, r.result.end_ns) for r in runs)
