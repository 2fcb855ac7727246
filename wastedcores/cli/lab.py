"""``wastedcores lab``: copies the notebooks into a folder of the user, and opens JupyterLab there."""

from __future__ import annotations

import os
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from wastedcores.cli._app import app, epilog

_NOTES = """Notebooks that are in the folder already are left as they are, with your changes. Delete a notebook to get the
original back."""


@app.command(
    epilog=epilog("lab", "lab work --port 8899 --no-browser", "lab work --copy", notes=_NOTES)
)
def lab(
    folder: Annotated[
        Path, Argument(metavar="DIR", help="The folder for your copies of the notebooks.")
    ] = Path("wastedcores-lab"),
    port: Annotated[
        int | None, Option(metavar="N", help="The port of JupyterLab. Default: a free one.")
    ] = None,
    no_browser: Annotated[
        bool, Option("--no-browser", help="Print the address and open no browser.")
    ] = False,
    copy: Annotated[bool, Option("--copy", help="Only copy the notebooks.")] = False,
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
    # JupyterLab refuses to run as root, but containers and test machines often have no other user
    call += ["--allow-root"] if os.geteuid() == 0 else []
    os.execv(sys.executable, call)


def copy_notebooks(folder: Path) -> int:
    """Copy the bundled notebooks that the folder does not have, and return how many were copied."""
    from wastedcores.errors import UsageError
    from wastedcores.files import notebooks, written_whole

    try:
        folder.mkdir(parents=True, exist_ok=True)
        wanted = [p for p in sorted(notebooks().glob("*.ipynb")) if not (folder / p.name).exists()]
        for path in wanted:
            text = path.read_text(encoding="utf-8")
            # an interrupted copy would stay there for ever, because a notebook that exists is not copied again
            with written_whole(folder / path.name) as part:
                part.write_text(_without_dead_links(text), encoding="utf-8")
    except OSError as e:
        raise UsageError(
            f"{folder}: the notebooks cannot be copied there ({e.strerror}). Name another folder."
        ) from e
    return len(wanted)


def _without_dead_links(text: str) -> str:
    """Name the project's pages instead of linking to them; a copy has no docs folder beside it."""
    return re.sub(r"\[([^\]]+)\]\(\.\./(docs/[^)]+)\)", r"\1 (`\2` of the project)", text)
