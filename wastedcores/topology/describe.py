"""Machine descriptions: dictionaries and files, as people write them and as oracle cases and guest recordings contain them.

A description has ``cpus`` and any of these fields:

- ``node_of_cpu`` (a list by CPU) or ``cpus_of_node`` (node -> CPU list such as "0-7,64-71"); default: one node
- ``distance`` (a square table); default: 10 on the diagonal, 20 elsewhere
- ``package_of_cpu``; default: one package per node
- ``thread_siblings`` (a CPU list per CPU) or ``core_of_cpu``; default: no SMT
- ``llc_of_cpu``; default: the CPUs of a package on one node share a last-level cache
- ``l2_of_cpu``; default: one L2 cache per core
- ``online`` or ``boot_online`` (a CPU list); default: all CPUs
- ``hotplug`` (a list of [step, cpu] pairs); default: none
- ``isolated`` (a CPU list): CPUs that are online but in no domain
- ``frequency`` (``min_khz``, ``nominal_khz``, ``turbo`` and optionally ``ramp_ticks``, ``hold_ticks``), ``smt_speed`` and
  ``idle_states`` (a list of [name, exit_ns, residency_ns]): the speed of the CPUs, see :mod:`wastedcores.topology.clocks`
- ``microarchitecture``: ``granite-rapids``, ``clearwater-forest`` or ``zen``, because some kernels build other domains for them
- ``asymmetric: true`` if the distance table is asymmetric on purpose
- ``name``; if some nodes have no CPU: ``nodes`` (how many nodes there are) or ``node_ids`` (a list of their numbers)
- ``kernel`` (a release or a model) and ``sched_debug``, for the domains

A field with another name is refused.
"""

from __future__ import annotations

import difflib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import TopologyError, UsageError
from wastedcores.limits import MAX_CPUS, MAX_NODES
from wastedcores.topology._numbers import (
    REMOTE_DISTANCE,
    by_node_id,
    ids,
    limit,
    package_on_node,
    packages,
)
from wastedcores.topology.clocks import Frequency, IdleState
from wastedcores.topology.machine import GRANITE_RAPIDS, ZEN, Machine

#: the beginning of a CPU model's name in QEMU -> the microarchitecture
_CPU_MODELS = {"GraniteRapids": GRANITE_RAPIDS, "EPYC": ZEN}


def from_oracle(data: dict[str, Any], name: str) -> Machine:
    """Make the machine of a case."""
    cpus = int(data["cpus"])
    limit(cpus, MAX_CPUS, "CPUs", name)
    numbers = data.get("node_ids") or []
    limit(max(numbers, default=0) + 1, MAX_NODES, "nodes", name)
    asked = data.get("requested_node_of_cpu") or [0] * cpus
    node = [int(asked[c] if n is None else n) for c, n in enumerate(data["node_of_cpu"][:cpus])]
    topology = [data["cpu_topology"][str(c)] for c in range(cpus)]
    told = [t["pkg"] for t in topology]
    package = packages([None if p in ("", None) else int(p) for p in told], node)
    core = ids((t["threads"] or [c] for c, t in enumerate(topology)), cpus)
    booted = (data.get("events") or [{}])[0].get("online", range(cpus))
    isolated = re.search(r"\bisolcpus=([\d,-]+)", data.get("kernel_args") or "")
    fields: dict[str, Any] = dict(  # noqa: C408
        name=name,
        node_of_cpu=node,
        package_of_cpu=package,
        core_of_cpu=core,
        llc_of_cpu=data.get("llc_of_cpu") or package_on_node(package, node),
        l2_of_cpu=data.get("l2_of_cpu") or core,
        distance=by_node_id(data["distance"], numbers),
        boot_online=tuple(booted),
        isolated=tuple(parse_cpulist(isolated[1], "isolcpus")) if isolated else (),
        asymmetric=True,
        microarchitecture=next(
            (m for model, m in _CPU_MODELS.items() if str(data.get("cpu_model")).startswith(model)),
            "",
        ),
    )
    return Machine(**fields)


