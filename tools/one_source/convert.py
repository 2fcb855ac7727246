"""Rewrite the engine from ``m[p, task.CPU]`` to ``p.cpu``: infer what each variable is, and edit the text.

Usage: python tools/one_source/convert.py [--report]

Every variable, parameter, result and field is either an integer or a reference to one struct. A wrong guess does not make the
code wrong: where a reference is used as an integer, ``.row`` is written, and where an integer is used as a reference, the call
``Struct(k, integer)``.
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import declare  # noqa: E402

ENGINE = Path("wastedcores/simulator/engine")
PACKAGE = "wastedcores.simulator.engine"
INT = "int"
#: functions whose parameters are integers, whatever is done with them
PLAIN_FUNCTIONS = {"record", "call_at", "item", "test", "include", "exclude", "row_of", "is_empty"}
SEAMS = re.compile(r"^ask(_\w+)?$|^answer$|^answers$|^follow$")
#: integer variables by name
PLAIN_NAMES = {"cpu", "src", "dst", "mask", "column", "word", "event", "which"}

#: further integer variables, by module and name: places in lists, numbers of CPUs, and first rows of contiguous ones
PLAIN_VARIABLES = re.compile(
    r"\.(balance|core|design)\.\S* first$|\.vmstat_jit\S* first$| ring$| inv$| number$"
    r"|\.(placement_v6_12|idle_sibling_v6_12|slow_path_v6_12)_jit\.\S* (found|new_cpu|least|idle|this_cpu|target|prev)$"
    r"|\.find_lowest_rq (near|this)$|\.select_task_rq_rt target$"
    r"|\.idle_sibling_v6_12_jit\.select_idle_sibling near$"
)
#: functions that return a number of a CPU or of something else
PLAIN_RESULTS = re.compile(
    r"\.(idle_sibling_v6_12|placement_v6_12|rebalance_domains_v6_12)_jit\.(beyond_cache|select_\w+|share_id|wake_affine|idle_balance)$"
    r"|\.(find_dst_cpu|find_dst_group_cpu|inverse_of|find_lowest_rq|first_at|select_task_rq_rt|about_a_cpu|item)$"
    r"|seam_jit\.\w+$|\.answer$"
)
#: what a name always means, if it was inferred to be a part of it
BY_NAME = {"p": "TaskStruct", "se": "SchedEntity", "q": "CfsRq", "root": "CfsRq", "above": "CfsRq", "g": "CfsRq", "row": "SchedAvg"}
TASK_RESULTS = re.compile(r"\.(pick_task|pick_task_fair|pick_next_task)$")

STRUCTS, CONSTANTS = declare.declarations()
FIELDS = {(s, f.name): f for s, fields in STRUCTS.items() for f in fields}


def path_between(outer: str, inner_: str) -> list[str] | None:
    """Return the attributes that lead from a struct to one that is embedded in it."""
    if outer == inner_:
        return []
    for name, target in declare.EMBEDDED.get(outer, []):
        rest = path_between(target, inner_)
        if rest is not None:
            return [name, *rest]
    return None


def join(a: str, b: str) -> str | None:
    """Return the outer one of two structs of which one contains the other."""
    if path_between(a, b) is not None:
        return a
    if path_between(b, a) is not None:
        return b
    return None


@dataclass
class Function:
    """A function of the engine."""

    module: str
    name: str
    node: ast.FunctionDef
    decorator: str
    parameters: list[str]
    tuple_length: int = 0
    locals: set[str] = field(default_factory=set)

    @property
    def key(self) -> str:
        """Its qualified name."""
        return f"{self.module}.{self.name}"


@dataclass
class Module:
    """A file of the engine."""

    path: Path
    name: str
    source: str
    tree: ast.Module
    columns: dict[str, str] = field(default_factory=dict)  # local name -> module of columns
    names: dict[str, str] = field(default_factory=dict)  # local name -> qualified function
    modules: dict[str, str] = field(default_factory=dict)  # local name -> module of functions


class Program:
    """The whole engine with what is known of its variables."""

    def __init__(self) -> None:
        self.modules: dict[str, Module] = {}
        self.functions: dict[str, Function] = {}
        self.of_module: dict[str, list[Function]] = defaultdict(list)
        self.votes: dict[Any, Counter[str]] = defaultdict(Counter)
        self.plain: set[Any] = set()
        self.edges: set[tuple[Any, Any]] = set()
        self.types: dict[Any, str] = {}
        for path in sorted(ENGINE.rglob("*_jit.py")):
            self._read(path)
        for module in self.modules.values():
            self._link(module)

    def _read(self, path: Path) -> None:
        name = ".".join(path.with_suffix("").parts)
        source = path.read_text()
        module = Module(path, name, source, ast.parse(source))
        self.modules[name] = module
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef) and node.args.args and node.args.args[0].arg == "m":
                decorator = ast.unparse(node.decorator_list[0]) if node.decorator_list else ""
                f = Function(name, node.name, node, decorator, [a.arg for a in node.args.args])
                f.locals = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
                for r in ast.walk(node):
                    if isinstance(r, ast.Return) and isinstance(r.value, ast.Tuple):
                        f.tuple_length = len(r.value.elts)
                self.functions[f.key] = f
                self.of_module[name].append(f)

    def _link(self, module: Module) -> None:
        for f in self.of_module[module.name]:
            module.names[f.name] = f.key
        for s in ast.walk(module.tree):
            if isinstance(s, ast.ImportFrom) and s.module:
                for a in s.names:
                    local = a.asname or a.name
                    if s.module == f"{PACKAGE}.world" and a.name in declare.MODULES:
                        module.columns[local] = a.name
                    elif f"{s.module}.{a.name}" in self.functions:
                        module.names[local] = f"{s.module}.{a.name}"
                    elif f"{s.module}.{a.name}" in self.modules:
                        module.modules[local] = f"{s.module}.{a.name}"


class Scope:
    """What an expression of a function is."""

    def __init__(self, program: Program, module: Module, function: Function) -> None:
        self.program, self.module, self.function = program, module, function

    def callee(self, node: ast.Call) -> Function | None:
        """Return the function of the engine that a call calls."""
        f = node.func
        if isinstance(f, ast.Name):
            key = self.module.names.get(f.id)
        elif isinstance(f, ast.Attribute) and isinstance(f.value, ast.Name):
            key = f"{self.module.modules.get(f.value.id)}.{f.attr}"
        else:
            key = None
        return self.program.functions.get(key) if key else None

    def column(self, node: ast.AST) -> tuple[str, str] | None:
        """Return the struct and the field of ``task.CPU``."""
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.module.columns:
            return CONSTANTS.get((self.module.columns[node.value.id], node.attr))
        return None

    def access(self, node: ast.AST) -> tuple[str, str, ast.AST, ast.AST | None] | None:
        """Return struct, field, row and index of ``m[row, column]``."""
        if not is_table(node):
            return None
        row, col = node.slice.elts  # type: ignore[attr-defined]
        found = self.column(col)
        if found:
            index = ast.Constant(0) if FIELDS[found].length else None
            return *found, row, index
        # an array: the constant plus an index
        if isinstance(col, ast.BinOp):
            first = col
            while isinstance(first.left, ast.BinOp) and isinstance(first.op, (ast.Add, ast.Sub)):
                first = first.left
            found = self.column(first.left)
            if found and FIELDS[found].length:
                return *found, row, col
        if isinstance(col, ast.Constant) and "tasks" in self.module.name and isinstance(row, ast.Name) and row.id == "op":
            return "Op", STRUCTS["Op"][col.value].name, row, None
        if isinstance(col, ast.Constant) and isinstance(row, ast.Subscript) and (self.access(row) or [0, 0])[1] == "pc":
            return "Op", STRUCTS["Op"][col.value].name, row, None
        return None

    def node_of(self, node: ast.AST) -> list[Any]:
        """Return the things whose type an expression has."""
        if isinstance(node, ast.Name):
            if node.id in self.function.locals or node.id in self.function.parameters:
                return [("v", self.function.key, node.id)]
            return []
        if isinstance(node, ast.Subscript):
            a = self.access(node)
            return [("f", a[0], a[1])] if a and a[3] is None else []
        if isinstance(node, ast.Call):
            f = self.callee(node)
            return [("r", f.key, 0)] if f and not f.tuple_length else []
        if isinstance(node, ast.IfExp):
            return self.node_of(node.body) + self.node_of(node.orelse)
        return []

    def type_of(self, node: ast.AST) -> str:
        """Return ``int`` or the struct that an expression refers to."""
        kinds = {self.program.types.get(n, INT) for n in self.node_of(node)} - {INT}
        if not kinds:
            return INT
        if isinstance(node, ast.IfExp):
            # both branches, or an integer constant beside a reference
            out = kinds.pop()
            for k in kinds:
                out = join(out, k) or out
            return out
        return kinds.pop()


def is_table(node: ast.AST) -> bool:
    """Return whether an expression is ``m[row, column]``."""
    return (
        isinstance(node, ast.Subscript)
        and isinstance(node.value, ast.Name)
        and node.value.id == "m"
        and isinstance(node.slice, ast.Tuple)
    )


def collect(program: Program) -> None:
    """Collect what is used as a row of which struct, and what flows where."""
    for module in program.modules.values():
        for f in program.of_module[module.name]:
            scope = Scope(program, module, f)
            plain = SEAMS.match(f.name) or f.name in PLAIN_FUNCTIONS
            for p in f.parameters[1:]:
                if plain:
                    program.plain.add(("v", f.key, p))
            for p in [*f.parameters, *f.locals]:
                if p in PLAIN_NAMES or PLAIN_VARIABLES.search(f"{f.key} {p}"):
                    program.plain.add(("v", f.key, p))
            if PLAIN_RESULTS.search(f.key):
                program.plain.add(("r", f.key, 0))
            for node in ast.walk(f.node):
                _collect_node(program, scope, f, node)
    for struct, fields in STRUCTS.items():
        words = declare.POINTERS.get(struct, "").split()
        targets = dict(zip(words[::2], words[1::2], strict=True))
        for x in fields:
            if x.name in targets:
                program.types["f", struct, x.name] = x.target = targets[x.name]
            else:
                program.plain.add(("f", struct, x.name))


def _flow(program: Program, a: list[Any], b: list[Any]) -> None:
    for x in a:
        for y in b:
            if x != y:
                program.edges.add((x, y))


def _collect_node(program: Program, scope: Scope, f: Function, node: ast.AST) -> None:
    if is_table(node):
        a = scope.access(node)
        if a:
            for n in scope.node_of(a[2]):
                if a[0] == "Rq":
                    program.plain.add(n)
                else:
                    program.votes[n][a[0]] += 1
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                for t, v in zip(target.elts, node.value.elts, strict=True):
                    _flow(program, scope.node_of(t), scope.node_of(v))
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Call):
                callee = scope.callee(node.value)
                if callee:
                    for i, t in enumerate(target.elts):
                        _flow(program, scope.node_of(t), [("r", callee.key, i)])
            else:
                _flow(program, scope.node_of(target), scope.node_of(node.value))
    elif isinstance(node, ast.Call):
        callee = scope.callee(node)
        if callee:
            for p, a in arguments(callee, node):
                _flow(program, [("v", callee.key, p)], scope.node_of(a))
    elif isinstance(node, ast.Return) and node.value is not None:
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for i, v in enumerate(values):
            _flow(program, [("r", f.key, i)], scope.node_of(v))


def arguments(callee: Function, node: ast.Call) -> list[tuple[str, ast.AST]]:
    """Return the arguments of a call by parameter, without the table."""
    out: list[tuple[str, ast.AST]] = list(zip(callee.parameters, node.args, strict=False))
    out += [(k.arg or "", k.value) for k in node.keywords]
    return [(p, a) for p, a in out if p != "m"]


def infer(program: Program) -> None:
    """Decide what everything is."""
    for n, votes in program.votes.items():
        if n in program.plain or n in program.types:
            continue
        kinds = [k for k, _ in votes.most_common()]
        out = kinds[0]
        for k in kinds[1:]:
            out = join(out, k) or out
        program.types[n] = out
    neighbours: dict[Any, set[Any]] = defaultdict(set)
    for a, b in program.edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    changed = True
    while changed:
        changed = False
        for n, others in neighbours.items():
            if n in program.plain or n in program.types:
                continue
            kinds = Counter(program.types[o] for o in others if o in program.types)
            if kinds:
                program.types[n] = kinds.most_common(1)[0][0]
                changed = True


def settle_names(program: Program) -> None:
    """Let ``p`` be a task and not its entity, and the like."""
    for n, kind in list(program.types.items()):
        if n[0] == "v":
            want = BY_NAME.get(n[2])
            if n[2] == "prev" and re.search(r"\.(pick_task|pick_next_task|set_picked)$", n[1]):
                want = "TaskStruct"
            if n[2] == "row" and kind != "CfsRq":
                continue
            if want and kind != "RandomState" and (join(want, kind) or kind == "SchedAvg"):
                program.types[n] = want
        elif n[0] == "r" and TASK_RESULTS.search(n[1]):
            program.types[n] = "TaskStruct"


class Emitter:
    """Writes the text of one function anew."""

    def __init__(self, program: Program, module: Module, function: Function) -> None:
        self.program, self.module, self.function = program, module, function
        self.scope = Scope(program, module, function)
        self.lines = module.source.splitlines(keepends=True)
        starts, total = [], 0
        for line in self.lines:
            starts.append(total)
            total += len(line.encode())
        self.starts = starts
        self.bytes = module.source.encode()
        self.used: set[str] = set()
        # variables that hold the number of CPUs
        self.counts = {
            s.targets[0].id
            for s in ast.walk(function.node)
            if isinstance(s, ast.Assign)
            and isinstance(s.targets[0], ast.Name)
            and ast.unparse(s.value) == "m[0, sim.CPUS]"
        }

    # --- text ---------------------------------------------------------------------------------------------------------

    def span(self, node: Any) -> tuple[int, int]:
        """Return where the text of a node begins and ends, in bytes."""
        return (
            self.starts[node.lineno - 1] + node.col_offset,
            self.starts[node.end_lineno - 1] + node.end_col_offset,
        )

    def replaced(self, node: ast.AST, children: list[tuple[Any, str]]) -> str:
        """Return the text of a node with new texts of some descendants."""
        start, end = self.span(node)
        out, at = [], start
        for child, text in sorted(children, key=lambda c: self.span(c[0])[0]):
            s, e = self.span(child)
            out.append(self.bytes[at:s].decode())
            out.append(text)
            at = e
        out.append(self.bytes[at:end].decode())
        return "".join(out)

    def convert(self, text: str, have: str, want: str, node: ast.AST) -> str:
        """Return the text of an expression as what is wanted."""
        if have == want or want == "any":
            return text
        if want == INT:
            return f"{operand(text)}.row"
        if have == INT:
            if text == "-1":
                self.used.add(declare.NULLS[want])
                return declare.NULLS[want]
            return self.reference(text, want)
        path = path_between(have, want)
        if path is not None:
            return ".".join([operand(text), *path])
        if (have, want) == ("SchedEntity", "TaskStruct"):
            self.used.add("task_of")
            return f"task_of({text})"
        self.used.add(want)
        return f"{want}(k, {operand(text)}.row)"

    def reference(self, text: str, want: str) -> str:
        """Return an integer expression as a reference."""
        n = r"(?:k\.nr_cpus|n)" if "n" in self.counts else r"k\.nr_cpus"
        cpu = re.fullmatch(rf"{n} \+ ([\w.]+)|([\w.]+) \+ {n}", text)
        if want == "Rq":
            self.used.add("cpu_rq")
            return f"cpu_rq(k, {text})"
        if want in ("CfsRq", "SchedAvg", "RqModern", "RandomState") and cpu:
            self.used.add("cpu_cfs_rq")
            name = cpu.group(1) or cpu.group(2)
            path = path_between("CfsRq", want)
            if path is not None:
                return ".".join([f"cpu_cfs_rq(k, {name})", *path])
        if want == "Modern" and "scratch" in text:
            self.used.add("modern")
            return "modern(k)"
        self.used.add(want)
        return f"{want}(k, {text})"

    # --- expressions --------------------------------------------------------------------------------------------------

    def text(self, node: ast.AST, want: str = INT) -> str:
        """Return the new text of an expression as what is wanted."""
        if isinstance(node, ast.IfExp):
            have = self.scope.type_of(node)
            inside = have if want == "any" else want
            return self.replaced(
                node,
                [
                    (node.test, self.text(node.test)),
                    (node.body, self.text(node.body, inside)),
                    (node.orelse, self.text(node.orelse, inside)),
                ],
            )
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant):
            return self.convert(self.replaced(node, []), INT, want, node)
        return self.convert(self.bare(node), self.scope.type_of(node), want, node)

    def bare(self, node: ast.AST) -> str:
        """Return the new text of an expression as what it is."""
        if isinstance(node, ast.Name):
            return {"m": "k", "k": "nth"}.get(node.id, node.id)
        if is_table(node):
            return self.table(node)
        column = self.scope.column(node)
        if column:
            self.used.add(column[0])
            return f"{column[0]}.{column[1]}"
        moved = constant_of(node, self.module.columns)
        if moved:
            self.used.add(moved[0])
            return moved[1]
        if isinstance(node, ast.Compare):
            null = self.null(node)
            if null:
                return null
            if len(node.ops) == 1 and isinstance(node.ops[0], (ast.Eq, ast.NotEq)):
                a, b = self.scope.type_of(node.left), self.scope.type_of(node.comparators[0])
                if a != INT and b != INT:
                    both = a if a == b else None
                    if both is None:
                        both = a if path_between(b, a) is not None else b if path_between(a, b) is not None else INT
                    return self.replaced(
                        node,
                        [(node.left, self.text(node.left, both)), (node.comparators[0], self.text(node.comparators[0], both))],
                    )
        if isinstance(node, ast.Call):
            callee = self.scope.callee(node)
            if callee:
                wants = {id(a): self.program.types.get(("v", callee.key, p), INT) for p, a in arguments(callee, node)}
                children = [(a, self.text(a, wants.get(id(a), INT))) for a in node.args]
                children += [(kw.value, self.text(kw.value, wants[id(kw.value)])) for kw in node.keywords]
                return self.replaced(node, children)
        children = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                children.append((child, self.text(child)))
            elif isinstance(child, ast.keyword):
                children.append((child.value, self.text(child.value)))
        return self.replaced(node, children)

    def null(self, node: ast.Compare) -> str:
        """Return the text of a comparison of a reference with NULL, or nothing."""
        if len(node.ops) != 1:
            return ""
        have = self.scope.type_of(node.left)
        right = node.comparators[0]
        if have == INT or have not in declare.NULLS:
            return ""
        value = ast.unparse(right)
        op = type(node.ops[0])
        equal = {(ast.Lt, "0"): "==", (ast.GtE, "0"): "!=", (ast.Eq, "-1"): "==", (ast.NotEq, "-1"): "!="}.get((op, value))
        if not equal:
            return ""
        self.used.add(declare.NULLS[have])
        return f"{self.text(node.left, 'any')} {equal} {declare.NULLS[have]}"

    def table(self, node: Any) -> str:
        """Return the new text of ``m[row, column]``."""
        row, col = node.slice.elts
        a = self.scope.access(node)
        if not a:
            have = self.scope.type_of(row)
            if have != INT:
                return f"{operand(self.text(row, 'any'))}[{self.text(col)}]"
            return f"k[{self.text(row)}, {self.text(col)}]"
        struct, name, row, index = a
        if struct == "Kernel":
            out = f"k.{name}"
        else:
            out = f"{operand(self.text(row, struct))}.{name}"
        if index is None:
            return out
        if isinstance(index, ast.Constant):
            return f"{out}[{index.value}]"
        # the text behind the constant
        first = index
        while isinstance(first.left, ast.BinOp) and isinstance(first.op, (ast.Add, ast.Sub)):
            first = first.left
        used = set(self.used)
        whole = self.text(index)
        self.used = used
        constant = self.bare(first.left)
        self.used = used
        rest = whole[len(constant) :].lstrip()
        rest = rest[1:].lstrip() if rest.startswith("+") else rest
        return f"{out}[{rest}]"

    # --- statements ---------------------------------------------------------------------------------------------------

    def edits(self) -> list[tuple[int, int, str]]:
        """Return the edits of the function: where, and the new text."""
        out: list[tuple[int, int, str]] = []
        node = self.function.node
        self._signature(out)
        for s in node.body:
            self._statement(s, out)
        return out

    def _signature(self, out: list[tuple[int, int, str]]) -> None:
        f = self.function
        for a in f.node.args.args:
            kind = "Kernel" if a.arg == "m" else self.program.types.get(("v", f.key, a.arg), INT)
            self.used.add(kind) if kind != INT else None
            name = "k" if a.arg == "m" else a.arg
            out.append((*self.span(a), f"{name}: {kind}"))
        result = self.result()
        body = f.node.body[0]
        start = self.span(f.node.args.args[-1])[1]
        end = self.span(body)[0]
        between = self.bytes[start:end]
        at = between.index(b"):") + start + 1
        out.append((at, at, f" -> {result}"))

    def result(self) -> str:
        """Return the annotation of the result."""
        f = self.function
        returns = [r for r in ast.walk(f.node) if isinstance(r, ast.Return) and r.value is not None]
        if not returns:
            return "None"
        if f.tuple_length:
            kinds = [self.program.types.get(("r", f.key, i), INT) for i in range(f.tuple_length)]
            self.used.update(k for k in kinds if k != INT)
            return f"tuple[{', '.join(kinds)}]"
        kind = self.program.types.get(("r", f.key, 0), INT)
        if kind != INT:
            self.used.add(kind)
            return kind
        return "bool" if all(self.truth(r.value) for r in returns) else "int"

    def truth(self, node: Any) -> bool:
        """Return whether an expression is a truth value."""
        if isinstance(node, ast.BoolOp):
            return all(map(self.truth, node.values))
        if isinstance(node, ast.Constant):
            return isinstance(node.value, bool)
        return isinstance(node, ast.Compare) or (isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not))

    def _expression(self, node: Any, want: str, out: list[tuple[int, int, str]]) -> None:
        text = self.text(node, want)
        start, end = self.span(node)
        if text != self.bytes[start:end].decode():
            out.append((start, end, text))

    def _statement(self, s: Any, out: list[tuple[int, int, str]]) -> None:
        if isinstance(s, ast.Assign):
            self._assign(s, out)
        elif isinstance(s, ast.AugAssign):
            have = self.scope.type_of(s.target)
            if have == INT:
                self._expression(s.target, "any", out)
                self._expression(s.value, INT, out)
            else:
                target = self.text(s.target, "any")
                op = self.bytes[self.span(s.target)[1] : self.span(s.value)[0]].decode().strip().rstrip("=")
                new = self.reference(f"{operand(target)}.row {op} {self.text(s.value)}", have)
                out.append((*self.span(s), f"{target} = {new}"))
        elif isinstance(s, ast.Return):
            if s.value is None:
                return
            f = self.function
            if isinstance(s.value, ast.Tuple):
                for i, v in enumerate(s.value.elts):
                    self._expression(v, self.program.types.get(("r", f.key, i), INT), out)
            else:
                self._expression(s.value, self.program.types.get(("r", f.key, 0), INT), out)
        elif isinstance(s, ast.For):
            self._for(s, out)
        elif isinstance(s, (ast.If, ast.While)):
            self._expression(s.test, INT, out)
            for child in [*s.body, *s.orelse]:
                self._statement(child, out)
        elif isinstance(s, ast.Expr):
            if not isinstance(s.value, ast.Constant):
                self._expression(s.value, "any", out)
        elif isinstance(s, ast.Assert):
            self._expression(s.test, INT, out)
        elif not isinstance(s, (ast.Pass, ast.Break, ast.Continue, ast.ImportFrom, ast.Import)):
            raise SystemExit(f"{self.function.key}: no rule for {ast.dump(s)[:60]}")

    def _assign(self, s: Any, out: list[tuple[int, int, str]]) -> None:
        if len(s.targets) == 1 and isinstance(s.targets[0], ast.Tuple) and isinstance(s.value, ast.Call):
            callee = self.scope.callee(s.value)
            for i, t in enumerate(s.targets[0].elts):
                have = self.program.types.get(("r", callee.key, i), INT) if callee else INT
                if have != self.scope.type_of(t):
                    print(f"# {self.function.key}: {ast.unparse(s)}: {have} into {self.scope.type_of(t)}", file=sys.stderr)
            self._expression(s.value, "any", out)
            return
        for target in s.targets:
            if isinstance(target, ast.Tuple) and isinstance(s.value, ast.Tuple):
                for t, v in zip(target.elts, s.value.elts, strict=True):
                    self._expression(t, "any", out)
                    self._expression(v, self.scope.type_of(t), out)
                return
            self._expression(target, "any", out)
        wants = {self.scope.type_of(t) for t in s.targets}
        if len(wants) > 1:
            print(f"# {self.function.key}: {ast.unparse(s)}: {wants}", file=sys.stderr)
        self._expression(s.value, wants.pop(), out)

    def _for(self, s: Any, out: list[tuple[int, int, str]]) -> None:
        self._expression(s.iter, "any", out)
        if isinstance(s.target, ast.Name):
            have = self.scope.type_of(s.target)
            if s.target.id == "k":
                out.append((*self.span(s.target), "nth"))
            if have != INT:
                name = f"{s.target.id}_row"
                out.append((*self.span(s.target), name))
                start = self.span(s.body[0])[0]
                pad = " " * s.body[0].col_offset
                out.append((start, start, f"{s.target.id} = {self.reference(name, have)}\n{pad}"))
        for child in [*s.body, *s.orelse]:
            self._statement(child, out)


def constant_of(node: ast.AST, columns: dict[str, str]) -> tuple[str, str] | None:
    """Return the import and the new text of a constant of a column module that is no column."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in columns:
        key = columns[node.value.id], node.attr
        to = declare.MOVED_CONSTANTS.get(key)
        if to:
            return to, f"{to.split('.')[1]}.{declare.RENAMED_CONSTANTS.get(key, node.attr)}"
    return None


