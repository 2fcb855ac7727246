"""Event columns that compiled readers fill in their final types."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

U8 = NDArray[np.uint8]
U32 = NDArray[np.uint32]
I16 = NDArray[np.int16]
I32 = NDArray[np.int32]
I64 = NDArray[np.int64]


class Columns(NamedTuple):
    """Columns of the trace schema, (rows,) each. A value that is null is 0.

    The bits of ``low`` and ``high`` say which values of a row are present (:data:`HAS_CPU` and so on).
    ``text`` is ``place << 16 | length`` of a string in the file, for the kinds that have one.
    """

    ts_ns: I64
    kind: U8
    cpu: I32
    pid: I32
    comm: U32
    prio: I16
    prev_pid: I32
    prev_comm: U32
    prev_prio: I16
    prev_state: U32
    src_cpu: I32
    by_pid: I32
    by_comm: U32
    value: I64
    in_irq: NDArray[np.bool_]
    low: U8
    high: U8
    text: I64


#: Columns that may be null, in the order of their bits: the first eight columns have bits in ``low``, the others in ``high``.
NULLABLE = Columns._fields[2:15]
(
    HAS_CPU, HAS_PID, HAS_COMM, HAS_PRIO, HAS_PREV_PID, HAS_PREV_COMM, HAS_PREV_PRIO, HAS_PREV_STATE,
) = (1 << i for i in range(8))  # fmt: skip
HAS_SRC_CPU, HAS_BY_PID, HAS_BY_COMM, HAS_VALUE, HAS_IN_IRQ = (1 << i for i in range(5))
