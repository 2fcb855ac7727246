"""The integer arithmetic of CFS: weights, virtual time, the decay of loads. Pure functions without state.

Source: kernel/sched/sched.h and fair.c, v4.1.
"""

from __future__ import annotations

NICE_0_LOAD = 1024
#: the smallest weight of a group's entity (kernel/sched/sched.h: MIN_SHARES)
MIN_SHARES = 2

# kernel/sched/sched.h: prio_to_weight[], v4.1; index nice + 20
PRIO_TO_WEIGHT = (
    88761, 71755, 56483, 46273, 36291, 29154, 23254, 18705, 14949, 11916,
    9548, 7620, 6100, 4904, 3906, 3121, 2501, 1991, 1586, 1277,
    1024, 820, 655, 526, 423, 335, 272, 215, 172, 137,
    110, 87, 70, 56, 45, 36, 29, 23, 18, 15,
)  # fmt: skip
# kernel/sched/sched.h: prio_to_wmult[], v4.1: 2^32 / weight
PRIO_TO_WMULT = (
    48388, 59856, 76040, 92818, 118348, 147320, 184698, 229616, 287308, 360437,
    449829, 563644, 704093, 875809, 1099582, 1376151, 1717300, 2157191, 2708050, 3363326,
    4194304, 5237765, 6557202, 8165337, 10153587, 12820798, 15790321, 19976592, 24970740,
    31350126, 39045157, 49367440, 61356676, 76695844, 95443717, 119304647, 148102320,
    186737708, 238609294, 286331153,
)  # fmt: skip

_MAX32 = (1 << 32) - 1


def inverse_weight(weight: int) -> int:
    """Return (2^32 - 1) / ``weight`` as the kernel caches it (fair.c: __update_inv_weight(), v4.1)."""
    if weight >= _MAX32:
        return 1
    return _MAX32 // weight if weight else _MAX32


def calc_delta(delta: int, weight: int, inv: int) -> int:
    """Return ``delta * weight / divisor`` with the kernel's shifts; ``inv`` is the inverse weight of the divisor.

    fair.c: __calc_delta(), v4.1.
    """
    fact, shift = weight * inv, 32
    while fact >= 1 << 32:
        fact >>= 1
        shift -= 1
    return (delta * fact) >> shift


# --- PELT: 1024 us periods, half-life 32 periods (fair.c, v4.1) -------------------------------------------------------

LOAD_AVG_MAX = 47742
LOAD_AVG_MAX_N = 345
_HALF = 23371  # the sum of 32 decayed periods, runnable_avg_yN_sum[32]


def _tables() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Compute runnable_avg_yN_inv and runnable_avg_yN_sum from y^32 = 1/2 with enough digits to get every entry right."""
    from decimal import Decimal, getcontext

    getcontext().prec = 50
    y = Decimal(2) ** (Decimal(-1) / 32)
    inv = tuple(int(_MAX32 * y**n) for n in range(32))
    ysum = [0]
    for _ in range(32):
        ysum.append(int((ysum[-1] + 1024) * y))
    return inv, tuple(ysum)


YN_INV, YN_SUM = _tables()


def decay_load(value: int, periods: int) -> int:
    """Return ``value * y^periods`` (fair.c: decay_load(), v4.1)."""
    if not periods:
        return value
    if periods > 32 * 63:
        return 0
    value >>= periods // 32
    return (value * YN_INV[periods % 32]) >> 32


def contribution(periods: int) -> int:
    """Return the decayed sum of ``periods`` full periods of 1024 (fair.c: __compute_runnable_contrib(), v4.1)."""
    if periods <= 32:
        return YN_SUM[periods]
    if periods >= LOAD_AVG_MAX_N:
        return LOAD_AVG_MAX
    total = 0
    while True:
        total = total // 2 + _HALF
        periods -= 32
        if periods <= 32:
            break
    return decay_load(total, periods) + YN_SUM[periods]


# --- cpu_load[] (kernel/sched/proc.c, v4.1) ---------------------------------------------------------------------------

_ZERO_TICKS = (0, 8, 32, 64, 128)
_FACTORS = (
    (0, 0, 0, 0, 0, 0, 0, 0),
    (64, 32, 8, 0, 0, 0, 0, 0),
    (96, 72, 40, 12, 1, 0, 0, 0),
    (112, 98, 75, 43, 15, 1, 0, 0),
    (120, 112, 98, 76, 45, 16, 2, 0),
)


def decay_missed(load: int, missed: int, index: int) -> int:
    """Decay ``cpu_load[index]`` over ``missed`` ticks without load (proc.c: decay_load_missed(), v4.1)."""
    if not missed:
        return load
    if missed >= _ZERO_TICKS[index]:
        return 0
    if index == 1:
        return load >> missed
    bit = 0
    while missed:
        if missed & 1:
            load = (load * _FACTORS[index][bit]) >> 7
        missed >>= 1
        bit += 1
    return load