def operand(text: str) -> str:
    """Return a text that an attribute can follow."""
    return text if balanced(text) else f"({text})"


def balanced(text: str) -> bool:
    """Return whether a text is one primary expression."""
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except SyntaxError:
        return False
    return isinstance(node, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))


def rewrite(program: Program, module: Module) -> str:
    """Return the new text of a file."""
    edits: list[tuple[int, int, str]] = []
    used: set[str] = set()
    for f in program.of_module[module.name]:
        e = Emitter(program, module, f)
        edits += e.edits()
        used |= e.used
    inside = {id(n) for f in program.of_module[module.name] for n in ast.walk(f.node)}
    outer = Emitter(program, module, program.of_module[module.name][0]) if program.of_module[module.name] else None
    for node in ast.walk(module.tree):
        if outer and id(node) not in inside and isinstance(node, ast.Attribute):
            text = outer.bare(node) if outer.scope.column(node) or constant_of(node, module.columns) else ""
            if text:
                edits.append((*outer.span(node), text))
    used |= outer.used if outer else set()
    data = module.source.encode()
    at, out = 0, []
    for start, end, text in sorted(edits, key=lambda x: (x[0], x[1])):
        if start < at:
            raise SystemExit(f"{module.name}: edits overlap at {data[start:end]!r}")
        out.append(data[at:start].decode())
        out.append(text)
        at = end
    out.append(data[at:].decode())
    text = "".join(out)
    structs = {u for u in used if u in STRUCTS or u in declare.NULLS.values()}
    others = sorted(u for u in used if "." in u)
    rows = used - structs - set(dir(builtins)) - set(others)
    imports = ""
    if structs:
        imports += f"from {PACKAGE}.world.structs import {', '.join(sorted(structs))}\n"
    for other in others:
        room, name = other.split(".")
        imports += f"from {PACKAGE}.{room} import {name}\n"
    if rows:
        imports += f"from {PACKAGE}.world.rows_jit import {', '.join(sorted(rows))}\n"
    return text.replace("from __future__ import annotations\n", f"from __future__ import annotations\n\n{imports}", 1)


