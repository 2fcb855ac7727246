"""The machine of a case of the domain oracle: what a booted kernel showed of its own topology."""

from __future__ import annotations

import re
from typing import Any

from wastedcores.cpulist import parse_cpulist
from wastedcores.limits import MAX_CPUS, MAX_NODES
from wastedcores.topology._numbers import by_node_id, ids, limit, package_on_node
from wastedcores.topology.machine import GRANITE_RAPIDS, ZEN, Machine

#: QEMU's names of CPU models that begin so -> the microarchitecture
_CPU_MODELS = {"GraniteRapids": GRANITE_RAPIDS, "EPYC": ZEN}


def from_oracle(data: dict[str, Any], name: str) -> Machine:
    """Make the machine of a case."""
    cpus = int(data["cpus"])
    limit(cpus, MAX_CPUS, "CPUs", name)
    limit(max(data.get("node_ids") or [0]) + 1, MAX_NODES, "nodes", name)
    asked = data.get("requested_node_of_cpu") or [0] * cpus
    node = [int(asked[c] if n is None else n) for c, n in enumerate(data["node_of_cpu"][:cpus])]
    topology = [data["cpu_topology"][str(c)] for c in range(cpus)]
    package = _packages(topology, node)
    core = ids((t["threads"] or [c] for c, t in enumerate(topology)), cpus)
    distance, node = by_node_id(data["distance"], data.get("node_ids"), node)
    booted = (data.get("events") or [{}])[0].get("online", range(cpus))
    isolated = re.search(r"\bisolcpus=([\d,-]+)", data.get("kernel_args") or "")
    fields: dict[str, Any] = dict(  # noqa: C408
        name=name,
        node_of_cpu=node,
        package_of_cpu=package,
        core_of_cpu=core,
        llc_of_cpu=data.get("llc_of_cpu") or package_on_node(package, node),
        l2_of_cpu=data.get("l2_of_cpu") or core,
        distance=distance,
        boot_online=tuple(booted),
        isolated=tuple(parse_cpulist(isolated[1], "isolcpus")) if isolated else (),
        asymmetric=True,
        microarchitecture=next(
            (m for model, m in _CPU_MODELS.items() if str(data.get("cpu_model")).startswith(model)),
            "",
        ),
    )
    return Machine(**fields)


def _packages(topology: list[dict[str, Any]], node: list[int]) -> list[int]:
    """Read the package of each CPU; a CPU without one is in that of its node, or else in a package of the node's own."""
    known = [int(t["pkg"]) if t["pkg"] not in ("", None) else None for t in topology]
    of_node = {n: p for n, p in zip(node, known, strict=True) if p is not None}
    beyond = 1 + max((p for p in known if p is not None), default=0)
    return [
        of_node.get(n, beyond + n) if p is None else p for n, p in zip(node, known, strict=True)
    ]
