"""The studies: a row for each part of ``wastedcores reproduce``, from which its help, its rows and its page are made."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wastedcores.errors import UsageError
from wastedcores_studies import anomalies, claims, fork_wait, nas, newidle, tool_costs, tpch
from wastedcores_studies.attempts import Attempt
from wastedcores_studies.published import Tables

#: published table -> row -> why it is not attempted
Reasons = Mapping[str, Mapping[str, str]]


_SETTING = "a setting of their tool, which is this project's default"
_THEIR_MACHINE = "describes their machine"
_THEIR_TOOLS = "measures other tools than this project's"
_OWN_PART = "in a part of its own: wastedcores reproduce carver"
_OWN_SITES = "in a part of its own: wastedcores reproduce sites"
_PHASES = "the replay's phases are calibrated on it"
_ON_A_BUILD = "the same quantity of this project's tools is measured by the benchmarks, on another machine and build"
_SUMMARY = "sums up numbers that have rows of their own"
_SINCE = "the replay has no kernel as old as the first one with the bug"
_SINCE_OLDEST = (
    "Linux 3.19 is the oldest modelled kernel, and it has the bug, as the page of Table 4 shows; that older kernels do not "
    "have it cannot be tried"
)
_NUMBERS_OF_SETUP = "a parameter of the workload, which the replay has, too"
#: table -> claim -> why it is not attempted
WHY_NOT = {
    "lozi2016_claims": {
        **dict.fromkeys(("checker_S", "checker_M", "checker_profile"), _SETTING),
        **dict.fromkeys(("performance_range", "tpch_throughput", "tpch_gain"), _SUMMARY),
        **dict.fromkeys(("worst_query", "corner_case"), _SUMMARY),
        **dict.fromkeys(("impact_group_imbalance", "impact_group_construction"), _SUMMARY),
        **dict.fromkeys(("impact_overload_on_wakeup", "impact_missing_domains"), _SUMMARY),
        **dict.fromkeys(("lu_threads", "lu_r_processes"), _NUMBERS_OF_SETUP),
        **dict.fromkeys(("since_group_imbalance", "since_group_construction"), _SINCE),
        "since_overload_on_wakeup": _SINCE,
        "since_missing_domains": _SINCE_OLDEST,
        **dict.fromkeys(("machine_cpus", "machine_clock", "machine_l1"), _THEIR_MACHINE),
        **dict.fromkeys(("machine_l2", "machine_l3", "machine_memory"), _THEIR_MACHINE),
        "machine_interconnect": _THEIR_MACHINE,
        **dict.fromkeys(("kernels_ported", "profiler_lines"), "describes their tools"),
        "event_rate_total": _SUMMARY,
    },
    "carver2019_claims": {
        **dict.fromkeys(("machine", "memory", "kernel", "tick"), _THEIR_MACHINE),
        **dict.fromkeys(("jobs_full", "jobs_sched"), _NUMBERS_OF_SETUP),
        **dict.fromkeys(("frequency_min", "frequency_nominal", "frequency_turbo"), _THEIR_MACHINE),
        **dict.fromkeys(("frequency_all_cores", "frequency_class"), _THEIR_MACHINE),
        **dict.fromkeys(("burst", "compile_start", "compile_end"), _PHASES),
        **dict.fromkeys(("s2_turbo_start", "s2_turbo_end"), _OWN_PART),
        **dict.fromkeys(("kbuild_sched_gain", "kbuild_full_gain"), _OWN_PART),
        **dict.fromkeys(("s1_initial_phase", "s1_second_phase"), _OWN_PART),
        **dict.fromkeys(("s1_initial_cpus", "s1_energy"), _OWN_PART),
        **dict.fromkeys(("s2_low_frequency", "s2_initial_phase"), _OWN_PART),
        **dict.fromkeys(("s2_parallel_cpus", "s2_frequency"), _OWN_PART),
        **dict.fromkeys(tool_costs.ON_A_BUILD, _OWN_PART),
        **dict.fromkeys(("perf_wakeup_bytes", "schedlog_kbuild_mem"), _ON_A_BUILD),
        "schedlog_comm": _THEIR_TOOLS,
    },
    newidle.TABLE: newidle.WHY_NOT
    | dict.fromkeys(newidle.COMPARED, "in a part of its own: wastedcores reproduce newidle"),
    anomalies.TABLE: anomalies.WHY_NOT | dict.fromkeys(anomalies.COMPARED, _OWN_SITES),
    "slides_claims": {
        **dict.fromkeys(("tpch_gain", "hpc_gain"), _SUMMARY),
        "bug4_before": _NUMBERS_OF_SETUP,
        "pinned": "a statement without a number; the replay's change with pinned workers stands beside Table 2's rows of the "
        "wakeup fix",
        "minimum_volatile": "a question, which the row about migrations between scheduling groups answers",
    },
    "walcher2019_claims": dict.fromkeys(
        (
            "cpu", "clock", "caches", "l3", "memory", "disk", "distribution", "kernel_stock",
            "kernel_tested", "compiler", "libc", "database", "tpch", "qemu",
        ),
        _THEIR_MACHINE,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Checks:
    """The checks of a study that compares no published numbers."""

    schema: str  #: the name of the form of its JSON
    rows: Callable[[], Iterator[dict[str, Any]]]  #: runs the checks, and yields a row for each
    sentences: Callable[[dict[str, Any]], list[str]]  #: the lines in which a row is printed


def _no_attempts(t: Tables, c: dict[str, Any], s: Sequence[int]) -> list[Attempt]:
    return []


@dataclass(frozen=True)
class Study:
    """A part of what ``wastedcores reproduce`` does."""

    #: makes the study's rows from the published tables, the calibrated parameters and the seeds, before any replay has run
    attempts: Callable[[Tables, dict[str, Any], Sequence[int]], list[Attempt]] = _no_attempts
    #: returns the rows that benchmarks have measured, and the names of published rows for which a measurement is missing
    measured: Callable[[Tables], tuple[list[dict[str, Any]], Sequence[str]]] | None = None
    why_not: Reasons = field(default_factory=dict)  #: what is not attempted, and why
    #: whether ``reproduce all`` runs it. Studies of papers other than Lozi et al. and its reproduction are run only by name.
    among_all: bool = True
    checks: Callable[[], Checks] | None = (
        None  #: the checks of a study that has no published numbers
    )


def _nas(table: str) -> Study:
    return Study(lambda t, c, s: nas.attempts(table, t, nas.parameters_from(c["nas"]), s))


def _measured_sites(tables: Tables) -> tuple[list[dict[str, Any]], Sequence[str]]:
    here = anomalies.measured(tables)
    rows, missing = tool_costs.rows(tables, anomalies.TABLE)
    return here + rows, [*missing, *(() if here else anomalies.MEASURED)]


def _proofs() -> Checks:
    from wastedcores_studies.proofs import checking

    return Checks(checking.SCHEMA, checking.check_all, checking.told)


#: the studies by the name of their part, in the order of the scorecard
STUDIES: dict[str, Study] = {
    "table1": _nas("table1"),
    "table2": Study(lambda t, c, s: tpch.attempts(t, c["tpch"], s)),
    "table3": _nas("table3"),
    "claims": Study(
        lambda t, c, s: claims.attempts(t, nas.parameters_from(c["nas"]), s),
        tool_costs.rows,
        WHY_NOT,
    ),
    "walcher": Study(lambda t, c, s: tpch.desktop_attempts(t, s)),
    "carver": Study(
        lambda t, c, s: fork_wait.attempts(t, s),
        lambda t: tool_costs.rows(t, fork_wait.TABLE),
        {fork_wait.TABLE: {}},
        among_all=False,
    ),
    "sites": Study(
        lambda t, c, s: anomalies.attempts(t, s),
        _measured_sites,
        {anomalies.TABLE: anomalies.WHY_NOT},
        among_all=False,
    ),
    "newidle": Study(
        lambda t, c, s: newidle.attempts(t, s),
        why_not={newidle.TABLE: newidle.WHY_NOT},
        among_all=False,
    ),
    "proofs": Study(among_all=False, checks=_proofs),
}


def parts_of(what: str) -> tuple[str, ...]:
    """Return the names of the studies that a part stands for: its own name or, for ``all``, the studies with ``among_all``."""
    if what == "all":
        return tuple(name for name, study in STUDIES.items() if study.among_all)
    study_of(what)
    return (what,)


def study_of(part: str) -> Study:
    """Return the study of a part."""
    if part not in STUDIES:
        raise UsageError(f"part {part!r}: there are {', '.join(STUDIES)} and all.")
    return STUDIES[part]
