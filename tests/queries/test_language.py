"""The query language against Python's own evaluation of the same conditions, row by row, and its refusals."""

from __future__ import annotations

import ast

import numpy as np
import polars as pl
import pytest

from wastedcores.errors import WastedCoresError
from wastedcores.queries import QueryError, columns_of, complete, parse
from wastedcores.trace.schema import SCHEMA, conform

_ROWS = pl.DataFrame(
    {
        "ts_ns": range(6),
        "kind": ["switch", "switch", "wakeup", "exit", "considered", "switch"],
        "cpu": [0, 1, 2, 3, 9, 0],
        "pid": [0, 7, 7, 8, None, 9],
        "comm": ["idle", "cc1", "cc1", None, None, "as"],
        "prev_pid": [7, 0, None, None, None, 0],
        "prev_comm": ["cc1", "idle", None, None, None, None],
        "prev_state": ["S", "R", None, None, None, "R+"],
        "cpu_mask": [None, None, None, None, b"\x01\x02", None],
    }
)
ROWS = conform(_ROWS, "test")


class _Absent:
    """None as the query language sees it: every comparison with it is false, except with None itself."""

    def __eq__(self, other):
        return isinstance(other, _Absent)

    def __ne__(self, other):
        return not isinstance(other, _Absent)

    def _false(self, other):
        return False

    __lt__ = __le__ = __gt__ = __ge__ = _false
    __hash__ = None

    def __add__(self, other):
        return self

    __sub__ = __mul__ = __mod__ = __radd__ = __add__


def by_python(query: str) -> list[bool]:
    """What Python itself says about a query, one event at a time."""
    tree = compile(ast.parse(query, mode="eval"), "query", "eval")
    rows = ROWS.select("kind", "cpu", "pid", "comm", "prev_pid", "prev_comm", "prev_state").rows(
        named=True
    )
    return [
        bool(eval(tree, {"__builtins__": {}}, {k: _Absent() if v is None else v for k, v in r.items()}))
        for r in rows
    ]  # fmt: skip


def by_query(query: str) -> list[bool]:
    return ROWS.with_columns(x=parse(query).where)["x"].to_list()


def random_query(rng: np.random.Generator, depth: int = 0) -> str:
    """A random condition of the language that Python can evaluate, too."""
    if depth < 3 and rng.random() < 0.6:
        a, b = (random_query(rng, depth + 1) for _ in range(2))
        return str(rng.choice([f"({a} and {b})", f"({a} or {b})", f"not {a}", f"(not {a}) or {b}"]))
    number = ["cpu", "pid", "prev_pid", "pid + cpu", "cpu * 2 - 1", str(rng.integers(-1, 10))]
    text = ["comm", "prev_comm", "prev_state", '"cc1"', '"R"', '"as"']
    pick = number if rng.random() < 0.5 else text
    a, b, c = (str(x) for x in rng.choice(pick, 3))
    constants = ('(7, 0)', "[9]") if pick is number else ('("cc1", "S")', '("as",)')  # fmt: skip
    return str(
        rng.choice([
            f"{a} == {b}", f"{a} != {b}", f"{a} < {b}", f"{a} >= {b}", f"{a} <= {b} < {c}",
            f"{pick[0]} in {constants[0]}", f"{pick[1]} not in {constants[1]}", "kind == 'switch'",
        ])
    )  # fmt: skip


def test_language__agrees_with_python_on_every_event():
    rng = np.random.default_rng(1)
    seen = set()
    for _ in range(400):
        query = random_query(rng)
        assert by_query(query) == by_python(query), query
        seen.add(tuple(by_query(query)))
    assert len(seen) > 20  # the conditions are not all trivial


@pytest.mark.parametrize(
    ("query", "rows"),
    [
        ('kind == "switch" and not comm in ("cc1", "as") and cpu < 8', [0]),
        ("comm is None", [3, 4]),
        ("comm is not None and not comm == 'cc1'", [0, 5]),
        ("comm in ('as', None)", [3, 4, 5]),
        ('"c" in comm', [1, 2]),
        ('comm.startswith("c") or comm.endswith("s")', [1, 2, 5]),
        ('comm.matches("^(as|idle)$") or comm.contains("zz")', [0, 5]),
        (r'comm.matches("^cc\d$")', [1, 2]),
        (r'comm.matches(r"\bcc1\b")', [1, 2]),
        ("9 in cpu_mask and 0 in cpu_mask and not 1 in cpu_mask", [4]),
        ("ts_ns >= 2 * ns and ts_ns < 5 * ns", [2, 3, 4]),
        ("ts_ns * 1000 > 4 * us - 1", [4, 5]),
        ("-cpu < -2", [3, 4]),
        ("cpu / pid > 0 or prev_pid / cpu > 0 or cpu % (0.5 * cpu) > -1", [1, 2, 3, 4]),
        ("True", [0, 1, 2, 3, 4, 5]),
        ("  kind\n== 'exit'\t", [3]),
    ],
)
def test_language__chooses(query, rows):
    assert [i for i, chosen in enumerate(by_query(query)) if chosen] == rows


