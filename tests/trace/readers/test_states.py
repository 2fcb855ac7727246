"""The letters that stand for the numbers of prev_state, where a format has numbers and not the kernel's own letters."""

from __future__ import annotations

import polars as pl
import pytest

from wastedcores.trace.readers.perf_data.header import state_names
from wastedcores.trace.readers.support.event_columns import with_letters


@pytest.mark.parametrize(
    ("state", "comm", "letter"),
    [
        (0, "a", "R"),
        (1, "a", "S"),
        (64, "a", "X"),
        (64, "migration/1", "P"),
        (256, "a", "R+"),
        # include/linux/sched.h: TASK_PARKED is 512 from 3.9 to 4.13; before that, TASK_STATE_MAX was 512
        (512, "migration/1", "P"),
        (512, "a", "R+"),
        (1024, "migration/1", "R+"),
        (4096, "migration/1", "R+"),
    ],
)
def test_letters_of_kernels_that_are_not_known(state, comm, letter):
    events = pl.DataFrame({"prev_comm": [comm], "state": [state]})
    assert with_letters(events, "state")["prev_state"].to_list() == [letter]


#: include/trace/events/sched.h, 4.8 to 4.13: the letters end at 1024, and TASK_STATE_MAX is 4096
LETTERS = {1: "S", 2: "D", 4: "T", 8: "t", 16: "X", 32: "Z", 64: "x", 128: "K", 256: "W", 512: "P", 1024: "N"}  # fmt: skip
OLD = (
    'REC->prev_state & (4096-1) ? __print_flags(REC->prev_state & (4096-1), "|", '
    + ", ".join(f'{{ {n}, "{t}" }}' for n, t in LETTERS.items())
    + ') : "R", REC->prev_state & 4096 ? "+" : "", REC->next_comm'
)


def test_the_print_format_says_which_bit_is_that_of_a_preempted_task():
    names = state_names(OLD)
    assert len(names) == 8192
    values = (0, 1, 512, 1026, 2048, 2049, 4096, 4097)
    assert [names[v] for v in values] == ["R", "S", "P", "D|N", "0x800", "S|0x800", "R+", "S+"]


@pytest.mark.parametrize("bit", ["3", "64", "1048576"])
def test_a_bit_that_cannot_be_it_is_not_believed(bit):
    names = state_names(OLD.replace("& 4096 ?", f"& {bit} ?"))
    assert (len(names), names[2048]) == (4096, "R+")
