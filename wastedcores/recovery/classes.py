"""The classes of sleeps: for each, what the task waited for."""

from __future__ import annotations

#: the trace ends before the sleep does
UNENDED = -1
#: nothing is known but the length
UNKNOWN = 0
#: one of its children exits
CHILD = 1
#: the last of a group of tasks arrives at a barrier
BARRIER = 2
#: another task does something: it releases a lock, sends a message, signals a condition
MESSAGE = 3
#: a time is over: sleeps of one length, or wakeups at equal distances
TIMER = 4
#: nobody: an interrupt at irregular times
DEVICE = 5
#: as MESSAGE, but who woke it is concluded from what others did at that moment
LIKELY = 6
#: a master waits for the workers that it started
JOIN = 7

NAMES = {
    UNKNOWN: "unknown",
    CHILD: "exit of a child",
    BARRIER: "barrier",
    MESSAGE: "message or lock",
    TIMER: "timer",
    DEVICE: "device",
    LIKELY: "likely message or lock",
    JOIN: "end of workers",
}
#: classes that are recognised, and those that are guessed; the rest is unknown
RECOGNISED = (CHILD, BARRIER, MESSAGE, TIMER, JOIN)
GUESSED = (DEVICE, LIKELY)
