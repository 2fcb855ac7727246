"""Read the column modules of the engine's table and write them as declarations of structs.

Usage: python tools/one_source/declare.py OUTPUT
"""

from __future__ import annotations

import ast
import importlib
import re
import sys
from dataclasses import dataclass
from pathlib import Path

WORLD = Path("wastedcores/simulator/engine/world")
#: per module of columns: the struct of each of its tuples, in order
MODULES = {
    "sim": ["Kernel"],
    "v6_12": ["Modern"],
    "core_row": ["Design"],
    "rq": ["Rq", "Rq"],
    "rq_v6_12": ["RqModern"],
    "clock": ["Clock", "ClockConstants"],
    "rt_rq": ["RtRq", "RtShared"],
    "cfs_rq": ["CfsRq"],
    "eevdf": ["SchedAvg", "SchedEntity", "CfsRq", "TaskStruct"],
    "entity": ["SchedEntity"],
    "task": ["TaskStruct"],
    "task_group": ["TaskGroup"],
    "wait": ["WaitObject"],
    "hotplug_step": ["HotplugStep"],
    "domain": ["SchedDomain"],
    "domain_v6_12": ["SchedDomain"],
    "domain_shared": ["SchedDomainShared"],
    "sched_group": ["SchedGroup"],
    "group_capacity": ["SchedGroupCapacity"],
    "lb_env": ["LbEnv"],
    "sds": ["SdLbStats"],
    "sgs": ["SgLbStatsV4"],
    "sgs_v6_12": ["SgLbStats"],
    "decision": ["Decision", "DecisionGroup"],
}
#: columns that begin an array: module, constant, name of the field, length
ARRAYS = {
    ("task", "SLOT0"): ("slot", 4),
    ("task", "UNITS0"): ("units", 4),
    ("rq", "CPU_LOAD0"): ("cpu_load", 5),
    ("domain", "LB_COUNT0"): ("lb_count", 21),
    ("clock", "STATE0"): ("state", 8),
    ("clock", "STEP0"): ("step", 8),
    ("core_row", "MODULE0"): ("module", 8),
    ("lb_env", "PINNED"): ("held_back", 4),
    ("decision", "PINNED"): ("held_back", 4),
}
#: columns whose meaning is a struct of its own
MOVED = {("task", "RNG"): ("RandomState", "state")}
#: structs that lie at the beginning of another one, or at the same row
EMBEDDED = {
    "TaskStruct": [("se", "SchedEntity"), ("random", "RandomState")],
    "SchedEntity": [("avg", "SchedAvg")],
    "CfsRq": [("avg", "SchedAvg"), ("rq_modern", "RqModern")],
}
#: fields that hold a row: the struct that they point to
POINTERS = {
    "CfsRq": "curr SchedEntity entity SchedEntity last SchedEntity leftmost SchedEntity next SchedEntity rightmost SchedEntity "
    "skip SchedEntity task_group TaskGroup",
    "Clock": "core Clock package Clock",
    "Kernel": "design Design",
    "LbEnv": "dst_group SchedGroup sd SchedDomain tasks TaskStruct",
    "Rq": "cfs_tasks TaskStruct cfs_tasks_tail TaskStruct curr TaskStruct sd SchedDomain sd_busy SchedDomain sd_llc SchedDomain "
    "wake_list TaskStruct",
    "RqModern": "last_wakee TaskStruct",
    "RtRq": "head TaskStruct tail TaskStruct",
    "SchedDomain": "child SchedDomain groups SchedGroup parent SchedDomain shared SchedDomainShared",
    "SchedEntity": "cfs_rq CfsRq my_q CfsRq next SchedEntity parent SchedEntity prev SchedEntity",
    "SchedGroup": "sgc SchedGroupCapacity",
    "SdLbStats": "busiest SchedGroup",
    "SgLbStats": "group SchedGroup",
    "TaskStruct": "cfs_tasks_next TaskStruct cfs_tasks_prev TaskStruct last_wakee TaskStruct parent TaskStruct pc Op "
    "rt_next TaskStruct rt_prev TaskStruct wait_next TaskStruct wake_q_head TaskStruct wake_q_tail TaskStruct",
    "WaitObject": "head TaskStruct owner TaskStruct tail TaskStruct",
}
RENAMED = {
    ("Kernel", "now"): "now_ns",
    ("Kernel", "until"): "until_ns",
    ("Kernel", "cpu"): "this_cpu",
    ("Kernel", "cpus"): "nr_cpus",
    ("Kernel", "sets"): "design",
}
_GROUP_TYPES = "HAS_SPARE FULLY_BUSY MISFIT SMT_BALANCE_TYPE ASYM_PACKING IMBALANCED OVERLOADED"
#: constants of the column modules that are no columns: module, names, the module that has them now
CODES = [
    ("sgs_v6_12", _GROUP_TYPES, "codes.group_type"),
    ("sgs_v6_12", "LOCAL BUSIEST SPARE", "codes.stats_row"),
    ("sgs", "OTHER IMBALANCED OVERLOADED", "codes.group_type_v4_1"),
    ("sgs", "LOCAL BUSIEST SPARE", "codes.stats_row"),
    ("lb_env", "ALL_PINNED NEED_BREAK DST_PINNED SOME_PINNED ACTIVE_LB", "codes.lbf"),
    ("lb_env", "BY_LOAD BY_UTIL BY_TASK", "codes.migration_type"),
    ("rq_v6_12", "BALANCE STATS NEWILB NEXT KICKS", "codes.nohz_kick"),
    ("sim", "GI_NONE GI_PAPER GI_PATCH", "codes.group_imbalance_fix"),
    ("v6_12", "REWEIGHT_LAG REWEIGHT_PLACE REWEIGHT_AVERAGE", "codes.reweight"),
    ("decision", "PER_RECORD WIDTH GROUP_WIDTH MOVES_SHIFT REASON_SHIFT", "world.decision_record"),
    ("v6_12", "ROW", "world.table"),
    ("clock", "UNIT", "world.table"),
]
MOVED_CONSTANTS = {(module, name): to for module, names, to in CODES for name in names.split()}
RENAMED_CONSTANTS = {
    ("v6_12", "ROW"): "MODERN_ROW",
    ("clock", "UNIT"): "SPEED_UNIT",
    ("v6_12", "REWEIGHT_LAG"): "LAG",
    ("v6_12", "REWEIGHT_PLACE"): "PLACE",
    ("v6_12", "REWEIGHT_AVERAGE"): "AVERAGE",
    ("sim", "GI_NONE"): "NONE",
    ("sim", "GI_PAPER"): "PAPER",
    ("sim", "GI_PATCH"): "PATCH",
    ("sgs_v6_12", "SMT_BALANCE_TYPE"): "SMT_BALANCE",
}
#: the NULL of each struct that pointers point to
NULLS = {
    "TaskStruct": "NO_TASK",
    "SchedEntity": "NO_ENTITY",
    "CfsRq": "NO_QUEUE",
    "SchedDomain": "NO_DOMAIN",
    "SchedGroup": "NO_GROUP",
    "SchedDomainShared": "NO_SHARED",
    "SchedGroupCapacity": "NO_CAPACITY",
    "TaskGroup": "NO_TASK_GROUP",
    "WaitObject": "NO_WAIT",
    "Op": "NO_OP",
    "Clock": "NO_CLOCK",
    "Decision": "NO_DECISION",
    "SgLbStats": "NO_STATS",
    "SgLbStatsV4": "NO_STATS_V4",
}


