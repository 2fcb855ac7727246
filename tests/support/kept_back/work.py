"""The work of the eight kinds of recordings as workloads, after the recorder's own programs."""

from __future__ import annotations

from wastedcores.topology.describe import machine_from_dict
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.background import add_kworkers

from .reading import Aside, bits, cpus

US, MS = 1_000, 1_000_000
#: the recorder's own defaults
DEFAULTS = {
    "chain": {"n": 12, "tok": 6, "k": 1000, "lo": 100, "hi": 300, "how": "pipe"},
    "storm": {"jobs": 2000, "J": 0, "lo": 1, "hi": 5},
    "nicemix": {"nice": "0:3,5:3,10:3,19:3", "wk": 4, "dur": 2000, "wlo": 200, "whi": 400, "wsl": 2000},
    "bar": {"T": 0, "k": 300, "spin": 0, "lo": 1800, "hi": 2200},
    "grp2": {"na": 12, "nb": 3, "cg": 0, "dur": 2000, "wa": 100, "wb": 300},
    "aff": {"aff": "6:0-3:300:0-7:300/3:0-7:600::0"},
    "per": {"n": 32, "k": 200, "lo": 1800, "hi": 2200, "sl": 3000},
    "mtx": {"n": 12, "m": 2, "k": 300, "lo": 400, "hi": 800, "cs": 100},
}  # fmt: skip


def machine_of(meta: dict) -> Machine:
    """Return the guest's machine."""
    return machine_from_dict(meta["machine"])


def model_of(meta: dict) -> str:
    """Return the kernel's model. Autogroups are as in the guest; groups with weights of their own are cgroups."""
    name = {"6.1": "v6.1.192", "6.12": "v6.12.107"}[meta["variant"]]
    off = meta["results_measured_in_guest"]["autogroup"] == 0 and not int(_given(meta).get("cg", 0))
    return f"{name}+noautogroup" if off else name


def first_cpus(meta: dict) -> dict[str, int]:
    """Return the CPUs, as bits, to which tasks of a kind are bound at first."""
    if meta["scenario"] != "aff":
        return {}
    groups = (part.split(":") for part in _given(meta)["aff"].split("/"))
    return {f"p{i}": bits(cpus(g[1])) for i, g in enumerate(groups) if len(g) > 1 and g[1]}


def workload(meta: dict, seed: int, aside: list[Aside], guest: bool = False) -> Workload:
    """Return the recorded work for a replay with this seed, and beside it what ran when it began.

    A guest has threads of its kernel, and what an operation costs is what it costs there.
    """
    p, kind, machine = _given(meta), meta["scenario"], machine_of(meta)
    w = Workload(f"kept-back-{kind}")
    online = list(machine.online_cpus)
    if not guest:
        add_kworkers(w, machine, seed)
    shell = Script().touch().session(w.session()).affinity(online)
    if "start" in p:
        shell.affinity([int(p["start"])])
    shell.sleep(int(float(p.get("warm", 200)) * MS))
    if "start" in p:
        shell.affinity(online)
    for other in aside:
        gate = w.semaphore()
        w.task(other.comm, Script().wait(gate, "spin").compute(other.ns), cpu=other.cpu)
        shell.post(gate)
    shell.mark(f"{kind} start")
    _KINDS[kind](_Parts(w, shell, meta), p)
    shell.mark(f"{kind} end")
    w.task("shell", shell, cpu=online[seed * 7919 % len(online)], start_ns=40 * MS)
    return w


def _given(meta: dict) -> dict:
    return DEFAULTS[meta["scenario"]] | meta["params"]


def _us(value: float | str) -> int:
    return int(float(value) * US)


class _Parts:
    """The workload, its shell, and what processes cost in the recorded guest (measured there, ``costs`` in meta.json)."""

    def __init__(self, w: Workload, shell: Script, meta: dict):
        self.w, self.shell, self.machine = w, shell, machine_of(meta)
        costs = meta["costs"]
        self.fork_ns, self.born_ns, self.exit_ns = (
            int(costs[name] * US) for name in ("fork_us", "child_us", "exit_us")
        )

    def compute(self, body: Script, p: dict) -> Script:
        """Let a body compute for a while."""
        return body.compute(_us(p["lo"]), _us(p["hi"]))

    def born(self) -> Script:
        """Return the beginning of a new process."""
        return Script().touch().compute(self.born_ns)

    def forks(self, script: Script, template: int) -> Script:
        """Add a fork and what it costs."""
        return script.compute(self.fork_ns).touch().fork(template)

    def fork(self, comm: str, body: Script, number: int = 1, daemon: bool = False) -> None:
        """Let the shell fork some processes."""
        template = self.w.template(comm, body, daemon=daemon)
        if number == 1:
            self.forks(self.shell, template)
        elif number:
            self.forks(self.shell.loop(number), template).end()


