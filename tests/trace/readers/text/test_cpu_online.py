"""ftrace's cpuhp events tell when a CPU may run tasks."""

from __future__ import annotations

from wastedcores.trace.io import import_trace

TEXT = """\
# tracer: nop
#
# entries-in-buffer/entries-written: 6/6   #P:2
#
         cpuhp/1-20      [001] .....    58.616101: cpuhp_enter: cpu: 0001 target: 144 step: 236 (cpuhp_dummy)
         cpuhp/1-20      [001] .....    58.616105: cpuhp_enter: cpu: 0001 target: 144 step: 235 (sched_cpu_deactivate)
         cpuhp/1-20      [001] .....    58.616205: cpuhp_enter: cpu: 0001 target: 144 step: 234 (0xffffffff81234567)
            bash-77      [000] .....    58.700000: sched_process_exit: comm=bash pid=77 prio=120
         cpuhp/1-20      [001] .....    58.753937: cpuhp_enter: cpu: 0001 target: 236 step: 235 (sched_cpu_activate)
"""


#: without an event of who ran, the file is no trace of the scheduler
SWITCH = (
    "          <idle>-0       [000] d..2.    58.800000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R"
    " ==> next_comm=bash next_pid=78 next_prio=120\n"
)


def test_only_the_step_of_the_scheduler_counts(tmp_path):
    (tmp_path / "t.txt").write_text(TEXT + SWITCH)
    trace = import_trace(tmp_path / "t.txt", tmp_path / "t.parquet")
    rows = trace.only("cpu_online").collect().select("ts_ns", "cpu", "value").rows()
    assert rows == [(58_616_105_000, 1, 0), (58_753_937_000, 1, 1)]
    assert trace.kinds() == {"cpu_online": 2, "exit": 1, "switch": 1}
