"""The JSON Schemas say what the verbs print: every answer fits, and an answer with another key or type does not."""

from __future__ import annotations

import importlib.util
import json
import sys

import jsonschema
import pytest
from support import ROOT
from support.typed import typed

FOLDER = ROOT / "integrations" / "schemas"


def schema(name: str) -> dict:
    return json.loads((FOLDER / f"{name}.json").read_text())


def fits(name: str, answer: object) -> None:
    validator = jsonschema.validators.validator_for(schema(name))
    validator.check_schema(schema(name))
    validator(schema(name)).validate(answer)


def test_the_files_are_those_that_the_tool_writes(monkeypatch):
    spec = importlib.util.spec_from_file_location("make_schemas", ROOT / "tools/make_schemas.py")
    tool = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_schemas", tool)
    spec.loader.exec_module(tool)
    files = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert files == tool.schemas()


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--cgroups",), ("--limit", "all"), ("--ignore-affinity",)])
@pytest.mark.parametrize("trace", ["group-imbalance-buggy", "live-balancing-off", "live-balancing-on-tracefs"])  # fmt: skip
def test_check(trace, more):
    answer = json.loads(typed("check", trace, "--json", *more).out)
    fits("check", answer)
    for wrong in ({"kind": "some"}, {"unheard_of": 1}, {"bound": {}}, {"thread_ns": "1"}):
        with pytest.raises(jsonschema.ValidationError):
            fits("check", answer | wrong)


@pytest.mark.slow
def test_info_and_the_table_of_many_traces(tmp_path):
    answer = json.loads(typed("info", "group-imbalance-buggy", "--json").out)
    fits("info", answer)
    with pytest.raises(jsonschema.ValidationError):
        fits("info", answer | {"header": None})
    small = ROOT / "datasets" / "small" / "live-balancing-on.parquet"
    done = typed("fleet", small, "-o", tmp_path / "t.parquet", "--workers", "1", "-q", "--json")
    fits("fleet", json.loads(done.out))


@pytest.mark.slow
def test_gate(tmp_path):
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\n')
    traces = [
        ROOT / "datasets" / "small" / f"live-balancing-{kind}.parquet" for kind in ("on", "off")
    ]
    answer = json.loads(typed("compare", *traces, "--gate", rules, "--json").out)
    fits("gate", answer)
    with pytest.raises(jsonschema.ValidationError):
        fits("gate", {"schema": answer["schema"], "rules": [{"quantity": "wasted_cpus"}]})


def test_a_snapshot_and_the_file_of_options(tmp_path):
    taken = tmp_path / "tasks.json"
    typed("snapshot", "-o", taken)
    fits("snapshot", json.loads(taken.read_text()))
    fits("watch-config", {"serve": ":9969", "keep_mb": 500})
    with pytest.raises(jsonschema.ValidationError):
        fits("watch-config", {"sevre": ":9969"})
