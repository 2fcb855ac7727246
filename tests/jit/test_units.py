"""Units of the engine: only those that are marked as entries can be called by Python."""

from __future__ import annotations

import pytest

from wastedcores.jit import units
from wastedcores.jit.compile import config


@pytest.mark.skipif(config.DISABLE_JIT, reason="nothing is compiled")
def test_a_unit_that_is_no_entry_says_so(monkeypatch):
    monkeypatch.setattr(units, "_units", [])

    @units.apart(units.NOTHING)
    def nothing(m):
        """Do nothing."""

    with pytest.raises(
        TypeError, match="nothing is no entry: it can be called only by compiled code"
    ):
        _ = nothing.address
