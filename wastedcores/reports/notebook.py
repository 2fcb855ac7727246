"""Runs a notebook with checked parameters and writes the executed notebook, an offline page and a manifest.

Everything is made in a temporary folder next to the target, which is renamed at the end. A report is therefore complete
or absent.
"""

from __future__ import annotations

import ast
import difflib
import importlib.metadata
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from pathlib import Path
from typing import Any

import nbformat
from jinja2 import DictLoader
from jupyter_client import AsyncKernelManager
from nbclient.exceptions import DeadKernelError
from nbconvert import HTMLExporter
from traitlets.config import Config

from wastedcores import __version__
from wastedcores.errors import ReportError, UsageError
from wastedcores.files import digest_of_files, file_digest, notebooks, part_prefix
from wastedcores.reports.html import MIME, figure_div, scripts
from wastedcores.trace.named import fetch
from wastedcores.units import duration_ns
from wastedcores.words.rich_text import RESULTS_MIME

#: nbconvert's plain cells without prompts; every input is hidden until the reader asks for the code
_TEMPLATE = """
{%- extends 'basic/index.html.j2' -%}
{% block input_group %}<div class="wc-code">
{{ cell.source | highlight_code(metadata=cell.metadata) }}</div>{% endblock %}
{% block in_prompt %}{% endblock %}
{% block empty_in_prompt %}{% endblock %}
{% block output_area_prompt %}{% endblock %}
"""


def page(notebook: nbformat.NotebookNode, title: str) -> str:
    """Return an executed notebook as a complete HTML document."""
    nb = nbformat.from_dict(notebook)
    for number, cell in enumerate(nb.cells):
        for at, output in enumerate(cell.get("outputs", ())):
            data = output.get("data", {})
            if MIME in data:
                output["data"] = {"text/html": figure_div(data[MIME], f"figure-{number}-{at}")}
    exporter = HTMLExporter(
        extra_loaders=[DictLoader({"page.j2": _TEMPLATE})],
        template_file="page.j2",
        exclude_input_prompt=True,
        exclude_output_prompt=True,
        exclude_anchor_links=True,
    )
    body, _ = exporter.from_notebook_node(nb)
    css = "".join(
        Path(__file__).with_name(name).read_text("utf-8") for name in ("results.css", "report.css")
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        + '<meta name="viewport" content="width=device-width, initial-scale=1">'
        + '<link rel="icon" href="data:,">'
        + f"<title>{escape(title)}</title><style>{css}</style><script>{scripts()}</script></head>"
        + '<body><input type="checkbox" id="show-code"><label for="show-code">show code</label>'
        + f"<main>{body}</main></body></html>\n"
    )


DEFAULT_NOTEBOOK = "01_is_my_machine_wasting"
MANIFEST_SCHEMA = "wastedcores.report/1"
#: parameters that name a trace or a data set
INPUTS = ("trace", "against")
#: packages whose versions affect the numbers and pictures
PACKAGES = ("numpy", "numba", "polars", "plotly", "papermill", "nbconvert")


@dataclass(frozen=True)
class Report:
    """The files of a report."""

    html: Path  #: The page.
    notebook: Path  #: The executed notebook.
    manifest: Path  #: A JSON file with the inputs of the report and its results.


def find_notebook(name: str) -> Path:
    """Return a notebook by its path, or a bundled notebook by its name or by the beginning of its name."""
    given = Path(name)
    if given.suffix == ".ipynb" and given.exists():
        return given
    have = {p.stem: p for p in sorted(notebooks().glob("*.ipynb"))}
    hits = [p for stem, p in have.items() if stem == name.removesuffix(".ipynb")] or [
        p for stem, p in have.items() if stem.startswith(name)
    ]
    if len(hits) != 1:
        what = "several notebooks begin in this way" if hits else "no such notebook"
        raise UsageError(f"notebook {name!r}: {what}; there are {', '.join(have)}.")
    return hits[0]


