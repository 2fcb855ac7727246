"""Considered CPUs, and the collectors and a pair of recordings on an older kernel: Debian's 6.1 in a small emulated machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from support import guest

import wastedcores
from wastedcores.capture.backends import command
from wastedcores.files import collectors

SLOW = os.environ.get("WASTEDCORES_SLOW") == "1"


def test_a_kernel_without_probes_is_reported(bpf, tmp_path):
    if Path("/sys/bus/event_source/devices/kprobe/type").exists():
        pytest.skip("this kernel has kprobes; the test with a guest covers it")
    argv = command("considered.py", ["-o", str(tmp_path / "c.wct"), "--seconds", "0.5"], bpf)
    run = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert run.returncode == 2
    assert "this kernel does not allow it: no kprobes (CONFIG_KPROBES)" in run.stderr
    assert "Traceback" not in run.stderr


JOB = """
uname -r
cat /sys/devices/system/node/online
/usr/bin/python3 -B {c}/schedtrace.py -o /tmp/out/s.wct --seconds 3 &
P=$!
sleep 2
wait $P
for how in "" --kprobes; do
  /usr/bin/python3 -B {c}/considered.py $how -o /tmp/out/c$how.wct --seconds 5 &
  P=$!
  for i in 1 2 3 4 5 6 7 8; do (i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done) & done
  wait $P
done
/usr/bin/python3 -B {c}/schedtrace.py -o /tmp/out/jump.wct --seconds 4 &
P=$!
sleep 1
date -s "2031-01-01 00:00:00"
sleep 1
date -s "2020-01-01 00:00:00"
wait $P
/usr/bin/python3 -B {c}/unclaimed.py --seconds 3 --before 0
/usr/bin/python3 -B {c}/unclaimed.py --seconds 3 --event-driven --useless --deficit
"""


@pytest.mark.slow
@pytest.mark.timeout(1800)  # it takes 264 s on a machine that runs nothing else
@pytest.mark.skipif(
    not SLOW, reason="minutes of emulation and a 70 MB kernel; set WASTEDCORES_SLOW=1"
)
def test_collectors_load_on_debians_6_1_with_four_nodes(bpf, tmp_path):
    if guest.missing():
        pytest.skip(f"needs {guest.missing()} (WASTEDCORES_SLOW=1 sh tools/ci_packages.sh)")
    tree = guest.kernel(tmp_path)
    # the guest has a /tmp of its own, which would hide a checkout under /tmp
    shutil.copytree(collectors(), tmp_path / "out/collectors")
    log = guest.boot(tree, tmp_path, JOB.format(c="/tmp/out/collectors"))
    assert log.splitlines()[0].startswith("6.1."), log
    assert "\n0-3\n" in log
    assert log.rstrip().endswith("code 0"), log
    assert len(re.findall(r'unclaimed: {"checks": [1-9]', log)) == 2
    plain = wastedcores.open_trace(tmp_path / "out/s.wct")
    assert plain.header.lost == {}
    assert {"switch", "wakeup", "nr_running", "task_state"} <= set(plain.kinds())
    assert plain.header.kernel_release.startswith("6.1.")
    assert wastedcores.check(plain).verdict in ("clean", "violations")
    for name, how in (("c", "fentry"), ("c--kprobes", "kprobe")):
        trace = wastedcores.open_trace(tmp_path / f"out/{name}.wct")
        seen = trace.only("considered").collect()
        assert re.search(rf"find_busiest_group by {how}", log)
        groups = seen.filter(pl.col("op") == "find_busiest_group")
        masks = set(groups["cpu_mask"].bin.encode("hex"))
        assert any(bin(int(m[:2], 16)).count("1") == 4 for m in masks)  # all nodes
        wakeups = seen.filter(pl.col("op") == "select_task_rq_fair")
        assert wakeups.height
        for cpu, mask in wakeups.select("cpu", "cpu_mask").iter_rows():
            assert mask[cpu // 8] >> (cpu % 8) & 1  # the chosen CPU was looked at
    # the wall clock was set eleven years forward and back, which the trace's clock does not see
    jump = wastedcores.open_trace(tmp_path / "out/jump.wct")
    assert 3_000_000_000 < jump.header.end_ns - jump.header.start_ns < 8_000_000_000
    assert "clock jump" not in jump.header.provenance


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not SLOW, reason="minutes of emulation and a 70 MB kernel")
def test_a_pair_recorded_through_tracefs_in_a_guest_is_never_judged_wrongly(root, tmp_path):
    """Record work with and without load balancing in the guest; the verdicts are right or unknown, and one of each is right."""
    if guest.missing():
        pytest.skip(f"needs {guest.missing()} (WASTEDCORES_SLOW=1 sh tools/ci_packages.sh)")
    tool = Path(wastedcores.__file__).parents[1] / "tools/record_guest_pair.py"
    words = [sys.executable, tool, "-o", tmp_path / "pairs", "--pairs", "3"]
    run = subprocess.run(words, capture_output=True, text=True, check=True)
    told = re.findall(r"^\d live-balancing-(off|on) (\w+)$", run.stdout, re.MULTILINE)
    assert len(told) == 6
    right = {("off", "violations"), ("on", "clean")}
    assert right <= set(told) <= right | {("off", "unknown"), ("on", "unknown")}
