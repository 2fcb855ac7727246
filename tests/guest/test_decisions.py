"""The engine makes the decisions of a kernel that is booted for it, each in the state that the kernel was in."""

from __future__ import annotations

import pytest
from support import real_decisions

pytestmark = pytest.mark.slow


def test_wakeups_of_a_new_recording_get_the_cpu_that_the_kernel_chose(kernel):
    """The table of all kernels is in docs/linux-6.1.md and docs/linux-6.12.md; its seeds end before this one."""
    found = real_decisions.judged(
        kernel.name, "v6.12.107", "bd-paper-16", "recorded-db", {"iterations": 60}, [101]
    )
    made, same = found["made"], found["same"]
    assert made["wakeup"] + made["delayed"] > 800
    assert same["wakeup"] + same["delayed"] >= 0.98 * (made["wakeup"] + made["delayed"])
    assert same["moved"] > 0.5 * made["moved"] > 0
