"""The clocks of a machine's CPUs: frequencies, and idle states with their exit latencies.

A machine without frequencies and idle states runs all its CPUs at one constant speed. docs/replay-semantics.md, section 12,
says how a replay uses them. Usually only the frequency range of a processor is published. All else is an assumption, which a
study has to name: the delay before a busy core speeds up, the turbo table, and how long an idle core keeps its frequency.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from wastedcores.errors import TopologyError

#: the number that stands for the speed at the nominal frequency
UNIT = 1024
#: the engine's table has room for this many turbo steps and idle states
MOST_STEPS, MOST_STATES = 32, 8
#: no core runs faster than this many times its nominal frequency, so that work in ns times a speed fits into 63 bits
_FASTEST = 8


@dataclass(frozen=True)
class Frequency:
    """The frequencies of the cores of a machine."""

    min_khz: int  #: the frequency of a core that has not been busy for long enough, in kHz
    #: the frequency at which work is counted, in kHz: at this frequency 1 ns of work takes 1 ns
    nominal_khz: int
    #: pairs: a number of active cores of a package, and the highest frequency in kHz while at most this many cores are active.
    #: From pair to pair the frequency never rises. The last pair also holds for more cores.
    turbo: tuple[tuple[int, int], ...]
    #: a core leaves ``min_khz`` at the tick that finds it busy for the ``ramp_ticks``-th time
    ramp_ticks: int = 3
    hold_ticks: int = 3  #: a core that is idle for this many ticks falls back to ``min_khz``

    def __post_init__(self) -> None:
        cores = [n for n, _ in self.turbo]
        khz = [f for _, f in self.turbo]
        if not 1 <= len(khz) <= MOST_STEPS or cores != sorted(set(cores)) or cores[0] < 1:
            raise TopologyError(
                f"turbo {self.turbo}: expected 1 to {MOST_STEPS} pairs of active cores and kHz, with rising numbers of cores."
            )
        if khz != sorted(khz, reverse=True) or not 0 < self.min_khz <= khz[-1]:
            raise TopologyError(
                f"frequencies {khz} kHz with a lowest of {self.min_khz} kHz: expected frequencies that fall as more cores are "
                "active, and none below the lowest."
            )
        if not khz[0] <= _FASTEST * self.nominal_khz or self.min_khz * UNIT < self.nominal_khz:
            raise TopologyError(
                f"nominal frequency {self.nominal_khz} kHz: expected at least 1/{_FASTEST} of the highest ({khz[0]} kHz), and "
                f"at most {UNIT} times the lowest ({self.min_khz} kHz)."
            )
        if self.ramp_ticks < 1 or self.hold_ticks < 1:
            raise TopologyError(
                f"ramp of {self.ramp_ticks} and hold of {self.hold_ticks} ticks: expected 1 or more."
            )

    def limit_khz(self, active: int) -> int:
        """Return the highest frequency of a package with this many active cores, in kHz."""
        return next((khz for cores, khz in self.turbo if active <= cores), self.turbo[-1][1])

    def to_dict(self) -> dict[str, Any]:
        """Return the field ``frequency`` of a machine description."""
        return {
            "min_khz": self.min_khz,
            "nominal_khz": self.nominal_khz,
            "turbo": [list(step) for step in self.turbo],
            "ramp_ticks": self.ramp_ticks,
            "hold_ticks": self.hold_ticks,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Frequency:
        """Read the field ``frequency`` of a machine description."""
        known = cls.__dataclass_fields__
        extra = [key for key in data if key not in known]
        missing = [key for key in ("min_khz", "nominal_khz", "turbo") if key not in data]
        if extra or missing:
            raise TopologyError(
                f"frequency: unknown field {extra[0]!r}; known are {', '.join(known)}."
                if extra
                else f"frequency: {missing[0]} is missing."
            )
        numbers = {key: int(value) for key, value in data.items() if key != "turbo"}
        return cls(turbo=tuple((int(n), int(khz)) for n, khz in data["turbo"]), **numbers)


@dataclass(frozen=True)
class IdleState:
    """An idle state of a CPU.

    Attributes
    ----------
    name
        Its name, such as C6.
    exit_ns
        The time from the end of an idle period to the first instruction, in ns.
    residency_ns
        A CPU that has been idle for at least this time in ns is in this state or a deeper one.
    """

    name: str
    exit_ns: int
    residency_ns: int


def check_idle_states(states: tuple[IdleState, ...]) -> None:
    """Refuse idle states that are not ordered from the shallowest to the deepest, or too many."""
    stays = [s.residency_ns for s in states]
    exits = [s.exit_ns for s in states]
    if len(states) > MOST_STATES or stays != sorted(set(stays)) or exits != sorted(exits):
        raise TopologyError(
            f"idle states {', '.join(s.name for s in states)}: expected at most {MOST_STATES}, each with a longer residency and "
            "no shorter exit than the one before."
        )
    if states and (stays[0] < 0 or exits[0] < 0):
        raise TopologyError("idle states: expected times of 0 ns or more.")
