"""What the command line of ``perf`` says about which tasks and which CPUs it recorded."""

from __future__ import annotations

import re

#: options of perf record whose value is the next word (tools/perf/builtin-record.c: __record_options, 6.12)
_WITH_VALUE = re.compile(
    r"-[qvagdTPRnNsiWB]*[eoFcmDGkCjr]|"
    r"--(?:event|output|filter|freq|count|mmap-pages|clockid|cpu|delay|cgroup)"
)
_ALL = re.compile(r"-[qvgdTPRnNsiWB]*a[a-zA-Z]*|--all-cpus|-C.*|--cpu(?:=.*)?")
_SOME_CPUS = re.compile(r"-[qvagdTPRnNsiWB]*C.*|--cpu(?:=.*)?|--cgroup.*|-[qvagdTPRnNsiWB]*G.*")
_SOME = re.compile(r"-[ptu].*|--(?:pid|tid|uid)(?:=.*)?|--per-thread")


def some_tasks_only(command: str) -> bool:
    """Whether a recording has the events of some tasks only, so that a CPU without events need not be idle.

    ``perf record`` records the tasks that it starts unless it is told otherwise; ``perf sched record`` adds ``-a``
    (tools/perf/builtin-sched.c: __cmd_record(), 6.12).
    """
    options = _options(command)
    some = any(_SOME.fullmatch(o) for o in options or ())
    return options is not None and (some or not any(_ALL.fullmatch(o) for o in options))


def every_cpu(command: str) -> bool:
    """Whether a recording has the events of all tasks on all CPUs."""
    options = _options(command)
    some = any(_SOME_CPUS.fullmatch(o) for o in options or ())
    return options is not None and not some and not some_tasks_only(command)


def _options(command: str) -> list[str] | None:
    """The options of a command that records; None if it does not."""
    before, found, after = command.partition(" record")
    if not found:
        return None
    options = ["-a"] if before.split()[-1:] == ["sched"] else []
    words = iter(after.split())
    for word in words:
        if word == "--" or not word.startswith("-"):
            break
        options.append(word)
        if _WITH_VALUE.fullmatch(word):
            next(words, None)
    return options