_KNOWN = (
    "name", "cpus", "nodes", "node_of_cpu", "cpus_of_node", "distance", "package_of_cpu", "thread_siblings",
    "core_of_cpu", "llc_of_cpu", "l2_of_cpu", "online", "boot_online", "hotplug", "asymmetric", "isolated", "node_ids",
    "kernel", "sched_debug", "frequency", "smt_speed", "idle_states", "microarchitecture",
)  # fmt: skip
#: fields in the ``meta.json`` of a guest recording that describe the recording and not its machine
_GUEST = {
    "domains_after", "domains_before", "domains_note", "emulation", "fixes", "hz", "params", "results_measured_in_guest", "run",
    "sanity", "scenario", "trace", "variant",
}  # fmt: skip
#: the fields that `wastedcores domains --json` prints
_PRINTED = ("schema", "kernel", "sched_debug", "cpus", "machine", "events", "lint", "note", "model")


def is_oracle(data: dict[str, Any]) -> bool:
    """Tell whether this is a case of the domain oracle. Such cases were measured on a booted kernel and are used unchanged."""
    return "cpu_topology" in data


def machine_from_dict(data: dict[str, Any], name: str | None = None) -> Machine:
    """Make a machine from a description."""
    if not isinstance(data, dict):
        raise TopologyError(
            f"machine {name or '?'!r}: a description must be a mapping, not a {type(data).__name__}."
        )
    name = str(name or data.get("name") or data.get("run") or "machine")
    try:
        if is_oracle(data):
            return from_oracle(data, name)
        return _from_description(data, name)
    except UsageError as e:
        raise TopologyError(f"machine {name!r}: {e}") from None
    except (LookupError, TypeError, ValueError, OverflowError) as e:
        raise TopologyError(
            f"machine {name!r}: the description cannot be read ({type(e).__name__}: {e}); expected cpus, "
            "node_of_cpu or cpus_of_node, distance and optionally package_of_cpu, thread_siblings, llc_of_cpu, online."
        ) from None


def _nodes_of(data: dict[str, Any], cpus: int, name: str) -> list[int]:
    """Read the node of each CPU."""
    if "node_of_cpu" in data:
        return [int(n) for n in data["node_of_cpu"]]
    if "cpus_of_node" not in data:
        return [0] * cpus
    listed = data["cpus_of_node"]
    items = listed.items() if isinstance(listed, dict) else enumerate(listed)
    node = [-1] * cpus
    for number, members in items:
        for cpu in _cpulist(members, f"cpus_of_node[{number}]"):
            if not 0 <= cpu < cpus:
                raise TopologyError(
                    f"machine {name!r}: node {number} has CPU {cpu}, but CPUs are 0-{cpus - 1}."
                )
            if node[cpu] >= 0:
                raise TopologyError(
                    f"machine {name!r}: CPU {cpu} is in two nodes, {node[cpu]} and {number}; a CPU belongs to one node."
                )
            node[cpu] = int(number)
    if -1 in node:
        raise TopologyError(
            f"machine {name!r}: CPU {node.index(-1)} is in no node of cpus_of_node."
        )
    return node


def _cpulist(value: Any, where: str) -> list[int]:
    """Read CPUs that are given as a CPU list, one number or a list of numbers."""
    if isinstance(value, str):
        return parse_cpulist(value, where)
    if isinstance(value, int):
        return [value]
    return sorted(int(c) for c in value)


