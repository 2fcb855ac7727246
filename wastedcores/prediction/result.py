"""The answer to "what if": :class:`WhatIf`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wastedcores.kernels import KernelModel
from wastedcores.prediction.one_replay import PATIENCE, Task
from wastedcores.recovery import Recovered
from wastedcores.units import human_ns, number

SCHEMA = "wastedcores.whatif/1"
#: percentiles of the seeds that bound a range
RANGE = (5, 95)
#: the replay of the recorded kernel agrees with the recording if its error is at most CLOSE, or if the recording is in the
#: replay's range and the error is at most FAR
CLOSE, FAR = 0.05, 0.15
#: the greatest share of CPU time used before sleeps with a guessed cause: LITTLE for high trust, MUCH for medium trust
LITTLE, MUCH = 0.1, 0.4


@dataclass(frozen=True)
class Range:
    """The median of some seeds, and the range from their 5th to their 95th percentile."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Range:
        """Return the range of some values."""
        low, high = np.percentile(values, RANGE)
        return cls(float(np.median(values)), float(low), float(high))

    def to_dict(self, whole: bool = False) -> dict[str, float]:
        """Return the three numbers; they are rounded to whole numbers if ``whole`` is set."""
        values = {"median": self.median, "low": self.low, "high": self.high}
        return {k: round(v) for k, v in values.items()} if whole else values


def _shows(found: Range, recorded: float, error: float) -> bool:
    """Tell whether replays show a recorded value: it is close to their median, or in their range and not too far away."""
    return error <= CLOSE or (found.low <= recorded <= found.high and error <= FAR)


@dataclass(frozen=True)
class Variant:
    """The recovered work under one kernel."""

    kernel: str  #: name of the kernel model
    #: the length of the window, one value per seed; None if no time can be predicted
    windows_ns: tuple[int, ...] | None
    busy: tuple[float, ...]  #: the mean number of busy CPUs in the window, one value per seed
    #: the wasted thread time in the window, one value per seed: the integral over time of the number of waiting threads for which
    #: a CPU was idle
    wasted_ns: tuple[int, ...]
    #: the gain over the replay of the recorded kernel, one value per seed: the share of the time that is saved; if no time can be
    #: predicted, the share by which more CPUs are busy
    gains: tuple[float, ...] = ()
    #: how many threads per second move to another CPU, last-level cache and node (``per_s``, ``across_caches_per_s`` and
    #: ``across_nodes_per_s``), as means of the seeds; None if the moves were not counted
    moves: dict[str, float | None] | None = None
    #: how many replays were given up before their work ended; their windows would be longer than is said here
    given_up: int = 0

    @property
    def window_ns(self) -> Range | None:
        """The range of the length of the window."""
        return Range.of(self.windows_ns) if self.windows_ns else None

    @property
    def busy_cpus(self) -> Range:
        """The range of the number of busy CPUs."""
        return Range.of(self.busy)

    def wasted_cpus(self, window_ns: int) -> Range:
        """Return the range of the mean number of wasted CPUs; ``window_ns`` is the window's length if no time is predicted."""
        windows = self.windows_ns or (window_ns,) * len(self.wasted_ns)
        return Range.of([w / max(ns, 1) for w, ns in zip(self.wasted_ns, windows, strict=True)])

    @property
    def gain(self) -> Range:
        """The range of the gain."""
        return Range.of(self.gains or (0.0,))

    def to_dict(self) -> dict[str, Any]:
        """Return the variant as in schema ``wastedcores.whatif/1``."""
        window = self.window_ns
        return {
            "kernel": self.kernel,
            "window_ns": window and window.to_dict(whole=True),
            "busy_cpus": self.busy_cpus.to_dict(),
            "gain": self.gain.median,
            "gain_low": self.gain.low,
            "gain_high": self.gain.high,
            "thread_ns": round(float(np.median(self.wasted_ns))),
            "moves": self.moves,
        }


