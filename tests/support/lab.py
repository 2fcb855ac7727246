"""JupyterLab in Chromium: a notebook of given cells, run to the end, with the bytes that the page receives."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import nbformat
from playwright.sync_api import Page


@contextmanager
def jupyterlab(folder: Path, variables: dict[str, str] | None = None) -> Iterator[str]:
    """Start JupyterLab on a folder's subfolder ``n``, with these environment variables, and yield its address."""
    (folder / "n").mkdir(exist_ok=True)
    jupyter = shutil.which("jupyter", path=os.path.dirname(sys.executable))
    options = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--expose-app-in-browser", "--allow-root",
               "--ServerApp.token=", f"--notebook-dir={folder / 'n'}", "--LabApp.news_url=",
               "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"]  # fmt: skip
    environment = (
        os.environ
        | (variables or {})
        | {
            "JUPYTER_CONFIG_DIR": str(folder / "c"),
            "JUPYTER_RUNTIME_DIR": str(folder / "r"),
        }
    )
    server = subprocess.Popen(
        [jupyter, "lab", *options],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        env=environment,
    )
    address = next(
        m[0] for line in server.stderr if (m := re.search(r"http://127\.0\.0\.1:\d+/", line))
    )
    # somebody must read the pipe, or it fills up and the server stops
    threading.Thread(target=lambda: [None for _ in server.stderr], daemon=True).start()
    yield address
    server.terminate()
    server.wait(30)


def write_notebook(path: Path, *cells: str) -> None:
    """Write a notebook of these code cells; the path has no ending."""
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    made = nbformat.v4.new_notebook(metadata={"kernelspec": spec})
    made.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    nbformat.write(made, path.with_suffix(".ipynb"))


def run_all(tab: Page, address: str, name: str) -> None:
    """Open a notebook, named without its ending, and run its cells, without waiting for them."""
    tab.goto(f"{address}lab/tree/{name}.ipynb?reset")
    tab.wait_for_function(
        "window.jupyterapp && document.querySelectorAll('.jp-NotebookPanel .jp-Cell').length",
        timeout=120_000,
    )
    tab.wait_for_function(
        # before the kernel is connected, running the cells asks which kernel to use
        "window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.connectionStatus === 'connected' && "
        "document.querySelector('.jp-Notebook-ExecutionIndicator')?.dataset.status === 'idle'",
    )
    tab.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells').then(() => 1)")


def evaluate(tab: Page, code: str) -> str:
    """Run code in the notebook's kernel and return what it prints."""
    return tab.evaluate(
        """async (code) => {
            const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
            let said = '';
            const future = kernel.requestExecute({code, store_history: false});
            future.onIOPub = (m) => { said += m.content.text ?? (m.content.traceback ?? []).join('\\n'); };
            await future.done;
            return said.trim();
        }""",
        code,
    )


class Received:
    """The bytes that a page gets through websockets; make it before the page is opened."""

    def __init__(self, tab: Page) -> None:
        self.bytes = 0
        self.gave_up = False  # anywidget once waited too long for a widget
        tab.on("websocket", lambda socket: socket.on("framereceived", self._count))

    def _count(self, payload: str | bytes) -> None:
        self.bytes += len(payload)
