"""The JSON Schemas say what the verbs print: every answer fits, and an answer with another key or type does not."""

from __future__ import annotations

import importlib.util
import json
import lzma
import re
import sys
from functools import partial

import pytest
from support import ROOT
from support.schemas import FOLDER, fits, refused, validator
from support.typed import typed

SMALL = ("--machine", "bd-paper-16", "--set", "jobs=10")
LIVE = [ROOT / "datasets" / "small" / f"live-balancing-{kind}.parquet" for kind in ("on", "off")]


@pytest.fixture
def tool(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    spec = importlib.util.spec_from_file_location("make_schemas", ROOT / "tools/make_schemas.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "make_schemas", module)
    spec.loader.exec_module(module)
    return module


def test_the_files_are_those_that_the_tool_writes(tool):
    files = {path.name: path.read_text() for path in FOLDER.iterdir()}
    assert files == tool.schemas()


def test_every_verb_with_json_has_a_schema_and_a_line_in_the_documents(tool):
    from wastedcores.cli import app, register_verbs

    register_verbs()
    verbs = {}

    def walk(group, prefix: str) -> None:
        for command in group.registered_commands:
            name = command.name or command.callback.__name__.rstrip("_")
            verbs[f"{prefix}{name}"] = "as_json" in command.callback.__annotations__
        for inner in group.registered_groups:
            walk(inner.typer_instance, f"{prefix}{inner.name} ")

    walk(app, "")
    assert set(tool.VERBS) <= set(verbs)
    by_nature = {"score", "snapshot"}  # they print or write nothing but JSON
    assert set(tool.VERBS) - by_nature == {verb for verb, has_json in verbs.items() if has_json}
    page = (ROOT / "docs" / "json.md").read_text()
    rows = re.findall(r"^\| `([a-z ]+)` \| (.*) \|", page, re.MULTILINE)
    told = {verb: set(re.findall(r"`([a-z-]+)\.json`", files)) for verb, files in rows}
    assert told == {verb: set(models) for verb, models in tool.VERBS.items()}


def said(*words, code: int = 0):
    done = typed(*words)
    assert done.code == code, done.err
    return json.loads(done.out)


@pytest.mark.slow
@pytest.mark.parametrize("more", [(), ("--cgroups",), ("--limit", "all"), ("--ignore-affinity",)])
@pytest.mark.parametrize("trace", ["group-imbalance-buggy", "live-balancing-off", "live-balancing-on-tracefs"])  # fmt: skip
def test_check(trace, more):
    answer = json.loads(typed("check", trace, "--json", *more).out)
    fits("check", answer)
    for wrong in ({"kind": "some"}, {"bound": {}}, {"thread_ns": "1"}):
        refused(validator("check"), answer | wrong, str(wrong))


@pytest.mark.slow
def test_info_of_a_trace_and_of_counters(tmp_path):
    header = ("machine", "provenance")
    fits("info", said("info", "group-imbalance-buggy", "--json"), free=header)
    fits("info", said("info", counters(tmp_path), "--json"))
    fits("schedstat", said("schedstat", counters(tmp_path), "--json"))


def counters(folder):
    file = folder / "counters.data"
    packed = next((ROOT / "tests" / "trace" / "schedstat").glob("*.data.xz"))
    file.write_bytes(lzma.decompress(packed.read_bytes()))
    return file


@pytest.mark.slow
def test_verbs_that_write_a_trace(tmp_path):
    found = said("import", LIVE[0], "-o", tmp_path / "t.parquet", "--json")
    assert found["path"] == str(tmp_path / "t.parquet")
    fits("recording", found, free=("machine",))
    fits("export", said("export", LIVE[0], "-o", tmp_path / "t.pftrace", "--json"))
    workload = ("-o", tmp_path / "w.json")
    fits("recovered", said("recover", "overload-on-wakeup-buggy", *workload, "--json"))


@pytest.mark.slow
def test_verbs_that_explain():
    fits("path", said("path", "overload-on-wakeup-buggy", "--json"))
    fits("score", said("score", *LIVE, code=1))
    plain = said("explain", "overload-on-wakeup-buggy", "--json")
    assert plain["proposals"] is plain["prediction"] is None
    fits("explain", plain)


@pytest.mark.slow
def test_explain_with_replays():
    found = said("explain", "group-construction-buggy", "--seeds", "1", "--json")
    assert found["prediction"]["trust"]
    fits("explain", found)
    proposal = {"fix": "group_construction", "gain": 0.5, "gain_low": 0.4, "gain_high": 0.6}
    fits("explain", found | {"proposals": [proposal]})
    refused(validator("explain"), found | {"looks_like": "nothing new"}, "another cause")


@pytest.mark.slow
def test_many_traces(tmp_path):
    done = typed("fleet", LIVE[0], "-o", tmp_path / "t.parquet", "--workers", "1", "-q", "--json")
    fits("fleet", json.loads(done.out))


@pytest.mark.slow
def test_two_traces_and_a_gate(tmp_path):
    fits("compare-traces", said("compare", *LIVE, "--json"))
    rules = tmp_path / "rules.toml"
    rules.write_text('[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\n')
    fits("gate", json.loads(typed("compare", *LIVE, "--gate", rules, "--json").out))


@pytest.mark.slow
@pytest.mark.parametrize("kernel", ["v4.1", "core+cache_affinity"])
def test_replay(kernel):
    found = json.loads(typed("replay", "recorded-gi", *SMALL, "--kernel", kernel, "--json").out)
    fits("replay", found)
    assert bool(found["suggestions"]) == ("core" in kernel)


@pytest.mark.slow
def test_compare():
    kernels = ("--kernel", "v4.1", "--kernel", "core+cache_affinity")
    found = said("compare", "recorded-gi", *SMALL, *kernels, "--json")
    assert any(key.startswith("migrations_") for key in found["runs"][0])
    fits("compare", found)


@pytest.mark.slow
def test_sweep_and_scenarios(tmp_path):
    table = ("-o", tmp_path / "t.parquet", "--workers", "1", "-q")
    fits("sweep", said("sweep", "recorded-gi", *SMALL, "--seeds", "1", *table, "--json"))
    fits("scenarios", said("scenarios", "--json"), free=("parameters",))


@pytest.mark.slow
def test_whatif_and_what_guests_confirm(monkeypatch):
    from wastedcores.cli import whatif
    from wastedcores.guest.compare import Comparison, measured
    from wastedcores.guest.confirm import Confirmation
    from wastedcores.trace.io import open_trace

    runs = tuple(measured(open_trace(file)) for file in LIVE)

    def booted(found, asked):
        """Stand for the guests: recordings of another machine say the same kinds of things."""
        kernels = [found.itself.kernel, *(v.kernel for v in found.variants)]
        sides = [Comparison("work", "m", "6.12", kernel, (1, 2), runs, runs) for kernel in kernels]
        return Confirmation(found, tuple(sides), ("a note",))

    monkeypatch.setattr(whatif, "_confirmed", booted)
    asked = ("group-construction-buggy", "--to", "core", "--seeds", "1")
    found = said("whatif", *asked, "--json")
    assert found["confirmed"]["gains"]
    fits("whatif", found)
    fits("guest-compare", found["confirmed"]["kernels"][0])
    refused(validator("whatif"), found | {"trust": "some"}, "another trust")


@pytest.mark.slow
def test_reproduce(tmp_path, monkeypatch):
    from wastedcores_studies import scorecard
    from wastedcores_studies.proofs import checking

    every = scorecard.attempts
    monkeypatch.setattr(scorecard, "attempts", lambda *given: every(*given)[:1])
    asked = ("--seeds", "1", "--workers", "1", "-o", tmp_path, "-q")
    found = said("reproduce", "sites", *asked, "--json")
    assert {row["kind"] for row in found["rows"]} >= {"measured"}
    fits("reproduce", found, free=("calibration",))
    first = partial(checking.check_all, names=(checking.CHECKS[0].name,))
    monkeypatch.setattr(checking, "check_all", first)
    fits("proofs", said("reproduce", "proofs", "--json"))


@pytest.mark.slow
def test_domains_of_a_machine():
    fits("domains", said("domains", "--machine", "bd-paper-16", "--cpu", "0", "--json"))
    hotplug = ("--offline", "3", "--online", "3", "--lint", "--pin", "0,8")
    found = json.loads(typed("domains", "--machine", "bd-paper-16", *hotplug, "--json").out)
    fits("domains", found)
    assert found["lint"]["pairs"]
    answer = said("domains", "--machine", "live", "--kernel", "v6.12", "--cpu", "0", "--json")
    fits("domains", answer)


@pytest.mark.slow
def test_data_sets_and_what_works_here():
    fits("data", said("data", "--json"))
    fits("data", said("data", "live-balancing-on", "--json"))
    fits("doctor", said("doctor", "--json"))
    fits("guest-doctor", json.loads(typed("guest", "doctor", "--json").out))


def test_kernels_for_guests(tmp_path, monkeypatch):
    from wastedcores.guest import kernels

    image = tmp_path / "vmlinuz"
    there = kernels.Kernel("debian:6.12.107", image, "0" * 64, "6.12.107-1")
    monkeypatch.setattr(kernels, "available_kernels", lambda: {"6.12.107": "6.12.107-1"})
    monkeypatch.setattr(kernels, "fetched_kernels", lambda: [there])
    monkeypatch.setattr(kernels, "fetch_kernel", lambda name: there)
    found = said("guest", "kernels", "--json")
    assert found["kernels"][0]["here"]
    fits("guest-kernels", found)
    fits("guest-kernels", said("guest", "kernels", "--fetch", "debian:6.12.107", "--json"))


@pytest.mark.slow
def test_measure():
    fits("measure", said("measure", "-n", "2", "--json", "--", "true"))


def test_a_snapshot_and_the_file_of_options(tmp_path):
    taken = tmp_path / "tasks.json"
    typed("snapshot", "-o", taken)
    validator("snapshot").validate(json.loads(taken.read_text()))
    validator("watch-config").validate({"serve": ":9969", "keep_mb": 500})
    refused(validator("watch-config"), {"sevre": ":9969"}, "a wrong option")
