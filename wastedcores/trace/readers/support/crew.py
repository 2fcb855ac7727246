"""Threads to work in, and a waiter who works too: where there are two CPUs, each is to have something to do."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Any


class Job:
    """Work somebody may have begun. Only one thread may ask how it went."""

    def __init__(
        self, future: Future[Any], work: Callable[..., Any], args: tuple[Any, ...]
    ) -> None:
        self._future, self._work, self._args = future, work, args

    def help(self) -> None:
        """Do it, unless somebody has begun."""
        if self._future.cancel():
            done: Future[Any] = Future()
            try:
                done.set_result(self._work(*self._args))
            except Exception as e:
                done.set_exception(e)
            self._future = done

    def result(self) -> Any:
        """What came of it, or its error."""
        if not self._future.done():
            self.help()
        try:
            return self._future.result()
        finally:
            self._args = ()  # which may know this job: memory is to be given back at once


class Crew:
    """A thread for every CPU but the one that its owner runs on; one at least."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max(1, len(os.sched_getaffinity(0)) - 1))

    def submit(self, work: Callable[..., Any], *args: Any) -> Job:
        """Have it done some time."""
        return Job(self._pool.submit(work, *args), work, args)

    @staticmethod
    def finish(jobs: Iterable[Job]) -> None:
        """Have all done: help with the last ones, as the others begin with the first. Raises the first one's error."""
        jobs = list(jobs)
        for job in reversed(jobs):
            job.help()
        for job in jobs:
            job.result()

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
