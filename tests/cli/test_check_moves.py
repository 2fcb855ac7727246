"""`check` says how often threads moved, beside the waste."""

from __future__ import annotations

import json

from support.typed import typed


def test_check_prints_the_moves():
    found = json.loads(typed("check", "group-imbalance-buggy", "--json").out)
    assert found["moves"]["per_s"] > found["moves"]["across_nodes_per_s"] > 0
    assert "migrations a second" in typed("check", "group-imbalance-buggy").out
