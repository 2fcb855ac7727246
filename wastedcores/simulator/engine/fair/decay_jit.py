"""Decay of load by y per 1024 us, where y**32 = 1/2, in the kernel's integers (kernel/sched/fair.c, v4.1 and v4.4)."""

import numpy as np

from wastedcores.jit.compile import inner

LOAD_AVG_MAX = 47742
LOAD_AVG_MAX_N = 345
MAX32 = (1 << 32) - 1


def _tables() -> tuple[np.ndarray, np.ndarray]:
    """Compute ``runnable_avg_yN_inv`` and ``runnable_avg_yN_sum`` in integers, where y**32 = 1/2."""
    # y**n is a fixed-point number of 200 bits; five square roots in a row give y, the 32nd root of 1/2
    from math import isqrt

    one = 1 << 200
    y = one >> 1
    for _ in range(5):
        y = isqrt(y << 200)
    power, inv = one, []
    for _ in range(32):
        inv.append(((2**32 - 1) * power) >> 200)
        power = (power * y) >> 200
    total, sums = 0, [0]
    for _ in range(32):
        total = ((total + 1024) * y) >> 200
        sums.append(total)
    return np.array(inv, dtype=np.int64), np.array(sums, dtype=np.int64)


Y_INV, Y_SUM = _tables()


@inner
def decay_load(value, n):
    """decay_load(): ``value * y**n`` for a value below 2**31."""
    if n == 0:
        return value
    if n > 2016:
        return value * 0
    return ((value >> (n >> 5)) * int(Y_INV[n & 31])) >> 32


@inner
def mul_shift(a, mul, shift):
    """mul_u64_u32_shr(): ``a * mul >> shift`` with a 96-bit product, where a >= 0, mul < 2**32 and shift <= 32."""
    high = a >> 32
    low = int(np.int64((np.uint64(a & MAX32) * np.uint64(mul)) >> np.uint64(shift)))
    if high != 0:
        low += (high * mul) << (32 - shift)
    return low


@inner
def decay_sum(value, n):
    """decay_load(): ``value * y**n`` for n > 0, with a product of 96 bits."""
    if n > 2016:
        return value * 0
    return mul_shift(value >> (n >> 5), int(Y_INV[n & 31]), 32)


@inner
def contrib_of(n):
    """__compute_runnable_contrib(): the sum of ``n`` full periods."""
    if n <= 32:
        return int(Y_SUM[n])
    if n >= LOAD_AVG_MAX_N:
        return int(Y_SUM[0]) + LOAD_AVG_MAX
    c = int(Y_SUM[0])
    while True:
        c = (c >> 1) + int(Y_SUM[32])
        n -= 32
        if n <= 32:
            break
    return decay_load(c, n) + int(Y_SUM[n])
