"""Random numbers of the tasks: splitmix64, one stream per task."""

import math

import numpy as np

from wastedcores.jit.compile import inner
from wastedcores.simulator.engine.world.structs import Kernel, RandomState, TaskStruct


@inner
def mix(z):
    """Return splitmix64's output function, uint64."""
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def stream(seed, number):
    """Return the first state of the stream of task ``number``; -1 stands for the machine, and -2 - c for CPU c."""
    start = np.uint64(np.int64(seed)) * np.uint64(0x9E3779B97F4A7C15)
    start += np.uint64(np.int64(number + 1)) * np.uint64(0xD1342543DE82EF95)
    return int(np.int64(mix(start)))


@inner
def draw(k: Kernel, p: RandomState) -> int:
    """Return the next number of the task's stream, uint64."""
    state = np.uint64(np.int64(p.state)) + np.uint64(0x9E3779B97F4A7C15)
    p.state = int(np.int64(state))
    return mix(state)


@inner
def draw_uniform(k: Kernel, p: TaskStruct, low: int, high: int) -> int:
    """Return an integer of [low, high]; nothing is drawn if the two limits are equal."""
    if low >= high:
        return low
    return low + int(np.int64(draw(k, p.random) % np.uint64(high - low + 1)))


@inner
def draw_exponential(k: Kernel, p: TaskStruct, mean: int, cap: int, floor: int) -> int:
    """Return an exponentially distributed integer, limited to [floor, cap]."""
    u = (float(np.int64(draw(k, p.random) >> np.uint64(11))) + 0.5) * 2.0**-53
    value = int(-mean * math.log(u))
    return min(max(value, floor), cap)
