"""Every lab judges right answers, missing ones and common mistakes as its author meant, for any student."""

from __future__ import annotations

import nbformat
import pytest

from wastedcores_course import LABS, Lab, Manual, WrongAnswerError, judge, variation
from wastedcores_course.lab import MEASURED, STUDENT, answers_of, module_of, source_of
from wastedcores_course.measuring import measured, plain, same

STUDENTS = ("ada", "s1234567")


def tasks(lab):
    return [t for t in module_of(lab).TASKS if not isinstance(t, Manual)]


def cells(lab):
    return nbformat.read(source_of(lab), as_version=4).cells


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
@pytest.mark.parametrize("student", STUDENTS)
def test_right_answers_get_all_points_and_each_mistake_its_own_hint(lab, student):
    v = variation(lab, student)
    for task in tasks(lab):
        answer = answers_of(lab)[task.name]
        feedback = judge(lab, task.name, v, measured(task, v, answer.right(v)))
        assert feedback.passed, feedback
        assert feedback.points == task.points
        for mistake in answer.mistakes:
            feedback = judge(lab, task.name, v, measured(task, v, mistake.answer(v)))
            assert not feedback.passed
            assert feedback.points == 0
            assert feedback.hint == mistake.hint


@pytest.mark.slow
@pytest.mark.parametrize("lab", LABS)
def test_hidden_checks_accept_right_answers_and_refuse_mistakes(lab, monkeypatch, tmp_path):
    (tmp_path / "secret").write_bytes(b"of the lecturer")
    monkeypatch.setenv("WASTEDCORES_COURSE_SECRET", str(tmp_path / "secret"))
    own = Lab(lab, "ada")
    for task in tasks(lab):
        if task.hidden:
            assert own.check_hidden(task.name, answers_of(lab)[task.name].right(own.v)).passed
            for mistake in answers_of(lab)[task.name].mistakes:
                with pytest.raises(WrongAnswerError):
                    own.check_hidden(task.name, mistake.answer(own.v))


@pytest.mark.parametrize("lab", LABS)
def test_every_lab_has_mistakes_enough_for_three_wrong_submissions(lab):
    assert sum(len(a.mistakes) for a in answers_of(lab).values()) >= 3
    assert set(answers_of(lab)) == {t.name for t in tasks(lab)}
    assert 6 <= len(module_of(lab).TASKS) <= 12
    assert 60 <= sum(t.minutes for t in module_of(lab).TASKS) <= 90


@pytest.mark.parametrize("lab", LABS)
def test_a_task_without_an_answer_fails_with_its_name(lab):
    own = Lab(lab, "ada")
    for task in tasks(lab):
        with pytest.raises(WrongAnswerError, match=f"task {task.name}: there is no answer yet"):
            own.check(task.name, ...)


def test_a_module_that_is_not_written_yet_is_no_answer():
    from wastedcores.simulator.plain.modules import Module

    class Spread(Module):
        def suggest_cpu(self, k, p, waker_cpu, why):
            raise NotImplementedError

    with pytest.raises(WrongAnswerError, match="task 7: there is no answer yet"):
        Lab(6, "ada").check("7", Spread)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ("'CPU 3'", r"Wrong.suggest_cpu\(\) answered 'CPU 3', a str"),
        ("1 / 0", r"Wrong.suggest_cpu\(\) raised ZeroDivisionError"),
        ("10 ** 6", "the core refused"),
    ],
)
@pytest.mark.filterwarnings("ignore:Wrong.suggest_cpu:wastedcores.errors.ModelWarning")
def test_a_wrong_module_gets_a_sentence_with_method_and_value(value, says):
    from wastedcores.simulator.plain.modules import Module

    class Wrong(Module):
        def suggest_cpu(self, k, p, waker_cpu, why):
            return eval(value)

    Wrong.suggest_cpu.__qualname__ = "Wrong.suggest_cpu"
    with pytest.raises(WrongAnswerError, match=says):
        Lab(6, "ada").check("7", Wrong)


