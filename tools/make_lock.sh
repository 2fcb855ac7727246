#!/bin/sh
# Write requirements.lock: the versions that pip resolves today for pyproject.toml under the oldest supported Python.
# This is Debian 12's own python3 (3.11.2), because some releases ask for a later 3.11.x.
set -eu
cd "$(dirname "$0")/.."
python=${PYTHON:-/usr/bin/python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"$python" -m venv "$work/venv"
"$python" - > "$work/wanted.txt" <<'PY'
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["project"]["dependencies"], sep="\n")
for extra in project["project"]["optional-dependencies"].values():
    print(*(package for package in extra if not package.startswith("wastedcores")), sep="\n")
print(*project["build-system"]["requires"], "editables", sep="\n")
PY
"$work/venv/bin/pip" install --quiet --disable-pip-version-check -r "$work/wanted.txt"
"$work/venv/bin/pip" freeze > "$work/lock"
cp "$work/lock" requirements.lock
