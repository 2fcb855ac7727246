"""What the command line of ``perf`` says about which tasks it recorded."""

from __future__ import annotations

import re

#: options of perf record whose value is the next word (tools/perf/builtin-record.c: __record_options, 6.12)
_WITH_VALUE = re.compile(
    r"-[qvagdTPRnNsiWB]*[eoFcmDGkCjr]|"
    r"--(?:event|output|filter|freq|count|mmap-pages|clockid|cpu|delay|cgroup)"
)
_ALL = re.compile(r"-[qvgdTPRnNsiWB]*a[a-zA-Z]*|--all-cpus|-C.*|--cpu(?:=.*)?")
_SOME = re.compile(r"-[ptu].*|--(?:pid|tid|uid)(?:=.*)?|--per-thread")


def some_tasks_only(command: str) -> bool:
    """Whether a recording has the events of some tasks only, so that a CPU without events need not be idle.

    ``perf record`` records the tasks that it starts unless it is told otherwise; ``perf sched record`` adds ``-a``
    (tools/perf/builtin-sched.c: __cmd_record(), 6.12).
    """
    before, found, after = command.partition(" record")
    if not found:
        return False
    everything = before.split()[-1:] == ["sched"]
    words = iter(after.split())
    for word in words:
        if word == "--" or not word.startswith("-"):
            break
        if _SOME.fullmatch(word):
            return True
        everything |= _ALL.fullmatch(word) is not None
        if _WITH_VALUE.fullmatch(word):
            next(words, None)
    return not everything
