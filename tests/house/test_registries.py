"""Adding a figure, a study or a format needs one row: everything else is made from the registries."""

from __future__ import annotations

import json
import sys
import types

import plotly.graph_objects as go
import polars as pl
import pytest
from support import ROOT
from typer.testing import CliRunner
from write_formats import table

import wastedcores as wc
from wastedcores import figures
from wastedcores.cli import register_verbs
from wastedcores.cli._app import app
from wastedcores.errors import NotRecoverableError, UnknownKernelError, UsageError
from wastedcores.figures.kinds import KINDS, Kind, Look, described
from wastedcores.kernels import (
    FIXES,
    MAINLINE,
    MODULES,
    KernelModel,
    generations,
    recorded_balancer,
)
from wastedcores.kernels.generations import replayed_listed
from wastedcores.prediction.machines_and_kernels import check_modelled
from wastedcores.simulator.limits import check_generation
from wastedcores.trace import readers
from wastedcores.trace.formats import FOREIGN, Format, listed
from wastedcores.trace.readers.support.reading import Reading
from wastedcores.widgets.explore import explorer_static
from wastedcores.widgets.layers import layers_of
from wastedcores.words.cause import NAMES
from wastedcores.words.scorecard import grouped
from wastedcores.workload import Script, Workload
from wastedcores.workload.scenarios import SCENARIOS, Scenario
from wastedcores_studies import tool_costs
from wastedcores_studies.published import load
from wastedcores_studies.registry import STUDIES, Checks, Study, parts_of
from wastedcores_studies.scorecard import reproduce


def test_a_format_is_detected_read_listed_and_refused_by_its_name(monkeypatch, tmp_path):
    module = types.ModuleType(f"{readers.__name__}.dummy")

    class Dummy(Reading):
        def __init__(self, path, *, hashed=False):
            super().__init__(path, "dummy")

        def frames(self):
            self.found.cpus = 2
            numbers = [int(n) for n in self.path.read_text().split()[1:]]
            rows = {
                "ts_ns": [10, 20],
                "kind": ["nr_running"] * 2,
                "cpu": [0, 1],
                "nr_running": numbers,
            }
            yield pl.DataFrame(rows)

    module.Dummy = Dummy
    monkeypatch.setitem(sys.modules, f"{readers.__name__}.dummy", module)
    row = Format(
        "dummy", "dummies", ("dummy", "Dummy"), "numbers", "", "nothing", "nothing", magic=b"DUMMY"
    )
    monkeypatch.setitem(FOREIGN, "dummy", row)
    (tmp_path / "x").write_text("DUMMY 2 0")
    trace = wc.open(tmp_path / "x")
    assert trace.events.collect()["nr_running"].to_list() == [2, 0]
    assert trace.header.source_format == "dummy"
    assert listed().endswith(" and dummies")
    assert "| `dummy` | numbers |" in table()
    with pytest.raises(UsageError, match="dummy"):
        wc.open(tmp_path / "x", format="nothing")


def test_a_study_is_attempted_shown_and_listed(monkeypatch, tmp_path):
    row = tool_costs.rows(load())[0][0] | {"id": "dummy.x", "group": "dummy", "short": "a number"}
    study = Study(lambda tables, calibrated, seeds: [], lambda tables: ([row], ()), among_all=False)
    monkeypatch.setitem(STUDIES, "dummy", study)
    out = reproduce(["dummy"], tmp_path, seeds=[1], progress=False)
    assert [r["id"] for r in out["rows"]] == ["dummy.x"]
    assert [(g.title, len(rows)) for g, rows in grouped(out["rows"])] == [("dummy", 1)]
    assert (tmp_path / "scorecard-dummy.json").exists()
    assert "dummy" in str(run("reproduce", "nothing", "-o", tmp_path).exception)
    assert "dummy" not in parts_of("all")
    assert set(STUDIES) - {"dummy"} <= set(
        run("reproduce", "--help").output.replace(",", " ").split()
    )


def test_every_list_of_replayed_kernels_is_the_registry():
    listed = replayed_listed()
    for name in ("README.md", "CHANGELOG.md", "docs/how-to/replay.md", "docs/kernels.md"):
        assert listed in " ".join((ROOT / name).read_text().split()), name


def test_the_changelog_counts_what_is_there():
    text = " ".join((ROOT / "CHANGELOG.md").read_text().split())
    last = max(path.name[:2] for path in (ROOT / "notebooks").glob("*.ipynb"))
    assert f"Notebooks 00 to {last}" in text
    assert sum(name.startswith("idle-") for name in SCENARIOS) == 12
    assert "twelve small scenarios" in text


