"""``make -jN``: a parent that keeps up to N short compilers alive (paper 3.1)."""

from __future__ import annotations

from wastedcores.errors import WorkloadError
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

#: time of a fork of the recorded make
FORK_NS = 48_000
#: user time of the recorded compilers, and the time of their exit
COMPILE_NS = (20_000_000, 60_000_000)
EXIT_NS = 60_000


def add_make(
    w: Workload,
    jobs: int,
    parallel: int,
    compile_ns: tuple[int, int] = COMPILE_NS,
    *,
    session: int | None = None,
    cpu: int = 0,
    start_ns: int = 0,
) -> None:
    """Add ``make -jN`` to a workload; it marks ``make start`` and ``make end``."""
    if jobs < 1 or parallel < 1:
        raise WorkloadError(
            f"make: expected at least one job and one at a time, got {jobs} jobs, {parallel} at a time."
        )
    low, high = compile_ns
    compiler = w.template("cc1", Script().compute(low, high).compute(EXIT_NS))
    make = Script().mark("make start").loop(jobs).compute(FORK_NS).fork(compiler)
    make.wait_children(parallel - 1).end().wait_children(0).mark("make end")
    w.task(
        "make",
        make,
        session=w.session() if session is None else session,
        cpu=cpu,
        start_ns=start_ns,
    )
