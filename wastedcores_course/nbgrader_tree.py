"""Makes a course of nbgrader: its configuration, its source, and the release that nbgrader itself makes of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from wastedcores.errors import WastedCoresError
from wastedcores.files import written_whole
from wastedcores_course.copies import nbgrader_notebook, save
from wastedcores_course.source import Source, read_source, stub

_CONFIGURATION = """\
# written by `wastedcores course nbgrader`
c = get_config()
c.CourseDirectory.course_id = "wastedcores"
c.ClearSolutions.text_stub = "*Your answer:*"
# the code of a lab may take its time, above all where it is compiled first
c.Execute.timeout = 300
"""


def assignment_name(lab: int) -> str:
    """Return the name of a lab among nbgrader's assignments."""
    return f"lab{lab}"


def write_nbgrader(labs: list[int], folder: Path) -> list[Path]:
    """Write labs into a folder of nbgrader, and let nbgrader make the release of each."""
    sources = [read_source(lab) for lab in labs]
    folder.mkdir(parents=True, exist_ok=True)
    configuration = folder / "nbgrader_config.py"
    if not configuration.exists():  # kept if it exists, because a lecturer may have changed it
        configuration.write_text(_CONFIGURATION)
    for source in sources:
        save(nbgrader_notebook(source), _path(folder, "source", source))
        run_tool(
            "nbgrader", "generate_assignment", assignment_name(source.lab), "--force", cwd=folder
        )
    return [_with_stubs(source, _path(folder, "release", source)) for source in sources]


def _path(folder: Path, step: str, source: Source) -> Path:
    return folder / step / assignment_name(source.lab) / f"{source.name}.ipynb"


def _with_stubs(source: Source, release: Path) -> Path:
    """Put into each solution cell of a release a stub that names its task; the stub of nbgrader is the same in all cells."""
    content = json.loads(release.read_text())
    stubs = {
        c.id: stub(source, c) for c in source.cells if c.role == "solution" and c.kind == "code"
    }
    for cell in content["cells"]:
        if cell["id"] in stubs:
            cell["source"] = stubs[cell["id"]].splitlines(keepends=True)
    with written_whole(release) as part:
        part.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n")
    return release


def run_tool(module: str, *words: str, cwd: Path, environment: dict[str, str] | None = None) -> str:
    """Run the command line of nbgrader or otter-grader and return what it printed."""
    # nbgrader calls the command `alembic`, which is in the folder of this Python
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=cwd,
        env={**os.environ, "PATH": path, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
    )
    if f"No module named {module}" in done.stderr:
        raise WastedCoresError(
            f"{module} is not installed for {sys.executable}; install the graders with `pip install 'wastedcores[course]'`."
        )
    if done.returncode:
        last = "\n".join(done.stderr.strip().splitlines()[-12:])
        raise WastedCoresError(f"`{module} {' '.join(words)}` failed:\n{last}")
    return done.stdout + done.stderr
