"""``wastedcores lab``: the notebooks in a folder of the user's, and JupyterLab on it."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path

from wastedcores.cli._verb import verb

_NOTES = """Notebooks that are in the folder already are left as they are, with your changes; delete one to get it back."""


@verb(
    "lab",
    "lab work --port 8899 --no-browser",
    "lab work --copy",
    notes=_NOTES,
    options="""
    folder      argument DIR  The folder for your copies of the notebooks.
    port        N             The port of JupyterLab. Default: a free one.
    no_browser                Print the address and open no browser.
    copy                      Only copy the notebooks.
    """,
)
def lab(
    folder: Path = Path("wastedcores-lab"),
    port: int | None = None,
    no_browser: bool = False,
    copy: bool = False,
) -> None:
    """Copy the notebooks into a folder and open JupyterLab there."""
    copied = copy_notebooks(folder)
    print(f"{folder}: {copied} notebooks copied; begin with 01_is_my_machine_wasting.ipynb")
    if copy:
        return
    sys.stdout.flush()
    if find_spec("jupyterlab") is None:
        raise ModuleNotFoundError("there is no JupyterLab", name="jupyterlab")
    start = folder / "01_is_my_machine_wasting.ipynb"
    call = [sys.executable, "-m", "jupyterlab", f"--ServerApp.root_dir={folder.absolute()}"]
    call += [f"--LabApp.default_url=/lab/tree/{start.name}"] if start.exists() else []
    call += [f"--ServerApp.port={port}"] if port else []
    call += ["--no-browser"] if no_browser else []
    # JupyterLab refuses root, who is often the user of a container or of a test machine
    call += ["--allow-root"] if os.geteuid() == 0 else []
    os.execv(sys.executable, call)


def copy_notebooks(folder: Path) -> int:
    """Copy the bundled notebooks that the folder does not have, and return how many were copied."""
    from wastedcores.errors import UsageError
    from wastedcores.files import notebooks

    try:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [p for p in sorted(notebooks().glob("*.ipynb")) if not (folder / p.name).exists()]
        for path in wanted:
            text = path.read_text(encoding="utf-8")
            (folder / path.name).write_text(_without_dead_links(text), encoding="utf-8")
    except OSError as e:
        raise UsageError(
            f"{folder}: the notebooks cannot be copied there ({e.strerror}). Name another folder."
        ) from e
    return len(wanted)


def _without_dead_links(text: str) -> str:
    """Name the project's pages instead of linking to them; a copy has no docs folder beside it."""
    return re.sub(r"\[([^\]]+)\]\(\.\./(docs/[^)]+)\)", r"\1 (`\2` of the project)", text)
