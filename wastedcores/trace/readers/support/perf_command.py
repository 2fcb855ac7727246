"""What the command line of ``perf`` says about which tasks and which CPUs it recorded."""

from __future__ import annotations

import re

#: options of perf record that need a value, in the same word or the next one (Documentation/perf-record.txt, 6.12)
_WITH_VALUE = re.compile(
    r"event|filter|pid|tid|realtime|cpu|count|output|freq|mmap-pages|mmap-flush|call-graph|"
    r"cgroup|delay|uid|branch-filter|clockid|proc-map-timeout|clang-path|clang-opt|vmlinux|"
    r"switch-output-event|switch-max-files|affinity|max-size|num-thread-synthesize|pfm-events|"
    r"control|synth"
)
#: options without a value, or with a value that can only stand in the same word
_ALONE = re.compile(
    r"exclude-perf|no-buffering|raw-samples|all-cpus|no-inherit|tail-synthesize|overwrite|"
    r"strict-freq|verbose|quiet|stat|data|phys-addr|data-page-size|code-page-size|sample-cpu|"
    r"sample-identifier|timestamp|period|no-samples|no-buildid-cache|no-buildid|kcore|"
    r"branch-any|weight|transaction|per-thread|intr-regs|user-regs|running-time|snapshot|"
    r"aux-sample|switch-events|all-kernel|all-user|kernel-callchains|user-callchains|"
    r"buildid-all|buildid-mmap|timestamp-filename|timestamp-boundary|switch-output|dry-run|"
    r"aio|compression-level|debuginfod|threads|off-cpu|bpf-event"
)
_LETTERS = {
    "e": "event", "p": "pid", "t": "tid", "r": "realtime", "C": "cpu", "c": "count", "o": "output", "F": "freq",
    "m": "mmap-pages", "G": "cgroup", "D": "delay", "u": "uid", "j": "branch-filter", "k": "clockid", "R": "raw-samples",
    "a": "all-cpus", "i": "no-inherit", "g": "kernel-callchains", "v": "verbose", "q": "quiet", "s": "stat", "d": "data",
    "T": "timestamp", "P": "period", "n": "no-samples", "N": "no-buildid-cache", "B": "no-buildid", "b": "branch-any",
    "W": "weight", "I": "intr-regs", "S": "snapshot", "z": "compression-level",
}  # fmt: skip
#: letters whose value can only follow in the same word
_TAKE_REST = "ISz"
#: stands for an option that is not in these lists, or for an option that chooses CPUs but comes after the first other word
_UNKNOWN = "?"
_SOME_TASKS = {"pid", "tid", "uid", "per-thread", "cgroup", "filter", "exclude-perf"}


def some_tasks_only(command: str) -> bool:
    """Whether a recording has the events of some tasks only, so that a CPU without events need not be idle.

    ``perf record`` records the tasks that it starts unless it is told otherwise; ``perf sched record`` adds ``-a``
    (tools/perf/builtin-sched.c: __cmd_record(), 6.12).
    """
    options = _options(command)
    return options is not None and bool(options & _SOME_TASKS or not options & {"all-cpus", "cpu"})


def every_cpu(command: str) -> bool:
    """Whether a recording has the events of all tasks on all CPUs."""
    options = _options(command)
    return options is not None and not options & {"cpu", _UNKNOWN} and not some_tasks_only(command)


def overwrites(command: str) -> bool:
    """Whether the kernel kept only the newest events of each CPU."""
    return "overwrite" in (_options(command) or ())


def _options(command: str) -> set[str] | None:
    """The long names of the options of a command that records; None if the command does not record.

    The words are not quoted, so the second word of a value with spaces looks like the command that perf runs.
    """
    before, found, after = command.partition(" record")
    if not found:
        return None
    options = {"all-cpus"} if before.split()[-1:] == ["sched"] else set[str]()
    words = iter(after.split())
    for word in words:
        if word == "--":
            break
        if not word.startswith("-") or word == "-":
            if any("cpu" in _names(w)[0] for w in words if w.startswith("-")):
                options.add(_UNKNOWN)
            break
        names, needs_value = _names(word)
        options |= names
        if needs_value:
            next(words, None)
    return options


def _names(word: str) -> tuple[set[str], bool]:
    """The options in a word, and whether the next word is the value of the last option."""
    if word.startswith("--"):
        name, given, _ = word[2:].partition("=")
        takes_one = bool(_WITH_VALUE.fullmatch(name))
        known = takes_one or _ALONE.fullmatch(name) or _ALONE.fullmatch(name.removeprefix("no-"))
        return {name if known else _UNKNOWN}, takes_one and not given
    names = set()
    for at, letter in enumerate(word[1:], 2):
        name = _LETTERS.get(letter, _UNKNOWN)
        names.add(name)
        if _WITH_VALUE.fullmatch(name):
            return names, at == len(word)
        if letter in _TAKE_REST:
            break
    return names, False
