"""Checks the operations in a file, so that compiled code never reads outside its tables. Script's methods check the same."""

from __future__ import annotations

from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.limits import LONGEST_NS
from wastedcores.workload import ops
from wastedcores.workload.program import MOST

#: name of each operation
NAMES = {
    getattr(ops, name): name.removeprefix("OP_").lower()
    for name in dir(ops)
    if name.startswith("OP_")
}
_NS, _NS_OR_NONE, _COUNT, _UNITS = (0, LONGEST_NS), (-1, LONGEST_NS), (0, MOST), (1, MOST)
_FLAG, _MODE, _SLOT, _ANY = (0, 1), (0, 2), (0, 3), (-LONGEST_NS, LONGEST_NS)
#: the least and the greatest value of the fields a to d (docs/replay-semantics.md, section 2); a field without limits is not
#: used, or is the number of an object of the workload
_LIMITS = {
    ops.OP_COMPUTE: (_NS, _NS),
    ops.OP_COMPUTE_EXP: (_NS, _NS, _NS),
    ops.OP_SLEEP: (_NS, _NS),
    ops.OP_SLEEP_EXP: (_NS, _NS, _NS),
    ops.OP_LOOP: (_COUNT, _SLOT, (-1, MOST), _NS_OR_NONE),
    ops.OP_LOOP_BARRIER: (_COUNT, _SLOT, (-1, MOST)),
    ops.OP_BARRIER: (_COUNT, _MODE, _NS, _NS_OR_NONE),
    ops.OP_LOCK: (_COUNT, _MODE, _NS, _FLAG),
    ops.OP_UNLOCK: (_COUNT, _ANY, _ANY, _FLAG),
    ops.OP_POST: (_COUNT, _UNITS, _FLAG),
    ops.OP_WAIT: (_COUNT, _MODE, _NS),
    ops.OP_FORK: (_COUNT, (-1, MOST), _FLAG),
    ops.OP_WAIT_CHILDREN: (_COUNT,),
    ops.OP_NICE: ((-20, 19),),
    ops.OP_SIGNAL: (_COUNT, _FLAG),
    ops.OP_WAIT_SIGNAL: (_COUNT, _MODE, _NS),
    ops.OP_TIMER: (_COUNT, _NS, _FLAG),
    ops.OP_SLEEP_JIFFIES: (_COUNT, _COUNT, _COUNT, _COUNT),
    ops.OP_TOUCH: (_FLAG,),
    ops.OP_FLUSH: (_COUNT, _COUNT, _UNITS),
    ops.OP_POLICY: ((0, 5), (0, 99)),
}
_REST = (_ANY,) * 4


def check_row(comm: str, row: tuple[Any, ...], place: int) -> None:
    """Refuse an operation that has impossible numbers or jumps forwards."""
    op, a, b, *_ = row
    limits = _LIMITS.get(op, ())
    fields = zip("abcd", row[1:], (*limits, *_REST[len(limits) :]), strict=True)
    for name, value, (low, high) in fields:
        if name == "a" and op in (ops.OP_MARK, ops.OP_AFFINITY):
            if not isinstance(value, str if op == ops.OP_MARK else frozenset):
                raise _bad(comm, op, place, f"a={value!r}", "a text, or CPUs")
        elif isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _bad(comm, op, place, f"{name}={value!r}", f"a whole number from {low} to {high}")
    if op in (ops.OP_LOOP, ops.OP_LOOP_BARRIER) and a >= place:
        raise _bad(comm, op, place, f"a={a}", "the number of an operation before it")
    if op in (ops.OP_COMPUTE, ops.OP_SLEEP) and b < a:
        raise _bad(comm, op, place, f"a={a} and b={b}", "a second time that is not smaller")
    if op == ops.OP_LOCK and row[4] and b != ops.MODE_BLOCK:
        raise _bad(
            comm, op, place, f"b={b}", f"{ops.MODE_BLOCK}, because a shared lock can only block"
        )
    if op == ops.OP_SLEEP_JIFFIES and not a and not row[3]:
        raise _bad(comm, op, place, "a=0 and c=0", "ticks or a period")
    if op == ops.OP_POLICY and (a not in ops.POLICIES.values() or (b > 0) != (a in (1, 2))):
        raise _bad(comm, op, place, f"a={a} and b={b}", "a policy and its priority")


def _bad(comm: str, op: int, place: int, got: str, expected: str) -> WorkloadError:
    return WorkloadError(
        f"task {comm!r}: operation {place}, {NAMES[op]}, has {got}; expected {expected}."
    )
