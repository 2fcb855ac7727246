"""Reads the running machine from ``/sys``, and the domains that its kernel shows.

Reading works in containers, where ``/sys`` belongs to the host, even if lxcfs replaces a part of it. It works with offline
CPUs, too. The kernel hides the core and the caches of an offline CPU; such a CPU counts as a core and a cache of its own, in the
package of its node.
"""

from __future__ import annotations

import platform
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wastedcores.cpulist import parse_cpulist
from wastedcores.errors import TopologyError
from wastedcores.files import text_of
from wastedcores.topology._numbers import packages
from wastedcores.topology.describe import machine_from_dict
from wastedcores.topology.machine import CLEARWATER_FOREST, GRANITE_RAPIDS, LOCAL_DISTANCE, ZEN

if TYPE_CHECKING:
    from wastedcores.topology.domains import Domains
    from wastedcores.topology.machine import Machine


def live(root: str | Path = "/", name: str | None = None) -> Machine:
    """Read the running machine."""
    cpu_dir = Path(root) / "sys/devices/system/cpu"
    present = text_of(cpu_dir / "present") or text_of(cpu_dir / "online")
    if not present:
        raise TopologyError(
            f"{cpu_dir}: there is no list of CPUs; a live machine needs Linux with /sys mounted. Name a preset or a file."
        )
    everyone = parse_cpulist(present, f"{cpu_dir}/present")
    cpus = max(everyone) + 1
    node, ids, distance = _nodes(Path(root) / "sys/devices/system/node", cpu_dir, cpus)
    unknown: list[str | None] = [None] * cpus
    core, llc, l2 = (list(unknown) for _ in range(3))
    package: list[int | None] = [None] * cpus
    for cpu in everyone:
        here = cpu_dir / f"cpu{cpu}"
        siblings = text_of(here / "topology/thread_siblings_list")
        if siblings is None:
            continue
        told = text_of(here / "topology/physical_package_id")
        package[cpu] = int(told) if told else None
        core[cpu] = siblings
        llc[cpu], l2[cpu] = _caches(here / "cache")
    # drivers/base/topology.c: when a CPU goes offline, topology_remove_dev() removes these files. If lxcfs provides the list of
    # online CPUs, the list names the CPUs of the container. So these files tell better which CPUs are online.
    online = [cpu for cpu in everyone if core[cpu] is not None]
    if not online:
        online = parse_cpulist(text_of(cpu_dir / "online") or present, f"{cpu_dir}/online")
    data: dict[str, Any] = {
        "name": name or platform.node() or "live",
        "cpus": cpus,
        "node_of_cpu": node,
        "distance": distance,
        "node_ids": ids,
        "package_of_cpu": _numbered(packages(package, node)),
        "core_of_cpu": _numbered(core),
        "l2_of_cpu": _numbered([b or a for a, b in zip(core, l2, strict=True)]),
        "online": online,
        # the kernel uses the firmware's table as it is, so an asymmetric table is not an error
        "asymmetric": True,
        "isolated": text_of(cpu_dir / "isolated") or "",
    }
    if special := _microarchitecture(text_of(Path(root) / "proc/cpuinfo") or ""):
        data["microarchitecture"] = special
    if any(llc):
        data["llc_of_cpu"] = _numbered([b or a for a, b in zip(core, llc, strict=True)])
    return machine_from_dict(data)


def _microarchitecture(cpuinfo: str) -> str:
    """Return the microarchitecture of the first CPU in ``/proc/cpuinfo`` if kernels build other domains for it.

    arch/x86/include/asm/intel-family.h: INTEL_GRANITERAPIDS_X, INTEL_ATOM_DARKMONT_X; AMD's families from 17h on are Zen.
    """
    first = cpuinfo.partition("\n\n")[0]
    told = {
        key.strip(): value.strip()
        for key, _, value in (line.partition(":") for line in first.splitlines())
    }
    family, model = told.get("cpu family", ""), told.get("model", "")
    if told.get("vendor_id") == "AuthenticAMD" and family.isdigit() and int(family) >= 0x17:
        return ZEN
    if told.get("vendor_id") == "GenuineIntel" and family == "6":
        return {"173": GRANITE_RAPIDS, "221": CLEARWATER_FOREST}.get(model, "")
    return ""


def _numbered(values: list[Any]) -> list[int]:
    """Give equal values equal numbers; each None gets a number of its own."""
    seen: dict[Any, int] = {}
    return [seen.setdefault(("?", i) if v is None else v, len(seen)) for i, v in enumerate(values)]


def _caches(folder: Path) -> tuple[str | None, str | None]:
    """Read the CPU lists that share the last-level cache and the L2 data cache."""
    by_level = {}
    for index in sorted(folder.glob("index[0-9]*")):
        level, shared = text_of(index / "level"), text_of(index / "shared_cpu_list")
        if level and shared and text_of(index / "type") != "Instruction":
            by_level[int(level)] = shared
    return (by_level[max(by_level)] if by_level else None), by_level.get(2)


