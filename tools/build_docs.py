"""Build the documentation's site into build/docs/html: ``python tools/build_docs.py [--without-notebooks]``.

The Markdown files are staged with the folders of the checkout, so that their links to each other stay true, together with
pages made from the code (commands, Python, kernels) and the executed notebooks. Sphinx then treats warnings as errors,
and every link inside the site must lead somewhere.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import inspect
import json
import pkgutil
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
#: other pages that the site has; the rest of the repository's Markdown is for people who change the code
PAGES = (
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "benchmarks/RESULTS.md",
    "collectors/README.md",
    "datasets/README.md",
    "datasets/published/README.md",
    "datasets/recordings/README.md",
    "datasets/recordings-modern/README.md",
    "datasets/recordings-kinds/README.md",
    "datasets/recorded_vs_replayed.csv",
    "datasets/kernel_features.csv",
    "tests/topology/oracle/README.md",
)
#: the rooms that people call, in the order of the reference
ROOMS = {
    "trace": "Traces",
    "invariant": "The invariant",
    "analysis": "Analyses",
    "recovery": "The work of a trace",
    "prediction": "Predictions",
    "queries": "Queries",
    "topology": "Machines and domains",
    "kernels": "Kernels",
    "workload": "Workloads",
    "simulator": "The replay",
    "sweep": "Sweeps",
    "figures": "Figures",
    "words": "Sentences and tables",
    "widgets": "Widgets",
    "reports": "Reports",
    "capture": "Recording",
}


def stage(source: Path, notebooks: bool, cache: Path) -> None:
    """Write all of Sphinx's sources into an empty folder."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source / "docs")
    for page in PAGES:
        (source / page).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / page, source / page)
    static = source / "_static"
    static.mkdir()
    shutil.move(source / "docs" / "conf.py", source / "conf.py")
    shutil.move(source / "docs" / "site.css", static / "site.css")
    shutil.copyfile(ROOT / "wastedcores" / "reports" / "results.css", static / "results.css")
    from wastedcores.reports.html import scripts

    (static / "plotly.min.js").write_text(scripts(), "utf-8")
    _gallery(source, notebooks, cache)
    _commands(_page(source, "commands"))
    _api(source)


def _gallery(source: Path, run: bool, cache: Path) -> None:
    """Stage the notebooks, executed if that is wanted, and the page that lists them."""
    small = json.loads((source / "docs" / "gallery.json").read_text())
    (source / "notebooks").mkdir()
    names, rows = [], []
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        values = small.get(path.stem, {})
        book = _executed(path, values, cache) if run else json.loads(path.read_text())
        note = "".join(f"`{k} = {v!r}`  " for k, v in values.items())
        _prepare(book, note if run else "")
        (source / "notebooks" / path.name).write_text(json.dumps(book))
        title, about = "".join(book["cells"][0]["source"]).removeprefix("# ").split("\n", 1)
        rows.append(f"## [{title}](../notebooks/{path.name})\n\n{about.strip()}\n")
        names.append(f"../notebooks/{path.stem}")
    _page(source, "gallery").write_text(
        "# Gallery of notebooks\n\nThe notebooks are thin: each is also a report (`wastedcores report --notebook 04`), and "
        "`wastedcores lab` opens copies of all of them. Here they were executed with small machines, so that the site builds "
        "within minutes.\n\n" + "\n".join(rows) + _toctree(names)
    )


def _page(source: Path, name: str) -> Path:
    return source / "docs" / f"{name}.md"


def _toctree(names: list[str]) -> str:
    return "\n```{toctree}\n:hidden:\n\n" + "\n".join(names) + "\n```\n"


@functools.cache
def _sources() -> bytes:
    """Return the digest of the code, and of the data that notebooks show."""
    files = [ROOT / "benchmarks" / "results.json"]
    for pattern in ("wastedcores*/**/*.py", "datasets/**/*"):
        files += sorted(p for p in ROOT.glob(pattern) if p.is_file())
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.read_bytes())
    return digest.digest()


def _executed(path: Path, values: dict, cache: Path) -> dict:
    """Return the executed notebook; from the cache, if neither it nor its parameters, the code or the data have changed."""
    from wastedcores.reports.notebook import report

    digest = hashlib.sha256(json.dumps(values, sort_keys=True).encode())
    digest.update(path.read_bytes() + _sources())
    kept = cache / f"{path.stem}-{digest.hexdigest()[:16]}.ipynb"
    if not kept.exists():
        print(f"executing {path.name}", flush=True)
        cache.mkdir(parents=True, exist_ok=True)
        made = report(notebook=str(path), parameters=values, out=cache / path.stem, progress=False)
        for old in cache.glob(f"{path.stem}-*.ipynb"):
            old.unlink()
        shutil.copyfile(made.notebook, kept)
    return json.loads(kept.read_text())


