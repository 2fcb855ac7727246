"""Reads the part of a line of ftrace text or perf script that comes before the event.

Formats: kernel/trace/trace_output.c:trace_print_context (4.1 ... 6.18), tools/perf/builtin-script.c:
perf_sample__fprintf_start.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wastedcores.jit.compile import lean
from wastedcores.limits import MAX_SECONDS
from wastedcores.trace.readers.support.bytes_jit import number
from wastedcores.trace.readers.support.names_jit import COMM_MAX

U8 = NDArray[np.uint8]


@lean
def _stamp(b: U8, i: int) -> tuple[int, int]:
    """Read ``seconds.fraction: `` at ``i``: (ns, end); end is 0 if it is not there."""
    sec, j = number(b, i)
    if j == i or j - i > 10 or sec > MAX_SECONDS or b[j] != 46:
        return 0, 0
    frac, k = number(b, j + 1)
    n = k - j - 1
    if n < 1 or n > 9 or b[k] != 58 or b[k + 1] != 32:
        return 0, 0
    for _ in range(9 - n):
        frac *= 10
    return sec * 1_000_000_000 + frac, k + 2


@lean
def spaces(b: U8, i: int) -> int:
    """Return the place after the spaces at ``i``."""
    while b[i] == 32:
        i += 1
    return i


@lean
def _before(b: U8, i: int, first: int) -> int:
    """Return the place where the spaces before ``i`` begin; it is never before ``first``."""
    while i > first and b[i - 1] == 32:
        i -= 1
    return i


@lean
def _after_cpu(b: U8, i: int, perf: bool) -> tuple[int, int, int]:
    """Read the part between "[cpu]" and the event's name: (ns, place of the name, where flags end).

    The place is 0 if the part has another form. Without ftrace's flag characters, the place where flags end is 0, too.
    """
    i = spaces(b, i)
    ns, at = _stamp(b, i)
    end = 0
    if at == 0 and not perf:  # ftrace's flag characters
        j = i
        while b[j] > 32 and j - i < 8:
            j += 1
        if 4 <= j - i <= 7 and b[j] == 32:
            ns, at = _stamp(b, spaces(b, j))
            end = j
    return ns, spaces(b, at) if at else 0, end


@lean
def in_interrupt(b: U8, end: int) -> bool:
    """Tell whether the flags that end at ``end`` say that a hardware interrupt runs.

    ``h`` is an interrupt, ``H`` an interrupt in a softirq, and ``z`` and ``Z`` an NMI (kernel/trace/trace_output.c:
    trace_print_lat_fmt, 4.1 to 6.18). No other flag is printed as one of these letters.
    """
    i = end - 1
    while b[i] > 32:
        if b[i] | 32 == 104 or b[i] | 32 == 122:
            return True
        i -= 1
    return False


@lean
def envelope(b: U8, start: int, perf: bool) -> tuple[int, int, int, int, int, int, int]:
    """Return (begin and end of the task's name, pid, cpu, ns, place of the event's name, where the flags end).

    The place of the event's name is 0 if the line is not understood. The task's name comes first and can contain anything, so
    the first "[cpu]" that has all parts of an envelope around it counts.
    """
    first = spaces(b, start)
    i = first
    while b[i] != 10 and i - first < 64:
        if b[i] != 91:
            i += 1
            continue
        cpu, j = number(b, i + 1)
        at = ns = flags = 0
        if i + 1 < j <= i + 5 and b[j] == 93 and b[j + 1] == 32:
            ns, at, flags = _after_cpu(b, j + 1, perf)
        if at == 0:
            i += 1
            continue
        # read backwards: spaces, ftrace's thread group "(  123)" or "(-----)", the pid, then "-" (ftrace) or spaces (perf)
        k = _before(b, i, first)
        if not perf and b[k - 1] == 41:
            k -= 1
            while k > first and (48 <= b[k - 1] <= 57 or b[k - 1] == 45 or b[k - 1] == 32):
                k -= 1
            if b[k - 1] != 40:
                break
            k = _before(b, k - 1, first)
        pid_end = k
        while k > first and 48 <= b[k - 1] <= 57:
            k -= 1
        if k == pid_end or pid_end == i or k <= first or pid_end - k > 9:
            break
        pid, _ = number(b, k)
        k -= 1
        if b[k] != (32 if perf else 45):
            break
        if perf:
            k = _before(b, k, first)
        if k - first > COMM_MAX:
            break
        return first, k, pid, cpu, ns, at, flags
    return 0, 0, 0, 0, 0, 0, 0
