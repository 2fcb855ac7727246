"""The engine's codes are indices of the names in the log."""

from __future__ import annotations

import pytest

from wastedcores.jit.structs import fields
from wastedcores.kernels import MODULES
from wastedcores.kernels.rules import NEWIDLE
from wastedcores.simulator import vocabulary
from wastedcores.simulator.engine.codes import (
    balanced,
    log_kind,
    module_code,
    newidle,
    suggestion,
)


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (balanced, tuple(reason.replace(" ", "_") for reason in vocabulary.BALANCED)),
        (module_code, tuple(MODULES)),
        (newidle, tuple(NEWIDLE)),
        (suggestion, vocabulary.ANSWERS),
    ],
)
def test_codes_are_in_the_order_of_the_names(codes, names):
    assert [getattr(codes, name.upper()) for name in names] == list(range(len(names)))


def test_the_kernel_and_the_runqueue_of_cpu_0_share_a_row_and_no_column():
    def columns(struct):
        found = fields(struct).values()
        return {int(f) + i for f in found if f.kind != "embedded" for i in range(f.length)}

    assert not columns("Rq") & columns("Kernel")
    assert not (columns("CfsRq") | columns("SchedAvg")) & columns("RqModern")


def test_a_refused_suggestion_is_a_balance_event():
    assert vocabulary.KINDS[log_kind.REFUSED] == "balance"
