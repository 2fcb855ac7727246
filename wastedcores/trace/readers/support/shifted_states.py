"""Corrects task states that a kernel wrote one bit too far to the left, as Linux 4.15 to 4.19 do.

``__trace_sched_switch_state()`` (include/trace/events/sched.h, v4.18) shifts 1 by ``task_state_index()``, which is 0 for a
running thread and 1 for the first bit. So a running thread is written as S, one in S as D, one in D as T, and so on. An idle
kernel thread (I) is written as R or R+; a preempted thread is also written as R+. Linux 4.20 shifts by one bit less.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import polars as pl

NOTE = "the kernel wrote each state shifted one bit to the left, as Linux 4.15 to 4.19 do; they are shifted back here"

#: TASK_STATE_TO_CHAR_STR (include/linux/sched.h, v4.18)
_LETTERS = "RSDTtXZPI"
#: X stays: it means a traced thread or, in formats with numbers, a dead thread, because the bit 64 has had two meanings
_BACK = dict(zip(_LETTERS[1:], _LETTERS, strict=False)) | {"X": "X"}
#: at most in this share of cases, a CPU goes idle although the thread that it stops can run (but the thread's group may not run)
_RARE = 0.1
#: how the names of the kernel threads begin that most often sleep in TASK_IDLE
_SLEEPS_IDLE = r"^(?:kworker/|rcu)"


class ShiftedStates:
    """Shifts the states of one trace back if its kernel wrote them shifted; if so, this is noted in ``notes``."""

    def __init__(self, notes: dict[str, str]) -> None:
        self._notes = notes
        #: whether the kernel shifts states; None: no CPU has ceased to idle yet
        self._shifted: bool | None = None

    def mended(self, frames: Iterable[pl.DataFrame]) -> Iterator[pl.DataFrame]:
        """Yield tables in order of time with the right states."""
        for frame in frames:
            if self._shifted is None and "prev_state" in frame.columns:
                self._shifted = _shifted(frame)
                if self._shifted:
                    self._notes["task states"] = NOTE
            yield _back(frame) if self._shifted and "prev_state" in frame.columns else frame


def _shifted(frame: pl.DataFrame) -> bool | None:
    """Say whether states are shifted; None: no CPU has ceased to idle."""
    switches = frame.filter(pl.col("kind") == "switch")
    idle = switches.filter(pl.col("prev_pid") == 0)["prev_state"]
    left = switches.filter(pl.col("pid") == 0, pl.col("prev_pid") > 0)["prev_state"]
    if not idle.len():
        return None
    # the idle task never sleeps, but in a trace written by hand it may have S like the other threads: then those have S, too
    asleep = left.eq_missing("S").sum()
    return bool(idle.eq_missing("S").all()) and asleep <= _RARE * left.len()


def _back(frame: pl.DataFrame) -> pl.DataFrame:
    told = frame["prev_state"].cast(pl.String)
    state = told.replace(_BACK).scatter(_asleep(frame, told.str.starts_with("R")), "I")
    return frame.with_columns(prev_state=state.cast(frame.schema["prev_state"]))


def _asleep(frame: pl.DataFrame, stays: pl.Series) -> pl.Series:
    """Return the rows where a thread stops as R or R+ but sleeps: its CPU goes idle, or it is woken before it runs again."""
    rows = frame.with_row_index("row")
    kind = pl.col("kind")
    name = pl.col("prev_comm").cast(pl.String) if "prev_comm" in frame.columns else pl.lit("")
    left = rows.filter(stays & (frame["kind"] == "switch")).select(
        "row", pid="prev_pid", idle=pl.col("pid") == 0, by_name=name.str.contains(_SLEEPS_IDLE)
    )
    # a switch first ends the run of one thread, then begins that of another
    later = rows.filter(kind.is_in(["switch", "wakeup", "waking"]))
    both = pl.concat([left, later.select("row", "pid", woken=kind != "switch")], how="diagonal")
    both = both.sort("row", maintain_order=True)
    woken = pl.coalesce(pl.col("woken").shift(-1).over("pid"), "by_name").fill_null(False)
    return both.filter(pl.col("woken").is_null(), pl.col("idle") | woken)["row"]