@pytest.mark.parametrize(
    ("query", "at", "says"),
    [
        ("", 0, "there is no query"),
        ("comn == 3", 0, "did you mean 'comm'?"),
        ("  comn == 3", 2, "no column 'comn'"),
        ('"ä" == comm and foo', 16, "no column 'foo'"),
        ('kind == "swich"', 8, "did you mean 'switch'?"),
        ('kind in ("switch", "foo")', 19, "no kind 'foo'"),
        ("kind == switch", 8, '"switch" in quotes'),
        ("cpu", 0, "is no condition"),
        ("not 3", 4, "is no condition"),
        ('cpu == "a"', 7, "is a number and is compared with a text"),
        ('cpu in (1, "a")', 11, "is a number, and this is a text"),
        ("cpu in (1, pid)", 11, "only be constants"),
        ("cpu in 3", 7, "after in there must be a list"),
        ('comm in ("cc1")', 9, 'list of values, as in ("a", "b") or ("a",)'),
        ("cpu is 3", 7, "must be None"),
        ("cpu < None", 6, "neither less nor greater"),
        ('cpu = "a"', 4, "write == instead of ="),
        ('comm == "=" && cpu == 1', 12, "write and instead of &&"),
        ("!cpu == 1", 0, "write not instead of !"),
        ("(cpu == 1", 0, "was never closed"),
        ("cpu == ", 6, "missing here"),
        ('comm == "a', 8, "unterminated string literal"),
        ("cpu == 1 # and pid == 2", 9, "no comments"),
        ("cpu == 99999999999999999999", 7, "too large"),
        ("cpu == 9e999", 7, "too large"),
        ("cpu == 2**60", 7, "not part of the query language"),
        ("cpu / 0 == 1", 6, "divided by 0"),
        ("comm + 1 == 2", 0, "is no number"),
        ("cpu_mask == 1", 0, "3 in cpu_mask"),
        ("99999999 in cpu_mask", 0, "no number of a CPU"),
        ('comm.matches("[")', 13, "no regular expression"),
        ("comm.matches(cpu)", 13, "needs a text"),
        ('cpu.startswith("k")', 0, "asked of one text"),
        ('comm.upper() == "A"', 0, "not part of the query language"),
        ('__import__("os").system("true")', 0, "only the functions"),
        ("[c for c in cpu]", 0, "not part of the query language"),
        ("(lambda: True)()", 0, "only the functions"),
        ("f'{cpu}' == 'a'", 0, "not part of the query language"),
        ("b'a' == comm", 0, "a constant is a number"),
        ("cpu == 1\0", 7, ""),
        ("(" * 500, None, ""),
        ("not " * 900 + "True", 0, "nested too deeply"),
        ("x" * 5000, None, "at most 4,000 characters"),
        ("1" * 3900 + " == cpu", None, ""),
        ("cpu == " + "-" * 3000 + "1", None, ""),
    ],
)  # fmt: skip
def test_language__a_wrong_query_gets_one_sentence_with_its_place(query, at, says):
    if says == "" and at == 7:
        assert by_query(query) == by_query("cpu == 1")
        return
    with pytest.raises(QueryError) as caught:
        parse(query)
    message = str(caught.value)
    assert says in message
    assert message.startswith(f"Query, character {caught.value.position + 1}: ")
    assert message.endswith((".", "?"))
    assert "\n" not in message
    assert at is None or caught.value.position == at, message


def test_language__damaged_queries_are_read_or_refused():
    rng = np.random.default_rng(2)
    pieces = [*columns_of(), "and", "or", "not", "in", "is", "None", "==", "<", "(", ")", ",", '"a"',
              "'", "1", "1.5", "-", "*", "/", ".", "matches", "[", "]", "ms", "é", "\\", "{", ":"]  # fmt: skip
    read, refused = 0, []
    for _ in range(2000):
        words = random_query(rng).split(" ")
        words[rng.integers(len(words))] = str(rng.choice(pieces))
        text = " ".join(words)
        try:
            query = parse(text)
        except QueryError as e:
            refused.append((e.position, len(text)))
            continue
        read += 1
        if query.columns <= set(ROWS.columns):
            assert ROWS.with_columns(x=query.where)["x"].null_count() == 0, text
    assert read > 100
    assert len(refused) > 100
    assert all(0 <= at <= length for at, length in refused)


def test_language__knows_the_columns_of_the_table():
    schema = dict(SCHEMA) | {"mine": pl.Boolean(), "when": pl.Date()}
    frame = ROWS.with_columns(mine=pl.Series([True, False, None] * 2))
    assert frame.filter(parse("mine and cpu < 9", schema=schema).where).height == 2
    with pytest.raises(QueryError, match="no column 'when'"):
        parse("when == 3", schema=schema)
    assert parse("mine or pid == 3", schema=schema).columns == {"mine", "pid"}


@pytest.mark.parametrize(
    ("begun", "first"),
    [
        ("ki", "kind"),
        ("kind", "kind =="),
        ("kind ", "kind =="),
        ("kind == ", 'kind == "nr_running"'),
        ('kind == "swi', 'kind == "switch"'),
        ('kind == "switch"', 'kind == "switch" and '),
        ('kind == "switch" o', 'kind == "switch" or '),
        ('kind == "switch" and prev_c', 'kind == "switch" and prev_comm'),
        ("comm.st", 'comm.startswith("'),
        ('comm in ("ma', 'comm in ("make"'),
        ('comm in ("make", "', 'comm in ("make", "make"'),
        ("cpu == 3 a", "cpu == 3 and "),
    ],
)
def test_completion(begun, first):
    offered = complete(begun, values={"comm": ["make", "sh"]})
    assert offered[0] == first
    assert all(o.startswith(begun.rstrip()) for o in offered)


@pytest.mark.parametrize("begun", ["cpu_mask n", "cpu_mask.", "in_irq ", "cpu.st"])
def test_completion__offers_nothing_that_the_language_refuses(begun):
    assert complete(begun) == []


def test_completion__whatever_is_typed_gets_a_list():
    text = (
        'kind == "switch" and not comm in ("cc1", \'as\') and cpu_mask is None or comm.matches("a")'
    )
    for end in range(len(text) + 1):
        for o in complete(text[:end]):
            assert o.startswith(text[:end].rstrip())


def test_errors_are_those_of_the_package():
    assert issubclass(QueryError, WastedCoresError)
    assert QueryError.exit_code == 2