def _nodes(folder: Path, cpu_dir: Path, cpus: int) -> tuple[list[int], list[int], list[list[int]]]:
    """Read the node of each CPU, the numbers of the nodes and the distances between them."""
    node = [0] * cpus
    listed = text_of(folder / "online")
    if not listed:
        return node, [0], [[10]]
    ids = parse_cpulist(listed, f"{folder}/online")
    distance = []
    for n in ids:
        for cpu in parse_cpulist(text_of(folder / f"node{n}/cpulist") or "", f"node{n}/cpulist"):
            node[cpu] = n
        row = (text_of(folder / f"node{n}/distance") or "").split()
        if len(row) != len(ids):
            raise TopologyError(
                f"{folder}/node{n}/distance: {len(row)} numbers for {len(ids)} nodes ({listed}); "
                "describe the machine in a file instead."
            )
        distance.append([int(d) for d in row])
        near = [m for m, d in zip(ids, distance[-1], strict=True) if m != n and d == LOCAL_DISTANCE]
        if near:
            raise TopologyError(
                f"{folder}: nodes {n} and {near[0]} are at distance {LOCAL_DISTANCE}, which means the same node, as after a boot "
                "with numa=fake. The domains of such nodes are not modelled; boot without it, or describe the machine in a file."
            )
    for cpu in range(cpus):
        # an offline CPU is in no node's cpulist, but it may still have its link to the node
        for link in (cpu_dir / f"cpu{cpu}").glob("node[0-9]*"):
            node[cpu] = int(link.name[4:])
    return node, ids, distance


def kernel_domains(root: str | Path = "/") -> tuple[str, dict[int, list[dict[str, Any]]]] | None:
    """Read the domains that the running kernel shows."""
    found: dict[int, list[dict[str, Any]]] = {}
    sources = []
    text = text_of(Path(root) / "proc/schedstat")
    if text and "domain" in text:
        found = parse_schedstat(text)
        sources.append("/proc/schedstat")
    for place in ("sys/kernel/debug/sched/domains", "proc/sys/kernel/sched_domain"):
        folder = Path(root) / place
        try:
            told = {
                int(c.name[3:]): [
                    (text_of(d / "name"), text_of(d / "flags")) for d in sorted(c.glob("domain*"))
                ]
                for c in folder.glob("cpu[0-9]*")
            }
        except OSError:
            continue
        if not told:
            continue
        sources.append(f"/{place}")
        for cpu, levels in told.items():
            mine = found.setdefault(cpu, [{} for _ in levels])
            for domain, (level, flags) in zip(mine, levels, strict=False):
                domain["level"] = level
                if flags and not flags.isdigit():  # kernels before 5.10 print a number
                    domain["flags"] = tuple(flags.split())
    return (" and ".join(sources), found) if sources else None


def parse_schedstat(text: str) -> dict[int, list[dict[str, Any]]]:
    """Read the domains in ``/proc/schedstat``: lines ``domain0 00000003 ...``, or ``domain0 MC 3 ...`` from version 17."""
    out: dict[int, list[dict[str, Any]]] = {}
    cpu = -1
    for line in text.splitlines():
        word, *rest = line.split()[:3] or [""]
        if match := re.fullmatch(r"cpu(\d+)", word):
            cpu = int(match[1])
            out[cpu] = []
        elif re.fullmatch(r"domain\d+", word) and rest:
            domain: dict[str, Any] = {}
            mask = rest[0]
            if not re.fullmatch(r"[0-9a-f,]+", mask) and len(rest) > 1:
                domain["level"], mask = rest[0], rest[1]
            bits = int(mask.replace(",", ""), 16)
            domain["span"] = [c for c in range(bits.bit_length()) if bits >> c & 1]
            out[cpu].append(domain)
    return out


def compare_live(domains: Domains, root: str | Path = "/") -> str:
    """Compare the modelled domains with those that the running kernel shows."""
    shown = kernel_domains(root)
    if shown is None:
        return "this kernel does not show its domains (/proc/schedstat, debugfs)"
    where, by_cpu = shown
    for cpu, theirs in sorted(by_cpu.items()):
        mine = [{"level": d.level, "span": d.cpus} for d in domains.of(cpu)]
        if len(mine) != len(theirs) or any(
            a[key] != b[key] for a, b in zip(mine, theirs, strict=True) for key in b if key in a
        ):
            return f"DIFFERS from {where} at CPU {cpu}: the kernel has {theirs}, the model {mine}"
    return f"agrees with {where} of this kernel for {len(by_cpu)} CPUs"