def parameters_of(notebook: Path) -> dict[str, dict[str, str]]:
    """Return the parameters of a notebook: name -> name of the type, default as source, and help."""
    import papermill

    try:
        with _quiet():
            found = papermill.inspect_notebook(str(notebook))
    except Exception as e:  # a file that is no notebook may cause errors of many kinds
        why = f"expected a Jupyter notebook; it does not read as one ({type(e).__name__})"
        raise UsageError(f"{notebook}: {why}.") from e
    return {
        name: {"type": p["inferred_type_name"], "default": p["default"], "help": p["help"]}
        for name, p in found.items()
    }


def checked(notebook: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Return parameters with the types that the notebook's cell declares; strings are converted."""
    known = parameters_of(notebook)
    out: dict[str, Any] = {}
    for name, value in values.items():
        if name not in known:
            near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"{notebook.name} has no parameter {name!r}.{hint} It has {', '.join(known) or 'none'}."
            )
        out[name] = _typed(notebook.name, name, value, known[name])
        if name == "persist":
            duration_ns(out[name], f"{notebook.name}: parameter persist")
    return out


def _typed(where: str, name: str, value: Any, parameter: dict[str, str]) -> Any:
    """Return a value as the declared type; convert it if it is a text from a command line."""
    kind = parameter["type"]
    types: dict[str, Any] = {"float": (int, float)}
    types |= {t.__name__: t for t in (str, int, bool, list, dict)}
    expected = types.get(kind)
    if isinstance(value, str) and kind not in ("str", "None", ""):
        # people write a list of texts as 'a,b', and a list of numbers as '1,2'
        usual = (_default(parameter) or ()) if kind == "list" else ()
        numbers = any(isinstance(v, int | float) for v in usual) and not value.startswith("[")
        text = f"[{value}]" if numbers else {"True": "true", "False": "false"}.get(value, value)
        try:
            value = json.loads(text)
        except ValueError:
            value = [part.strip() for part in value.split(",")] if kind == "list" else value
    wrong_bool = isinstance(value, bool) and kind in ("int", "float")
    if expected is not None and (not isinstance(value, expected) or wrong_bool):
        raise UsageError(f"{where}: parameter {name!r} is a {kind}, got {value!r}.")
    return float(value) if kind == "float" else value


def report(
    trace: str | None = None,
    *,
    against: str = "",
    out: str | Path = "reports/report",
    notebook: str = DEFAULT_NOTEBOOK,
    parameters: dict[str, Any] | None = None,
    progress: bool = True,
    hidden: Path | None = None,
) -> Report:
    """Run a notebook and write ``report.ipynb``, ``report.html`` and ``manifest.json`` into a folder.

    Parameters
    ----------
    trace, against
        Trace files or names of data sets, for the notebook's parameters of these names; None: the defaults.
    out
        The folder. An earlier report in it is replaced; otherwise it must be absent or empty.
    notebook
        Path of a notebook, or name of a bundled one.
    parameters
        Further parameters; unknown names and wrong types are refused before anything runs.
    progress
        Whether to show a progress bar on stderr.
    hidden
        A folder. Its path and the paths of the notebooks are left out of all files of the report. None: all paths stay.

    Returns
    -------
    Report
        The files of the report.

    Raises
    ------
    UsageError
        A parameter makes no sense, or the folder holds other files.
    ReportError
        The folder cannot be written, or a cell failed; then the notebook up to this cell stays next to the folder as
        ``<name>.failed.ipynb``.
    """
    source = find_notebook(notebook)
    values = dict(parameters or {})
    known = parameters_of(source)
    if trace is not None:
        values["trace"] = trace
    if against or (trace is not None and "against" in known):
        # do not compare this trace with the notebook's own default for the second trace
        values["against"] = against
    if "interactive" in known:
        # a page has no Jupyter kernel that could answer a widget
        values.setdefault("interactive", False)
    values = checked(source, values)
    inputs = _inputs(values, known)
    values.update(
        {name: str(facts["file"]) for name, facts in inputs.items() if Path(values[name]).exists()}
    )
    folder = _target(Path(out))
    try:
        with tempfile.TemporaryDirectory(
            prefix=part_prefix(folder.name), suffix=".part", dir=folder.parent
        ) as place:
            part = Path(place, folder.name)
            part.mkdir()
            started, began = datetime.now(UTC), time.monotonic()
            executed = _execute(source, values, part / "report.ipynb", progress, folder)
            if hidden is not None:
                executed = nbformat.from_dict(_without_path(executed, hidden))
                nbformat.write(executed, part / "report.ipynb")
            (part / "report.html").write_text(
                page(executed, title=_title(executed, values)), "utf-8"
            )
            manifest = _manifest(source, executed, values, known, inputs)
            manifest["started"] = started.isoformat(timespec="seconds")
            manifest["duration_s"] = round(time.monotonic() - began, 3)
            if hidden is not None:
                manifest = _without_path(manifest, hidden)
            (part / "manifest.json").write_text(json.dumps(manifest, indent=1, default=str) + "\n")
            if folder.exists():
                folder.rename(Path(place, "earlier"))
            part.rename(folder)
    except OSError as e:
        raise ReportError(
            f"{folder}: the report cannot be written ({e.strerror}); nothing was left behind. Is the disk full, or is "
            "the folder read-only? Choose another folder with -o."
        ) from e
    return Report(folder / "report.html", folder / "report.ipynb", folder / "manifest.json")


