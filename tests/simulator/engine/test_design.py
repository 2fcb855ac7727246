"""The core module of a design never leaves a core idle while a thread waits that could run on it (paper, section 5)."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.eevdf_runs import without_policies
from support.random_runs import Case, cases, designs

from wastedcores.analysis.compare import compare
from wastedcores.errors import ModelWarning, UnknownKernelError, UsageError, WorkloadError
from wastedcores.invariant import check
from wastedcores.kernels import MODULES, KernelModel
from wastedcores.simulator import replay, replay_scenario, simulate
from wastedcores.simulator.engine.events import queue_jit
from wastedcores.simulator.engine.world.structs import NO_TASK
from wastedcores.simulator.plain.engine import PlainEngine
from wastedcores.simulator.plain.modules import REST, Module
from wastedcores.simulator.plain.own import plain_engine
from wastedcores.topology.domains import build_domains
from wastedcores.topology.machine import Machine
from wastedcores.workload import Script, Workload
from wastedcores.workload.program import Costs

MS = 1_000_000
CALM = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]


def wasted(plain):
    """Find an idle CPU and a thread that waits although it may run there: the CPU, the thread, its CPU; or None."""
    for idle in sorted(plain.k.active):
        if plain.rqs[idle].nr_running:
            continue
        for rq in plain.rqs:
            p = rq.cfs_tasks if rq.nr_running > 1 else NO_TASK
            while p != NO_TASK:
                if p != rq.curr and idle in p.allowed:
                    return idle, p.comm, rq.cpu
                p = p.cfs_tasks_next
    return None


class Contrary(Module):
    """A module that suggests the longest queue, staying idle, and impossible CPUs."""

    name = "contrary"

    def suggest_cpu(self, k, p, waker_cpu, why):
        return max(range(len(k.rqs)), key=lambda c: k.rqs[c].nr_running) if p.pid % 3 else 10_000

    def suggest_source(self, k, cpu):
        return REST if cpu % 2 else -77

    def suggest_pull(self, k, cpu):
        return -1


def run(case, modules):
    """Check the whole machine between any two events of a run. Errors of the program itself are ignored."""
    kernel, program = case.kernel, without_policies(case.program)
    plain = None
    if modules:
        core = KernelModel.named("core")
        kernel, plain = plain_engine(core, case.machine, program, modules, {})
    plain = plain or PlainEngine(case.machine, program)
    first = plain.of(queue_jit.first)

    def next_event(k):
        assert wasted(plain) is None, f"{k.now_ns}: {wasted(plain)}"
        return first(k)

    plain.replace(queue_jit.first, next_event)
    with suppress(WorkloadError):
        simulate(
            program, case.machine, kernel, seed=case.seed, until_ns=case.until_ns,
            costs=case.costs, plain=plain,
        )  # fmt: skip


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Contrary:wastedcores.errors.ModelWarning")
@settings(
    max_examples=150, derandomize=True, deadline=None, database=None, suppress_health_check=CALM
)
@given(cases(designs), st.booleans())
def test_no_core_is_idle_while_a_thread_waits_that_it_could_run(case, contrary):
    run(case, [Contrary(), *case.kernel.modules] if contrary else case.kernel.modules)


def test_the_rule_is_broken_without_the_core():
    """The same check finds that Linux v4.1 breaks the rule, so the check works."""
    machine = Machine.preset("bd-paper-16")
    case = Case(
        machine,
        KernelModel.named("v4.1"),
        pile().program(),
        Costs(),
        1,
        1_000 * MS,
        considered=False,
    )
    with pytest.raises(AssertionError, match="'t"):
        run(case, ())


def pile(threads=20):
    """Return threads that sleep and wake on a few CPUs of one node."""
    w = Workload("pile")
    for i in range(threads):
        body = Script().loop(20).compute(MS).sleep(MS // 2, 3 * MS).end()
        w.task(f"t{i}", body, cpu=i % 4)
    return w


def answered(done, module, how):
    """How many suggestions of a module at wakeups had this fate."""
    return done.suggestions.filter(module=module, moment="wakeup")[how].sum()


def refusals(trace):
    frame = trace.only("balance").collect()
    return frame.filter(frame["op"].cast(str) == "refused")


@pytest.mark.parametrize("name", MODULES)
def test_every_shipped_module_can_be_asked(name):
    done = replay(pile(), "bd-paper-16", modules=[name])
    trace = done.trace
    assert done.kernel.name == f"core+{name}"
    assert trace.header.kernel_release == f"core+{name}"
    assert check(trace).wall_ns == 0
    assert done.suggestions.filter(module=name)["asked"].sum() > 0
    refused = refusals(trace)
    assert refused.height == done.suggestions["refused"].sum()
    assert set(refused["text"].str.split(":").list.first()) <= {name}


def test_a_wrong_module_is_refused_and_the_next_is_asked():
    class Home(Module):
        """A module that suggests CPU 0 to every thread."""

        name = "home"

        def suggest_cpu(self, k, p, waker_cpu, why):
            return 0

    done = replay(pile(), "bd-paper-16", modules=[Home(), "cache_affinity"])
    refused = refusals(done.trace)
    assert (
        answered(done, "home", "refused")
        == refused.filter(refused["text"] == "home: wakeup, a core would stay idle").height
        > 0
    )
    assert answered(done, "home", "taken") > 0
    assert answered(done, "cache_affinity", "taken") > 0
    assert check(done.trace).wall_ns == 0


def test_impossible_suggestions_are_refused():
    class Nowhere(Module):
        name = "nowhere"

        def suggest_cpu(self, k, p, waker_cpu, why):
            return 99 if p.pid % 2 else 3  # the one CPU does not exist, the other is not allowed

    w = Workload("pinned")
    for i in range(4):
        w.task(f"t{i}", Script().loop(3).compute(MS).sleep(MS).end(), cpu=0, allowed=[0, 1, 2])
    with pytest.warns(ModelWarning, match=r"answered CPU 99, but there are CPUs 0 to 15"):
        done = replay(w, "bd-paper-16", modules=[Nowhere()])
    assert set(refusals(done.trace)["text"].to_list()) == {
        "nowhere: fork, not possible", "nowhere: wakeup, not possible",
    }  # fmt: skip
    assert done.suggestions["taken"].sum() == 0


def test_an_idle_core_takes_the_thread_of_the_nearest_queue():
    """Six threads start on CPU 0 of an idle machine. Each one runs at once, on the nearest CPUs."""
    w = Workload("pile")
    for i in range(6):
        w.task(f"t{i}", Script().compute(5 * MS), cpu=0)
    trace = replay(w, "bd-paper-16", "core").trace
    born = trace.only("wakeup_new").collect()
    assert born["cpu"].to_list() == [0, 1, 2, 3, 4, 5]


def test_a_thread_that_is_preempted_is_handed_to_an_idle_core_at_once():
    """One of two threads on CPU 0 may run on CPU 1. It goes there whenever the other one runs."""
    w = Workload("two")
    w.task("bound", Script().compute(200 * MS), cpu=0, allowed=[0])
    w.task(
        "free",
        Script().compute(1).affinity([0]).compute(20 * MS).affinity([0, 1]).compute(200 * MS),
        cpu=0,
    )
    trace = replay(w, "bd-paper-16", modules=["load_balance"]).trace
    moves = trace.only("migrate").collect()
    assert moves["op"].cast(str).to_list()[-1] == "handover"
    assert check(trace, ignore_affinity=True).wall_ns > 0  # while it was bound to CPU 0


def test_names():
    k = KernelModel.named("core+power+cache_affinity")
    assert (k.name, k.modules, k.is_design) == (
        "core+power+cache_affinity", ("power", "cache_affinity"), True,
    )  # fmt: skip
    assert KernelModel.named("core").modules == ()
    assert k.linux.name == "v4.1"
    assert not k.linux.is_design
    assert KernelModel.named("v4.1").linux == KernelModel.named("v4.1")
    for wrong, said in (
        ("core+powr", "did you mean power"),
        ("core+power+power", "given twice"),
        ("core+all_fixes", "Fixes belong"),
        ("v4.1+power", r"write core\+power"),
    ):
        with pytest.raises(UnknownKernelError, match=said):
            KernelModel.named(wrong)
    with pytest.raises(UnknownKernelError, match="has no sched_domains"):
        build_domains(Machine.preset("bd-paper-16"), "core")


class Answers(Module):
    """A module that suggests whatever it was made with."""

    name = "answers"

    def __init__(self, value):
        self.value = value

    def suggest_cpu(self, k, p, waker_cpu, why):
        return self.value


class Misspelt(Module):
    name = "misspelt"

    def sugest_cpu(self, k, p, waker_cpu, why):
        return 0


@pytest.mark.parametrize(
    ("modules", "says"),
    [
        (
            [Answers("0")],
            r"Answers.suggest_cpu\(\) answered '0', a str; .*test_design.py, line \d+",
        ),
        ([Answers(2.5)], "answered 2.5, a float"),
        ([Answers(True)], "answered True, a bool"),
        ([Misspelt()], "Misspelt.sugest_cpu: .* Did you mean suggest_cpu"),
        ([Misspelt], r"pass an instance: \[Misspelt\(\)\]"),
        (Misspelt(), "expected a list of modules"),
        ("numa", r"such as \['numa'\]"),
        (["numma"], "Did you mean 'numa'"),
        ([3], "3 is not a module"),
    ],
)
def test_a_module_that_cannot_be_meant_is_refused(modules, says):
    with pytest.raises(UsageError, match=says):
        replay(pile(), "bd-paper-16", modules=modules)


class Raises(Module):
    def suggest_cpu(self, k, p, waker_cpu, why):
        return k.rqs[99]


class Forever(Module):
    def suggest_cpu(self, k, p, waker_cpu, why):
        while True:
            with suppress(Exception):  # a module's own handler does not catch the interruption
                self.asked = why


def test_a_module_that_raises_is_named_with_its_line_and_what_it_was_asked():
    says = r"Raises.suggest_cpu\(\) raised IndexError in line \d+: .*\(asked about thread '.*' of CPU 0, at its fork\)"
    with pytest.raises(UsageError, match=says) as error:
        replay(pile(), "bd-paper-16", modules=[Raises()])
    assert "test_design.py, line" in str(error.value)


class Writes(Module):
    def suggest_cpu(self, k, p, waker_cpu, why):
        p.se.weight = 7
        return 0


def test_a_module_cannot_change_the_kernel():
    with pytest.raises(UsageError, match=r"weight = 7: a module may read the kernel"):
        replay(pile(), "bd-paper-16", modules=[Writes()])


def test_a_scenario_runs_with_a_decision_of_ones_own():
    """The threads of the scenario stay where they were, in one call; a comparison takes both traces."""
    small = {"n": 4, "limit_s": 0.05}

    asked = []

    def stay(k, p, target):
        asked.append(target)
        return target

    def run(**own):
        return replay_scenario("missing-domains", machine="bd-paper-16", given=small, **own).trace

    own, usual = run(policies={"select_idle_sibling": stay}), run()
    assert asked
    assert own.header.kernel_release == usual.header.kernel_release == "v4.1"
    assert compare({"usual": usual, "own": own}).table["run"].to_list() == ["usual", "own"]
    core = run(modules=["numa"])
    assert core.header.kernel_release == "core+numa"
    with pytest.raises(UsageError, match=r"policies\.select_idle: there is no such decision"):
        run(policies={"select_idle": stay})
    with pytest.raises(UsageError, match="longest_idle_cpu: there is no such decision under"):
        run(kernel="v6.12.107", policies={"longest_idle_cpu": stay})
    with pytest.raises(UsageError, match="expected a function"):
        run(policies={"load_balance": 3})
    with pytest.raises(UsageError, match="asks no modules"):
        run(kernel="v4.1", modules=["numa"])


def test_a_module_that_loops_for_ever_is_interrupted(monkeypatch):
    import signal

    from wastedcores.simulator.plain import answers

    monkeypatch.setattr(answers, "LIMIT_S", 0.2)
    outer = signal.getitimer(signal.ITIMER_REAL)[0]
    with pytest.raises(
        UsageError, match=r"Forever.suggest_cpu\(\) did not answer within 0.2 s, asked about thread"
    ):
        replay(pile(), "bd-paper-16", modules=[Forever()])
    # the timer of somebody else, here that of pytest, goes on
    assert outer - 5 < signal.getitimer(signal.ITIMER_REAL)[0] <= outer


@pytest.mark.parametrize(("cpu", "says"), [(99, "there are CPUs 0 to 15"), (-7, "there are CPUs")])
def test_a_cpu_that_does_not_exist_is_refused_with_a_warning(cpu, says):
    with pytest.warns(
        ModelWarning, match=rf"Answers.suggest_cpu\(\) answered CPU {cpu}, but {says}"
    ):
        done = replay(pile(), "bd-paper-16", modules=[Answers(cpu)])
    assert answered(done, "answers", "taken") == 0


def test_a_cpu_that_is_offline_is_refused_with_a_warning():
    workload = pile()
    workload.hotplug(1_000, 5, False)
    with pytest.warns(
        ModelWarning, match=r"Answers.suggest_cpu\(\) answered CPU 5, but it is offline"
    ):
        replay(workload, "bd-paper-16", modules=[Answers(5)])


def test_an_answer_may_be_an_integer_of_numpy():
    done = replay(pile(), "bd-paper-16", modules=[Answers(np.int64(0))])
    assert answered(done, "answers", "taken") > 0


WRONG_ANSWERS = [
    ("select_task_rq", None, "a NoneType"),
    ("select_task_rq", "3", "a str"),
    ("select_task_rq", 2.0, "a float"),
    ("select_task_rq", True, "a bool"),
    ("select_task_rq", 16, "there are CPUs 0 to 15"),
    ("select_idle_sibling", -1, "about thread"),
    ("longest_idle_cpu", -2, "or -1 for none"),
    ("load_balance", -2, "how many threads moved"),
    ("load_balance", (0, True), "how many threads moved"),
    ("should_we_balance", "no", "True or False"),
    ("find_busiest_group", 3, "True or False"),
    ("balanced", None, "True or False"),
    ("calculate_imbalance", 0.5, "it writes the imbalance"),
    ("find_busiest_queue", None, "or -1 for none"),
]


@pytest.mark.parametrize(("decision", "value", "says"), WRONG_ANSWERS)
def test_a_wrong_answer_of_a_decision_is_refused(decision, value, says):
    def mine(k, *about):
        return value

    kernel = "v4.1+overload_on_wakeup:patch" if decision == "longest_idle_cpu" else "v4.1"
    with pytest.raises(
        UsageError, match=rf"policies\.{decision}: .*mine\(\) answered.*{says}"
    ) as e:
        replay_scenario("recorded-gi", kernel, "bd-paper-16", policies={decision: mine})
    line = mine.__code__.co_firstlineno
    assert f"It begins in {__file__}, line {line}." in str(e.value)


def test_an_exception_of_a_decision_names_the_line_and_a_fitting_answer_is_taken():
    def divides(k, env):
        return k.jiffies // 0

    line = divides.__code__.co_firstlineno + 1
    says = rf"divides\(\) raised ZeroDivisionError in line {line}: .*about CPU \d+ at level \w+"
    with pytest.raises(UsageError, match=says):
        replay_scenario(
            "recorded-gi", machine="bd-paper-16", policies={"should_we_balance": divides}
        )
    fits = {
        "select_task_rq": lambda k, p, *more: np.int64(p.cpu),
        "should_we_balance": lambda k, env: np.True_,
        "find_busiest_queue": lambda k, env, group: -1,
    }
    for kernel in ("v4.1", "v6.12.107"):
        replay_scenario("recorded-gi", kernel, "bd-paper-16", policies=fits, until_ns=50_000_000)