def OTHERS() -> list[Path]:  # noqa: N802
    """Return the files outside of the compiled engine that name columns."""
    roots = [Path("wastedcores/simulator"), Path("tests"), Path("benchmarks")]
    files = [p for root in roots for p in root.rglob("*.py") if "engine.world" in p.read_text()]
    return sorted(p for p in files if not (p.is_relative_to(ENGINE) and p.name.endswith("_jit.py")) and p.parent != ENGINE / "world")


def users_of_columns(path: Path) -> str:
    """Return the text of a file with fields of structs instead of columns."""
    source = path.read_text()
    tree = ast.parse(source)
    local: dict[str, str] = {}
    for s in ast.walk(tree):
        if isinstance(s, ast.ImportFrom) and s.module == f"{PACKAGE}.world":
            local |= {a.asname or a.name: a.name for a in s.names if a.name in declare.MODULES}
    lines = source.splitlines(keepends=True)
    starts, total = [], 0
    for line in lines:
        starts.append(total)
        total += len(line.encode())
    data, edits, used = source.encode(), [], set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in local:
            found = CONSTANTS.get((local[node.value.id], node.attr))
            moved = constant_of(node, local)
            if found or moved:
                start = starts[node.lineno - 1] + node.col_offset
                text = ".".join(found) if found else moved[1]
                edits.append((start, starts[node.end_lineno - 1] + node.end_col_offset, text))
                used.add(found[0] if found else moved[0])
    for start, end, text in sorted(edits, reverse=True):
        data = data[:start] + text.encode() + data[end:]
    out = data.decode()
    if used:
        structs = sorted(u for u in used if "." not in u)
        line = f"from {PACKAGE}.world.structs import {', '.join(structs)}\n" if structs else ""
        for other in sorted(used - set(structs)):
            room, name = other.split(".")
            line += f"from {PACKAGE}.{room} import {name}\n"
        out = out.replace("from __future__ import annotations\n", f"from __future__ import annotations\n\n{line}", 1)
    return out


def main() -> None:
    """Convert, or report what was inferred."""
    program = Program()
    collect(program)
    infer(program)
    settle_names(program)
    if "--report" in sys.argv:
        report(program)
        return
    texts = {m.path: rewrite(program, m) for m in program.modules.values()}
    texts |= {path: users_of_columns(path) for path in OTHERS()}
    for path, text in texts.items():
        path.write_text(text)
    (ENGINE / "world/structs.py").write_text(declare.text(STRUCTS))


def report(program: Program) -> None:
    """Print what everything is, and where the votes differ."""
    for n in sorted(program.types, key=str):
        votes = program.votes.get(n, Counter())
        print(n, program.types[n], dict(votes) if len(votes) != 1 else "")


if __name__ == "__main__":
    main()
