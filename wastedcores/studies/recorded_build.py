"""A recorded build on the machine of the fork/wait paper: its work is recovered from the trace and replayed under the strategies.

The trace tells how long each process computed and how processes waited for each other, so none of this is assumed. What remains
assumed are the clocks of the paper's machine, and that a stretch needs as long there, at the nominal frequency, as recorded.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from wastedcores.kernels import KernelModel
from wastedcores.prediction.machines_and_kernels import check_recoverable, task_of
from wastedcores.prediction.one_replay import Task, run, window_of
from wastedcores.recovery import recover
from wastedcores.recovery.family import family_of
from wastedcores.studies.fork_wait_replays import machine, measured
from wastedcores.trace.named import open as opened
from wastedcores.workload.program import costs_of

#: the bundled recording of a build of kernel/sched
TRACE = "kernel-build"
#: the command whose processes are replayed
ROOT = "make"


def recorded(kernel: str, seed: int, trace: str = TRACE, **clocks: float) -> dict[str, Any]:
    """Replay a recorded build on the machine of the fork/wait paper.

    Parameters
    ----------
    kernel, seed
        Name of the kernel model, and the seed.
    trace
        The recording: a file or a data set, as ``wastedcores capture -- make -j32`` writes it. Its machine may be smaller.
    **clocks
        As for :func:`wastedcores.studies.fork_wait_replays.machine`.

    Returns
    -------
    dict
        ``build_s``, and the measures of :func:`wastedcores.studies.fork_wait_replays.measured` over the whole build.
    """
    task = work(trace, tuple(sorted(clocks.items())))
    raw = run(task, KernelModel.named(kernel), seed)
    start, end = window_of(task, raw)
    return {"build_s": (end - start) / 1e9} | measured(raw, task.machine, start, end)


@lru_cache(maxsize=4)
def work(trace: str = TRACE, clocks: tuple[tuple[str, float], ...] = ()) -> Task:
    """Recover the work of a build for the machine of the fork/wait paper."""
    where = machine(**dict(clocks))  # type: ignore[arg-type]  # whole numbers of ticks come as such
    found = family_of(opened(trace), ROOT)
    recovered = recover(found, costs=costs_of(where))
    check_recoverable(found, recovered)
    return task_of(recovered, where, None)
