"""The optimisation modules of a design, in the order of ``kernels.MODULES`` (docs/design-mode.md)."""

(
    CACHE_AFFINITY,
    WAKER_LOCALITY,
    LOAD_BALANCE,
    NUMA,
    CONTENTION,
    POWER,
    WAKEUP_V4_1,
    BALANCE_V4_1,
    FORK_FLAG,
    FAST_CORE,
) = range(10)
