"""The alarms and the dashboard: Prometheus' own tools accept them, and they ask for metrics that there are."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest
from support import ROOT

from wastedcores.capture.group_rows import GroupRows
from wastedcores.capture.metrics import Metrics

RULES = ROOT / "integrations" / "prometheus"
DASHBOARD = ROOT / "integrations" / "grafana" / "dashboard.json"


def promtool(*arguments: str) -> subprocess.CompletedProcess:
    if shutil.which("promtool") is None:
        pytest.skip("no promtool: apt-get install prometheus")
    return subprocess.run(
        ["promtool", *arguments], capture_output=True, text=True, check=False, cwd=RULES
    )


def names() -> set[str]:
    """Return the names of all metrics of the service."""
    found = set()
    for family in Metrics(GroupRows()).collect():
        suffix = "_total" if family.type == "counter" else ""
        found.add(family.name + suffix)
    return found


@pytest.mark.parametrize("arguments", [("check", "rules", "rules.yml"), ("test", "rules", "rules_test.yml")])  # fmt: skip
def test_promtool_accepts_the_rules_and_their_tests(arguments):
    run = promtool(*arguments)
    assert run.returncode == 0, run.stdout + run.stderr


def test_a_wrong_rule_would_be_noticed(tmp_path):
    for file in RULES.iterdir():
        shutil.copy(file, tmp_path)
    rules = (tmp_path / "rules.yml").read_text()
    (tmp_path / "rules.yml").write_text(rules.replace("for: 2m", "for: 9m"))
    assert promtool("test", "rules", str(tmp_path / "rules_test.yml")).returncode == 1


def test_the_dashboard_asks_for_metrics_that_there_are(tmp_path):
    dashboard = json.loads(DASHBOARD.read_text())
    ids = [p["id"] for p in dashboard["panels"]]
    assert len(set(ids)) == len(ids)
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    queries = [t["expr"] for p in dashboard["panels"] for t in p["targets"]]
    text = "\n".join([*queries, *(v.get("query", "") for v in dashboard["templating"]["list"])])
    asked = set(re.findall(r"\bwastedcores_\w+(?==|{|\[|,|\))", text)) - {"wastedcores_verdict"}
    assert asked
    assert asked <= names()
    assert set(re.findall(r"\$(?!__)(\w+)", text)) <= variables
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= 24
        assert panel["description"]
        for target in panel["targets"]:
            # the greatest at each moment of a range are more than the greatest
            assert target.get("instant", False) == target["expr"].startswith("topk")
    rules = [
        {"record": f"q{n}", "expr": re.sub(r"\$__\w+", "5m", q).replace("$instance", ".*")}
        for n, q in enumerate(queries)
    ]
    file = tmp_path / "queries.yml"
    file.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    run = promtool("check", "rules", str(file))
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_rules_ask_for_metrics_that_there_are():
    asked = set(re.findall(r"\b(wastedcores_\w+)[{\[ ]", (RULES / "rules.yml").read_text()))
    assert asked
    assert asked <= names()
