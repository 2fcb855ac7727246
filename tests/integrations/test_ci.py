"""The action for GitHub and the template for GitLab run as their runners would run them."""

from __future__ import annotations

import os
import subprocess
import sys
from xml.etree import ElementTree

import pytest
import yaml
from support import ROOT
from support.builders import nr, trace_of

from wastedcores.trace.parquet import write_parquet

ACTION = ROOT / "integrations" / "github" / "action.yml"
TEMPLATE = ROOT / "integrations" / "gitlab" / "gate.yml"
RULES = '[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\n[[rule]]\nquantity = "longest_s"\nat_most = 0.05\n'


def recording(path, wasted_ms: int) -> None:
    end = 100_000_000 + wasted_ms * 1_000_000
    rows = [nr(0, 0, 1), nr(0, 1, 1), nr(100_000_000, 0, 2), nr(100_000_000, 1, 0)]
    rows += [nr(end, 0, 1), nr(end, 1, 1), nr(1_000_000_000, 0, 1)]
    path.parent.mkdir(exist_ok=True)
    write_parquet(trace_of(rows, cpus=2), path)


@pytest.fixture
def job(tmp_path):
    """Return a function that runs lines of a job in a folder with recordings, with this package's program on the path."""
    for k in range(4):
        recording(tmp_path / "before" / f"{k}.parquet", 10 + k)
        recording(tmp_path / "same" / f"{k}.parquet", 10 + k)
        recording(tmp_path / "worse" / f"{k}.parquet", 30 + k)
    recording(tmp_path / "one" / "a.parquet", 30)
    (tmp_path / "rules.toml").write_text(RULES)
    program = tmp_path / "bin" / "wastedcores"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m wastedcores "$@"\n')
    program.chmod(0o755)

    def run(lines: str, **variables: str) -> subprocess.CompletedProcess:
        env = os.environ | {"PATH": f"{program.parent}:{os.environ['PATH']}"} | variables
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", lines]
        return subprocess.run(
            shell, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
        )

    return run


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "unknown", "code"),
    [("same", "fail", 0), ("worse", "fail", 1), ("one", "fail", 3), ("one", "pass", 0)],
)
def test_the_action_fails_where_it_should(job, tmp_path, after, unknown, code):
    action = yaml.safe_load(ACTION.read_text())
    (step,) = action["runs"]["steps"]
    wanted = {f"${{{{ inputs.{name} }}}}" for name in action["inputs"]}
    assert set(step["env"].values()) == wanted
    given = {"before": "before", "after": after, "rules": "rules.toml", "junit": "w.xml"}
    given["unknown"] = unknown
    env = {k: given[v.split(".")[1].split()[0]] for k, v in step["env"].items()}
    if after == "one":
        for k in range(1, 4):
            (tmp_path / "before" / f"{k}.parquet").unlink()
    summary = tmp_path / "summary.md"
    summary.write_text("# Job\n")
    run = job(step["run"], GITHUB_STEP_SUMMARY=str(summary), **env)
    assert run.returncode == code, run.stderr
    assert summary.read_text().startswith("# Job\n### Wasted cores")
    assert ElementTree.parse(tmp_path / "w.xml").getroot()[0].get("tests") == "2"


@pytest.mark.slow
def test_the_template_runs_and_an_unknown_rule_is_a_warning(job, tmp_path):
    template = yaml.safe_load(TEMPLATE.read_text())[".wastedcores"]
    run = job("\n".join(template["script"]), **template["variables"] | {"AFTER": "worse"})
    assert run.returncode == 1
    assert template["allow_failure"]["exit_codes"] == 3
    report = tmp_path / template["artifacts"]["reports"]["junit"]
    assert ElementTree.parse(report).getroot()[0].get("failures") == "1"