@dataclass(frozen=True)
class WhatIf:
    """How the recorded work would have run elsewhere."""

    #: names of the trace, of the recorded kernel's model and of the recorded machine
    trace: str
    kernel: str
    machine: str
    #: the recorded length of the window, and the recorded mean numbers of busy and of wasted CPUs in it. Waste is counted as in a
    #: replay, that is, as if every thread could run everywhere
    window_ns: int
    busy_cpus: float
    wasted_cpus: float
    recovered: Recovered  #: the recovered work
    itself: Variant  #: the replay under the recorded kernel
    variants: tuple[Variant, ...]  #: the replays under other kernels, the greatest gain first
    seeds: int  #: number of seeds
    #: why another kernel than the recorded one is modelled, as a sentence without a full stop; empty if the recorded kernel is
    stands_in: str = ""
    #: the name of the recorded kernel if another one stands for it; else empty
    recorded_as: str = ""
    #: sentences without full stops about the machine and the kernel, if neither the trace nor the user names them
    assumed: tuple[str, ...] = ()
    #: what was replayed under the recorded kernel, and what was replayed under the other kernels
    work: tuple[Task, ...] = ()

    @property
    def recorded_kernel(self) -> str:
        """The name of the kernel of the recording."""
        return self.recorded_as or self.kernel

    @property
    def error(self) -> float:
        """The relative error of the recorded kernel's replay: in the time or, if no time is predicted, in the busy CPUs."""
        if (window := self.itself.window_ns) is not None:
            return abs(window.median - self.window_ns) / max(self.window_ns, 1)
        return abs(self.itself.busy_cpus.median - self.busy_cpus) / max(self.busy_cpus, 1e-9)

    @property
    def waste_error(self) -> float:
        """How far the replay under the recorded kernel is from the recorded waste, as a share of the busy CPUs.

        Waste is what a scheduler can win or lose. So this error tells how wrong a gain may be even if the time is right.
        """
        found = self.itself.wasted_cpus(self.window_ns).median
        return abs(found - self.wasted_cpus) / max(self.busy_cpus, 1e-9)

    @property
    def shows_result(self) -> bool:
        """Whether the replay under the recorded kernel shows the recorded time, or the recorded number of busy CPUs."""
        if (window := self.itself.window_ns) is not None:
            return _shows(window, self.window_ns, self.error)
        return _shows(self.itself.busy_cpus, self.busy_cpus, self.error)

    @property
    def shows_waste(self) -> bool:
        """Whether the replay under the recorded kernel shows the recorded waste."""
        found = self.itself.wasted_cpus(self.window_ns)
        return _shows(found, self.wasted_cpus, self.waste_error)

    @property
    def agrees(self) -> bool:
        """Whether the replay under the recorded kernel shows what was recorded."""
        return self.shows_result and self.shows_waste

    @property
    def trust(self) -> str:
        """How far to trust the answer: ``high``, ``medium`` or ``low``; :attr:`reasons` say why.

        It is low if neither the trace nor the user names the machine or the kernel. It is never high if another kernel stands for
        the recorded one, or if a replay was given up before its work ended. It is also never high for a modern kernel, because
        few predictions for modern kernels have been compared with recordings (docs/what-if.md).
        """
        modern = KernelModel.named(self.kernel).is_modern
        if self.assumed:
            return "low"
        if (
            not modern
            and not self.stands_in
            and not self._given_up
            and self.agrees
            and self.recovered.guessed_work <= LITTLE
        ):
            return "high"
        return "medium" if self.agrees and self.recovered.guessed_work <= MUCH else "low"

    @property
    def _given_up(self) -> list[str]:
        """Sentences about the variants some of whose replays were given up."""
        return [
            f"{v.given_up} of {self.seeds} replays under {v.kernel} did not end within {PATIENCE} times the recorded time and "
            "were given up, so their windows would be longer than is said here"
            for v in (self.itself, *self.variants)
            if v.given_up
        ]

    @property
    def reasons(self) -> list[str]:
        """Sentences that explain :attr:`trust`, without full stops."""
        what = "window" if self.itself.window_ns else "number of busy CPUs"
        shows = "shows" if self.shows_result else "does not show"
        wasted = self.itself.wasted_cpus(self.window_ns).median
        too = "shows" if self.shows_waste else "does not show"
        guessed = 100 * self.recovered.guessed_work
        under = "the recorded kernel"
        stands_in = []
        if self.stands_in:
            under = self.kernel
            stands_in = [
                f"{self.stands_in}, and {under} stands for it here, although the two may balance differently"
            ]
        modern = KernelModel.named(self.kernel).is_modern
        unproved = (
            [
                "few predictions for modern kernels have been compared with recordings; --confirm compares this one"
            ]
            if modern
            else []
        )
        refill_ns = self.work[0].costs.refill_ns if self.work else 0
        charged = (
            [
                f"each move behind another last-level cache costs {human_ns(refill_ns)} in all replays, also under {under}, "
                "whose recorded moves cost what they did already"
            ]
            if refill_ns
            else []
        )
        return [
            *self._given_up,
            *self.assumed,
            *stands_in,
            *unproved,
            *charged,
            f"a replay under {under} {shows} the recorded {what}: its median is {100 * self.error:.1f} % away",
            f"it {too} the recorded waste: {number(wasted)} CPUs instead of {number(self.wasted_cpus)}, a difference of "
            f"{100 * self.waste_error:.1f} % of the busy ones",
            f"{guessed:.0f} % of the CPU time was used before sleeps whose cause is guessed or not known",
            *self.recovered.notes,
        ]

    def to_dict(self) -> dict[str, Any]:
        """Return the answer, schema ``wastedcores.whatif/1``."""
        itself = self.itself.to_dict()
        return {
            "schema": SCHEMA,
            "recorded": {
                "kernel": self.recorded_kernel,
                "machine": self.machine,
                "window_ns": self.window_ns,
                "busy_cpus": self.busy_cpus,
                "wasted_cpus": self.wasted_cpus,
            },
            "recovered": self.recovered.counts(),
            "itself": {
                "kernel": self.kernel,
                "window_ns": itself["window_ns"],
                "busy_cpus": itself["busy_cpus"],
                "wasted_cpus": self.itself.wasted_cpus(self.window_ns).to_dict(),
                "error": self.error,
                "waste_error": self.waste_error,
            },
            "trust": self.trust,
            "reasons": self.reasons,
            "seeds": self.seeds,
            "variants": [v.to_dict() for v in self.variants],
        }
