"""rt-app files: the grammar of real files, the meaning of each event, and clear refusals.

The files here are written for these tests, in the shape of rt-app's own doc/examples: those of ``AUDIO`` like mp3.json
(resources with targets, numbered keys, trailing commas), ``SCREEN`` like video-short.json (repeated keys, a bare suspend),
``PING`` like tutorial/example4.json (a comment, resume and suspend), ``TRANSFER`` like tutorial/example6.json.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from itertools import pairwise

import pytest
from support.typed import typed

from wastedcores.errors import WorkloadError
from wastedcores.kernels import KernelModel
from wastedcores.simulator import log_kind, replay, simulate
from wastedcores.topology.machine import Machine
from wastedcores.workload import Costs, ops
from wastedcores.workload.rtapp.reader import rtapp

V41 = KernelModel.named("v4.1")
BARE = Costs(switch_ns=0, wake_ns=0, spin_ns=0)
US = 1_000
MS = 1_000_000
SMALL = Machine.preset("uma8")

AUDIO = """
{
  "tasks" : {
    "Clock" : {
      "priority" : -19,
      "loop" : 6,
      "phases" : {
        "p1" : { "loop" : 1, "lock1" : "m0", "signal2" : "go0", "unlock3" : "m0",
                 "timer4" : { "ref" : "tick", "period": 5000 }, },
        "p2" : { "loop" : 3, "timer0" : { "ref" : "tick", "period": 5000 }, }
      }
    },
    "Out" : {
      "priority" : -19, "loop" : 5,
      "phases" : { "p1" : { "loop" : 1,
          "lock0" : "m0", "wait1" : { "ref" : "wait0", "mutex": "m0" }, "unlock2" : "m0",
          "run3" : 250, "lock4" : "m1", "signal5" : "go1", "unlock6" : "m1", "run7" : 4000, }, }
    },
    "Track" : { "priority" : -16, "loop" : 5,
        "lock0" : "m1", "wait1" : { "ref" : "wait1", "mutex": "m1" }, "unlock2" : "m1", "run3" :  300, },
  },
  "resources" : {
    "tick" : { "type" : "timer" }, "m0" : { "type" : "mutex" },
    "wait0" : { "type" : "wait" }, "go0" : { "type" : "signal", "target" : "wait0" },
    "go1" : { "type" : "signal", "target" : "wait1" },
  },
  "global" : { "default_policy" : "SCHED_OTHER", "duration" : -1, "ftrace" : false, "frag" : 1, "calibration" : "CPU0", }
}
"""

SCREEN = """
{
  "tasks" : {
    "flinger" : { "priority" : -7, "loop" : -1, "suspend", "run" : 1500 },
    "sync" : { "loop" : -1, "phases" : {
        "p1" : { "suspend", "run" : 35, "resume" : "flinger", "run" : 40, },
        "p2" : { "loop" : 2, "suspend", "run" : 30 } }, },
    "ticker" : { "loop" : -1, "resume" : "sync", "run" : 115, "timer" : { "ref" : "t", "period" : 16667 } }
  },
  "global" : { "duration" : 1, "default_policy" : "SCHED_OTHER" }
}
"""

PING = """
{
  /*
   * two threads that wake each other
   */
  "tasks" : {
    "ping" : { "loop" : 20, "run" : 100, "resume" : "pong", "suspend" : "ping" }, // and back
    "pong" : { "loop" : 20, "suspend" : "pong", "run" : 300, "resume" : "ping" },
  },
}
"""

TRANSFER = """
{ "tasks" : { "t" : { "instance" : 1, "loop" : 4, "run" : 1000, "mem" : 1000000, "sleep" : 500, "iorun" : 3000 } },
  "global" : { "duration" : -1, "io_device" : "/dev/null", "mem_buffer_size" : 1048576 } }
