"""Kbuild: the build of Linux, or of its directory kernel/sched, with recursive make, as the fork/wait paper describes it.

The paper (sections 2 and 4.1) gives the phases of the build of the whole kernel: a nearly sequential preparation with a short
burst on all cores at about 2 s, compilers on all cores from 5 to 34 s, and a nearly sequential end. In the sequential phases
make, sh, gcc, cc1 and as fork and wait for each other. Each process computes for less time than a core needs to speed up. The
numbers of recipes here are chosen so that the phases have these lengths under CFS. For kernel/sched the paper does not
give these times, and it nowhere says how long a process computes; both are assumptions here.
"""

from __future__ import annotations

from dataclasses import dataclass

from wastedcores.errors import WorkloadError
from wastedcores.topology.machine import Machine
from wastedcores.workload.builder import Measure, Workload
from wastedcores.workload.script import Script

US, MS = 1_000, 1_000_000
#: work of each process of a recipe in the sequential phases, in ns at the nominal frequency: a range
MAKE_NS = (200 * US, 600 * US)
SH_NS = (300 * US, 1_200 * US)
GCC_NS = (300 * US, 900 * US)
CC1_NS = (1 * MS, 6 * MS)
AS_NS = (500 * US, 2 * MS)


@dataclass(frozen=True)
class Tree:
    """What is built: the numbers of recipes, in the order of the phases, and the work of the parallel phase's compilers."""

    #: sequential recipes before the burst, between the burst and the compilers, and at the end
    prepare: int
    burst: int  #: recipes of the burst, all at once
    between: int
    #: the number of sub-makes of the parallel phase, and of the files that each sub-make compiles
    directories: int
    files: int
    compile_ns: tuple[int, int, int]  #: work of cc1 for one file: mean, most and least, in ns
    finish: int


TREES = {
    "sched": Tree(110, 64, 30, 4, 12, (150 * MS, 400 * MS, 20 * MS), 40),
    "full": Tree(170, 2_000, 250, 400, 40, (240 * MS, 2_000 * MS, 20 * MS), 250),
}


def kbuild(
    machine: Machine,
    seed: int,
    tree: str = "sched",
    jobs: int = 32,
    exec: bool = False,
    stretch: float = 1.0,
    recipes: float = 1.0,
) -> Workload:
    """Make the build."""
    if tree not in TREES:
        raise WorkloadError(f"tree {tree!r} is unknown; there are {', '.join(TREES)}.")
    if jobs < 1 or not (0.05 <= stretch <= 20 and 0.05 <= recipes <= 20):
        raise WorkloadError(
            f"{jobs} jobs, stretches of {stretch} times the assumed and {recipes} times the recipes; expected 1 or more, and "
            "0.05 to 20 of both."
        )
    size = TREES[tree]
    w = Workload("kbuild", Measure("build_s", "make start", "make end"))
    rules = _Recipes(w, jobs, exec, stretch, recipes)
    make = Script().mark("make start")
    rules.sequence(make, size.prepare)
    make.mark("burst")
    rules.at_once(make, 1, size.burst, (4 * MS, 40 * MS, 1 * MS))
    make.mark("between")
    rules.sequence(make, size.between)
    make.mark("compile")
    rules.at_once(make, size.directories, size.files, size.compile_ns)
    make.mark("finish")
    rules.sequence(make, size.finish)
    w.task("make", make.mark("make end"), session=w.session())
    return w


class _Recipes:
    """Templates of the processes of recipes, and the operations of a make that runs them."""

    def __init__(self, w: Workload, jobs: int, exec_: bool, stretch: float, recipes: float) -> None:
        self.w, self.exec, self.stretch, self.times = w, exec_, stretch, recipes
        self.tokens = w.semaphore(jobs)
        pipe = w.semaphore()
        cc1 = w.template("cc1", self._begin(CC1_NS).post(pipe))
        as_ = w.template("as", self._begin(AS_NS, before=pipe))
        gcc = w.template("gcc", self._begin(GCC_NS).fork(cc1).fork(as_).wait_children(0))
        self.sh = w.template("sh", self._begin(SH_NS).fork(gcc).wait_children(0))

    def _scaled(self, span: tuple[int, int]) -> tuple[int, int]:
        return round(span[0] * self.stretch), round(span[1] * self.stretch)

    def _begin(self, span: tuple[int, int], before: int | None = None) -> Script:
        """Return the script of a new process that computes; if ``before`` is given, the process first reads from a pipe."""
        script = Script().exec() if self.exec else Script()
        if before is not None:
            script.wait(before)
        return script.compute(*self._scaled(span))

    def sequence(self, make: Script, recipes: int) -> None:
        """Let make run recipes one after the other."""
        rounds = max(round(recipes * self.times / self.stretch), 1)
        make.loop(rounds).compute(*self._scaled(MAKE_NS)).fork(self.sh).wait_children(0).end()

    def at_once(
        self, make: Script, directories: int, files: int, compile_ns: tuple[int, int, int]
    ) -> None:
        """Let make run sub-makes that compile files. The jobserver's tokens limit how many of them run at the same time."""
        w = self.w
        most = Script().exec() if self.exec else Script()
        cc1 = w.template("cc1", most.compute_exponential(*compile_ns))
        as_ = w.template("as", self._begin(AS_NS))
        gcc = w.template(
            "gcc", self._begin(GCC_NS).fork(cc1).wait_children(0).fork(as_).wait_children(0)
        )
        sh = w.template("sh", self._begin(SH_NS).fork(gcc).wait_children(0).post(self.tokens))
        sub = self._begin(MAKE_NS).loop(files).wait(self.tokens)
        sub.compute(*self._scaled(MAKE_NS)).fork(sh).end().wait_children(0)
        submake = w.template("make", sub)
        make.loop(directories).compute(*self._scaled(MAKE_NS)).fork(submake).end().wait_children(0)
