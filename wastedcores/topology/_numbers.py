"""Numbers of CPUs, packages and nodes in machine descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from wastedcores.errors import TopologyError, UsageError

#: the distance between nodes for which no distance is known
REMOTE_DISTANCE = 20


def ids(groups: Iterable[Iterable[int]], cpus: int) -> list[int]:
    """Number each CPU by the first CPU of its set; a CPU in no set is alone."""
    ids = list(range(cpus))
    for group in groups:
        members = sorted(group)
        for cpu in members:
            if not 0 <= cpu < cpus:
                raise UsageError(f"a core has CPU {cpu}, but CPUs are 0-{cpus - 1}.")
            ids[cpu] = min(ids[cpu], members[0])
    return ids


def packages(known: list[int | None], node: list[int]) -> list[int]:
    """Return the package of each CPU. A CPU without one is put into its node's package; a node without one gets its own."""
    of_node = {n: p for n, p in zip(node, known, strict=True) if p is not None}
    beyond = 1 + max((p for p in known if p is not None), default=0)
    return [
        of_node.get(n, beyond + n) if p is None else p for n, p in zip(node, known, strict=True)
    ]


def package_on_node(package: list[int], node: list[int]) -> list[int]:
    """Number the pairs of package and node in order of first appearance."""
    seen: dict[tuple[int, int], int] = {}
    return [seen.setdefault(key, len(seen)) for key in zip(package, node, strict=True)]


def limit(count: int, most: int, what: str, name: str) -> None:
    """Refuse numbers that no Linux has, before memory is taken for them."""
    if not 1 <= count <= most:
        raise TopologyError(f"machine {name!r}: it has {count} {what}; Linux has 1 to {most}.")


def by_node_id(distance: list[list[int]], ids: list[int]) -> list[list[int]]:
    """Move rows and columns to their node numbers; absent nodes get 20 as on x86 (arch/x86/mm/numa.c: numa_alloc_distance())."""
    if not ids:
        return distance
    if not len(set(ids)) == len(ids) == len(distance) or min(ids) < 0:
        raise UsageError(
            f"node_ids {ids} are not the numbers of the {len(distance)} nodes of the distance table; give one for each row."
        )
    size = max(ids) + 1
    full = [[10 if i == j else REMOTE_DISTANCE for j in range(size)] for i in range(size)]
    for i, row in zip(ids, distance, strict=True):
        for j, d in zip(ids, row, strict=True):
            full[i][j] = d
    return full
