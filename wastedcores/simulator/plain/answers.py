"""Refuses impossible modules, and impossible answers of modules. The error names the method, the value and the line."""

from __future__ import annotations

import difflib
import functools
import inspect
import signal
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from wastedcores.errors import ModelWarning, UsageError, WastedCoresError

if TYPE_CHECKING:
    from wastedcores.simulator.plain.modules import Module

#: the questions that a module may answer
QUESTIONS = ("suggest_cpu", "suggest_source", "suggest_pull")
#: A module that has not answered after this time is interrupted; normally it decides within microseconds.
LIMIT_S = 5.0
#: packages of this project, whose own decisions are not checked
_OWN = ("wastedcores", "wastedcores_course", "wastedcores_studies")


def answer(question: Callable[..., int | None], *about: Any) -> int | None:
    """Ask a module and return its answer.

    Parameters
    ----------
    question
        A method of the module.
    *about
        Its arguments.

    Returns
    -------
    int or None
        The number of a CPU, which need not exist, or None.

    Raises
    ------
    UsageError
        The answer is neither a whole number nor None; or the method raised an exception or did not end.
    """
    value = _asked(question, *about)
    if value is None or type(value) is int:
        return value
    if isinstance(value, np.integer):
        return int(value)
    raise UsageError(
        f"{_name_of(question)}() answered {value!r}, a {type(value).__name__}; expected the number of a CPU or None. "
        f"{_place(question)}"
    )


def _asked(question: Callable[..., Any], *about: Any) -> Any:
    """Return the answer of a user's function. If the function raises an exception or takes too long, the error says where."""
    try:
        with _limited():
            return question(*about)
    except _TooLongError:
        raise UsageError(
            f"{_name_of(question)}() did not answer within {LIMIT_S:g} s, asked {_matter(*about)}; it probably loops for "
            f"ever. {_place(question)}"
        ) from None
    except WastedCoresError:
        raise
    except Exception as error:
        code = getattr(inspect.unwrap(question), "__code__", None)
        lines = [
            f.lineno
            for f in traceback.extract_tb(error.__traceback__)
            if code is not None and (f.name, f.filename) == (code.co_name, code.co_filename)
        ]
        where = f" in line {lines[-1]}" if lines else ""
        raise UsageError(
            f"{_name_of(question)}() raised {type(error).__name__}{where}: {error} (asked {_matter(*about)}). {_place(question)}"
        ) from error


#: what each decision may answer (``n`` is the number of CPUs), in words and as a test
_CPU: tuple[str, Callable[[int, Any], bool]] = (
    "the number of a CPU",
    lambda n, v: _whole(v, 0, n - 1),
)
_CPU_OR_NONE: tuple[str, Callable[[int, Any], bool]] = (
    "the number of a CPU, or -1 for none",
    lambda n, v: _whole(v, -1, n - 1),
)
_TRUTH: tuple[str, Callable[[int, Any], bool]] = ("True or False", lambda n, v: _truth(v))
DECISIONS: dict[str, tuple[str, Callable[[int, Any], bool]]] = {
    "select_task_rq": _CPU,
    "select_idle_sibling": _CPU,
    "longest_idle_cpu": _CPU_OR_NONE,
    "load_balance": (
        "how many threads moved, or -1 if this CPU is not the one to balance",
        lambda n, v: _whole(v, -1),
    ),
    "should_we_balance": _TRUTH,
    "find_busiest_group": (
        "True or False, or under a modern kernel a group of the domain or its NULL",
        lambda n, v: _truth(v) or hasattr(v, "row"),
    ),
    "balanced": (
        "True or False, or, under a modern kernel, why (engine/codes/balanced.py)",
        lambda n, v: _truth(v) or _whole(v, 0),
    ),
    "calculate_imbalance": ("None: it writes the imbalance", lambda n, v: v is None),
    "find_busiest_queue": _CPU_OR_NONE,
}  # fmt: skip


