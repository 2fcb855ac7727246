"""Random machines for hypothesis: uneven nodes, nodes without CPUs, several nodes per package, SMT, any SLIT."""

from __future__ import annotations

from hypothesis import strategies as st

from wastedcores.topology.machine import Machine

KERNELS = (
    "v4.1",
    "v4.1+group_construction",
    "v4.12",
    "v4.13",
    "v4.19",
    "v5.4",
    "v5.15",
    "v6.1",
    "v6.12",
)


@st.composite
def machines(draw, max_nodes=6, asymmetric=True):
    nodes = draw(st.integers(1, max_nodes))
    threads = draw(st.sampled_from((1, 1, 2, 3)))
    cores = draw(st.lists(st.integers(0, 3), min_size=nodes, max_size=nodes).filter(any))
    core_node = [n for n, count in enumerate(cores) for _ in range(count)]
    total = len(core_node) * threads
    order = draw(st.sampled_from(("packed", "threads-last", "shuffled")))
    core_of = [c // threads for c in range(total)]
    if order == "threads-last":
        core_of = [c % len(core_node) for c in range(total)]
    elif order == "shuffled":
        core_of = draw(st.permutations(core_of))
    per_package = draw(st.integers(1, 3))
    llc_size = draw(st.integers(1, 3))
    values = st.sampled_from(
        draw(st.sampled_from(((20,), (16, 22), (12, 32), (20, 30, 40), (14, 33, 51, 60))))
    )
    distance = [[10] * nodes for _ in range(nodes)]
    lopsided = asymmetric and draw(st.booleans())
    for i in range(nodes):
        for j in range(i):
            distance[i][j] = draw(values)
            distance[j][i] = draw(values) if lopsided else distance[i][j]
    node = [core_node[c] for c in core_of]
    return Machine.from_dict(
        {
            "name": "random",
            "cpus": total,
            "nodes": nodes,
            "node_of_cpu": node,
            "package_of_cpu": [n // per_package for n in node],
            "core_of_cpu": core_of,
            "llc_of_cpu": [c // llc_size for c in core_of],
            "distance": distance,
            "asymmetric": True,
        }
    )


@st.composite
def machines_after_hotplug(draw, **kwargs):
    machine = draw(machines(**kwargs))
    for _ in range(draw(st.integers(0, 4))):
        up = set(machine.online_cpus)
        cpu = draw(st.integers(0, machine.cpus - 1))
        if cpu not in up:
            machine = machine.online(cpu)
        elif len(up) > 1:
            machine = machine.offline(cpu)
    return machine
