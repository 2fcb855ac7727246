"""The events of rt-app as operations of a script.

rt-app reads events in parse_task_event_data() (src/rt-app_parse_config.c) and executes them in run_event() (src/rt-app.c).

The module also reads the JSON of real rt-app files, which may have comments, trailing commas, repeated keys and a bare
``"suspend"``.

rt-app reads its files through workgen (doc/workgen in scheduler-tools/rt-app), which makes keys unique and fills in values,
and through json-c, which accepts C comments and trailing commas. The order of keys matters, and keys repeat, so an object is a
list of pairs here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from wastedcores.errors import WorkloadError
from wastedcores.workload.builder import Workload
from wastedcores.workload.script import Script

#: a text, a comment of either kind, or a comma before a closing bracket
_TOKEN = re.compile(r'"(?:\\.|[^"\\\n])*"|/\*.*?\*/|//[^\n]*|,(?=\s*[}\]])', re.S)
#: a key "suspend" or "yield" without a value
_BARE = re.compile(r'([{,]\s*"(?:suspend|yield)\w*")(?=\s*[,}])')


class Pairs(list[tuple[str, Any]]):
    """A JSON object: its keys and values in order, with repeated keys."""

    def only(self, key: str, default: Any = None) -> Any:
        """Return the value of a key that should occur once. The last one counts, as in json-c."""
        return dict(self).get(key, default)


def parse(text: str, name: str) -> Pairs:
    """Read the text of a file."""
    plain = _TOKEN.sub(_clean, text)
    # the first pass did not see a comma that a comment separated from its bracket
    plain = _TOKEN.sub(_clean, plain)
    plain = _BARE.sub(r'\1: ""', plain)
    try:
        found = json.loads(plain, object_pairs_hook=Pairs)
    except json.JSONDecodeError as e:
        # the JSON parser counts only "\n" as the end of a line; splitlines() also knows other ends
        line = plain.split("\n")[e.lineno - 1].strip()[:60]
        raise WorkloadError(
            f"{name}, line {e.lineno}: not JSON ({e.msg}) near {line!r}; expected an rt-app file with an object "
            '"tasks".'
        ) from e
    except (RecursionError, ValueError) as e:
        why = "objects are nested too deeply" if isinstance(e, RecursionError) else str(e)
        raise WorkloadError(f"{name}: not JSON ({why}); expected an rt-app file.") from None
    if not isinstance(found, Pairs):
        raise WorkloadError(
            f'{name}: holds no object; expected an rt-app file: {{"tasks": {{...}}}}.'
        )
    return found


def _clean(match: re.Match[str]) -> str:
    """Replace a comment or a trailing comma."""
    token = match[0]
    if token.startswith('"'):
        return token
    # keep the number of lines, so that messages name the right line
    return "\n" * token.count("\n") or " "


#: the key of an event begins with one of these; the rest of a key only makes it unique (run, run2, lock_a)
EVENTS = (
    "lock", "unlock", "wait", "signal", "broad", "sync", "sleep", "runtime", "run", "timer", "suspend", "resume",
    "mem", "iorun", "yield", "barrier", "fork",
)  # fmt: skip

Bad = Callable[[str, str], WorkloadError]


def event_of(key: str) -> str | None:
    """Return the kind of event that a key stands for, or None if the key is a property."""
    if key == "membind_nodes":  # a property, although it begins like the event mem
        return None
    return next((e for e in EVENTS if key.startswith(e)), None)


@dataclass
class Shared:
    """The things that the tasks of a file share, by name."""

    workload: Workload
    mem_mb_per_s: int = 0
    io_mb_per_s: int = 0
    locks: dict[str, int] = field(default_factory=dict)
    conditions: dict[str, int] = field(default_factory=dict)
    timers: dict[str, int] = field(default_factory=dict)
    barriers: dict[str, int] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    templates: dict[str, int] = field(default_factory=dict)
    #: names of signals in old files, and the conditions that they belong to
    alias: dict[str, str] = field(default_factory=dict)

    def own(self, title: str, forked: bool) -> Own:
        """Begin a thread."""
        return Own(self, title, forked)

    def lock(self, name: str) -> int:
        """Return the lock of this name; it is made at its first use."""
        if name not in self.locks:
            self.locks[name] = self.workload.lock()
        return self.locks[name]

    def condition(self, name: str) -> int:
        """Return the condition that has this name, or whose signal has this name; it is made at its first use."""
        name = self.alias.get(name, name)
        if name not in self.conditions:
            self.conditions[name] = self.workload.condition()
        return self.conditions[name]


@dataclass
class Own:
    """One thread, with the timers that belong to it alone: their names begin with ``unique``."""

    shared: Shared
    title: str
    forked: bool
    timers: dict[str, int] = field(default_factory=dict)

    def timer(self, bad: Bad, where: str, value: Any) -> int:
        """Return the timer of a ``timer`` event; it is made at its first use."""
        name = value.only("ref", "unknown") if isinstance(value, Pairs) else None
        if not isinstance(name, str):
            raise bad(where, f'timer={value!r}; expected {{"ref": NAME, "period": US}}')
        mine = name.startswith("unique")
        if mine and self.forked:
            raise bad(
                where, f"is forked and has the timer {name!r}; expected a name without 'unique'"
            )
        timers = self.timers if mine else self.shared.timers
        if name not in timers:
            timers[name] = self.shared.workload.timer()
        return timers[name]


def add_event(
    script: Script,
    own: Own,
    bad: Bad,
    note: Callable[[str], None],
    where: str,
    key: str,
    value: Any,
) -> None:
    """Add one event to the script of a thread."""
    event = event_of(key)
    shared = own.shared
    if event in ("run", "runtime"):
        note(
            "run: takes the time it is given; every CPU of the replay has the speed rt-app calibrated"
            if event == "run"
            else "runtime: computes that long; in rt-app it ends at that time by the clock, even if the thread waited for a CPU"
        )
        script.compute(_us(bad, where, key, value) * 1000)
    elif event == "sleep":
        script.sleep(_us(bad, where, key, value) * 1000)
    elif event in ("mem", "iorun"):
        _transfer(script, shared, bad, note, where, key, value, event)
    elif event == "timer":
        number = own.timer(bad, where, value)
        _only(bad, where, key, value, {"ref", "period", "mode"})
        mode = value.only("mode", "relative")
        if mode not in ("relative", "absolute"):
            raise bad(where, f"{key}: mode={mode!r}; expected relative or absolute")
        period = _us(bad, where, f"{key}: period", value.only("period", 0))
        if period == 0:
            raise bad(where, f"{key}: period=0; expected microseconds, 1 or more")
        script.timer(number, period * 1000, mode == "absolute")
    elif event == "lock":
        script.lock(shared.lock(name_in(bad, where, key, value)), "block")
    elif event == "unlock":
        script.unlock(shared.lock(name_in(bad, where, key, value)))
    elif event in ("signal", "broad"):
        script.signal(shared.condition(name_in(bad, where, key, value)), event == "broad")
    elif event in ("wait", "sync"):
        if not isinstance(value, Pairs):
            raise bad(where, f'{key}={value!r}; expected {{"ref": NAME, "mutex": NAME}}')
        _only(bad, where, key, value, {"ref", "mutex"})
        condition = shared.condition(name_in(bad, where, f"{key}: ref", value.only("ref")))
        if event == "sync":
            script.signal(condition)
        mutex = shared.lock(name_in(bad, where, f"{key}: mutex", value.only("mutex")))
        script.wait_signal(condition, lock=mutex)
    elif event == "suspend":
        if not isinstance(value, str):
            raise bad(where, f"{key}={value!r}; expected the name to be resumed by, or nothing")
        # if the event names no thread, workgen fills in the thread's own name
        script.wait_signal(shared.condition(f"{value or own.title} (resume)"))
    elif event == "resume":
        script.signal(shared.condition(f"{name_in(bad, where, key, value)} (resume)"), True)
    elif event == "yield":
        script.yield_()
    elif event == "barrier":
        script.barrier(shared.barriers[name_in(bad, where, key, value)], "block")
    elif event == "fork":
        script.fork(shared.templates[name_in(bad, where, key, value)])


def _transfer(
    script: Script,
    shared: Shared,
    bad: Bad,
    note: Callable[[str], None],
    where: str,
    key: str,
    value: Any,
    event: str,
) -> None:
    """Add ``mem`` or ``iorun``: let the thread compute for the time that the bytes take at a given speed."""
    option = "mem_mb_per_s" if event == "mem" else "io_mb_per_s"
    speed = shared.mem_mb_per_s if event == "mem" else shared.io_mb_per_s
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise bad(where, f"{key}={value!r}; expected a number of bytes")
    if not speed:
        raise bad(
            where,
            f"{key}: memory and files are not modelled. Give a speed in 10^6 bytes/s ({option}; --set {option}=N) and "
            "it computes for that long, or leave the event out",
        )
    note(f"{event}: computes as long as its bytes take at {speed} MB/s ({option})")
    script.compute(value * 1000 // speed)


def _us(bad: Bad, where: str, key: str, value: Any) -> int:
    """Check a time in us."""
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 10**12:
        raise bad(where, f"{key}={value!r}; expected a whole number of microseconds")
    return value


def name_in(bad: Bad, where: str, key: str, value: Any) -> str:
    """Check a name."""
    if not isinstance(value, str) or not value:
        raise bad(where, f"{key}={value!r}; expected a name")
    return value


def _only(bad: Bad, where: str, key: str, value: Pairs, known: set[str]) -> None:
    """Refuse unknown keys."""
    wrong = [k for k, _ in value if k not in known]
    if wrong:
        raise bad(
            where,
            f"{key}: unknown {', '.join(map(repr, wrong))}; expected {', '.join(sorted(known))}",
        )