"""


def one(task: dict, **rest) -> str:
    """Return a file with one task ``a``."""
    return json.dumps({"tasks": {"a": task}, **rest})


def cpu_time(w, machine: Machine = SMALL, **how) -> dict[str, list[int]]:
    """Return the CPU time in ns of every task, by name."""
    program = w.program()
    raw = simulate(program, machine, V41, costs=BARE, **how)
    ran: dict[int, int] = defaultdict(int)
    since: dict[int, int] = {}
    for ts, _, _, pid, prev, *_ in raw.of(log_kind.SWITCH).tolist():
        if prev:
            ran[prev] += ts - since[prev]
        since[pid] = ts
    out = defaultdict(list)
    for pid, comm in zip(raw.pids.tolist(), raw.comms(program), strict=True):
        out[comm].append(ran[pid])
    return out


def wakeups(w, comm: str, machine: Machine = SMALL) -> list[int]:
    r = replay(w, machine, "v4.1", costs=BARE)
    rows = r.trace.only("wakeup").collect()
    return rows.filter(rows["comm"].cast(str) == comm)["ts_ns"].to_list()


# --- what files mean ------------------------------------------------------------------------------------------------------


def test_audio__every_round_runs_and_the_clock_keeps_its_period():
    w = rtapp(AUDIO, SMALL)
    ran = cpu_time(w)
    assert ran["Out-1"] == [5 * 4250 * US]
    assert ran["Track-2"] == [5 * 300 * US]
    assert ran["Clock-0"] == [0]
    ticks = wakeups(w, "Clock-0")[-20:]  # the first is from the start of all threads
    assert {b - a for a, b in pairwise(ticks)} == {5 * MS}


def test_screen__a_bare_suspend_waits_for_the_tasks_own_name():
    w = rtapp(SCREEN, SMALL)
    r = replay(w, SMALL, "v4.1")
    # the main thread sleeps for the duration and then ends all threads
    assert r.tasks.filter(comm="rt-app")["completed_ns"][0] == pytest.approx(1e9, abs=10 * MS)
    ran = cpu_time(w)
    ticks = ran["ticker-2"][0] // (115 * US)
    assert ticks == 1_000_000 // 16_667 + 1
    # the tick before sync waits is lost; after that one tick in three belongs to p1, which resumes the flinger
    assert ran["flinger-0"][0] == pytest.approx(1500 * US * (ticks / 3), abs=1500 * US)
    assert ran["flinger-0"][0] % (1500 * US) == 0


def test_ping__pong():
    ran = cpu_time(rtapp(PING, SMALL))
    assert ran["ping-0"] == [20 * 100 * US]
    assert ran["pong-1"] == [20 * 300 * US]


def test_transfer__at_a_given_speed_or_not_at_all():
    with pytest.raises(WorkloadError, match=r"task 't': mem: memory and files are not modelled"):
        rtapp(TRANSFER, SMALL)
    with pytest.raises(WorkloadError, match=r"iorun: .*--set io_mb_per_s=N"):
        rtapp(TRANSFER, SMALL, mem_mb_per_s=1000)
    w = rtapp(TRANSFER, SMALL, mem_mb_per_s=1000, io_mb_per_s=100)
    assert cpu_time(w)["t-0"] == [4 * (1000 + 1000 + 30) * US]
    assert any("mem: computes as long as its bytes take at 1000 MB/s" in n for n in w.notes)


@pytest.mark.parametrize(
    ("mode", "apart"), [("relative", [20, 50, 20, 20]), ("absolute", [20, 60, 20])]
)
def test_timer__what_a_missed_one_does(mode, apart):
    # doc/tutorial.txt: the third round takes 30 ms of a period of 20
    timer = {"ref": "unique", "period": 20_000, "mode": mode}
    phases = {
        "a": {"loop": 2, "run": 10_000, "timer": timer},
        "b": {"run": 30_000, "timer": timer},
        "c": {"loop": 3, "run": 10_000, "timer": timer},
    }
    at = wakeups(rtapp(one({"loop": 1, "phases": phases}), SMALL), "a-0")
    assert [b - a for a, b in pairwise(at)] == [ms * MS for ms in apart]


def test_timer__shared_by_name_or_unique_to_a_thread():
    def count(ref: str) -> int:
        task = {"instance": 3, "loop": 2, "run": 10, "timer": {"ref": ref, "period": 1000}}
        return len(rtapp(one(task), SMALL).program().semaphores)

    assert count("tick") == 1
    assert count("unique") == count("uniqueA") == 3


def test_timer__that_another_task_uses_already_does_not_delay_a_task_nor_move():
    timer = {"ref": "t", "period": 100_000}
    tasks = {
        "a": {"loop": 3, "run": 1000, "timer": timer},
        "b": {"loop": 1, "delay": 150_000, "run": 1000, "timer": timer},
    }
    r = replay(rtapp(json.dumps({"tasks": tasks}), SMALL), SMALL, "v4.1", costs=BARE)
    rows = r.trace.only("switch").collect()
    begin = r.raw.phase_ns
    left = rows.filter(rows["prev_comm"].cast(str) == "b-1")["ts_ns"] - begin
    # its first run begins after the delay and takes 1 ms; without the mend it would be 201 ms
    assert left.filter(left > MS)[0] == pytest.approx(151 * MS, abs=MS // 2)
    # within 1 ms, the length of a run: 100 and 200 ms are those of a; b waits for the third, and a's third is the fourth
    woken = [t - begin for t in wakeups(rtapp(json.dumps({"tasks": tasks}), SMALL), "a-0")]
    assert woken[-3:] == pytest.approx([100 * MS, 200 * MS, 400 * MS], abs=MS)


def test_sleep_and_delay_take_time():
    r = replay(rtapp(one({"loop": 3, "delay": 7000, "run": 1000, "sleep": 2000}), SMALL), SMALL)
    assert r.tasks.filter(comm="a-0")["completed_ns"][0] - r.summary.start_ns >= 16 * MS
    assert r.raw.end_ns - r.raw.phase_ns == pytest.approx(16 * MS, abs=MS)


def test_loop__of_a_task_without_phases_is_the_phases():
    assert cpu_time(rtapp(one({"loop": 4, "run": 500}), SMALL))["a-0"] == [4 * 500 * US]
    with pytest.raises(WorkloadError, match=r"task 'a-0' never ends"):
        replay(rtapp(one({"run": 500}), SMALL), SMALL)
    forever = rtapp(one({"run": 500, "sleep": 500}, **{"global": {"duration": 1}}), SMALL)
    assert cpu_time(forever)["a-0"][0] == pytest.approx(500 * MS, rel=0.01)


def test_wait__a_signal_that_nobody_waits_for_is_forgotten():
    early = {"loop": 1, "lock": "m", "signal": "c", "unlock": "m"}
    late = {"loop": 1, "run": 5000, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m"}
    with pytest.raises(WorkloadError, match=r"deadlock at .* 'rt-app' .* waits for its children"):
        replay(rtapp(json.dumps({"tasks": {"early": early, "late": late}}), SMALL), SMALL)


def test_broad_wakes_all_and_signal_one():
    wait = {"loop": 1, "lock": "m", "wait": {"ref": "c", "mutex": "m"}, "unlock": "m", "run": 100}

    def end(event: str):
        # one after the other: all threads wait, then one call wakes them
        call = {"loop": 1, "delay": 5000, "lock": "m", event: "c", "unlock": "m"}
        tasks = {"w": {"instance": 3, **wait}, "call": call}
        w = rtapp(json.dumps({"tasks": tasks, "global": {"duration": 1}}), SMALL)
        return cpu_time(w)

    assert [end("broad")[f"w-{i}"] for i in range(3)] == [[100 * US]] * 3
    assert sorted(end("signal")[f"w-{i}"][0] for i in range(3)) == [0, 0, 100 * US]


def test_sync_hands_over_and_waits():
    a = {"loop": 10, "run": 200, "lock": "m", "sync": {"ref": "c", "mutex": "m"}, "unlock": "m"}
    last = {"loop": 1, "lock": "m", "broad": "c", "unlock": "m", "run": 1}
    tasks = {"a": a, "b": {**a, "delay": 100}, "last": {"delay": 100_000, **last}}
    ran = cpu_time(rtapp(json.dumps({"tasks": tasks}), SMALL))
    assert ran["a-0"] == ran["b-1"] == [10 * 200 * US]


def test_barrier__of_all_threads_that_name_it():
    tasks = {
        "few": {"loop": 3, "run": 1000, "barrier": "B"},
        "many": {"instance": 4, "loop": 3, "run": 100, "barrier": "B"},
    }
    w = rtapp(json.dumps({"tasks": tasks}), SMALL)
    assert sorted(w.program().barriers) == [5, 5]  # its own, and that of the start
    ran = cpu_time(w)
    assert ran["few-0"] == [3 * 1000 * US]
    assert [ran[f"many-{i}"] for i in range(1, 5)] == [[3 * 100 * US]] * 4


def test_cpus__of_task_and_phase():
    phases = {"x": {"cpus": [5], "run": 2000}, "y": {"run": 2000}}
    r = replay(rtapp(one({"cpus": [2, 3], "loop": 2, "phases": phases}), SMALL), SMALL)
    rows = r.trace.only("switch").collect()
    # it is bound from its first phase on; before that it may be created anywhere
    on = rows.filter(rows["comm"].cast(str) == "a-0")["cpu"].to_list()
    assert set(on[1:]) <= {2, 3, 5}
    assert {2, 3} & set(on)
    assert 5 in on


def test_priority_taskgroup_and_fork():
    tasks = {
        "main": {"loop": 2, "priority": 5, "run": 100, "fork": "child", "sleep": 1000},
        "child": {"instance": 0, "loop": 1, "taskgroup": "", "run": 700},
        "other": {"loop": 1, "taskgroup": "/tg1", "run": 50},
        "third": {"loop": 1, "taskgroup": "/tg1", "run": 60},
    }
    w = rtapp(json.dumps({"tasks": tasks}), SMALL)
    program = w.program()
    assert len(program.shares) == 3  # root, rt-app's session, /tg1
    assert any(row[:2] == (ops.OP_NICE, 5) for t in program.templates for row in t.rows)
    ran = cpu_time(w)
    assert ran["child"] == [700 * US] * 2
    assert ran["other-1"] == [50 * US]
    assert ran["third-2"] == [60 * US]


def test_random_files__do_their_work_and_are_the_same_again():
    rng = random.Random(5)
    for _ in range(25):
        tasks, expected = {}, {}
        number = 0
        for t in range(rng.randint(1, 4)):
            run, loop, instance = rng.randint(1, 3000), rng.randint(1, 6), rng.randint(1, 3)
            events = [f'"run": {run}', f'"sleep": {rng.randint(0, 3000)}', '"yield": ""']
            events += [f'"lock": "m{t % 2}", "run_in": 50, "unlock": "m{t % 2}"']
            events += [f'"timer": {{"ref": "unique", "period": {rng.randint(1, 5000)}}}']
            rng.shuffle(events)
            body = f'"loop": {loop}, "instance": {instance}, {", ".join(events)}'
            tasks[f"t{t}"] = body
            for _ in range(instance):
                expected[f"t{t}-{number}"] = [loop * (run + 50) * US]
                number += 1
        text = '{"tasks": {' + ", ".join(f'"{n}": {{{b}}}' for n, b in tasks.items()) + "}}"
        w = rtapp(text, SMALL)
        ran = cpu_time(w)
        assert {name: ran[name] for name in expected} == expected
        logs = [simulate(rtapp(text, SMALL).program(), SMALL, V41, seed=3).log for _ in range(2)]
        assert logs[0].tobytes() == logs[1].tobytes()


# --- refusals -------------------------------------------------------------------------------------------------------------

WRONG = [
    ("", "line 1: not JSON"),
    ("{\n\n oops }", "line 3: not JSON"),
    ("[1]", "holds no object"),
    ("{" * 5 + '"a":', "not JSON"),
    ("{}", "tasks: expected an object with at least one task"),
    ('{"tasks": {}}', "tasks: expected an object with at least one task"),
    (
        '{"tasks": {"a": {"run": 1}}, "taskz": 3}',
        "unknown 'taskz'; expected global, resources, tasks",
    ),
    ('{"tasks": {"a": {"run": 1}, "a": {"run": 2}}}', "task 'a': occurs twice"),
    ('{"tasks": {"a": 3}}', "task 'a': expected an object, got 3"),
    (one({"loop": 1}), "task 'a': has no event"),
    (one({"run": 1, "walk": 3}), "unknown 'walk'"),
    (one({"run": -1}), "run=-1; expected a whole number of microseconds"),
    (one({"run": 1.5}), "run=1.5; expected a whole number"),
    (one({"run": "1"}), "run='1'; expected a whole number"),
    (one({"sleep": True}), "sleep=True; expected a whole number"),
    (one({"run": 1, "loop": 0}), "loop=0 does nothing"),
    (one({"run": 1, "loop": -2}), "loop=-2; expected a whole number from -1"),
    (one({"run": 1, "instance": -1}), "instance=-1; expected a whole number from 0"),
    (one({"run": 1, "instance": 0}), "no task has an instance"),
    (one({"run": 1, "delay": -5}), "delay=-5; expected"),
    (one({"run": 1, "cpus": []}), "cpus=[]; expected a list of CPU numbers"),
    (one({"run": 1, "cpus": [0, 99]}), "cpus has 99, but machine 'uma8' has CPUs 0-7"),
    (one({"run": 1, "priority": 20}), "priority=20; expected a whole number from -20 to 19"),
    (
        one({"run": 1, "policy": "SCHED_DEADLINE"}),
        "policy 'SCHED_DEADLINE'; the replay models SCHED_OTHER",
    ),
    (
        one({"run": 1}, **{"global": {"default_policy": "SCHED_DEADLINE"}}),
        "policy 'SCHED_DEADLINE'",
    ),
    (
        one({"run": 1, "policy": "SCHED_RR", "priority": 0}),
        "priority=0; expected a whole number from 1 to 99",
    ),
    (one({"run": 1, "dl-runtime": 5}), "dl-runtime belong to SCHED_DEADLINE"),
    (one({"run": 1, "taskgroup": "tg"}), "taskgroup='tg'; expected a path"),
    (one({"phases": {}}), "phases=[]; expected an object with at least one phase"),
    (
        one({"phases": {"p": {"run": 1}}, "run": 2}),
        "has phases, but also the events run outside of them",
    ),
    (one({"phases": {"p": 3}}), "phase 'p': expected an object, got 3"),
    (one({"phases": {"p": {"run": 1, "hop": 2}}}), "task 'a', phase 'p': unknown 'hop'"),
    (one({"timer": 5}), "timer=5; expected"),
    (one({"timer": {"ref": "t"}}), "period=0; expected microseconds, 1 or more"),
    (one({"timer": {"ref": "t", "period": 5, "mode": "odd"}}), "mode='odd'; expected relative"),
    (one({"timer": {"ref": "t", "peryod": 5}}), "unknown 'peryod'; expected mode, period, ref"),
    (one({"lock": 3}), "lock=3; expected a name"),
    (one({"wait": "c"}), "wait='c'; expected"),
    (one({"wait": {"ref": "c"}}), "mutex=None; expected a name"),
    (one({"resume": ""}), "resume=''; expected a name"),
    (one({"suspend": 3}), "suspend=3; expected the name"),
    (one({"barrier": {"x": 1}}), "task 'a': barrier=[('x', 1)]; expected a name"),
    (one({"barrier": 3}), "task 'a': barrier=3; expected a name"),
    (one({"fork": ["b"]}), "task 'a': fork=['b']; expected a name"),
    (one({"fork": 1}), "task 'a': fork=1; expected a name"),
    (one({"run": 1, "policy": []}), "policy []; the replay models SCHED_OTHER"),
    (one({"run": 10**13}), "run=10000000000000; expected a whole number of microseconds"),
    (one({"run": 10**12, "loop": 1}, **{"global": {"duration": 10**9}}), "duration=1000000000;"),
    (one({"fork": "b", "run": 1}), "of 'b', which is not a task; the tasks are a"),
    (one({"run": 1}, **{"global": {"duration": 0}}), "duration=0; expected seconds"),
    (one({"run": 1}, **{"global": {"duration": "x"}}), "duration='x'; expected"),
    (one({"run": 1}, **{"global": {"durration": 2}}), "global: unknown 'durration'"),
    (one({"run": 1}, **{"global": 2}), "global: expected an object, got 2"),
]


@pytest.mark.parametrize(("text", "says"), WRONG, ids=[says for _, says in WRONG])
def test_refused_with_place_and_name(text, says):
    with pytest.raises(WorkloadError) as e:
        rtapp(text, SMALL, name="file.json")
    assert str(e.value).startswith("file.json")
    assert says in str(e.value)


def test_unlocking_a_lock_of_nobody_is_found_by_the_replay():
    with pytest.raises(WorkloadError, match="unlocks a lock"):
        replay(rtapp(one({"loop": 1, "run": 5, "unlock": "m"}), SMALL), SMALL)


def test_a_forked_task_cannot_have_a_timer_of_its_own():
    child = {"instance": 0, "loop": 1, "timer": {"ref": "unique", "period": 5}}
    text = json.dumps({"tasks": {"a": {"loop": 1, "fork": "b"}, "b": child}})
    with pytest.raises(WorkloadError, match="'b': is forked and has the timer 'unique'"):
        rtapp(text, SMALL)


def test_a_runtime_that_is_cpu_time_here_is_noted():
    notes = rtapp(one({"loop": 1, "runtime": 1000}), SMALL).notes
    assert any(n.startswith("runtime: computes that long; in rt-app") for n in notes)
    assert not any(n.startswith("runtime") for n in rtapp(one({"loop": 1, "run": 1}), SMALL).notes)


def test_what_has_no_effect_is_noted_by_name():
    w = rtapp(one({"loop": 1, "run": 1, "util_min": 100, "taskgroup": "/a/b"}), SMALL)
    # whatever kernel replays it: v6.12 has it, and the replay does not model it
    assert "util_min: ignored, utilization clamping is not modelled" in w.notes
    assert any("groups inside groups" in n for n in w.notes)


# --- the command ----------------------------------------------------------------------------------------------------------


def test_command(tmp_path):
    file = tmp_path / "ping.json"
    file.write_text(PING)
    done = typed("replay", file, "--machine", "uma8")
    assert done.code == 3, "the run is too short for a verdict"
    assert "a verdict needs 100 ms" in done.out
    assert "note: run: takes the time it is given" in done.err
    data = json.loads(typed("replay", file, "--machine", "uma8", "--json").out)
    assert data["scenario"] == str(file)
    assert {name.split("/")[0] for name in data["tasks"]} == {"rt-app", "ping-0", "pong-1"}
    assert any("speed rt-app calibrated" in w for w in data["warnings"])
    both = typed("compare", file, "--machine", "uma8")
    assert both.code == 0, both.err
    (tmp_path / "t.json").write_text(TRANSFER)
    speeds = ("--set", "mem_mb_per_s=1000", "--set", "io_mb_per_s=1000")
    assert typed("replay", tmp_path / "t.json", *speeds, "--machine", "uma8").code == 3


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("nosuch.json",), "nosuch.json: cannot be read (No such file"),
        (("bad.json",), "bad.json, line 1: not JSON"),
        (("bytes.json",), "bytes.json: cannot be read (it is not text)"),
        (("forever.json",), "task 'a-0' never ends"),
        (("forever.json", "--set", "speed=3"), "no parameter 'speed'"),
        (("forever.json", "--set", "mem_mb_per_s=-3"), "mem_mb_per_s=-3; expected"),
    ],
)
def test_command__refuses(tmp_path, monkeypatch, words, says):
    (tmp_path / "bad.json").write_text("nonsense")
    (tmp_path / "bytes.json").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "forever.json").write_text(one({"run": 5}))
    monkeypatch.chdir(tmp_path)
    done = typed("replay", *words)
    assert done.code == 2
    assert says in done.err
    assert "Traceback" not in done.err


def test_policies():
    """The default policy, a task's own and a phase's become operations; a phase without one keeps the task's."""
    back = {"policy": "SCHED_OTHER", "run": 3}
    text = one(
        {
            "policy": "SCHED_FIFO",
            "phases": {"a": {"run": 1}, "b": back, "c": {"policy": "SCHED_IDLE", "run": 4}},
        },
        **{"global": {"default_policy": "SCHED_RR"}},
    )
    program = rtapp(text, Machine.preset("uma8"), 1).program()
    rows = next(t.rows for t in program.templates if t.comm.startswith("a"))
    assert [row[1:3] for row in rows if row[0] == ops.OP_POLICY] == [(1, 10), (0, 0), (5, 0)]


