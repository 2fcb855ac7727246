"""Options are rows of a table; those that belong together are one parameter of a verb, and options of their own for users."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import typer
from typer.testing import CliRunner

from wastedcores.cli._verb import Counted, verb, with_options

app = typer.Typer()
got = []


@dataclass(frozen=True)
class Paint:
    colour: str = "red"
    layers: list[str] | None = None


OPTIONS = """
    name    argument NAME  What to
        draw.
    colour  --colour -c    The colour.
    layers  --layer NAME   A layer.
    big                    Larger.
    copies  min=2 N        Copies.
"""


@verb("draw x", options=OPTIONS, on=app)
def draw(
    name: str,
    paint: Paint = Paint("red"),
    counted: Counted = Counted(),
    big: bool = False,
    copies: int = 2,
):
    """Draw."""
    got.append((name, paint, counted, big))


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_options_of_a_group_are_given_one_by_one():
    done = run("x", "-c", "blue", "--layer", "a", "--layer", "b", "--between", "1", "2", "--big")
    assert done.exit_code == 0, done.output
    assert got.pop() == ("x", Paint("blue", ["a", "b"]), Counted(("1", "2"), None, False), True)


def test_defaults_are_those_of_the_group():
    assert run("x").exit_code == 0
    assert got.pop() == ("x", Paint(), Counted(), False)


def test_the_help_has_them_in_order():
    shown = run("--help").output
    places = [shown.index(o) for o in ("--colour", "--layer", "--between", "--cpus", "--big")]
    assert places == sorted(places)
    assert run("x", "--color", "blue").exit_code == 2
    assert "What to draw." in shown
    assert "--no-big" not in shown


def test_a_number_has_the_bounds_of_its_row():
    assert run("x", "--copies", "3").exit_code == 0
    got.pop()
    assert run("x", "--copies", "1").exit_code == 2


def test_a_row_without_a_parameter_is_an_error_as_is_a_parameter_without_a_row():
    def plain(trace: str, other: int = 1) -> None: ...

    with pytest.raises(KeyError, match="plain has no parameters colour"):
        with_options(plain, "    other  N  A number.\n    colour  The colour.\n")
    with pytest.raises(KeyError, match="other"):
        with_options(plain)
