"""The classes of sleeps: for each, what the task waited for."""

from __future__ import annotations

#: the trace ends before the sleep does
UNENDED = -1
#: only the length of the sleep is known
UNKNOWN = 0
#: one of its children exits
CHILD = 1
#: the last of a group of tasks arrives at a barrier
BARRIER = 2
#: another task does something: it releases a lock, sends a message, signals a condition
MESSAGE = 3
#: a time is over: the sleeps have one length, or the wakeups have equal distances
TIMER = 4
#: no task: an interrupt that comes at irregular times
DEVICE = 5
#: as MESSAGE, but the waker is inferred from what other tasks did when the sleep ended
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
#: the recognised classes and the guessed classes; all other classes are unknown
RECOGNISED = (CHILD, BARRIER, MESSAGE, TIMER, JOIN)
GUESSED = (DEVICE, LIKELY)
