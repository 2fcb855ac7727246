#!/bin/sh
# Convert the engine of commit $1 (one that has not been converted) into this checkout.
set -e
git checkout -q "${1:-HEAD}" -- wastedcores/simulator tests/simulator tests/support tests/workload
rm -f wastedcores/simulator/engine/world/structs.py
PYTHONPATH=$PWD ${PYTHON:-python} tools/one_source/convert.py
for module in sim v6_12 core_row rq rq_v6_12 clock rt_rq cfs_rq eevdf entity task task_group wait hotplug_step domain domain_v6_12 \
    domain_shared sched_group group_capacity lb_env sds sgs sgs_v6_12 decision; do
    rm wastedcores/simulator/engine/world/$module.py
done
ruff=${RUFF:-ruff}
$ruff check -q --fix --select F401,I wastedcores/simulator tests/simulator tests/support tests/workload || true
$ruff format -q wastedcores/simulator tests/simulator tests/support tests/workload
