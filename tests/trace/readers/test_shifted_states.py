"""Linux 4.15 to 4.19 write the states of threads one bit too far to the left; their traces are read like others."""

from __future__ import annotations

import lzma
import re
from pathlib import Path

import polars as pl
import pytest

from wastedcores.invariant import check
from wastedcores.trace.io import open_trace
from wastedcores.trace.readers.support.event_columns import with_letters
from wastedcores.trace.readers.support.shifted_states import NOTE, ShiftedStates

RECORDINGS = Path(__file__).parents[3] / "datasets"
#: TASK_STATE_TO_CHAR_STR, TASK_REPORT_MAX and the letters of sched_switch (include/linux/sched.h, include/trace/events/sched.h)
LETTERS, MAX = "RSDTtXZPI", 0x100


def number(letter: str, one_less: int) -> int:
    """``__trace_sched_switch_state()`` of v4.18, and of v4.20 with ``one_less``."""
    if letter == "R+":
        return MAX
    index = LETTERS.index(letter)
    return 1 << (index - one_less) if index >= one_less else 0


def printed(value: int) -> str:
    letters = "|".join(c for i, c in enumerate(LETTERS[1:]) if value & (MAX - 1) & 1 << i)
    return (letters or "R") + "+" * bool(value & MAX)


def of_4_18(text: str) -> str:
    """Rewrite a text of ftrace as that kernel would have written it."""
    state = re.compile(r"(?<= prev_state=)([RSDTtXZPI]\+?)(?= ==> )")
    return state.sub(lambda m: printed(number(m[1], 0)), text)


def runnable(trace) -> pl.DataFrame:
    events = trace.events.filter(pl.col("kind") == "switch").collect()
    return events.select(
        "prev_comm", "prev_state", runs=pl.col("prev_state").cast(pl.String).str.starts_with("R")
    )


@pytest.mark.parametrize(
    "name",
    [
        "recordings/gi-buggy-16cpu",
        "recordings-kinds/bar8-two4-6.1",
        "recordings-modern/gc-6.12-16cpu",
        "recordings-modern/ms-7.2-16cpu",
    ],
)
def test_recordings_get_the_same_verdict(name, tmp_path):
    text = lzma.decompress((RECORDINGS / name / "trace.txt.xz").read_bytes()).decode()
    (tmp_path / "as.txt").write_text(text)
    (tmp_path / "4.18.txt").write_text(of_4_18(text))
    right, mended = (open_trace(tmp_path / f"{n}.txt") for n in ("as", "4.18"))
    assert mended.header.provenance["task states"] == NOTE
    assert "task states" not in right.header.provenance
    a, b = runnable(right), runnable(mended)
    differ = a.filter(a["runs"] != b["runs"])
    # a kernel thread of an unknown name that sleeps to the end of the recording cannot be told from a preempted thread
    assert differ.height <= 1
    assert differ["prev_comm"].to_list() in ([], ["kdamond.0"])
    one, other = check(right), check(mended)
    assert (one.verdict, one.kind, one.bound) == (
        other.verdict,
        other.kind,
        other.bound,
    )


@pytest.mark.parametrize("letter", [*LETTERS, "R+"])
def test_numbers_are_shifted_back(letter):
    woken = {"kind": "wakeup", "pid": 7, "prev_pid": None, "prev_comm": None, "state": None}

    def switch(pid, prev_pid, comm, letter):
        state = number(letter, 0)
        return {
            "kind": "switch",
            "pid": pid,
            "prev_pid": prev_pid,
            "prev_comm": comm,
            "state": state,
        }

    rows = [
        switch(0, 9, "c", "S"),
        switch(7, 0, "swapper/0", "R"),
        switch(8, 7, "a", letter),
        *([woken] if letter not in ("R", "R+") else []),
        switch(7, 8, "b", "S"),
    ]
    notes: dict[str, str] = {}
    frame = with_letters(pl.DataFrame(rows), "state")
    (mended,) = ShiftedStates(notes).mended([frame])
    states = mended.filter(pl.col("kind") == "switch")["prev_state"].to_list()
    # one letter for what is dead, and for a traced thread
    assert states == ["S", "R", "X" if letter in "tXZ" else letter, "S"]
    assert notes


def test_a_cpu_that_goes_idle_has_no_runnable_thread():
    """The LKML and others have lines such as ``kworker/10:0 R ==> swapper/10`` of these kernels."""
    rows = {
        "kind": ["switch", "switch", "switch"],
        "pid": [9, 0, 3],
        "prev_pid": [0, 9, 0],
        "prev_comm": ["swapper/1", "a", "swapper/1"],
        "prev_state": ["S", "R", "S"],
    }
    (mended,) = ShiftedStates({}).mended([pl.DataFrame(rows)])
    assert mended["prev_state"].to_list() == ["R", "I", "R"]


def test_other_traces_stay_as_they_are():
    rows = {
        "kind": ["switch"] * 3,
        "pid": [9, 0, 3],
        "prev_pid": [0, 9, 0],
        "prev_comm": ["swapper/1", "a", "swapper/1"],
    }
    notes: dict[str, str] = {}
    # the idle task of the last one sleeps, as nobody who knows a kernel would write
    for states in (["R", "S", "R"], [None, None, None], ["S", "S", "S"]):
        first = rows | {"prev_state": states}
        frame = pl.DataFrame(first)
        assert next(ShiftedStates(notes).mended([frame])) is frame
    assert not notes
