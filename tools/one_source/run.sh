#!/bin/sh
# Convert the engine of this checkout: the sources as committed, then the rewritten ones.
set -e
git checkout -q -- wastedcores/simulator/engine
rm -f wastedcores/simulator/engine/world/structs.py
PYTHONPATH=$PWD ${PYTHON:-python} tools/one_source/convert.py
ruff=${RUFF:-ruff}
$ruff check -q --fix --select F401,I wastedcores/simulator/engine || true
$ruff format -q wastedcores/simulator/engine
