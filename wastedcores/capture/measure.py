"""Measure a command several times, under one or several settings that take turns, and describe the machine on which it ran."""

from __future__ import annotations

import math
import os
import platform
import random
import resource
import shutil
import subprocess
import time
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from wastedcores.errors import UsageError, WastedCoresError
from wastedcores.files import file_digest, text_of

MEASURE_SCHEMA = "wastedcores.measure/1"
#: what a setting may have, and how it is applied
KEYS = {"prefix": "words before the command", "env": "environment variables"}
LEVEL = 0.95
_SYS = Path("/sys/devices/system/cpu")


def read_settings(path: Path) -> dict[str, dict[str, Any]]:
    """Read settings from a TOML file: ``[name]`` with ``prefix = ["chrt", "-r", "10"]`` and ``env = {OMP_NUM_THREADS = "2"}``."""
    try:
        found = tomllib.loads(path.read_text())
    except (OSError, ValueError) as e:
        raise UsageError(f"{path}: cannot be read as settings ({e}).") from e
    for name, setting in found.items():
        extra = set(setting) - set(KEYS) if isinstance(setting, dict) else {"no table"}
        words = setting.get("prefix", []) if not extra else []
        env = setting.get("env", {}) if not extra else {}
        if not isinstance(words, list) or not isinstance(env, dict):
            extra = {"prefix or env of another type"}
        if extra or not all(isinstance(v, str) for v in [*words, *env.values()]):
            raise UsageError(
                f"{path}: setting {name!r} has {', '.join(sorted(extra)) or 'values that are not text'}; expected "
                'prefix = ["word", ...] and env = {NAME = "value"}.'
            )
    if not found:
        raise UsageError(
            f'{path}: has no settings; expected tables such as [rr] with prefix = ["chrt", "-r", "10"].'
        )
    return found


def measure(
    command: Sequence[str],
    *,
    runs: int = 10,
    settings: dict[str, dict[str, Any]] | None = None,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Any]:
    """Run a command several times under each setting, in turns of shuffled order.

    * ``command``: the command, as a list of arguments (no shell).
    * ``settings``: as :func:`read_settings` returns them; None: one setting without changes. All settings are compared with the
      first setting.
    * ``seed``: seed of the random order.
    * ``progress``: called with a line of text per run.
    * Returns ``schema``, ``command``, ``environment``, ``runs`` (setting, turn, wall_s, cpu_s, exit_code, in the order in which
      they were made) and ``settings``: for each setting the :func:`median` of wall_s, of cpu_s, and of the ratio to the first
      setting in the same turn.
    """
    if runs < 2:
        raise UsageError(f"-n {runs}: expected 2 or more; one run says nothing about the next.")
    settings = settings or {"as it is": {}}
    chance, made = random.Random(seed), []
    environment = manifest(command)
    for turn in range(runs):
        order = list(settings)
        chance.shuffle(order)
        for name in order:
            made.append({"setting": name, "turn": turn, **_once(command, settings[name])})
            if progress:
                progress(
                    f"turn {turn + 1} of {runs}, {name}: {made[-1]['wall_s']:.3f} s, exit code {made[-1]['exit_code']}"
                )
    times = {
        name: {
            key: np.array([r[key] for r in made if r["setting"] == name])
            for key in ("wall_s", "cpu_s")
        }
        for name in settings
    }
    first = times[next(iter(settings))]["wall_s"]
    found = {}
    for name, of in times.items():
        found[name] = {key: median(values) for key, values in of.items()}
        found[name]["ratio"] = median(of["wall_s"] / first)
        found[name]["failed"] = sum(r["exit_code"] != 0 for r in made if r["setting"] == name)
    return {
        "schema": MEASURE_SCHEMA,
        "command": list(command),
        "environment": environment,
        "runs": made,
        "settings": found,
    }


def _once(command: Sequence[str], setting: dict[str, Any]) -> dict[str, Any]:
    words = [*setting.get("prefix", []), *command]
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    try:
        code = subprocess.run(
            words, env=os.environ | setting.get("env", {}), stdout=subprocess.DEVNULL, check=False
        ).returncode
    except OSError as e:
        raise UsageError(f"cannot run {words[0]!r}: {e.strerror}.") from e
    wall, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"wall_s": wall, "cpu_s": cpu, "exit_code": code}


def median(values: np.ndarray) -> dict[str, float]:
    """Return the median of runs, an interval for the true median, and the probability that this kind of interval contains it.

    The true median is above each run with probability 1/2, so the number of runs below it is binomial. The interval leaves out as
    many of the lowest and of the highest runs as possible while its probability is at least 95 %. Fewer than six runs do not
    reach 95 %; then the interval leaves out no run.
    """
    n, ordered = values.size, np.sort(values)
    # the probability that at most k runs are below the true median. Python's integers are divided, as 2**64 fits into no array
    below = np.cumsum([math.comb(n, k) / 2**n for k in range(n)])
    out = max(int((2 * below <= 1 - LEVEL).sum()) - 1, 0)
    return {
        "median": float(np.median(values)),
        "low": float(ordered[out]),
        "high": float(ordered[n - 1 - out]),
        "level": float(1 - 2 * below[out]),
    }


def manifest(command: Sequence[str]) -> dict[str, Any]:
    """Return the facts that decide how fast a command runs, with those that Walcher's reproduction missed in the paper."""
    program = shutil.which(command[0])
    return {
        "program": program,
        "program_sha256": _digest(Path(program)) if program else None,
        "parameters": list(command[1:]),
        "disk": _first_line(["findmnt", "-no", "SOURCE,FSTYPE,OPTIONS", "-T", "."]),
        "distribution": _os_release(),
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "kernel_command_line": text_of("/proc/cmdline", "replace") or None,
        "mitigations": {p.name: text_of(p, "replace") or None for p in sorted((_SYS / "vulnerabilities").glob("*"))},
        "cpu": next((line.split(": ", 1)[1] for line in (text_of("/proc/cpuinfo", "replace") or "").splitlines()
                     if line.startswith("model name")), None),
        "cpus_online": text_of(_SYS / "online", "replace") or None,
        "smt": text_of(_SYS / "smt" / "active", "replace") or None,
        "governor": text_of(_SYS / "cpu0" / "cpufreq" / "scaling_governor", "replace") or None,
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "load_before": os.getloadavg()[0],
        "compiler": _first_line(["cc", "--version"]),
        "compiler_flags": os.environ.get("CFLAGS"),
        "not_known": ["the version of the program, of its database and of its data", "the flags with which it was compiled"],
    }  # fmt: skip


def _digest(program: Path) -> str | None:
    """Return the SHA-256 of a program; None if this user may execute it but not read it."""
    try:
        return file_digest(program)
    except WastedCoresError:
        return None


def _first_line(command: Sequence[str]) -> str | None:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=5,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    lines = done.stdout.strip().splitlines()
    return lines[0][:300] if lines and done.returncode == 0 else None


def _os_release() -> str | None:
    lines = (text_of("/etc/os-release", "replace") or "").splitlines()
    return next(
        (line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")),
        None,
    )