def _prepare(book: dict, note: str) -> None:
    """Make the figures of a notebook HTML, and say which parameters it was executed with."""
    from wastedcores.reports.html import MIME, figure_div
    from wastedcores.words.rich_text import RESULTS_MIME

    for number, cell in enumerate(book["cells"]):
        for at, output in enumerate(cell.get("outputs", ())):
            output.get("data", {}).pop(RESULTS_MIME, None)
            if MIME in output.get("data", {}):
                html = figure_div(output["data"][MIME], f"figure-{number}-{at}")
                output["data"] = {"text/html": html}
        if "injected-parameters" in cell.get("metadata", {}).get("tags", ()):
            cell["metadata"]["tags"] = ["remove-cell"]
    if note:
        shown = {
            "cell_type": "markdown",
            "id": "executed-with",
            "metadata": {},
            "source": f"*Executed with* {note}",
        }
        book["cells"].insert(1, shown)


def _commands(page: Path) -> None:
    """Write the help of every verb, and of the verbs below it."""
    import typer
    from typer.testing import CliRunner

    from wastedcores.cli import app, register_verbs

    register_verbs()
    parts = [
        "# Commands\n\nThis is the help of every command, as `wastedcores COMMAND --help` prints it.\n"
    ]

    def add(command: Any, *words: str) -> None:
        call = [*words, "--help"]
        shown = CliRunner().invoke(app, call, env={"COLUMNS": "96", "NO_COLOR": "1"})
        assert shown.exit_code == 0, call
        parts.append(f"## {' '.join(words)}\n\n```text\n{shown.output.strip()}\n```\n")
        for name, below in getattr(command, "commands", {}).items():
            add(below, *words, name)

    for verb, command in typer.main.get_command(app).commands.items():
        add(command, verb)
    page.write_text("\n".join(parts))


def _api(source: Path) -> None:
    """Write a page about the names of the package itself, and one page per room."""
    import wastedcores

    rows = []
    for name in wastedcores.__all__:
        thing = getattr(wastedcores, name)
        if name != "__version__":
            role = "class" if inspect.isclass(thing) else "func"
            says = inspect.getdoc(thing).splitlines()[0]
            rows.append(
                f"| {{py:{role}}}`wastedcores.{name} <{thing.__module__}.{thing.__qualname__}>` | {says} |"
            )
    (source / "docs" / "api").mkdir()
    for room, title in ROOMS.items():
        parts = [f"# {title}: `wastedcores.{room}`\n\n```{{eval-rst}}"]
        for m in _modules(f"wastedcores.{room}"):
            # a package shows the names of its modules, which have their own entries
            package = hasattr(importlib.import_module(m), "__path__")
            parts.append(f".. automodule:: {m}\n" + ("" if package else "   :members:\n"))
        _page(source, f"api/{room}").write_text("\n".join(parts) + "```\n")
    _page(source, "api").write_text(
        "# Python\n\n`import wastedcores as wc` offers what most people need. Wherever a trace is expected, a file or the name "
        "of a data set will do, and results show themselves as small tables in a notebook.\n\n| name | purpose |\n|---|---|\n"
        + "\n".join(rows)
        + "\n"
        + _toctree([f"api/{room}" for room in ROOMS])
    )


def _modules(name: str) -> list[str]:
    """Return the names of a room's public modules that are not compiled code, the room itself first."""
    room = importlib.import_module(name)
    found = [name]
    for _, child, is_package in pkgutil.iter_modules(getattr(room, "__path__", [])):
        if not child.startswith("_") and not child.endswith("_jit") and child not in ("engine",):
            found += _modules(f"{name}.{child}") if is_package else [f"{name}.{child}"]
    return found


class _Links(HTMLParser):
    """Collects the anchors of a page and the addresses that it names."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors |= {v for k in ("id", "name") if (v := given.get(k))}
        self.links += [v for k in ("href", "src") if (v := given.get(k))]


def broken_links(html: Path) -> list[str]:
    """Return each link inside a built site that leads nowhere, as ``page: link``."""
    pages = {p: _Links(p.read_text("utf-8")) for p in html.rglob("*.html")}
    bad = []
    for page, found in pages.items():
        for link in found.links:
            there = urlsplit(link)
            if there.scheme or there.netloc:
                continue
            target = (page.parent / unquote(there.path)).resolve() if there.path else page
            lost = not target.exists() or (
                there.fragment
                and target in pages
                and unquote(there.fragment) not in pages[target].anchors
            )
            if lost:
                bad.append(f"{page.relative_to(html)}: {link}")
    return bad


def build(out: Path, notebooks: bool = True) -> Path:
    """Stage, build and check the site; raise SystemExit with the reason if anything is wrong with it."""
    source, html = out / "source", out / "html"
    stage(source, notebooks, out / "executed")
    shutil.rmtree(html, ignore_errors=True)
    call = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "--keep-going",
        "-q",
        "-b",
        "html",
        "-d",
        out / "doctrees",
        source,
        html,
    ]
    if subprocess.run([str(c) for c in call], check=False).returncode:
        raise SystemExit("the documentation has the faults above")
    start = html / "docs" / "index.html"
    (html / start.name).write_text(
        f'<meta http-equiv="refresh" content="0; url={start.relative_to(html)}">'
    )
    if bad := broken_links(html):
        raise SystemExit("links that lead nowhere:\n" + "\n".join(bad))
    return start


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--without-notebooks", action="store_true")
    print(build(ROOT / "build" / "docs", not parser.parse_args().without_notebooks))
