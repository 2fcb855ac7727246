"""Files of earlier schema versions are read as if they had been written today."""

from __future__ import annotations

import pytest
from support.builders import trace_of

from wastedcores.trace.header import Window
from wastedcores.trace.io import import_trace, open_trace
from wastedcores.trace.named import fetch, registry
from wastedcores.trace.parquet import read_parquet, write_parquet

MARKS = [
    {"ts_ns": t, "kind": "mark", "text": text}
    for t, text in ((5, "rec: start of it"), (70, "rec: end"), (80, "after"))
]


def written(tmp_path, **provenance: str):
    """The header of a file of version 1, after it was read."""
    trace = trace_of(MARKS, cpus=4, schema_version=1, provenance=provenance)
    return read_parquet(write_parquet(trace, tmp_path / "t.parquet")).header


def test_text_of_version_1_becomes_fields(tmp_path):
    header = written(
        tmp_path,
        window="rec: start | rec: end",
        counted_cpus="0-1,3",
        kernel_model="v4.1",
        recording="gi-buggy",
        truncated_last_line="line 3",
        machine="mine",
    )
    assert header.window == Window(start_ns=5, end_ns=70, names=("rec: start", "rec: end"))
    assert header.counted_cpus == [0, 1, 3]
    assert (header.kernel_model, header.recording) == ("v4.1", "gi-buggy")
    assert header.truncated_last_line == "line 3"
    assert header.provenance == {"machine": "mine"}
    assert header.schema_version == 2


def test_text_that_is_no_window_stays_text(tmp_path):
    for text in ("rec: start | nowhere", "rec: start", "rec: end | rec: start"):
        header = written(tmp_path, window=text)
        assert header.window is None
        assert header.provenance == {"window": text}


@pytest.mark.parametrize("name", sorted(registry()))
def test_bundled_files_are_read_and_written_anew(tmp_path, name):
    old = open_trace(fetch(name))
    assert old.header.window
    # what was recorded through BPF has no marks, and nor has the live pair through tracefs
    through_bpf = old.header.source_format == "schedtrace"
    assert through_bpf or "live" in name or (old.header.window.names and old.header.recording)
    assert not {"window", "counted_cpus", "kernel_model", "recording"} & set(old.header.provenance)
    new = import_trace(fetch(name), tmp_path / "new.parquet")
    same = {"kinds", "highest_cpu", "highest_pid"}
    assert new.header.model_dump(exclude=same) == old.header.model_dump(exclude=same)
    assert new.header.kinds == old.kinds()
    assert list(new.header.kinds or ()) == sorted(new.header.kinds or ())