def settings(text, comm) -> list[tuple]:
    """Return the operations of a task that change its policy (1 FIFO, 5 IDLE), its nice value, and its group."""
    kinds = {ops.OP_POLICY: "policy", ops.OP_NICE: "nice", ops.OP_SESSION: "group"}
    program = rtapp(text, SMALL).program()
    rows = next(t.rows for t in program.templates if t.comm.startswith(comm))
    return [(kinds[op], a, b) for op, a, b, *_ in rows if op in kinds]


@pytest.mark.parametrize("parent", [{"priority": 5}, {"policy": "SCHED_FIFO"}])
def test_a_forked_task_has_a_policy_and_a_nice_value_and_a_group_of_its_own(parent):
    """It inherits only the group of the task that forks it, if it names none (thread_body() in src/rt-app.c)."""
    child = {"instance": 0, "loop": 1, "run": 1}

    def of(**more) -> list[tuple]:
        tasks = {"a": {"loop": 1, "fork": "child", **parent}, "child": child | more}
        return settings(json.dumps({"tasks": tasks}), "child")

    # a file whose tasks are all SCHED_OTHER needs no policies
    other = [("policy", 0, 0)] if "policy" in parent else []
    assert of() == [*other, ("nice", 0, 0)]
    assert of(policy="SCHED_RR", priority=3) == [("policy", 2, 3)]
    assert of(priority=-2, taskgroup="/tg1") == [*other, ("nice", -2, 0), ("group", 2, 0)]
    assert of(taskgroup="/") == [*other, ("nice", 0, 0), ("group", 0, 0)]


