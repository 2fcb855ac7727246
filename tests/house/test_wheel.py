"""The wheel and the source archive are complete: installed into clean environments, both do the main job."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
import zipfile

import pytest
from support import ROOT


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build both files from a copy of the files that git has, as CI's fresh clone has them."""
    place = tmp_path_factory.mktemp("dist")
    clone = place / "clone"
    run("git", "clone", "-q", "--depth", "1", ROOT.as_uri(), clone)
    run("git", "-C", clone, "fetch", "-q", ROOT, "HEAD")
    run("git", "-C", clone, "checkout", "-q", "FETCH_HEAD")
    left = clone / "notebooks" / ".ipynb_checkpoints"
    left.mkdir()
    (left / "01-checkpoint.ipynb").write_text("{}")
    run(sys.executable, "-m", "build", "--no-isolation", "-o", place / "out", clone)
    return place / "out"


def run(*words, cwd=None, env=None, code=0):
    done = subprocess.run(
        [str(w) for w in words], cwd=cwd, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == code, f"{words}\n{done.stdout[-3000:]}{done.stderr[-3000:]}"
    return done.stdout


@pytest.mark.slow
def test_archives__have_all_that_the_program_reads_and_nothing_that_was_left(built):
    with zipfile.ZipFile(next(built.glob("*.whl"))) as wheel:
        names = wheel.namelist()
    with tarfile.open(next(built.glob("*.tar.gz"))) as archive:
        sources = archive.getnames()
    for wanted in (
        "notebooks/01_is_my_machine_wasting.ipynb",
        "collectors/README.md",
        "datasets/registry.txt",
        "integrations/schemas/explain.json",
    ):
        assert f"wastedcores/_bundled/{wanted}" in names
        assert any(s.endswith(f"/{wanted}") for s in sources)
    for wanted in ("py.typed", "reports/report.css", "reports/results.css", "reports/figure.js"):
        assert f"wastedcores/{wanted}" in names
    for package in ("wastedcores_course", "wastedcores_studies"):
        assert f"{package}/py.typed" in names
    assert any(s.endswith("/docs/index.md") for s in sources)
    assert any(s.endswith("/CITATION.cff") for s in sources)
    for listed in (names, sources):
        assert not [
            n for n in listed if "checkpoint" in n or "__pycache__" in n or n.endswith(".nbi")
        ]


@pytest.mark.long
@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_installed_into_a_clean_environment(built, kind, tmp_path):
    """Some minutes: pip installs the pinned packages, then check, explain, domains, a report and the notebooks' copies work."""
    venv = tmp_path / "venv"
    run(sys.executable, "-m", "venv", venv)
    pip = [
        venv / "bin" / "python",
        "-m",
        "pip",
        "install",
        "--quiet",
        "--disable-pip-version-check",
    ]
    built_file = next(built.glob(kind))
    run(*pip, "-c", ROOT / "requirements.lock", built_file)
    core = json.loads(run(venv / "bin" / "python", "-m", "pip", "list", "--format", "json"))
    assert len(core) <= 42  # with pip and setuptools
    program, work = venv / "bin" / "wastedcores", tmp_path / "work"
    work.mkdir()
    env = {"PATH": f"{venv / 'bin'}:/usr/bin:/bin", "HOME": str(tmp_path)}
    for words in (
        "check live-balancing-on",
        "explain live-balancing-off --seeds 0",
        "whatif live-balancing-off --machine bd-paper-16 --to core --seeds 1",
        "domains --machine bulldozer8x8 --kernel v4.1 --lint",
    ):
        assert run(program, *words.split(), cwd=work, env=env)
    bug = "replay missing-domains --machine bd-paper-16 --set n=4 --set limit_s=0.1 -o t.parquet"
    assert run(program, *bug.split(), cwd=work, env=env, code=1)
    for words in ("figure t.parquet", "report t.parquet", "lab lab"):
        done = subprocess.run(
            [program, *words.split()],
            cwd=work,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert "pip install 'wastedcores[lab]'" in done.stderr
    run(*pip, "-c", ROOT / "requirements.lock", f"{built_file}[lab]")
    for words in (
        "report live-balancing-off --set seeds=0 -o report",
        "lab lab --copy",
        "course student 4 -o labs --student anna",
        "reproduce newidle --seeds 1 -o reproduced",
        "doctor",
    ):
        assert run(program, *words.split(), cwd=work, env=env)
    assert (work / "report" / "report.html").stat().st_size > 4_000_000
    assert len(list((work / "lab").glob("*.ipynb"))) >= 12