def _refuse_unknown(data: dict[str, Any], name: str) -> None:
    """Refuse an unknown field, because without this field the machine may differ from the machine that is meant."""
    extra = _GUEST if "variant" in data else set()
    for key in data:
        if key in _KNOWN or key in extra:
            continue
        near = difflib.get_close_matches(str(key), _KNOWN, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise TopologyError(
            f"machine {name!r}: unknown field {key!r}{hint}; known are {', '.join(_KNOWN)}. Remove the field if the machine "
            "is complete without it."
        )


def _from_description(data: dict[str, Any], name: str) -> Machine:
    _refuse_unknown(data, name)
    cpus = int(data["cpus"] if "cpus" in data else len(data["node_of_cpu"]))
    limit(cpus, MAX_CPUS, "CPUs", name)
    node = _nodes_of(data, cpus, name)
    if len(node) != cpus:
        raise TopologyError(
            f"machine {name!r}: node_of_cpu has {len(node)} entries for {cpus} CPUs; it needs one per CPU."
        )
    numbers = [int(n) for n in data.get("node_ids") or ()]
    count = max(int(data.get("nodes", 1)), *(n + 1 for n in (*node, *numbers)))
    limit(count, MAX_NODES, "nodes", name)
    distance = data.get("distance")
    if distance is None:
        distance = np.full((count, count), REMOTE_DISTANCE) - (REMOTE_DISTANCE - 10) * np.eye(
            count, dtype=int
        )
    elif len({len(row) for row in distance} | {len(distance)}) != 1:
        raise TopologyError(
            f"machine {name!r}: the distance table has rows of {sorted({len(r) for r in distance})} entries and "
            f"{len(distance)} rows; the table must be square, with one row and one column per node."
        )
    elif "nodes" in data and int(data["nodes"]) != len(distance):
        raise TopologyError(
            f"machine {name!r}: it has {data['nodes']} nodes, but the distance table has {len(distance)}; give a row and a "
            "column for each node."
        )
    else:
        distance = by_node_id(distance, numbers)
    package = [int(p) for p in data.get("package_of_cpu", node)]
    if "thread_siblings" in data:
        core = ids((_cpulist(s, "thread_siblings") for s in data["thread_siblings"]), cpus)
    else:
        core = [int(c) for c in data.get("core_of_cpu", range(cpus))]
    llc = data.get("llc_of_cpu") or package_on_node(package, node)
    booted = data.get("boot_online", data.get("online"))
    fields: dict[str, Any] = dict(  # noqa: C408
        name=name,
        node_of_cpu=node,
        package_of_cpu=package,
        core_of_cpu=core,
        llc_of_cpu=llc,
        l2_of_cpu=data.get("l2_of_cpu") or core,
        distance=distance,
        boot_online=tuple(range(cpus) if booted is None else _cpulist(booted, "online")),
        hotplug=tuple((str(w), int(c)) for w, c in data.get("hotplug", ())),
        isolated=tuple(_cpulist(data.get("isolated", ()), "isolated")),
        asymmetric=bool(data.get("asymmetric", False)),
        frequency=Frequency.from_dict(data["frequency"]) if data.get("frequency") else None,
        smt_speed=float(data.get("smt_speed", 1)),
        microarchitecture=str(data.get("microarchitecture") or ""),
        idle_states=tuple(
            IdleState(str(n), int(e), int(r)) for n, e, r in data.get("idle_states", ())
        ),
    )
    return Machine(**fields)


def read_description(path: str | Path) -> dict[str, Any]:
    """Read a JSON or YAML file into a dictionary."""
    path = Path(path)
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as e:
        raise TopologyError(
            f"{path}: cannot be read as a machine description ({e}); expected a JSON or YAML text file."
        ) from None
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as not_json:
        # a number of 5,000 digits and 100,000 brackets raise these errors, too
        import yaml

        class Loader(yaml.SafeLoader):
            """Refuses aliases, because a file of a kilobyte with aliases can describe lists of a billion numbers."""

            def compose_node(self, parent: Any, index: Any) -> Any:
                if self.check_event(yaml.AliasEvent):
                    raise yaml.YAMLError("it has an alias (*name); write the value again instead")
                return super().compose_node(parent, index)

        try:
            data = yaml.load(text, Loader)
        except (yaml.YAMLError, ValueError, RecursionError) as e:
            where = e if path.suffix in (".yaml", ".yml") else not_json
            raise TopologyError(
                f"{path}: neither JSON nor YAML ({' '.join(str(where).split())}); expected a machine description."
            ) from None
    if not isinstance(data, dict):
        raise TopologyError(
            f"{path}: holds a {type(data).__name__}, not a machine description; expected a mapping with cpus, "
            "node_of_cpu, distance."
        )
    if isinstance(data.get("machine"), dict):
        return _printed(path, data)
    return data


def _printed(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return the machine description that is a part of what ``domains --json`` prints."""
    wrong = [key for key in data if key not in _PRINTED]
    if wrong:
        raise TopologyError(
            f"{path}: unknown field {wrong[0]!r} beside 'machine'; `wastedcores domains --json` prints {', '.join(_PRINTED)}. "
            "Move what describes the machine into the field machine, and remove the rest."
        )
    return data["machine"] | {key: data.get(key) for key in ("kernel", "sched_debug")}