@dataclass
class Field:
    """One column, or an array of columns."""

    name: str
    column: int
    comment: str
    length: int = 0
    target: str = ""


def declarations() -> tuple[dict[str, list[Field]], dict[tuple[str, str], tuple[str, str]]]:
    """Return the fields by struct, and the struct and field of each constant (module, name)."""
    structs: dict[str, list[Field]] = {}
    constants: dict[tuple[str, str], tuple[str, str]] = {}
    for module, names in MODULES.items():
        path = WORLD / f"{module}.py"
        source = path.read_text()
        lines = source.splitlines()
        values = importlib.import_module(f"wastedcores.simulator.engine.world.{module}")
        tuples = [
            s
            for s in ast.parse(source).body
            if isinstance(s, ast.Assign)
            and isinstance(s.targets[0], ast.Tuple)
            and isinstance(s.value, ast.Call)
        ]
        for struct, statement in zip(names, tuples, strict=False):
            for name in statement.targets[0].elts:
                _add(structs, constants, module, struct, name.id, values, _comment(lines, name))
        if module == "eevdf":
            _add(structs, constants, module, "SchedEntity", "VPROT", values, "the vruntime up to which it is protected (v6.17)")
        if module == "clock":
            _add(structs, constants, module, "ClockConstants", "STATE0", values, "pairs of residency and exit latency")
        if module == "decision":
            constants[module, "H_NR_QUEUED"] = ("DecisionGroup", "min_load")
            constants[module, "RUNNABLE"] = ("DecisionGroup", "load_per_task")
        if module == "sim":
            constants[module, "FIRST"] = ("Kernel", "load_v4_4")
        if module == "sgs_v6_12":
            constants[module, "FIRST"] = ("SgLbStats", "group")
            constants[module, "END"] = ("SgLbStats", "end")
    structs["Op"] = [Field("code", 0, "workload/ops.py")] + [
        Field(f"arg{i}", i, "") for i in range(1, 5)
    ]
    for fields in structs.values():
        fields.sort(key=lambda f: f.column)
    return structs, constants


