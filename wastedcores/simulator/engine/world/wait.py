"""Columns of a wait object: a barrier, lock, semaphore, condition or periodic timer."""

from __future__ import annotations

(
    PARTIES,
    COUNT,
    HEAD,  # first and last of the tasks that wait, in order of arrival
    TAIL,
    GENERATION,
    STOPPED,
    OWNER,
) = range(7)
