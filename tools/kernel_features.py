"""Say which balancing features a kernel's source has: datasets/kernel_features.csv and its table in docs/kernels.md.

    python tools/kernel_features.py DIR... [-o FILE] [--page]

DIR is a source tree, or the files fair.c, features.h and idle.c of its kernel/sched; its name is the release. A stable release
may have a feature that came with a later mainline release, so only the source of the exact release tells. Each feature is a line
that occurs in one function, or in a whole file. Debian's source packages were read.
"""

from __future__ import annotations

import argparse
import csv
import re
import sys
from pathlib import Path
from typing import NamedTuple

from wastedcores.kernels.rules import RULES, Rules

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "datasets" / "kernel_features.csv"
PAGE = ROOT / "docs" / "kernels.md"
MADE = re.compile(r"(<!-- made by tools/kernel_features.py -->\n).*?(<!-- end -->)", re.S)


class Feature(NamedTuple):
    """A line of the source that tells a feature.

    ``function`` is empty if any line of the file may be it. ``rule`` and ``means`` are the rule of wastedcores.kernels.rules and
    its value where the line is found; a Boolean rule has the other value where it is not. ``commit`` is empty where it is not
    known.
    """

    name: str
    file: str
    function: str
    line: str
    commit: str
    rule: str = ""
    means: bool | str = True


FEATURES = (
    Feature("EEVDF", "fair.c", "", r"\bpick_eevdf\(", "147f3efaa241", "eevdf"),
    Feature(
        "DELAY_DEQUEUE", "features.h", "", r"SCHED_FEAT\(DELAY_DEQUEUE, true\)", "152e11f6df29", "delayed_dequeue"
    ),
    Feature("SIS_UTIL", "features.h", "", r"SCHED_FEAT\(SIS_UTIL, true\)", "", "scan_limited"),
    Feature(
        "newidle: below sysctl_sched_migration_cost",
        "fair.c",
        "newidle_balance|sched_balance_newidle",
        r"avg_idle < sysctl_sched_migration_cost",
        "removed by c5b0a7eefc70",
        "newidle",
        "migration_cost",
    ),
    Feature(
        "newidle: bump",
        "fair.c",
        "newidle_balance|sched_balance_newidle",
        r"\(3 \* sd->max_newidle_lb_cost\) / 2",
        "155213a2aed4, reverted by d206fbad9328",
        "newidle",
        "bump",
    ),
    Feature("NI_RANDOM", "features.h", "", r"SCHED_FEAT\(NI_RANDOM, true\)", "33cf66d88306", "newidle", "random"),
    Feature("NI_RATE", "features.h", "", r"SCHED_FEAT\(NI_RATE, true\)", "9fe89f022c05", "newidle", "rate"),
    Feature(
        "group loads at most once per ms",
        "fair.c",
        "update_tg_load_avg",
        r"NSEC_PER_MSEC",
        "",
        "tg_load_avg_limited",
    ),
    Feature(
        "new thread's use by its scaled weight",
        "fair.c",
        "post_init_entity_util_avg",
        r"util_avg \* se_weight\(se\)",
        "72bffbf57c52",
        "raw_initial_util",
        False,
    ),
    Feature("estimated use is an average", "fair.c", "", r"\bue\.ewma\b", "", "util_est_ewma"),
    Feature("waiting counts as use", "fair.c", "", r"\bcpu_util_cfs_boost\(", "", "waiting_is_use"),
    Feature(
        "idle cores balance first", "fair.c", "should_we_balance", r"is_core_idle\(", "", "whole_cores_balance"
    ),
    Feature("SMT groups and imbalance per core", "fair.c", "", r"\bsibling_imbalance\(", "", "siblings_counted"),
    Feature(
        "PREFER_SIBLING of the domain below",
        "fair.c",
        "",
        r"prefer_sibling = child",
        "",
        "prefer_sibling_of_child",
    ),
    Feature(
        "the last fully busy group is the busiest",
        "fair.c",
        "update_sd_pick_busiest",
        r"avg_load < busiest->avg_load",
        "",
        "last_fully_busy",
    ),
    Feature(
        "forks count only allowed CPUs",
        "fair.c",
        "update_sg_wakeup_stats",
        r"for_each_cpu_and\(.*cpus_ptr",
        "",
        "placement_masked",
    ),
    Feature("clusters are scanned first", "fair.c", "select_idle_cpu", r"sched_cluster_active", "", "clusters_scanned"),
    Feature(
        "sleepers do not count in groups",
        "fair.c",
        "update_sg_lb_stats",
        r"sum_h_nr_running \+= rq->cfs\.h_nr_runnable",
        "",
        "sleepers_counted",
        False,
    ),
    Feature(
        "sleepers move only with load",
        "fair.c",
        "can_migrate_task",
        r"sched_delayed\) && \(env->migration_type != migrate_load\)",
        "",
        "sleepers_pulled",
        False,
    ),
    Feature(
        "threads over their share wait for a failed attempt",
        "fair.c",
        "can_migrate_task",
        r"task_is_ineligible_on_dst_cpu\(",
        "",
        "ineligible_wait",
    ),
    Feature("the end of protection is stored", "fair.c", "", r"\bse->vprot\b", "", "slice_end_stored"),
    Feature(
        "another weight places a thread anew", "fair.c", "reweight_entity", r"place_entity\(", "", "reweight", "place"
    ),
    Feature(
        "another weight keeps the protection", "fair.c", "", r"\brescale_entity\(", "", "reweight", "average"
    ),
    Feature("averages with whole weights", "fair.c", "", r"\bavg_vruntime_weight\(", "", "exact_averages"),
    Feature(
        "a sleeper's lag only shrinks", "fair.c", "update_entity_lag", r"se->sched_delayed", "", "sleepers_lag_kept"
    ),
    Feature(
        "new threads do not preempt", "fair.c", "wakeup_preempt_fair", r"WF_FORK\) \|\| pse->sched_delayed", "",
        "wakeup_picks",
    ),
    Feature("estimated use is updated with the averages", "fair.c", "", r"\bUPDATE_UTIL_EST\b", "", "util_est_at_dequeue"),
    Feature(
        "every end of idling counts", "idle.c", "put_prev_task_idle", r"update_rq_avg_idle\(", "", "idle_time_at_exit"
    ),
    Feature("HRTICK", "features.h", "", r"SCHED_FEAT\(HRTICK, true\)", "", "slice_timer"),
    Feature("lazy preemption", "fair.c", "", r"\bresched_curr_lazy\(", "", "lazy_preemption"),
    Feature("cache-aware balancing", "fair.c", "", r"\bgroup_llc_balance\b", ""),
)  # fmt: skip