def _target(folder: Path) -> Path:
    """Return the folder to write and create its parent; refuse a folder that holds something else."""
    folder = folder.absolute()
    if folder.exists():
        held = {p.name for p in folder.iterdir()} if folder.is_dir() else {folder.name}
        if not folder.is_dir() or held - {"report.ipynb", "report.html", "manifest.json"}:
            raise UsageError(
                f"{folder}: the folder holds other files than a report ({sorted(held)[0]}). Choose another folder with -o."
            )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise ReportError(
            f"{folder}: the folder cannot be created ({e.strerror}). Choose another folder with -o."
        ) from e
    return folder


def _inputs(values: dict[str, Any], known: dict[str, dict[str, str]]) -> dict[str, dict[str, Any]]:
    """Return file and SHA-256 of every trace that the notebook will read, by parameter; raise if one is absent."""
    found: dict[str, dict[str, Any]] = {}
    for name in INPUTS:
        if name not in known:
            continue
        value = values.get(name)
        if value is None:
            value = _default(known[name])
        if value:
            path = fetch(value)
            files = [f for f in path.rglob("*") if f.is_file()] if path.is_dir() else [path]
            found[name] = {
                "name": str(value),
                "file": path.absolute(),
                "bytes": sum(f.stat().st_size for f in files),
                "sha256": digest_of_files(files) if path.is_dir() else file_digest(path),
            }
            values.setdefault(name, value)
    return found


@contextmanager
def _quiet():
    """Silence the log of papermill, which also raises its errors as exceptions."""
    import logging

    logger = logging.getLogger("papermill")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def _kept_to_itself() -> Iterator[type[AsyncKernelManager]]:
    """Provide a Jupyter kernel; its messages, such as complaints about an interrupt, are shown only if the kernel failed."""
    with tempfile.TemporaryFile() as said:

        class Kernel(AsyncKernelManager):
            async def start_kernel(self, **options: Any) -> None:  # type: ignore[override]  # the parent's method is async, too
                await super().start_kernel(**options, stderr=said)

        try:
            yield Kernel
        except Exception:
            said.seek(0)
            if sys.stderr:
                sys.stderr.write(said.read().decode(errors="replace"))
            raise