def _chain(x: _Parts, p: dict) -> None:
    """A ring of stages; each takes a token, computes and passes it on, through pipes or semaphores."""
    n = int(p["n"])
    tokens = [x.w.semaphore(int(i < int(p["tok"]))) for i in range(n)]
    for i in range(n):
        body = x.compute(x.born().loop(int(p["k"])).wait(tokens[i]), p)
        body.post(tokens[(i + 1) % n], sync=p["how"] == "pipe").end().compute(x.exit_ns)
        x.fork("st", body)
    x.shell.wait_children(0)


def _storm(x: _Parts, p: dict) -> None:
    """Short children, at most J at once, as make has them."""
    low, high = (_us(1000 * float(p[end])) for end in ("lo", "hi"))
    template = x.w.template("cc1", x.born().compute(low, high).compute(x.exit_ns).touch())
    most = int(p["J"]) or 2 * x.machine.cpus
    x.forks(x.shell.loop(int(p["jobs"])), template).wait_children(most - 1).end()
    x.shell.wait_children(0)


def _nicemix(x: _Parts, p: dict) -> None:
    """Hogs of several nice values, and tasks that wake often."""
    for part in p["nice"].split(","):
        nice, number = part.split(":")
        hog = x.born().nice(int(nice)).loop().compute(200 * US).end()
        x.fork(f"n{nice}", hog, int(number), daemon=True)
    waker = x.born().loop().compute(_us(p["wlo"]), _us(p["whi"])).sleep(_us(p["wsl"])).end()
    x.fork("wk", waker, int(p["wk"]), daemon=True)
    x.shell.sleep(int(float(p["dur"]) * MS))


def _bar(x: _Parts, p: dict) -> None:
    """Processes that meet at a barrier, and sleep there at once or after spinning."""
    number = int(p["T"]) or x.machine.cpus
    barrier, spin = x.w.barrier(number), int(p["spin"]) * 4 * US
    body = x.compute(x.born().loop(int(p["k"])), p)
    if spin:
        body.barrier(barrier, "spin_block", spin)
    else:
        body.barrier(barrier, "block")
    x.fork("b", body.end().compute(x.exit_ns), number)
    x.shell.wait_children(0)


def _grp2(x: _Parts, p: dict) -> None:
    """Two groups of hogs: sessions, or control groups with weights."""
    for comm, number, weight in (("A", p["na"], p["wa"]), ("B", p["nb"], p["wb"])):
        group = x.w.session(round(1024 * float(weight) / 100) if int(p["cg"]) else 1024)
        hog = x.w.template(comm, x.born().loop().compute(200 * US).end(), daemon=True)
        lead = x.forks(x.born().session(group).loop(int(number)), hog).end()
        x.fork("lead", lead.sleep(1000 * 1000 * MS), daemon=True)
    x.shell.sleep(int(float(p["dur"]) * MS))


def _aff(x: _Parts, p: dict) -> None:
    """Tasks that are bound to CPUs, and to others after a while."""
    for i, part in enumerate(p["aff"].split("/")):
        number, first, work, then, rest = (part.split(":") + [""] * 5)[:5]
        body = x.born()
        if first:
            body.affinity(cpus(first))
        body.compute(int(0.9 * float(work) * MS), int(1.1 * float(work) * MS))
        if then:
            body.mark(f"aff {then}").affinity(cpus(then))
        if float(rest or 0) > 0:
            body.compute(int(0.9 * float(rest) * MS), int(1.1 * float(rest) * MS))
        x.fork(f"p{i}", body.compute(x.exit_ns), int(number))
    x.shell.wait_children(0)


def _per(x: _Parts, p: dict) -> None:
    """Tasks that compute and sleep in turns."""
    body = x.compute(x.born().loop(int(p["k"])), p).sleep(_us(p["sl"])).end().compute(x.exit_ns)
    x.fork("t", body, int(p["n"]))
    x.shell.wait_children(0)


def _mtx(x: _Parts, p: dict) -> None:
    """Tasks that compute and then take one of some locks.

    The locks of the first recorder are semaphores. Each sem_post() wakes a sleeper, as each UNLOCK of a shared lock does.
    """
    locks = [x.w.lock() for _ in range(int(p["m"]))]
    for lock in locks if p.get("lock") != "mutex" else ():
        x.shell.lock(lock, "block", shared=True).unlock(lock, shared=True)
    for i in range(int(p["n"])):
        lock = locks[i % len(locks)]
        body = x.compute(x.born().loop(int(p["k"])), p).lock(lock, "block").compute(_us(p["cs"]))
        x.fork("m", body.unlock(lock).end().compute(x.exit_ns))
    x.shell.wait_children(0)


_KINDS = {
    "chain": _chain, "storm": _storm, "nicemix": _nicemix, "bar": _bar, "grp2": _grp2, "aff": _aff, "per": _per, "mtx": _mtx,
}  # fmt: skip
