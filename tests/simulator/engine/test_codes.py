"""The engine's codes are indices of the names in the log."""

from __future__ import annotations

import pytest

from wastedcores.jit.structs import fields
from wastedcores.kernels import MODULES
from wastedcores.kernels.rules import NEWIDLE
from wastedcores.simulator import vocabulary
from wastedcores.simulator.engine.codes import (
    balanced,
    lb_result,
    log_kind,
    log_op,
    module_code,
    newidle,
    suggestion,
)

#: both kinds of balance events have the same name; the code of the second one is REFUSED
KINDS = tuple(k if i != log_kind.REFUSED else "refused" for i, k in enumerate(vocabulary.KINDS))


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        (log_kind, KINDS),
        (log_op, vocabulary.OPERATIONS),
        (lb_result, vocabulary.BALANCE_RESULTS),
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
