"""Spellings of the release before work with a hint; the first screen, completion and the manual page are made of the verbs."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from wastedcores.cli import COMPLETE, VERBS, register_verbs
from wastedcores.cli._app import FIRST, app, present

MAIN = [sys.executable, "-c", "from wastedcores.cli import main; main()"]


def run(*words):
    register_verbs()
    return CliRunner().invoke(app, list(words), prog_name="wastedcores")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("check --live --seconds 5 -o x", "watch --seconds 5 -o x"),
        ("watch --metrics :9100", "watch --serve :9100"),
        ("--debug check --live", "--debug watch"),
        (
            "check traces --table f.parquet --page p.html",
            "fleet traces --output f.parquet --page p.html",
        ),
        ("check traces --table=f.parquet", "fleet traces --output=f.parquet"),
        ("explain t --tasks s.json", "explain t --snapshot s.json"),
        ("whatif t --tasks=s.json", "whatif t --snapshot=s.json"),
    ],
)
def test_an_old_spelling_is_replaced_with_a_hint(old, new):
    words, hint = present(old.split())
    assert words == new.split()
    assert "is now called" in hint
    assert present(words) == (words, "")


def test_an_old_spelling_runs_and_says_so(tmp_path):
    done = run("check", str(tmp_path), "--table", str(tmp_path / "f.parquet"))
    assert "`fleet -o FILE`" in done.stderr
    assert "no trace is in it" in str(done.exception)
    done = run("explain", "lu-pinned-fixed", "--tasks", "absent.json")
    assert "`--tasks` is now called `--snapshot`" in done.stderr
    assert "absent.json: cannot be read" in str(done.exception)


def test_without_a_verb_the_five_first_things_are_shown():
    done = run()
    assert done.exit_code == 2  # no verdict was reached
    assert done.stdout.count("  wastedcores ") == len(FIRST) == 5
    assert "wastedcores --help" in done.stdout
    for command, _ in FIRST:
        assert run(command.split()[0], "--help").exit_code == 0


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_a_script_of_the_shell(shell):
    text = run("completion", shell).stdout
    assert f"complete_{shell}" in text
    assert COMPLETE in text
    if shell == "bash":
        subprocess.run(["bash", "-n"], input=text, text=True, check=True)


@pytest.mark.parametrize(
    ("typed", "found"), [("ch", "check"), ("whati", "whatif"), ("explain --sn", "--snapshot")]
)
def test_bash_completes_verbs_and_options(typed, found):
    words = ["wastedcores", *typed.split()]
    asked = {
        COMPLETE: "complete_bash",
        "COMP_WORDS": " ".join(words),
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(MAIN, env=os.environ | asked, capture_output=True, text=True, check=True)
    assert found in done.stdout.split()
    assert not done.stderr


def test_the_manual_page_has_every_verb_and_example():
    page = run("man").stdout
    for verb in VERBS:
        assert f".SH {verb.rstrip('_').upper()}\n" in page
    assert "wastedcores check perf.txt \\-\\-json" in page
    assert ".SH COURSE GRADE\n" in page
    assert "\n." not in page.replace("\n.SH ", "").replace("\n.nf", "").replace(
        "\n.fi", ""
    ).replace("\n.B ", "")
