"""Operations that come from a file: compiled code trusts them, so each number is checked before a replay."""

from __future__ import annotations

import json

import pytest

from wastedcores.errors import WorkloadError
from wastedcores.simulator import replay
from wastedcores.topology.machine import Machine
from wastedcores.workload.file import from_dict, is_workload, read_workload, to_dict, write_workload
from wastedcores.workload.scenarios import scenario

WORKLOAD = {
    "schema": "wastedcores.workload/1",
    "name": "w",
    "barriers": [2],
    "locks": 1,
    "semaphores": [0],
    "templates": [{"comm": "c", "script": [["compute", 1, 1]]}],
}


def of(script, **task):
    return from_dict(WORKLOAD | {"tasks": [{"comm": "t", "script": script, **task}]})


WRONG = [
    (
        [["compute", 1, 1], ["loop", 999, 9, -1, -1]],
        "loop, has b=9; expected a whole number from 0",
    ),
    ([["compute", 1, 1], ["loop", 999, 0, -1, -1]], "has a=999; expected the number of an op"),
    ([["compute", 1, 1], ["loop", 1, 0, 3, -1]], "has a=1; expected the number of an operation"),
    ([["compute", 1, 1], ["loop", -1, 0, 3, -1]], "has a=-1; expected a whole number from 0"),
    ([["compute", 1, 1], ["loop_barrier", 0, 0, 3, 1]], "barrier 1 does not exist"),
    ([["compute", 10**30, 10**30]], "compute, has a=1000000000000000000000000000000; expected"),
    ([["compute", 5, 1]], "a=5 and b=1; expected a second time that is not smaller"),
    ([["compute", True, 1]], "a=True; expected"),
    ([["yield", 0, 0, 0, 10**30]], "d=1000000000000000000000000000000; expected"),
    ([["post", 0, 10**15]], "post, has b=1000000000000000; expected a whole number from 1 to"),
    ([["barrier", 0, 7]], "b=7; expected a whole number from 0 to 2"),
    ([["lock", 0, 0, 0, 1]], "b=0; expected 1, because a shared lock can only block"),
    ([["fork", 0, -2]], "b=-2; expected a whole number from -1"),
    ([["policy", 1, 0]], "a=1 and b=0; expected a policy and its priority"),
    ([["policy", 4, 0]], "a=4 and b=0; expected a policy"),
    ([["sleep_jiffies"]], "a=0 and c=0; expected ticks or a period"),
    ([["mark", 5]], "mark, has a=5; expected a text"),
]


@pytest.mark.parametrize(("script", "says"), WRONG, ids=[says for _, says in WRONG])
def test_numbers_that_no_operation_has(script, says):
    with pytest.raises(WorkloadError) as e:
        of(script).program()
    assert says in str(e.value)


@pytest.mark.parametrize(
    ("task", "says"),
    [
        ({"cpu": -1}, "its CPU is -1"),
        ({"cpu": 8}, "'t' begins on CPU 8; the machine has CPUs 0 to 7"),
        ({"session": "x"}, "session x does not exist"),
        ({"nice": "x"}, "nice x; expected"),
        ({"comm": [1]}, "called [1]; expected a text"),
    ],
)
def test_tasks_that_cannot_begin(task, says):
    with pytest.raises(WorkloadError) as e:
        replay(of([["compute", 1, 1]], **task), "uma8")
    assert says in str(e.value)


TASK = {"comm": "t", "script": []}


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"locks": 10**15}, "locks"),
        ({"locks": "x"}, "number of locks"),
        ({"tasks": [TASK | {"allowed": 5}]}, "not a workload"),
        ({"tasks": [TASK | {"alowed": "0"}]}, "the field 'alowed' of task 't'; there are allowed, comm"),
        ({"templates": [TASK | {"nice": 5}]}, "the field 'nice' of template 't'"),
        ({"measured": 1}, "the field 'measured' of the workload"),
        ({"name": 5}, "the name 5"),
        ({"counted_nodes": ["x"]}, "counted node is 'x'"),
        ({"measure": {"name": "latency_ms", "start": "a", "end": "b"}}, "'latency_ms' is unknown"),
        ({"measure": {"name": 5, "start": "a", "end": "b"}}, "expected texts"),
    ],
)  # fmt: skip
def test_files_that_are_no_workloads(tmp_path, wrong, says):
    file = tmp_path / "w.json"
    file.write_text(json.dumps(WORKLOAD | {"tasks": []} | wrong))
    with pytest.raises(WorkloadError, match=says):
        read_workload(file)


@pytest.mark.parametrize("name", ["recorded-gc", "recorded-gi"])
def test_a_scenario_survives_its_file(name, tmp_path):
    known = scenario(name)
    made = known.workload(Machine.preset(known.machine), 1)
    write_workload(made, tmp_path / "w.json")
    again = read_workload(tmp_path / "w.json")
    made_again = json.dumps(to_dict(again), sort_keys=True, indent=1)  # as an editor may leave it
    (tmp_path / "sorted").write_text(made_again)
    assert is_workload(tmp_path / "sorted")
    assert again.program() == made.program()
    for what in ("name", "measure", "counted_nodes", "random_phase", "notes"):
        assert getattr(again, what) == getattr(made, what), what


def test_what_operations_have_is_accepted():
    script = [
        ["compute", 1, 5],
        ["loop", 0, 0, 3, -1],
        ["timer", 0, 0],
        ["policy", 1, 9],
        ["fork", 0, -1],
    ]
    program = of([*script, ["nice", -20], ["affinity", "0-3"], ["mark", "m"]]).program()
    assert len(program.tasks[0].rows) == 9


@pytest.mark.parametrize(
    ("script", "says"),
    [
        (
            [["touch"], ["shepherd", 0]],
            "each of 8 CPUs, at semaphores from 0 on; the workload has 1",
        ),
        ([["affinity", "5000"], ["compute", 1, 1]], "may run on CPU 5000"),
    ],
)
def test_operations_for_cpus_that_no_replay_has(script, says):
    with pytest.raises(WorkloadError) as e:
        replay(of(script), "uma8")
    assert says in str(e.value)
