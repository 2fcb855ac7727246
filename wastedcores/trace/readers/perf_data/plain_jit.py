"""Goes through the records of a perf.data file from the end of a round (PERF_RECORD_FINISHED_ROUND) to the end of the next."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean


@lean
def next_of_kind(b: NDArray[np.uint8], at: Any, end: int, wanted: int) -> Any:
    """Return where the next record of kind ``wanted`` (below 256) or the next damaged record begins, else where records end."""
    while at + 8 <= end:
        size = np.int64(b[at + 6]) | np.int64(b[at + 7]) << 8
        if size < 8 or (b[at] == wanted and b[at + 1] == 0 and b[at + 2] == 0 and b[at + 3] == 0):
            return at
        at += size
    return at