@pytest.mark.parametrize("lab", LABS)
def test_the_cells_of_the_source_belong_to_the_tasks(lab):
    """Converters depend on this: one solution and one check per task, a hidden check where the task has one, in order."""
    found = cells(lab)
    order = list(dict.fromkeys(c.metadata["task"] for c in found if "task" in c.metadata))
    assert order == [t.name for t in module_of(lab).TASKS]
    for task in module_of(lab).TASKS:
        own = [c for c in found if c.metadata.get("task") == task.name]
        tags = [tag for c in own for tag in c.metadata["tags"]]
        if isinstance(task, Manual):
            assert tags == ["solution"]
            assert own[0].cell_type == "markdown"
            continue
        assert tags == ["solution", "check"] + ["hidden"] * task.hidden
        assert own[0].source.count("# your answer\n") == 1
        assert own[1].source.startswith(f'lab.check("{task.name}", ')
        if task.hidden:
            assert own[2].source.startswith(f'lab.check_hidden("{task.name}", ')
    assert len({c.id for c in found}) == len(found)


def test_a_variation_depends_on_lab_student_and_secret_only():
    assert variation(4, " Ada") == variation(4, "ada")
    drawn = [variation(4, "ada", secret) for secret in (b"", b"one", b"two")]
    assert len(set(drawn)) == 3
    assert len({variation(4, f"student {i}") for i in range(100)}) > 50


def test_where_the_answers_are_left_out_a_check_only_measures(monkeypatch, tmp_path):
    import json
    import sys

    monkeypatch.setitem(sys.modules, "wastedcores_course.answers.average_and_minimum", None)
    monkeypatch.setenv(MEASURED, str(tmp_path / "measured"))
    monkeypatch.setenv(STUDENT, "ada")
    Lab(4, "somebody else").check("1", (1, 2))
    row = json.loads((tmp_path / "measured").read_text())
    assert row == {
        "lab": 4,
        "task": "1",
        "student": "ada",
        "hidden": False,
        "counts": False,
        "measured": [{"value": [1, 2]}],
    }
    monkeypatch.delitem(sys.modules, "wastedcores_course.answers.average_and_minimum")
    assert not judge(4, "1", variation(4, "ada"), row["measured"][0]).passed


def test_an_exception_is_reported_with_the_students_own_line():
    def by_average(local, busiest):
        return local.average

    with pytest.raises(
        WrongAnswerError, match=r"AttributeError in your line \d+, `return local.average`"
    ):
        Lab(4, "ada").check("4", by_average)


def test_an_answer_of_another_shape_is_refused_without_the_right_one():
    own = Lab(4, "ada")
    with pytest.raises(WrongAnswerError, match="expected a list of 2, but your answer is a text"):
        own.check("1", "?")
    with pytest.raises(WrongAnswerError, match="your code stopped with UsageError: <object object"):
        own.check("1", object())


@pytest.mark.slow
def test_a_number_that_no_float_can_hold_is_wrong():
    for lab, task, answer in ((2, "8", [10**400, 2]), (3, "7", 10**400), (1, "4", 10**400)):
        with pytest.raises(WrongAnswerError, match=f"task {task}: "):
            Lab(lab, "ada").check(task, answer)


def test_an_id_may_be_a_number():
    assert Lab(2, 1234567).v == Lab(2, "1234567").v
    assert "1234567" in Lab(2, 1234567)._repr_html_()


def test_a_list_with_something_twice_is_not_said_to_have_another_length():
    def within(distance, node, limit):
        return [node, *(n for n, d in enumerate(distance[node]) if d <= limit)]

    with pytest.raises(WrongAnswerError, match="as expected, but something in it is of another"):
        Lab(2, "ada").check("3", within)


def test_plain_json_and_equality():
    import numpy as np

    value = {"a": {3, 1}, 2: (np.int64(4), np.array([1.5]))}
    assert plain(value) == {"a": [1, 3], "2": [4, [1.5]]}
    assert same([1, 0.3], [1.0, 0.1 + 0.2])
    assert not same(True, 1)
    assert not same([1, 2], [1])