def function(text: str, names: str) -> str:
    """Return the definitions of functions with one of some names: the real one, and an empty one for single CPUs."""
    head = rf"^\w[^\n;{{}}]*\b(?:{names})\([^;{{}}]*\)\n\{{\n"
    return "\n".join(re.findall(rf"{head}.*?^\}}", text, re.M | re.S))


def features(tree: Path) -> dict[str, bool]:
    """Return which features the source of a release has."""
    folder = tree / "kernel" / "sched"
    texts = {}
    for name in ("fair.c", "features.h", "idle.c"):
        try:
            texts[name] = (folder / name).read_text(errors="replace")
        except OSError as e:
            raise SystemExit(
                f"{folder / name}: expected the source of a kernel ({e.strerror})."
            ) from e
    found = {}
    for feature in FEATURES:
        text = texts[feature.file]
        part = function(text, feature.function) if feature.function else text
        found[feature.name] = re.search(feature.line, part) is not None
    return found


def rules_of(found: dict[str, bool]) -> dict[str, bool | str]:
    """Return the values of the rules that the features tell."""
    out: dict[str, bool | str] = {"newidle": "cost", "reweight": "lag"}
    for feature in FEATURES:
        if isinstance(feature.means, str):
            if found[feature.name]:
                out[feature.rule] = feature.means
        elif feature.rule:
            out[feature.rule] = found[feature.name] == feature.means
    return out


def replayed_as(found: dict[str, bool]) -> str:
    """Return the kernel's name whose rules are these, or the nearest one and in what it differs."""
    told = rules_of(found)

    def apart(rules: Rules) -> list[str]:
        return [name for name, value in told.items() if getattr(rules, name) != value]

    version, rules = min(
        RULES.items(), key=lambda item: (len(apart(item[1])), [-n for n in item[0]])
    )
    name = f"v{'.'.join(map(str, version))}"
    others = apart(rules)
    if "newidle" in others:
        others.remove("newidle")
        name += f"+newidle:{told['newidle']}"
    others += [f.name for f in FEATURES if not f.rule and found[f.name]]
    return f"{name}, but for {', '.join(others)}" if others else name


def _order(release: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", release)]


def markdown(table: dict[str, dict[str, bool]]) -> str:
    """Return a row per feature and a column per group of releases that are equal."""
    groups: list[tuple[list[str], dict[str, bool]]] = []
    for release in sorted(table, key=_order):
        if groups and groups[-1][1] == table[release]:
            groups[-1][0].append(release)
        else:
            groups.append(([release], table[release]))
    heads = [", ".join(releases) for releases, _ in groups]
    lines = [f"| feature | commit | {' | '.join(heads)} |", "|---|---|" + "---|" * len(groups)]
    for feature in FEATURES:
        cells = ["yes" if found[feature.name] else "" for _, found in groups]
        lines.append(f"| {feature.name} | {feature.commit or 'not known'} | {' | '.join(cells)} |")
    names = [
        f"`{name}`" if ", but" not in name else name for name in (replayed_as(f) for _, f in groups)
    ]
    lines.append(f"| **the replay with these rules** | | {' | '.join(names)} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Print the table, and write it where told."""
    assert MADE.search(PAGE.read_text()), PAGE
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("trees", nargs="+", type=Path, metavar="DIR")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE")
    parser.add_argument(
        "--page", action="store_true", help="write the repository's table and its page"
    )
    args = parser.parse_args()
    table = {
        tree.resolve().name if tree.name in ("", ".") else tree.name: features(tree)
        for tree in args.trees
    }
    output = args.output or (TABLE if args.page else None)
    if output:
        with output.open("w", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(["release", *(f.name for f in FEATURES), "replayed_as"])
            for release in sorted(table, key=_order):
                found = table[release]
                writer.writerow(
                    [release, *("yes" if v else "no" for v in found.values()), replayed_as(found)]
                )
    print(markdown(table))
    if args.page:
        PAGE.write_text(MADE.sub(lambda m: f"{m[1]}{markdown(table)}{m[2]}", PAGE.read_text()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
