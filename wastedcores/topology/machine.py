"""A machine as the scheduler sees it: CPUs, SMT siblings, last-level caches, packages, nodes, distances, online CPUs.

Interface::

    m = Machine.preset("bulldozer8x8")          presets.py has the list
    m = Machine.from_dict(json.load(f))         a description, an oracle case, a guest's meta.json, Header.machine
    m = Machine.live()                          /sys of the running system
    m.distance                int32 array (nodes, nodes), the SLIT
    m.offline(5).online(5)    the machine after hotplug; ``m.hotplug`` has the steps

A machine never changes. The hotplug steps are part of it because the kernel's domains depend on its history (paper 3.4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from wastedcores.cpulist import format_cpulist
from wastedcores.errors import TopologyError
from wastedcores.limits import MAX_CPUS
from wastedcores.shown import Shown
from wastedcores.topology.clocks import Frequency, IdleState, check_idle_states

IntArray = npt.NDArray[np.int32]
LOCAL_DISTANCE = 10
#: the largest distance of a SLIT: 255 means "unreachable" (ACPI)
MOST_DISTANCE = 254

#: microarchitectures that Linux treats differently when it builds domains
GRANITE_RAPIDS, CLEARWATER_FOREST, ZEN = "granite-rapids", "clearwater-forest", "zen"
SNC_AVERAGED = (GRANITE_RAPIDS, CLEARWATER_FOREST)
MICROARCHITECTURES = (*SNC_AVERAGED, ZEN)

_PER_CPU = ("node_of_cpu", "package_of_cpu", "core_of_cpu", "llc_of_cpu", "l2_of_cpu")


def _frozen(values: Any) -> IntArray:
    """Copy into a read-only int32 array."""
    out = np.array(values, dtype=np.int32)
    out.flags.writeable = False
    return out


@dataclass(frozen=True, eq=False, repr=False)
class Machine(Shown):
    """The CPUs of a machine and the distances between its nodes, numbered as Linux numbers them.

    Attributes
    ----------
    name
        Name of the preset, file or host, for headings only.
    node_of_cpu, package_of_cpu, core_of_cpu, llc_of_cpu, l2_of_cpu
        int32 arrays of shape (cpus,). Core, LLC and L2 numbers are unique in the whole machine, and two CPUs with the same
        number share the core or cache. No core or cache spans two nodes, because the kernel splits it at the node's border
        (arch/x86/kernel/smpboot.c: match_smt(), match_llc(), topology_sane()).
    distance
        int32 array of shape (nodes, nodes), from the node of the row to the node of the column.
    boot_online
        CPUs online at boot.
    hotplug
        Hotplug steps since boot, such as ``(("offline", 5), ("online", 5))``.
    isolated
        CPUs of ``isolcpus=``: online, but in no domain.
    asymmetric
        Whether distance(i, j) differs from distance(j, i) on purpose.
    frequency
        Frequencies of the cores; None if all cores run at one constant speed.
    smt_speed
        Speed of a CPU while another CPU of its core is busy, as a share of its speed while no other CPU of the core is busy.
    idle_states
        Idle states from the shallowest to the deepest, such as ``IdleState("C6", 30_000, 100_000)``.
    microarchitecture
        ``granite-rapids``, ``clearwater-forest`` or ``zen``, because kernels build other domains for these
        (:mod:`wastedcores.topology.levels`); empty for any other microarchitecture, or if it is not known.
    """

    name: str
    node_of_cpu: IntArray
    package_of_cpu: IntArray
    core_of_cpu: IntArray
    llc_of_cpu: IntArray
    l2_of_cpu: IntArray
    distance: IntArray
    boot_online: tuple[int, ...]
    hotplug: tuple[tuple[str, int], ...] = ()
    isolated: tuple[int, ...] = ()
    asymmetric: bool = False
    frequency: Frequency | None = None
    smt_speed: float = 1.0
    idle_states: tuple[IdleState, ...] = ()
    microarchitecture: str = ""
    online_cpus: tuple[int, ...] = field(init=False)

    def _facts(self) -> dict[str, str]:
        facts = {
            "name": self.name,
            "CPUs": str(self.cpus),
            "NUMA nodes": str(self.nodes),
            "packages": str(len(set(self.package_of_cpu.tolist()))),
            "cores": str(len(set(self.core_of_cpu.tolist()))),
        }
        if len(self.online_cpus) < self.cpus:
            facts["online"] = format_cpulist(self.online_cpus)
        return facts

    def __post_init__(self) -> None:
        for key in (*_PER_CPU, "distance"):
            object.__setattr__(self, key, _frozen(getattr(self, key)))
        self._check()
        for key in ("core_of_cpu", "llc_of_cpu", "l2_of_cpu"):
            pair = getattr(self, key).astype(np.int64) * self.nodes + self.node_of_cpu
            object.__setattr__(self, key, _frozen(_first_seen(pair)))
        up = set(self.boot_online)
        for what, cpu in self.hotplug:
            self._check_step(what, cpu, up)
            (up.discard if what == "offline" else up.add)(cpu)
        object.__setattr__(self, "online_cpus", tuple(sorted(up)))

    # --- checks ---------------------------------------------------------------------------------------------------

    def _fail(self, text: str) -> TopologyError:
        return TopologyError(f"machine {self.name!r}: {text}")

    def _check(self) -> None:
        cpus, nodes = self.cpus, self.nodes
        if not 1 <= cpus <= MAX_CPUS:
            raise self._fail(f"{cpus} CPUs; a machine has 1 to {MAX_CPUS}.")
        for key in _PER_CPU:
            if getattr(self, key).shape != (cpus,):
                raise self._fail(f"{key} has {len(getattr(self, key))} entries for {cpus} CPUs.")
        if self.distance.shape != (nodes, nodes):
            raise self._fail(f"the distance table is {self.distance.shape}, not square.")
        bad = np.flatnonzero((self.node_of_cpu < 0) | (self.node_of_cpu >= nodes))
        if len(bad):
            raise self._fail(
                f"CPU {bad[0]} is on node {self.node_of_cpu[bad[0]]}, but the distance table has nodes 0-{nodes - 1}."
            )
        self._check_distance()
        if not 1 / 1024 <= self.smt_speed <= 1:
            raise self._fail(
                f"a speed of {self.smt_speed} for a CPU that shares its core; expected a share of at most 1."
            )
        check_idle_states(self.idle_states)
        if self.microarchitecture and self.microarchitecture not in MICROARCHITECTURES:
            raise self._fail(
                f"microarchitecture {self.microarchitecture!r} makes no difference to domains; known are "
                f"{', '.join(MICROARCHITECTURES)}. Leave it out for any other."
            )
        if not self.boot_online:
            raise self._fail("no CPU is online.")
        for what, named in (("online", self.boot_online), ("isolated", self.isolated)):
            outside = [c for c in named if not 0 <= c < cpus]
            if outside:
                raise self._fail(
                    f"{what} CPUs {format_cpulist(outside)} do not exist (CPUs are 0-{cpus - 1})."
                )

    def _check_distance(self) -> None:
        d = self.distance
        if len(d) == 0:
            raise self._fail("there is no node.")
        if d.min() < LOCAL_DISTANCE or d.max() > MOST_DISTANCE:
            i, j = np.argwhere((d < LOCAL_DISTANCE) | (d > MOST_DISTANCE))[0]
            raise self._fail(
                f"distance from node {i} to node {j} is {d[i, j]}; a SLIT has values from {LOCAL_DISTANCE} (local) "
                f"to {MOST_DISTANCE}."
            )
        off = np.flatnonzero(np.diagonal(d) != LOCAL_DISTANCE)
        if len(off):
            raise self._fail(
                f"distance of node {off[0]} to itself is {d[off[0], off[0]]}; it must be {LOCAL_DISTANCE}."
            )
        near = np.argwhere((d == LOCAL_DISTANCE) & ~np.eye(len(d), dtype=bool))
        if len(near):
            i, j = near[0]
            raise self._fail(
                f"distance from node {i} to node {j} is {LOCAL_DISTANCE}, which means the node itself; "
                "another node is farther (drivers/acpi/numa: slit_valid)."
            )
        if not self.asymmetric and (d != d.T).any():
            i, j = np.argwhere(d != d.T)[0]
            raise self._fail(
                f"the distance table is asymmetric: {i} to {j} is {d[i, j]}, {j} to {i} is {d[j, i]}. If the firmware "
                'really says so, put "asymmetric": true into the description.'
            )

    def _check_step(self, what: str, cpu: int, up: set[int]) -> None:
        if what not in ("offline", "online"):
            raise self._fail(f"hotplug step {what!r}; expected 'offline' or 'online'.")
        if not 0 <= cpu < self.cpus:
            raise self._fail(f"cannot take CPU {cpu} {what}: CPUs are 0-{self.cpus - 1}.")
        if (what == "online") == (cpu in up):
            raise self._fail(f"cannot take CPU {cpu} {what}: it is {what} already.")
        if what == "offline" and len(up) == 1:
            raise self._fail(f"cannot take CPU {cpu} offline: no CPU would be online.")

    # --- questions ------------------------------------------------------------------------------------------------

    @property
    def cpus(self) -> int:
        """Number of possible CPUs; they are 0 to ``cpus - 1``, online or not."""
        return len(self.node_of_cpu)

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes, including those without CPUs."""
        return len(self.distance)

    @property
    def has_clocks(self) -> bool:
        """True if the speed of its CPUs can change, or if leaving an idle state takes time."""
        return self.frequency is not None or self.smt_speed != 1 or bool(self.idle_states)

    def cpus_of_node(self, node: int) -> list[int]:
        """Return the CPUs of a node, ascending, online or not."""
        if not 0 <= node < self.nodes:
            raise self._fail(f"there is no node {node}; nodes are 0-{self.nodes - 1}.")
        return np.flatnonzero(self.node_of_cpu == node).tolist()

    def smt_siblings(self, cpu: int) -> list[int]:
        """Return the CPUs of the same core, including ``cpu``."""
        return np.flatnonzero(self.core_of_cpu == self.core_of_cpu[cpu]).tolist()

    def numa_in_package(self, cpus: Iterable[int]) -> bool:
        """Tell whether some package has CPUs of two nodes among ``cpus``."""
        some = np.fromiter(cpus, dtype=np.int64)
        pairs = np.unique(np.stack([self.package_of_cpu[some], self.node_of_cpu[some]]), axis=1)
        return len(pairs[0]) > len(np.unique(pairs[0]))

    # --- hotplug --------------------------------------------------------------------------------------------------

    def offline(self, cpu: int) -> Machine:
        """Return the machine after ``echo 0 > /sys/devices/system/cpu/cpuN/online``."""
        return self.after((("offline", cpu),))

    def online(self, cpu: int) -> Machine:
        """Return the machine after ``echo 1 > /sys/devices/system/cpu/cpuN/online``."""
        return self.after((("online", cpu),))

    def after(self, steps: Sequence[tuple[str, int]]) -> Machine:
        """Return the machine after more hotplug steps. Each step must change the state of a CPU, and one CPU must stay online."""
        return replace(self, hotplug=(*self.hotplug, *((w, int(c)) for w, c in steps)))

    def rebooted(self) -> Machine:
        """Return the machine after a reboot with the CPUs that are online now."""
        return replace(self, boot_online=self.online_cpus, hotplug=())

    # --- in and out -----------------------------------------------------------------------------------------------

    def to_dict(self) -> dict[str, Any]:
        """Return a description for JSON and for :class:`wastedcores.trace.Header`; :meth:`from_dict` reads it."""
        out: dict[str, Any] = {"name": self.name, "cpus": self.cpus, "nodes": self.nodes}
        out |= {key: getattr(self, key).tolist() for key in (*_PER_CPU, "distance")}
        out["boot_online"] = format_cpulist(self.boot_online)
        if self.hotplug:
            out["hotplug"] = [list(step) for step in self.hotplug]
        if self.isolated:
            out["isolated"] = format_cpulist(self.isolated)
        if self.asymmetric:
            out["asymmetric"] = True
        if self.frequency is not None:
            out["frequency"] = self.frequency.to_dict()
        if self.smt_speed != 1:
            out["smt_speed"] = self.smt_speed
        if self.idle_states:
            out["idle_states"] = [list(astuple(s)) for s in self.idle_states]
        if self.microarchitecture:
            out["microarchitecture"] = self.microarchitecture
        return out

    @classmethod
    def from_dict(cls, data: dict[str, Any], name: str | None = None) -> Machine:
        """Make a machine from a description.

        Parameters
        ----------
        data, name
            As for :func:`wastedcores.topology.describe.machine_from_dict`.

        Returns
        -------
        Machine
            The machine.

        Raises
        ------
        TopologyError
            The description does not describe a possible machine.
        """
        from wastedcores.topology.describe import machine_from_dict

        return machine_from_dict(data, name)

    @classmethod
    def preset(cls, name: str) -> Machine:
        """Return a machine by the name of its preset; see :mod:`wastedcores.topology.presets`."""
        from wastedcores.topology.presets import preset

        return preset(name)

    @classmethod
    def live(cls) -> Machine:
        """Return the machine on which this runs, from ``/sys``."""
        from wastedcores.topology.sysfs import live

        return live()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Machine) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.cpus, self.nodes, self.boot_online, self.hotplug))

    def __repr__(self) -> str:
        up = format_cpulist(self.online_cpus)
        return f"Machine({self.name!r}, cpus={self.cpus}, nodes={self.nodes}, online={up!r})"


def _first_seen(ids: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Renumber 0, 1, ... in order of first appearance."""
    _, first, inverse = np.unique(ids, return_index=True, return_inverse=True)
    rank = np.empty(len(first), dtype=np.int64)
    rank[np.argsort(first)] = np.arange(len(first))
    return rank[inverse.ravel()]
