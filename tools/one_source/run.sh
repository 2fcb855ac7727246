#!/bin/sh
# Convert the engine of commit $1 (what has not been rewritten) into this checkout.
set -e
git checkout -q "${1:-HEAD}" -- wastedcores/simulator/engine
rm -f wastedcores/simulator/engine/world/structs.py
PYTHONPATH=$PWD ${PYTHON:-python} tools/one_source/convert.py
ruff=${RUFF:-ruff}
$ruff check -q --fix --select F401,I wastedcores/simulator/engine || true
$ruff format -q wastedcores/simulator/engine
