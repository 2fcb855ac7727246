"""tools/kernel_features.py finds the features of releases in their sources, and the page has its table."""

from __future__ import annotations

import csv
import re
import sys

import pytest
from support import ROOT

from wastedcores.kernels import KernelModel
from wastedcores.kernels.rules import RULES

sys.path.insert(0, str(ROOT / "tools"))
import kernel_features as kf

#: lines of fair.c as 6.12.63 and 6.12.107 have them, with the empty function of kernels for one CPU in front
FAIR = """\
static inline int sched_balance_newidle(struct rq *rq, struct rq_flags *rf)
{
    return 0;
}

static int sched_balance_newidle(struct rq *this_rq, struct rq_flags *rf)
{
    if (!pulled_task)
        domain_cost = %s;
    return pulled_task;
}

static inline void update_sg_wakeup_stats(struct sched_domain *sd,
        struct task_struct *p)
{
    for_each_cpu%s) {
        sgs->group_load += cpu_load_without(rq, p);
    }
}
"""
MASKED = "_and(i, sched_group_span(group), p->cpus_ptr"


def tree(tmp_path, fair, features=""):
    folder = tmp_path / "kernel" / "sched"
    folder.mkdir(parents=True)
    (folder / "fair.c").write_text(fair)
    (folder / "features.h").write_text(features)
    (folder / "idle.c").write_text("")
    return tmp_path


def test_a_line_counts_in_its_function_only(tmp_path):
    bump = "(3 * sd->max_newidle_lb_cost) / 2"
    found = kf.features(tree(tmp_path, FAIR % (bump, "(i, sched_group_span(group)")))
    assert found["newidle: bump"]
    assert not found["forks count only allowed CPUs"]
    elsewhere = FAIR.replace("sched_balance_newidle(struct rq *this_rq", "other(struct rq *this_rq")
    again = kf.features(tree(tmp_path / "b", elsewhere % (bump, MASKED)))
    assert not again["newidle: bump"]
    assert again["forks count only allowed CPUs"]


def test_a_feature_that_is_switched_off_is_not_there(tmp_path):
    text = "SCHED_FEAT(NI_RANDOM, true)\nSCHED_FEAT(NI_RATE, false)\n"
    found = kf.features(tree(tmp_path, "", text))
    assert (found["NI_RANDOM"], found["NI_RATE"]) == (True, False)
    assert kf.rules_of(found)["newidle"] == "random"


def test_a_folder_without_a_kernel_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"fair\.c: expected the source of a kernel"):
        kf.features(tmp_path)


def _table():
    with (ROOT / "datasets" / "kernel_features.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    names = [f.name for f in kf.FEATURES]
    return {r["release"]: ({n: r[n] == "yes" for n in names}, r["replayed_as"]) for r in rows}


def test_the_page_has_the_table():
    assert (
        kf.markdown({release: found for release, (found, _) in _table().items()})
        in kf.PAGE.read_text()
    )


def test_the_releases_that_the_replay_has_are_told_apart_by_their_sources():
    for release in ((6, 12, 107), (6, 18, 15), (7, 2, 13)):
        found, name = _table()[".".join(map(str, release))]
        assert name.split(",")[0] == "v" + ".".join(map(str, release))
        told = kf.rules_of(found)
        assert told == {rule: getattr(RULES[release], rule) for rule in told}
        # one rule is not in kernel/sched
        assert set(RULES[release]._fields) - set(told) == {"idle_ticks_before_stop", "structure"}
        assert "eevdf" in told  # which is what the structure says


def test_every_replay_that_is_named_exists():
    for release, (found, name) in _table().items():
        assert kf.replayed_as(found) == name, release
        assert KernelModel.named(re.split(",", name)[0]).is_replayed