def test_a_forked_task_moves_to_its_group():
    tasks = {
        "a": {"loop": 1, "run": 1000, "fork": "child"},
        "child": {"instance": 0, "loop": 1, "taskgroup": "/tg1", "run": 20_000},
    }
    assert cpu_time(rtapp(json.dumps({"tasks": tasks}), SMALL))["child"] == [20 * MS]


def test_a_forked_task_may_fork_another_one():
    tasks = {
        "a": {"loop": 1, "fork": "b"},
        "b": {"instance": 0, "loop": 1, "fork": "c", "run": 10},
        "c": {"instance": 0, "loop": 1, "run": 20},
    }
    ran = cpu_time(rtapp(json.dumps({"tasks": tasks}), SMALL))
    assert (ran["b"], ran["c"]) == ([10 * US], [20 * US])


def test_the_delay_of_a_forked_task_is_noted():
    tasks = {"a": {"loop": 1, "fork": "b"}, "b": {"instance": 0, "loop": 1, "delay": 5, "run": 1}}
    notes = rtapp(json.dumps({"tasks": tasks}), SMALL).notes
    assert any(n.startswith("delay of 'b', which is forked: counts from the fork") for n in notes)


def test_a_priority_belongs_to_the_policy_of_the_phase_before():
    """set_thread_param() in src/rt-app.c: a phase without a policy keeps the last one, and one with a policy has nice 0."""
    phases = {
        "a": {"policy": "SCHED_OTHER", "run": 1},
        "b": {"priority": 5, "run": 1},
        "c": {"policy": "SCHED_OTHER", "run": 1},
    }
    text = one({"policy": "SCHED_FIFO", "phases": phases})
    other = ("policy", 0, 0)
    assert settings(text, "a") == [
        ("policy", 1, 10), other, ("nice", 0, 0), other, ("nice", 5, 0), other, ("nice", 0, 0)
    ]  # fmt: skip
    # the task repeats its phases, so the first one must change the policy back
    phases = {"a": {"policy": "SCHED_OTHER", "run": 1}, "b": {"policy": "SCHED_FIFO", "run": 1}}
    assert settings(one({"phases": phases}), "a") == [other, ("nice", 0, 0), ("policy", 1, 10)]
    with pytest.raises(WorkloadError, match=r"phase 'b': priority=0; expected .* from 1 to 99"):
        settings(one({"phases": {"a": {"policy": "SCHED_RR", "run": 1}, "b": {"priority": 0, "run": 1}}}), "a")  # fmt: skip