def _comment(lines: list[str], name: ast.Name) -> str:
    found = re.search(r"#\s*(.*)$", lines[name.lineno - 1])
    return found.group(1) if found else ""


def _add(structs, constants, module, struct, name, values, comment):  # type: ignore[no-untyped-def]
    if name.startswith("_"):
        return
    length = 0
    field = name.lower()
    if (module, name) in ARRAYS:
        field, length = ARRAYS[module, name]
    if (module, name) in MOVED:
        struct, field = MOVED[module, name]
    field = RENAMED.get((struct, field), field)
    constants[module, name] = (struct, field)
    fields = structs.setdefault(struct, [])
    if any(f.name == field for f in fields):
        raise SystemExit(f"{struct}.{field} is declared twice")
    fields.append(Field(field, getattr(values, name), comment, length))


def text(structs: dict[str, list[Field]]) -> str:
    """Return the module that declares the structs."""
    out = ['"""The structs of the scheduler, each of which is a row of the world\'s table."""\n\nfrom __future__ import annotations\n\n']
    out.append("from typing import TYPE_CHECKING\n\nfrom wastedcores.jit.structs import Struct, array, embedded, integer, null, pointer\n")
    out.append("\nif TYPE_CHECKING:\n    from wastedcores.jit.structs import Embedded, Pointer\n")
    for struct, fields in structs.items():
        out.append(f'\n\nclass {struct}(Struct):\n    """{struct}."""\n\n')
        for name, target in EMBEDDED.get(struct, []):
            out.append(f'    {name}: Embedded[{target}] = embedded("{target}")\n')
        for f in fields:
            tail = f"  # {f.comment}" if f.comment else ""
            if f.length:
                out.append(f"    {f.name} = array({f.column}, {f.length}){tail}\n")
            elif f.target:
                out.append(f'    {f.name}: Pointer[{f.target}] = pointer("{f.target}", {f.column}){tail}\n')
            else:
                out.append(f"    {f.name} = integer({f.column}){tail}\n")
    out.append("\n\n")
    for struct, name in NULLS.items():
        if struct in structs:
            out.append(f"{name} = null({struct})\n")
    return "".join(out)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(text(declarations()[0]))