def _whole(value: Any, least: int | None = None, most: int | None = None) -> bool:
    """Tell whether a value is a whole number within limits."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer):
        return False
    return bool((least is None or value >= least) and (most is None or value <= most))


def _truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool_)


def checked_policy(decision: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a user's function so that its answers are checked; a function of the project itself is returned as it is."""
    if (getattr(function, "__module__", None) or "").partition(".")[0] in _OWN:
        return function
    expected, fits = DECISIONS[decision]

    @functools.wraps(function)
    def checked(k: Any, *about: Any) -> Any:
        value = _asked(function, k, *about)
        if not fits(len(k.rqs), value):
            cpus = f"; there are CPUs 0 to {len(k.rqs) - 1}" if "CPU" in expected else ""
            raise UsageError(
                f"policies.{decision}: {_name_of(function)}() answered {value!r}, a {type(value).__name__}, asked "
                f"{_matter(k, *about)}; expected {expected}{cpus}. {_place(function)}"
            )
        return int(value) if isinstance(value, int | np.integer | np.bool_) else value

    return checked


def warn_of_absent_cpu(module: Module, question: str, cpu: int, k: Any) -> None:
    """Warn that a module named a CPU that does not exist or is offline; the core refuses the suggestion."""
    if cpu in k.active:
        return
    there = (
        f"there are CPUs 0 to {len(k.rqs) - 1}" if not 0 <= cpu < len(k.rqs) else "it is offline"
    )
    warnings.warn(
        f"{type(module).__name__}.{question}() answered CPU {cpu}, but {there}; the core refuses this. Online CPUs are in "
        "k.active.",
        ModelWarning,
        stacklevel=2,
    )


class _TooLongError(BaseException):
    """A module did not answer in time. It is no Exception, so that a module's own handlers do not catch it."""


@contextmanager
def _limited() -> Iterator[None]:
    """Interrupt code that takes longer than the limit. This needs SIGALRM and works only in the main thread."""
    able = hasattr(signal, "setitimer") and threading.current_thread() is threading.main_thread()
    outer, interval = signal.getitimer(signal.ITIMER_REAL) if able else (0.0, 0.0)
    if not able or 0 < outer <= LIMIT_S:  # another timer of this process would end before this one
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    before, began_s = signal.signal(signal.SIGALRM, interrupt), time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, LIMIT_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            left_s = max(outer - (time.monotonic() - began_s), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left_s, interval)


def _name_of(question: Callable[..., Any]) -> str:
    return getattr(question, "__qualname__", repr(question))


def _place(question: Callable[..., Any]) -> str:
    """Say where a function begins, if it was written in Python."""
    code = getattr(inspect.unwrap(question), "__code__", None)
    return "" if code is None else f"It begins in {code.co_filename}, line {code.co_firstlineno}."


def _matter(k: Any, about: Any, *more: Any) -> str:
    """Say what a module or a decision was asked about: a CPU, a thread, or a level of balancing."""
    if isinstance(about, int):
        return f"about CPU {about}"
    if hasattr(about, "dst_cpu"):
        return f"about CPU {about.dst_cpu} at level {about.sd.index}"
    if not hasattr(about, "comm"):
        return f"about level {about.index}"
    at = [m for m in more if isinstance(m, str)]
    return f"about thread {about.comm!r} of CPU {about.cpu}, at its {at[-1] if at else 'wakeup'}"


def checked_modules(
    modules: Iterable[Module | str], shipped: Iterable[str], base: type[Module]
) -> list[Module | str]:
    """Check modules, each of which is an instance or the name of a shipped module, and return them."""
    if isinstance(modules, base | str) or not isinstance(modules, Iterable):
        raise UsageError(
            f"modules={modules!r}: expected a list of modules, such as [{_name(modules)}]."
        )
    return [_checked(m, list(shipped), base) for m in modules]


def _checked(module: Any, shipped: list[str], base: type[Module]) -> Module | str:
    if isinstance(module, str):
        if module not in shipped:
            near = difflib.get_close_matches(module, shipped, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise UsageError(
                f"module {module!r}: there is no such module.{hint} There are {', '.join(shipped)}."
            )
        return module
    if isinstance(module, type) and issubclass(module, base):
        raise UsageError(f"{module.__name__} is a class; pass an instance: [{module.__name__}()].")
    if not isinstance(module, base):
        raise UsageError(
            f"{module!r} is not a module; expected an instance of a subclass of Module, or a name."
        )
    for name in vars(type(module)):
        near = difflib.get_close_matches(name, QUESTIONS, n=1, cutoff=0.75)
        if near and name not in QUESTIONS:
            raise UsageError(
                f"{type(module).__name__}.{name}: the core never calls a method of this name. Did you mean {near[0]}?"
            )
    return module


def _name(module: Any) -> str:
    return repr(module) if isinstance(module, str) else f"{type(module).__name__}()"
