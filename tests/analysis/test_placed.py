"""A trace whose machine and kernel are stated by its user."""

from __future__ import annotations

import pytest

import wastedcores as wc
from wastedcores.errors import TopologyError, UnknownKernelError


def bare():
    return wc.open("group-imbalance-buggy").with_header(
        machine=None, kernel_model=None, kernel_release=None
    )


def test_recorded_on__is_explained_like_the_trace_that_says_it_itself():
    assert "--machine NAME, FILE or live" in " ".join(wc.explain(bare()).evidence)
    stated = wc.recorded_on(bare(), "bd-paper-64", "v4.1")
    itself = wc.explain("group-imbalance-buggy")
    found = wc.explain(stated)
    assert (found.looks_like, found.kernel.name) == (itself.looks_like, itself.kernel.name)


def test_recorded_on__without_a_statement_changes_nothing():
    trace = wc.open("group-imbalance-buggy")
    assert wc.recorded_on("group-imbalance-buggy").header == trace.header


def test_recorded_on__refuses_a_machine_that_is_too_small_and_an_unknown_kernel():
    with pytest.raises(TopologyError, match="has 16"):
        wc.recorded_on("group-imbalance-buggy", "bd-paper-16")
    with pytest.raises(UnknownKernelError):
        wc.recorded_on("group-imbalance-buggy", kernel="v2.6")