def _execute(
    source: Path, values: dict[str, Any], target: Path, progress: bool, folder: Path
) -> nbformat.NotebookNode:
    """Run the notebook in a new Jupyter kernel, which uses the same Python as this process."""
    import papermill

    # figures are stored as JSON only; the page includes the library once
    own = {"PLOTLY_RENDERER": "plotly_mimetype"} | ({} if progress else {"TQDM_DISABLE": "1"})
    try:
        with (
            _quiet(),
            _environment(own),
            tempfile.TemporaryDirectory(prefix="wc-") as sockets,
            _kept_to_itself() as kernel,
        ):
            papermill.execute_notebook(
                str(source),
                str(target),
                parameters=values,
                kernel_name="python3",
                progress_bar=progress,
                log_output=False,
                request_save_on_cell_execute=True,
                cwd=str(Path.cwd()),
                # sockets in a folder of their own: so no port is opened, and two reports that run at the same time
                # do not share a socket, as they would by default ("kernel-ipc" in the working directory)
                config=Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/k"}}),
                kernel_manager_class=kernel,
            )
    except (papermill.PapermillExecutionError, DeadKernelError) as e:
        kept = folder.with_name(f"{folder.name}.failed.ipynb")
        shutil.copyfile(target, kept)
        if isinstance(e, DeadKernelError):
            why = "the process of the notebook was killed or ended itself; was there too little memory?"
        else:
            why = f"cell {e.exec_count} failed with {e.ename}: {str(e.evalue).strip()}"
        raise ReportError(f"{source.name}: {why} The notebook up to that cell is {kept}.") from None
    return nbformat.read(target, as_version=4)


@contextmanager
def _environment(own: dict[str, str]) -> Iterator[None]:
    """Set environment variables that the notebook's process inherits, and restore the earlier values afterwards."""
    before = {name: os.environ.get(name) for name in own}
    os.environ.update(own)
    try:
        yield
    finally:
        for name, old in before.items():
            os.environ.pop(name, None) if old is None else os.environ.update({name: old})


def _without_path(value: Any, folder: Path) -> Any:
    """Remove from the texts of JSON the path of a folder, also as Python or HTML spell it, and the folders of notebooks."""
    if isinstance(value, dict):
        return {
            k: Path(v).name if k in ("input_path", "output_path") else _without_path(v, folder)
            for k, v in value.items()
        }
    if isinstance(value, list):
        return [_without_path(v, folder) for v in value]
    if isinstance(value, str):
        plain = f"{folder}/"
        for spelt in (plain, plain.encode("unicode_escape").decode(), escape(plain)):
            value = value.replace(spelt, "").replace(escape(spelt, quote=False), "")
    return value


def _title(executed: nbformat.NotebookNode, values: dict[str, Any]) -> str:
    """Return the title of the browser's tab."""
    texts = (c.source.strip() for c in executed.cells if c.cell_type == "markdown")
    head = next((text.splitlines()[0] for text in texts if text), "report")
    trace = Path(str(values.get("trace", ""))).name
    return f"{trace} · {head.lstrip('# ')}" if trace else head.lstrip("# ")


def _manifest(
    source: Path,
    executed: nbformat.NotebookNode,
    values: dict[str, Any],
    known: dict[str, dict[str, str]],
    inputs: dict[str, dict[str, Any]],
) -> dict[str, Any]:
    return {
        "schema": MANIFEST_SCHEMA,
        "notebook": {"name": source.name, "sha256": file_digest(source)},
        "inputs": {
            name: {**facts, "file": Path(facts["file"]).name} for name, facts in inputs.items()
        },
        "parameters": {name: values.get(name, _default(p)) for name, p in known.items()},
        "seed": values.get("seed"),
        "versions": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.release()} {platform.machine()}",
            "wastedcores": __version__,
            **{name: importlib.metadata.version(name) for name in PACKAGES},
        },
        "results": _results(executed),
    }


def _default(parameter: dict[str, str]) -> Any:
    """Return the value of a default, which papermill gives as Python source."""
    try:
        return ast.literal_eval(parameter["default"])
    except (ValueError, SyntaxError):
        return parameter["default"]


def _results(executed: nbformat.NotebookNode) -> dict[str, Any]:
    """Collect the numbers that the notebook's verdict states, by input.

    The output of the verdict's cell has these numbers next to the text, under a MIME type of their own. So the numbers in the
    manifest and on the page come from one run of the notebook.
    """
    found: dict[str, Any] = {}
    for cell in executed.cells:
        for output in cell.get("outputs", ()):
            found.update(output.get("data", {}).get(RESULTS_MIME, {}))
    return found
