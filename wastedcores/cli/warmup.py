"""``wastedcores warmup``: compile everything once, so that no later command waits for it."""

from __future__ import annotations

import lzma
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wastedcores.cli._app import app, epilog
from wastedcores.errors import WastedCoresError
from wastedcores.files import find

_NOTES = """The compiled code is kept in ~/.cache/wastedcores (the environment variable WASTEDCORES_CACHE_DIR names another
folder), so each user compiles for themselves. Without this command, each part is compiled when it is first used, which takes
up to half a minute."""

#: the text of a trace that has an event of each kind that the reader distinguishes
_TEXT = """\
# tracer: nop
  <idle>-0 [000] d... 1.000001: sched_wakeup: comm=a pid=7 prio=120 target_cpu=000
  <idle>-0 [000] d... 1.000002: sched_switch: prev_comm=x prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=a next_pid=7 next_prio=120
  a-7 [000] d... 1.000003: sched_process_fork: comm=a pid=7 child_comm=a child_pid=8
  a-7 [000] d... 1.000004: sched_wakeup_new: comm=a pid=8 prio=120 target_cpu=001
  a-7 [000] d... 1.000005: sched_migrate_task: comm=a pid=8 prio=120 orig_cpu=1 dest_cpu=0
  a-7 [000] d... 1.000006: sched_switch: prev_comm=a prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=a next_pid=8 next_prio=120
  a-8 [000] d... 1.000007: sched_process_exit: comm=a pid=8 prio=120
"""  # noqa: E501
#: options for a figure with spans and with so many events that it becomes a raster
_MANY = ("--query", "run_ns > 0", "--style", "draw=spans:run_ns", "--query", "True")
#: commands that together use all compiled code, the longest first
_COMMANDS = (
    ("the replay", "replay", "overload-on-wakeup", "--until", "0.01"),
    ("the check and its explanation", "explain", "live-balancing-off", "--seeds", "1"),
    ("figures", "figure", "live-balancing-off", "-o", "{folder}/f.json"),
    ("doubts and waits", "figure", "live-balancing-on", "--kind", "waits", "-o", "{folder}/w.json"),
    ("who ran where", "figure", "live-balancing-off", "--kind", "tasks", "-o", "{folder}/t.json"),
    ("lost time", "figure", "live-balancing-off", "--kind", "avoidable", "-o", "{folder}/a.json"),
    ("events", "figure", "live-balancing-off", "--kind", "events", *_MANY, "-o", "{folder}/e.json"),
    ("the critical path", "path", "live-balancing-off"),
    ("reading text", "check", "{folder}/trace.txt"),
    ("reading perf.data", "check", "{folder}/perf.data"),
    ("reading trace.dat", "check", "{folder}/trace.dat"),
)


def write_traces(folder: Path) -> None:
    """Write the traces that the commands read."""
    (folder / "trace.txt").write_text(_TEXT)
    for name in ("perf.data", "trace.dat"):
        packed = find("datasets", "warmup", f"{name}.xz").read_bytes()
        (folder / name).write_bytes(lzma.decompress(packed))


@app.command(epilog=epilog("warmup", notes=_NOTES))
def warmup() -> None:
    """Compile everything once, so that later commands start fast."""
    from tqdm import tqdm

    from wastedcores.jit.cache import CACHE_ROOT

    if CACHE_ROOT is None:
        raise WastedCoresError(
            "compiled code cannot be kept here, so there is nothing to prepare: WASTEDCORES_JIT_CACHE is 0, or the folder for "
            "it (~/.cache/wastedcores, or WASTEDCORES_CACHE_DIR) cannot be written or belongs to somebody else."
        )
    began = time.monotonic()
    with (
        tempfile.TemporaryDirectory() as folder,
        ThreadPoolExecutor(min(len(os.sched_getaffinity(0)), len(_COMMANDS))) as pool,
    ):
        write_traces(Path(folder))
        bar = tqdm(
            pool.map(lambda words: _run(words, folder), _COMMANDS),
            total=len(_COMMANDS),
            desc="compiling",
            # the remaining time is not shown: the first part takes most of the time, so a guess would be wrong
            bar_format="{desc}: {n_fmt} of {total_fmt} parts, {elapsed}",
            file=sys.stderr,
        )
        failed = [one for one in bar if one]
    if failed:
        raise WastedCoresError("; ".join(failed))
    print(f"compiled into {CACHE_ROOT.parent} in {time.monotonic() - began:.0f} s")


def _run(words: tuple[str, ...], folder: str) -> str:
    """Run a command in a process of its own; return what went wrong, or an empty text."""
    name, *command = (word.format(folder=folder) for word in words)
    done = subprocess.run(
        [sys.executable, "-m", "wastedcores", *command], capture_output=True, text=True, check=False
    )
    # exit codes 1 and 3 are verdicts and not errors
    return "" if done.returncode in (0, 1, 3) else f"{name}: {done.stderr.strip()}"
