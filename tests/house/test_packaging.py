"""environment.yml, pyproject.toml and requirements.lock agree about the dependencies."""

from __future__ import annotations

import re
import tomllib
from itertools import chain

import yaml
from support import ROOT

#: package -> its name on conda-forge, where that differs
CONDA_NAMES = {
    "build": "python-build",
    "playwright": "playwright-python",
    "prometheus-client": "prometheus_client",
}


def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def extras(project):
    """The packages of the extras; some extras bring others of this project."""
    named = project["optional-dependencies"]
    assert named["all"] == ["wastedcores[lab,course,docs,dask]"]
    for extra in ("course", "docs"):  # they run notebooks
        assert named[extra][0] == "wastedcores[lab]"
    return [
        [p for p in packages if not p.startswith("wastedcores[")] for packages in named.values()
    ]


def on_conda(dep):
    name, rest = re.fullmatch(r"([a-z0-9-]+)(.*)", dep).groups()
    return CONDA_NAMES.get(name, name) + rest


def test_environment_agrees_with_pyproject():
    project = pyproject()
    wanted = {f"python{project['requires-python']}"}
    for dep in chain(project["dependencies"], *extras(project)):
        wanted.add(on_conda(dep))
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = {d for d in environment["dependencies"] if isinstance(d, str)} - {"pip"}
    (by_pip,) = (d["pip"] for d in environment["dependencies"] if isinstance(d, dict))
    # conda hands these lines to pip as a requirements file, where a line takes no options of pip's command
    assert by_pip.pop() == "-e ."
    assert listed | set(by_pip) == wanted
    assert not listed & set(by_pip)


def test_lock_pins_every_dependency_and_names_no_index():
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[^\s]+", line) for line in lines), (
        "only name==version lines"
    )
    pinned = {re.sub(r"[-_.]+", "-", line.split("==")[0]).lower() for line in lines}
    project = pyproject()
    for dep in chain(project["dependencies"], *extras(project)):
        assert re.match(r"[a-z0-9-]+", dep).group() in pinned, dep


def test_the_unrelated_bcc_package_is_never_a_dependency():
    for file in ("pyproject.toml", "requirements.lock", "environment.yml"):
        assert not re.search(r"^\W*bcc\b", (ROOT / file).read_text(), re.MULTILINE), file


def test_a_wheel_carries_the_files_that_the_studies_read():
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]
    bundled = tool["build"]["targets"]["wheel"]["force-include"]
    for name in ("calibration.json", "published", "recorded_vs_replayed.csv"):
        assert bundled[f"datasets/{name}"] == f"wastedcores/_bundled/datasets/{name}"
    assert bundled["benchmarks/results.json"] == "wastedcores/_bundled/benchmarks/results.json"


def test_all_files_name_the_same_version():
    import wastedcores

    version = pyproject()["version"]
    assert wastedcores.__version__ == version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version
    assert recipe()["context"]["version"] == version


def test_conda_recipe_agrees_with_pyproject():
    project, found = pyproject(), recipe()
    run = [d.replace(" ", "") for d in found["requirements"]["run"]]
    lab = project["optional-dependencies"]["lab"]
    named = [on_conda(d) for d in (*project["dependencies"], *lab)]
    assert run == [f"python{project['requires-python']}", *named]
    (entry,) = found["build"]["python"]["entry_points"]
    name, _, target = entry.partition(" = ")
    assert project["scripts"] == {name: target}
    assert found["about"]["license"] == project["license"]
    assert found["about"]["license_file"] == project["license-files"]


def recipe():
    return yaml.safe_load((ROOT / "tools" / "conda" / "recipe.yaml").read_text())