def test_the_sweep_of_lab_1_finds_what_the_tool_finds_where_no_thread_is_pinned():
    from wastedcores.invariant.checking import check
    from wastedcores_course.answers.episodes import episodes
    from wastedcores_course.labs.idle_cores import recording, rows

    result = check(recording())
    own = episodes(rows(variation(1, "ada")), 0, result.end_ns - result.start_ns)
    theirs = [
        (a - result.start_ns, b - result.start_ns)
        for a, b in result.episodes.select("start_ns", "end_ns").iter_rows()
    ]
    # without affinity an episode begins some microseconds earlier: a kernel thread waits that is bound to its CPU
    assert [b for _, b in own] == [b for _, b in theirs]
    assert max(y[0] - x[0] for x, y in zip(own, theirs, strict=True)) < 5_000
    assert sum(x == y for x, y in zip(own, theirs, strict=True)) >= len(own) - 2


@pytest.mark.parametrize("student", [f"student {i}" for i in range(8)])
def test_the_answers_of_lab_2_are_what_linux_6_12_builds(student):
    from wastedcores.topology.domains import build_domains
    from wastedcores_course.labs.numa import ONE_HOP, cpus_of

    v = variation(2, student)
    built = build_domains(v.machine, "v6.12")
    domains, groups = (answers_of(2)[name].right(v) for name in ("5", "6"))
    below = {c: list(cpus_of(n)) for n in range(len(v.distance)) for c in cpus_of(n)}
    for cpu in built.cpus:
        assert domains(v.distance, cpu) == [d.cpus for d in built.of(cpu)]
        middle = built.of(cpu)[1]
        assert middle.cpus == v.within(cpu // 2, ONE_HOP)
        assert groups(cpu, middle.cpus, below) == [g.cpus for g in middle.groups]
    assert answers_of(2)["8"].right(v) == [len(s) for s in domains(v.flat, v.cpu)]


@pytest.mark.parametrize("student", [f"student {i}" for i in range(8)])
@pytest.mark.parametrize(("task", "kernel"), [("2", "v4.1"), ("5", "v4.13")])
def test_the_constructions_of_lab_3_are_those_of_the_kernels(student, task, kernel):
    from wastedcores_course.labs.numa import groups_of

    v = variation(3, student)
    construct = answers_of(3)[task].right(v)
    for cpu, groups in groups_of(v.machine, kernel).items():
        assert sorted(construct(cpu, v.span, v.below)) == sorted(groups)
        assert cpu in groups[0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lab", "task", "seeds"),
    [(1, "3", 300), (1, "6", 300), (4, "4", 300), (4, "5", 300), (5, "3", 300)],
)
def test_no_common_mistake_in_a_function_passes_with_any_seed(lab, task, seeds):
    """Seed 18 of lab 5 once made only states in which the idle CPU with the lowest number was right."""
    from dataclasses import replace

    own = next(t for t in tasks(lab) if t.name == task)
    for seed in range(seeds):
        v = replace(variation(lab, "ada"), seed=seed)
        right = measured(own, v, answers_of(lab)[task].right(v))
        wrong = [measured(own, v, m.answer(v)) for m in answers_of(lab)[task].mistakes]
        assert len({str(x) for x in [right, *wrong]}) == 1 + len(wrong)


@pytest.mark.parametrize(("lab", "task"), [(3, "7"), (4, "8"), (5, "6"), (6, "6")])
def test_a_ratio_need_not_be_rounded(lab, task):
    v = variation(lab, "ada")
    right = answers_of(lab)[task].right(v)
    assert judge(lab, task, v, {"value": right + 0.0049}).passed
    for wrong in (right + 0.02, float("nan"), [right], str(right)):
        assert not judge(lab, task, v, {"value": wrong}).passed


def test_no_window_of_lab_1_begins_or_ends_at_the_time_of_a_row():
    """The task does not say to which side such a row belongs, and promises that all times differ."""
    from wastedcores_course.labs.idle_cores import tried

    for seed in range(100):
        for rows, *window in tried(seed):
            assert not {t for t, _, _ in rows} & set(window)


def test_the_bug_shows_with_every_seed_of_lab_5():
    from wastedcores.simulator.replay import replay_scenario
    from wastedcores_course.labs.overload_on_wakeup import (
        BUGGY,
        FIXED,
        ITERATIONS,
        MACHINE,
        SCENARIO,
        SEEDS,
    )

    for seed in SEEDS:
        slow, fast = (
            replay_scenario(SCENARIO, k, MACHINE, seed, {"iterations": ITERATIONS}).makespan_ns
            for k in (BUGGY, FIXED)
        )
        assert slow > 1.25 * fast


def test_a_right_module_of_lab_6_wastes_nothing_and_costs_nothing():
    from wastedcores_course.labs.missing_domains import FIXED, START_NS, run, try_module

    v = variation(6, "ada")
    found = try_module(v, answers_of(6)["7"].right(v)())
    assert found["wasted_ms"] == found["refused"] == 0
    assert found["makespan_ms"] < 1.05 * (run(v, FIXED).raw.end_ns - START_NS) / 1e6


def test_the_package_does_not_answer_for_the_student():
    from wastedcores.topology.domains import build_domains

    own = Lab(2, "ada")

    def domains(distance, cpu):
        return [d.cpus for d in build_domains(own.v.machine, "v6.12").of(cpu)]

    with pytest.raises(WrongAnswerError, match="task 5 asks you to write this yourself"):
        own.check("5", domains)
    assert build_domains(own.v.machine, "v6.12").cpus


@pytest.mark.parametrize("lab", LABS)
def test_the_time_plan_of_the_documentation_is_that_of_the_tasks(lab):
    rows = (source_of(4).parents[2] / "docs" / "teaching.md").read_text().splitlines()
    _, _, _, minutes, points, _, _ = next(r for r in rows if r.startswith(f"| lab {lab} ")).split(
        "|"
    )
    parts = module_of(lab).TASKS
    assert (int(minutes), int(points)) == (
        sum(t.minutes for t in parts),
        sum(t.points for t in parts),
    )
    text = "".join(c.source for c in cells(lab))
    for task in parts:
        unit = "point" if task.points == 1 else "points"
        assert f"## Task {task.name}: " in text
        assert f"({task.points} {unit}, {task.minutes} minutes)" in text


@pytest.mark.long
@pytest.mark.parametrize("lab", LABS)
def test_many_students_have_labs_of_the_same_difficulty(lab):
    """For 1000 students a variation exists; for 20 of them all right answers pass and each mistake gets its own hint."""
    drawn = [variation(lab, f"student {i}") for i in range(1000)]
    assert len(set(drawn)) > 100
    for v in drawn[:20]:
        for task in tasks(lab):
            answer = answers_of(lab)[task.name]
            assert judge(lab, task.name, v, measured(task, v, answer.right(v))).passed, (
                v,
                task.name,
            )
            for mistake in answer.mistakes:
                found = judge(lab, task.name, v, measured(task, v, mistake.answer(v)))
                assert found.hint == mistake.hint, (v, found)


@pytest.mark.long
@pytest.mark.parametrize("lab", LABS)
def test_the_source_notebook_runs_to_the_end(lab, tmp_path):
    """Each source is a complete solution: all its checks, hidden ones included, pass in a fresh kernel within a minute."""
    import papermill
    from traitlets.config import Config

    out = tmp_path / "out.ipynb"
    papermill.execute_notebook(
        str(source_of(lab)),
        str(out),
        kernel_name="python3",
        progress_bar=False,
        cwd=str(tmp_path),
        execution_timeout=60,
        config=Config({"KernelManager": {"transport": "ipc"}}),
    )
    notebook = nbformat.read(out, as_version=4)
    checks = [c for c in notebook.cells if {"check", "hidden"} & set(c.metadata.get("tags", []))]
    assert all("right" in c.outputs[0].data["text/plain"] for c in checks)


def test_the_first_node_of_a_group_is_explained_in_a_whole_sentence():
    v = variation(3, "ada")
    first, *rest = answers_of(3)["1"].right(v)
    found = judge(3, "1", v, {"value": [first[1:], *rest]})
    assert found.message.endswith("Node 0 belongs to the group, because it is that node itself.")


def test_the_order_inside_of_a_group_does_not_matter():
    v = variation(3, "ada")
    right = answers_of(3)["1"].right(v)
    turned = [group[::-1] for group in right]
    assert turned != right
    assert judge(3, "1", v, {"value": turned}).passed
    for wrong in (
        turned[::-1],
        turned[:-1],
        [],
        3,
        ["ab"],
        [[None, 1]],
        [[*turned[0], 0], *turned[1:]],
    ):
        assert not judge(3, "1", v, {"value": wrong}).passed
