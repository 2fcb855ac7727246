"""What every scenario's replay does, event by event, as digests: a change that is not meant to change behaviour keeps them."""

from __future__ import annotations

import hashlib
import json

import polars as pl
import pytest
from support import LOG_GOLDEN

from wastedcores.errors import WorkloadError
from wastedcores.simulator import replay_scenario
from wastedcores.workload.scenarios import SCENARIOS

KERNELS = ("v4.1", "v4.1+all_fixes", "core+wakeup_v4_1")


def digest(scenario: str, kernel: str) -> str:
    """The first 16 hexadecimal digits of the SHA-256 of all events, as CSV, of 0.25 simulated seconds; or that it is refused."""
    try:
        replay = replay_scenario(scenario, kernel, seed=3, until_ns=250_000_000)
    except WorkloadError as e:
        return f"refused: {e}"
    events = replay.trace.events.collect()
    text = (
        events.drop("in_irq")
        .with_columns(
            pl.selectors.binary().bin.encode("hex"),
            (pl.selectors.categorical() | pl.selectors.enum()).cast(pl.String),
        )
        .write_csv()
    )
    return f"{hashlib.sha256(text.encode()).hexdigest()[:16]} of {events.height} events"


@pytest.mark.slow
@pytest.mark.parametrize("kernel", KERNELS)
def test_logs_are_what_they_were(kernel, golden):
    now = {
        name: digest(name, kernel) for name in sorted(SCENARIOS) if SCENARIOS[name].kernel == "v4.1"
    }
    golden(LOG_GOLDEN / f"logs-{kernel}.json", json.dumps(now, indent=1) + "\n")
