"""Read the domains that booted kernels printed, and describe the first difference of a model in one sentence."""

from __future__ import annotations

import json
import lzma
from functools import cache

from support import TESTS
from wastedcores.cpulist import format_cpulist
from wastedcores.kernels import KernelModel
from wastedcores.topology import levels
from wastedcores.topology.domains import domain_events
from wastedcores.topology.machine import Machine

ORACLE = TESTS / "topology" / "oracle"
KERNELS = ("4.1.3", "4.1.3-nodebug", "4.1.3-patched", "4.12", "6.1", "6.12", "7.2")
#: names of flags as debugfs prints them -> the bits of topology/levels.py, whose name for SD_SHARE_LLC is that of 4.1
FLAGS = {n: bit for n, bit in vars(levels).items() if n.startswith("SD_")}
FLAGS["SD_SHARE_LLC"] = FLAGS.pop("SD_SHARE_PKG_RESOURCES")
#: the numbers that debugfs prints
NUMBERS = ("imbalance_pct", "cache_nice_tries", "min_interval", "max_interval", "busy_factor")


def steps(case):
    """Read the hotplug steps, such as ``[("offline", 5), ("online", 5)]``, from the titles of the events."""
    words = [e["when"].split() for e in case["events"][1:]]
    return [(w[2], int(w[1].removeprefix("cpu"))) for w in words]


def model_events(case):
    kernel = KernelModel.named(case["kernel"], sched_debug=case["sched_debug"])
    return domain_events(Machine.from_dict(case).after(steps(case)), kernel)


def first_difference(case, events=None):
    """Return None, or one paragraph with the event, CPU, domain, and the values of the kernel and of the model."""
    events = model_events(case) if events is None else events
    where = f"{case['kernel']} {case['name']}"
    if len(events) != len(case["events"]):
        return f"{where}: {len(case['events'])} events in the file, {len(events)} modelled"
    for theirs, ours in zip(case["events"], events, strict=True):
        at = f"{where}, {theirs['when']}"
        if theirs["when"] != ours.when:
            return f"{at}: modelled as {ours.when!r}"
        if theirs["domains"]:
            found = _domains(at, theirs["domains"], ours)
        else:
            found = _spans(at, theirs["schedstat"], ours)
        found = found or _debugfs(at, theirs.get("debugfs") or {}, ours)
        if found:
            return found
    return None


def _debugfs(at, by_cpu, ours):
    """Compare the flags and the numbers of every domain."""
    for cpu, theirs in by_cpu.items():
        for want, got in zip(theirs, ours.of(int(cpu)), strict=True):
            here = f"{at}, cpu {cpu}, {want['level']}"
            flags = {name for name, bit in FLAGS.items() if got.flags & bit}
            if set(want["flags"]) != flags:
                return f"{here}: kernel has flags {sorted(want['flags'])}, model {sorted(flags)}"
            for name in NUMBERS:
                if want[name] != getattr(got, name):
                    return f"{here}: kernel has {name} {want[name]}, model {getattr(got, name)}"
    return None


def _spans(at, schedstat, ours):
    for cpu, spans in schedstat.items():
        mine = [d.cpus for d in ours.of(int(cpu))]
        if mine != spans:
            return f"{at}, cpu {cpu}: kernel has spans {_lists(spans)}, model {_lists(mine)}"
    return None


def _domains(at, by_cpu, ours):
    printed = ours.to_dict()
    # some files leave out the CPUs that have no domain
    with_domains = [{c for c, own in each.items() if own} for each in (by_cpu, printed)]
    if with_domains[0] != with_domains[1]:
        return (
            f"{at}: CPUs {sorted(with_domains[0])} have domains, {sorted(with_domains[1])} modelled"
        )
    sgcs = {}
    for cpu, theirs in by_cpu.items():
        names = [d["level"] for d in theirs]
        mine = [d["level"] for d in printed[cpu]]
        if names != mine:
            return f"{at}, cpu {cpu}: kernel has levels {names}, model {mine}"
        for k, (want, got) in enumerate(zip(theirs, printed[cpu], strict=True)):
            here = f"{at}, cpu {cpu}, domain {k} ({want['level']})"
            if want["span"] != got["span"]:
                return f"{here}: kernel spans {format_cpulist(want['span'])}, model {format_cpulist(got['span'])}"
            spans = [g["span"] for g in want["groups"]], [g["span"] for g in got["groups"]]
            if spans[0] != spans[1]:
                return f"{here}: kernel has groups {_lists(spans[0])}, model {_lists(spans[1])}"
            found = _details(here, want, got, ours.of(int(cpu))[k], sgcs)
            if found:
                return found
    return None


def _details(here, want, got, domain, sgcs):
    if want.get("flags") is not None and want["flags"] != domain.flags:
        return f"{here}: kernel has flags {want['flags']:#x}, model {domain.flags:#x}"
    for j, (a, b, group) in enumerate(
        zip(want["groups"], got["groups"], domain.groups, strict=True)
    ):
        if a["mask"] != b["mask"]:
            return f"{here}, group {j}: kernel has mask {a['mask']}, model {b['mask']}"
        if "bal" in a and a["bal"] != group.balance_cpu:
            return f"{here}, group {j}: kernel balances on {a['bal']}, model {group.balance_cpu}"
        if "id" in a and a["id"] != group.sgc[1]:
            return f"{here}, group {j}: kernel has sgc {a['id']}, model {group.sgc}"
        # groups that share a capacity object in the kernel share one in the model
        if "sgc" in a and sgcs.setdefault(a["sgc"], group.sgc) != group.sgc:
            return f"{here}, group {j}: kernel shares sgc {a['sgc']}, model has {sgcs[a['sgc']]} and {group.sgc}"
    return None


def _lists(spans):
    return " ".join("{" + format_cpulist(s) + "}" for s in spans)


@cache
def _lines(kernel):
    text = lzma.decompress((ORACLE / f"{kernel}.jsonl.xz").read_bytes()).decode()
    return {json.loads(line)["name"]: line for line in text.splitlines()}


def names(kernel):
    """Return the names of the cases of a kernel."""
    return list(_lines(kernel))


def load(kernel, name):
    """Return one case, as a new dictionary."""
    return json.loads(_lines(kernel)[name])
