"""The emulator, a kernel and recordings that several tests share."""

from __future__ import annotations

import pytest

from wastedcores.guest import has_emulator
from wastedcores.guest.kernels import fetched_kernels


@pytest.fixture(scope="session")
def kernel():
    """A kernel that was fetched; without it or the emulator, the test is skipped with the command that makes them."""
    if not has_emulator():
        pytest.skip("there is no emulator: wastedcores guest build")
    kernels = [k for k in fetched_kernels() if k.release == "6.12.107"]
    if not kernels:
        pytest.skip("there is no kernel: wastedcores guest kernels --fetch debian:6.12.107")
    return kernels[-1]
