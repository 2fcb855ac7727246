"""The commands that the documents show exist, and those of the guides do what the guides say: each is executed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys

import pytest
import typer
from support import ROOT
from support.perf_file import build

from wastedcores.cli import app, main, register_verbs
from wastedcores.trace.io import open_trace
from wastedcores.trace.parquet import write_parquet

DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("*/*.md")])
DOCUMENTS = sorted({*DOCUMENTS, *ROOT.glob("datasets/*/*.md")})
register_verbs()
VERBS = typer.main.get_command(app).commands  # type: ignore[attr-defined]

#: commands of more than about ten seconds, by their beginnings
LONG = (
    "wastedcores compare group-imbalance",
    "wastedcores compare overload-on-wakeup",
    "wastedcores course grade",
    "wastedcores explain group-construction-buggy --seeds",
    "wastedcores reproduce proofs",
    "wastedcores whatif",
)
#: commands that record this machine, and those that read what was recorded
LIVE = ("wastedcores capture", "wastedcores watch", "wastedcores check build.parquet")
#: commands that need the emulator, which has tests of its own (tests/guest), and those that read what it recorded
EMULATED = (
    "wastedcores guest",
    "wastedcores check gi.parquet",
    "wastedcores score before.parquet",
    "wastedcores score after.parquet",
    "wastedcores compare before.parquet",
    "wastedcores whatif real.parquet",
)
#: go on until they are stopped, or read what these left, and have tests of their own (tests/browser, tests/live/test_service.py)
SERVES = (
    "wastedcores lab",
    "wastedcores watch --serve",
    "wastedcores watch --textfile",
    "wastedcores explain /var/lib/wastedcores",
    "wastedcores fleet prometheus+http",  # tests/sweep/test_prometheus.py
)
#: the page whose commands record this machine; they are executed together, in their order
OWN_TRACE = ROOT / "docs" / "five-minutes.md"


def commands(text: str) -> list[str]:
    """Each ``wastedcores VERB ...`` in an indented line or between backticks."""
    quoted = re.findall(r"`(wastedcores [a-z][^`]*)`", re.sub(r"\s*\n\s*", " ", text))
    return [c.split(" | ")[0] for c in quoted] + shown(text)


def shown(text: str) -> list[str]:
    """Each ``wastedcores VERB ...`` in an indented line, which a reader types as it stands."""
    lines = re.findall(r"^ {4,}(?:\$ )?(wastedcores [a-z].*)$", text, re.MULTILINE)
    return [re.sub(r"\s+# .*", "", line) for line in lines]


def examples():
    """Each document with its shown commands, apart from those that take long or record this machine."""
    for path in DOCUMENTS:
        found = [
            c for c in shown(path.read_text()) if not c.startswith((*LIVE, *EMULATED, *SERVES))
        ]
        if path == OWN_TRACE or path.name == "CHANGELOG.md":
            continue
        name = str(path.relative_to(ROOT))
        quick = [c for c in found if not c.startswith(LONG)]
        if quick:
            yield pytest.param(quick, id=name)
        for command in found:
            if command.startswith(LONG):
                yield pytest.param([command], id=f"{name}: {command}", marks=pytest.mark.long)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_shown_commands_exist(document):
    for command in commands(document.read_text()):
        _, verb, *words = command.split()
        assert verb in VERBS, command
        called = VERBS[verb]
        if words and hasattr(called, "commands"):
            called = called.commands[words.pop(0)]
        known = {o for p in called.params for o in (*p.opts, *p.secondary_opts)} | {
            "--help",
            "-h",
        }
        own = words[: words.index("--")] if "--" in words else words
        for word in own:
            if re.match(r"--?[A-Za-z]", word):
                assert word in known, command


@pytest.mark.slow
@pytest.mark.parametrize("lines", list(examples()))
def test_shown_commands_work(lines, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    recorded(tmp_path)
    if any("course grade" in line for line in lines):  # what students got is what they hand in
        student = "wastedcores course student 4 -o submitted --students ids.txt"
        lines = [student, *lines]
    for line in lines:
        monkeypatch.setattr(sys, "argv", shlex.split(line))
        with pytest.raises(SystemExit) as end:
            main()
        said = capfd.readouterr()
        # the exit code of these is their verdict
        verdict = line.split()[1] in ("check", "compare", "domains", "replay", "score")
        assert end.value.code in ((0, 1, 3) if verdict else (0,)), f"{line}\n{said.err}"
        assert said.out, line


def recorded(folder):
    """Put the files into a folder that the guides expect: recordings, a list of students, and what they submitted."""
    (folder / "perf.data").write_bytes(build())
    shutil.copyfile(ROOT / "tests/trace/golden/ftrace_4.1.txt", folder / "trace.txt")
    write_parquet(open_trace(folder / "trace.txt"), folder / "t.parquet")
    for side in ("before", "after"):
        (folder / side).mkdir()
        for k in range(5):
            (folder / side / f"{k}.parquet").symlink_to(folder / "t.parquet")
    (folder / "rules.toml").write_text(
        '[[rule]]\nquantity = "wasted_cpus"\nworse_by = 0.1\np = 0.05\n'
    )
    (folder / "ids.txt").write_text("anna\nben\n")
    (folder / "secret.txt").write_text("some random bytes\n")
    (folder / "submitted").mkdir()
    for name in ("trace.txt.xz", "tasks.json"):
        (folder / name).symlink_to(ROOT / "datasets" / "recordings" / "db64-buggy-64cpu" / name)


@pytest.mark.live
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="records the machine")
@pytest.mark.skipif(not shutil.which("perf"), reason="needs perf (tools/ci_packages.sh)")
def test_five_minutes__every_command_of_the_page_works(tmp_path):
    """Install commands and JupyterLab, which goes on until it is stopped, have tests of their own (test_wheel.py)."""
    text = OWN_TRACE.read_text()
    lines = re.findall(r"^ {4,}(wastedcores .*)$", text, re.MULTILINE)
    lines = [line for line in lines if not line.startswith("wastedcores lab")]
    recorders = [line for line in lines if " -- sudo " in line]
    assert len(recorders) == 2
    short = [
        line.replace("sleep 10", "sleep 1").replace("--seconds 10", "--seconds 1") for line in lines
    ]
    first = ["wastedcores snapshot -o tasks.json"]  # "while they record"
    for line in first + short:
        words = shlex.split(line.replace(" sudo ", " "))
        if "trace-cmd" in words and not shutil.which("trace-cmd"):
            continue
        call = [sys.executable, "-m", *words] if words[0] == "wastedcores" else words
        done = subprocess.run(
            call, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        if (
            "Can't enable ftrace" in done.stderr
        ):  # some kernels do not let `trace-cmd record` switch the function tracer
            continue
        verdicts = (0, 1, 3) if words[:2] == ["wastedcores", "check"] else (0,)
        assert done.returncode in verdicts, f"{line}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "reports" / "mine" / "report.html").stat().st_size > 4_000_000


def that_record():
    """Each document, apart from the changes and those with tests of their own, with the commands that record this machine."""
    for path in DOCUMENTS:
        lines = [
            c for c in shown(path.read_text()) if c.startswith(LIVE) and not c.startswith(SERVES)
        ]
        if lines and path not in (OWN_TRACE, ROOT / "CHANGELOG.md"):
            yield pytest.param(lines, id=str(path.relative_to(ROOT)))


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.skipif(os.geteuid() != 0, reason="records the machine")
@pytest.mark.parametrize("lines", list(that_record()))
def test_commands_that_record_this_machine_work(lines, tmp_path):
    (tmp_path / "Makefile").write_text("all: 1 2 3 4\n1 2 3 4:\n\tsleep 0.$@\n.PHONY: 1 2 3 4\n")
    for line in lines:
        call = [sys.executable, "-m", *shlex.split(line)]
        done = subprocess.run(
            call, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
        )
        verdicts = (0, 1, 3) if call[3] == "check" else (0,)
        assert done.returncode in verdicts, f"{line}\n{done.stdout}{done.stderr}"