def test_the_page_of_kernels_has_every_fix_and_every_module():
    page = (ROOT / "docs" / "kernels.md").read_text()
    rows = [f"| `{name}` | {says} |\n" for name, says in MODULES.items()]
    for fix in FIXES:
        cured = ".".join(map(str, MAINLINE.get(fix, ())))
        since = f"v{cured}" if cured else "never cured in mainline"
        rows.append(f"| `{fix}` | {NAMES[fix]} | {since} |\n")
    assert [row for row in rows if row not in page] == []


def test_a_kernel_that_is_not_replayed_is_refused_with_all_that_are(monkeypatch):
    monkeypatch.setattr(generations, "REPLAYED", generations.REPLAYED | {(6, 99, 1)})
    with pytest.raises(UnknownKernelError, match=r"v6\.18\.15, v6\.99\.1 and v7\.2\.13"):
        check_generation(KernelModel.named("v6.6"))
    balancer = recorded_balancer("6.6.0")
    with pytest.raises(NotRecoverableError, match=r"v4\.1, v4\.4, .*v6\.99\.1 and v7\.2\.13, with"):
        check_modelled(wc.open("lu-pinned-fixed"), balancer, "v6.6")


def run(*words):
    register_verbs()
    return CliRunner().invoke(app, [str(w) for w in words])


@pytest.fixture
def dummy_figure(monkeypatch):
    """A module of figures with one function, and its row."""
    module = types.ModuleType(f"{figures.__name__}.dummy")

    def stripes(traced, window=None, *, palette_name="safe"):
        return go.Figure(layout={"title": {"text": f"stripes of {traced.label} in {palette_name}"}})

    module.stripes = stripes
    monkeypatch.setitem(sys.modules, f"{figures.__name__}.dummy", module)
    row = Kind("stripes", ("dummy", "stripes"), "window palette_name", button="stripes")
    monkeypatch.setitem(KINDS, "stripes", row)


def test_a_figure_is_drawn_by_the_command_line_and_the_explorer(dummy_figure, tmp_path):
    done = run(
        "figure",
        "lu-pinned-fixed",
        "--kind",
        "stripes",
        "--palette",
        "paper",
        "-o",
        tmp_path / "x.json",
    )
    assert done.exit_code == 0, done.output
    assert "stripes of lu-pinned-fixed in paper" in (tmp_path / "x.json").read_text()
    examined = wc.examine("lu-pinned-fixed")
    assert layers_of(examined)[-1] == "stripes"
    shown = explorer_static(examined, show="stripes")
    assert shown.layout.title.text == "stripes of lu-pinned-fixed in safe"
    assert described().splitlines()[-1].split() == ["stripes", "stripes"]
    refused = run("figure", "lu-pinned-fixed", "--kind", "nothing", "-o", tmp_path / "y.json")
    assert "stripes" in str(refused.exception)


@pytest.mark.parametrize("name", KINDS)
def test_every_row_names_a_function_that_takes_what_it_says(name):
    kind = KINDS[name]
    module = __import__(f"wastedcores.figures.{kind.draw[0]}", fromlist=["x"])
    code = getattr(module, kind.draw[1]).__code__
    taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    assert set(kind.takes.split()) <= set(taken)
    assert set(kind.takes.split()) <= set(Look.__annotations__)


def test_a_study_of_checks_is_a_row_and_is_run_by_its_name(monkeypatch):
    checks = Checks("dummy/1", lambda: iter([{"n": 1}, {"n": 2}]), lambda row: [f"row {row['n']}"])
    monkeypatch.setitem(STUDIES, "dummy", Study(among_all=False, checks=lambda: checks))
    done = run("reproduce", "dummy")
    assert (done.exit_code, done.output) == (0, "row 1\nrow 2\n")
    assert json.loads(run("reproduce", "dummy", "--json").output) == {
        "schema": "dummy/1",
        "rows": [{"n": 1}, {"n": 2}],
    }
    assert "dummy" in str(run("reproduce", "nothing").exception)
    assert "proofs" in STUDIES
    assert "dummy" not in parts_of("all")


def test_a_scenario_is_listed_replayed_and_refused_by_its_name(monkeypatch, tmp_path):
    def naps(machine, seed, naps=3):
        workload = Workload("naps")
        workload.task("sleeper", Script().loop(naps).compute(1000).sleep(1000).end())
        return workload

    row = Scenario("naps", "a thread that sleeps", naps, "bd-paper-16")
    monkeypatch.setitem(SCENARIOS, "naps", row)
    assert "a thread that sleeps" in run("scenarios").output
    done = run("replay", "naps", "--set", "naps=5", "-o", tmp_path / "naps.parquet")
    assert done.exit_code == 3, done.output  # 17 us are too short for a verdict
    slept = wc.open(tmp_path / "naps.parquet").only("wakeup").collect().filter(comm="sleeper")
    assert slept.height >= 5
    refused = run("replay", "naps", "--set", "nap=5")
    assert "did you mean naps?" in str(refused.exception)
