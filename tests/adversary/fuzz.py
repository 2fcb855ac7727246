"""Reads a million mutated files of all formats: ``make fuzz``.

A worker process mutates and reads; this process watches it, starts it again if it dies or hangs, and shows how far it is. An
interrupted run goes on where it was. The results are added to tests/adversary/results.json when the run is complete.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from support.fuzzing.worker import State, Worker  # noqa: E402 - found below tests/
from tqdm import tqdm  # noqa: E402

#: Settings of the worker's libraries: one thread each, and no stack of every panic of polars, which is caught.
QUIETLY = {"POLARS_MAX_THREADS": "1", "NUMBA_NUM_THREADS": "1", "RUST_BACKTRACE": "0"}
#: Seconds of wall-clock time without a new input after which the worker is taken to hang: others may use the processors.
STALL_S = 120
#: The same before the first input, when code is compiled.
COMPILE_S = 1200


#: What stands before the rows of the table.
HEAD = """\
# Formats that were fuzzed one by one

Written by `python tests/adversary/fuzz.py --formats NAME --inputs 100000 --evenly` from `results.json`, whose other runs were
about all formats at once. A verdict counts as changed if it and that of the intact file are confident. Mutated events can
have another truth, so only a change beside a contradiction that the package noticed is a fault.

| format | mutants | read | tracebacks | hangs | faults of verdicts | other changes | seconds | slowest, s | commit |
|---|---|---|---|---|---|---|---|---|---|"""


def main() -> int:
    """Run until all inputs were read."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=HERE.parents[1] / ".fuzz")
    parser.add_argument("--formats", default="", help="names, separated by commas; default: all")
    parser.add_argument("--evenly", action="store_true", help="as many inputs of each format")
    parser.add_argument("--results", type=Path, default=HERE / "results.json")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.worker:
        names = tuple(filter(None, asked.formats.split(",")))
        worker = Worker(asked.folder, asked.seed, names, evenly=asked.evenly)
        worker.warm_up()
        worker.run(asked.inputs)
        return 0
    signal.signal(
        signal.SIGTERM, lambda *_: sys.exit(143)
    )  # so that the worker does not outlive this process
    state = watch(asked)
    runs = json.loads(asked.results.read_text()) if asked.results.exists() else []
    runs.append(summary(state))
    asked.results.write_text(json.dumps(runs, indent=1) + "\n")
    asked.results.with_suffix(".md").write_text(table(runs))
    print(json.dumps(summary(state), indent=1))
    return 1 if state.failures else 0


def watch(asked: argparse.Namespace) -> State:
    """Keep a worker alive until it is done, and return the final state."""
    state_file = asked.folder / "state.json"
    with tqdm(total=asked.inputs, unit="input", smoothing=0.05, mininterval=5) as bar:
        while True:
            worker = subprocess.Popen(
                [sys.executable, __file__, "--worker", *sys.argv[1:]],
                env=os.environ | QUIETLY,
            )
            try:
                moved = _follow(worker, state_file, asked, bar)
            finally:
                worker.kill()
                worker.wait()
            state = State.load(state_file, asked.seed)
            if worker.returncode == 0:
                return state
            if not (asked.folder / "scratch" / "name").exists():
                raise SystemExit("The worker could not begin.")
            _blame(asked.folder, state, "crash" if moved else "stall", worker.returncode)
            state.save(state_file)


def _follow(
    worker: subprocess.Popen[bytes], file: Path, asked: argparse.Namespace, bar: tqdm
) -> bool:
    """Wait for the end of the worker; False: it stopped moving."""
    last, since = (-1, False), time.monotonic()
    begun = asked.folder / "scratch" / "name"
    begun.unlink(missing_ok=True)
    while worker.poll() is None:
        time.sleep(1)
        now = State.load(file, asked.seed).inputs.total()
        bar.update(now - bar.n)
        if (now, begun.exists()) != last:
            last, since = (now, begun.exists()), time.monotonic()
        elif time.monotonic() > since + (STALL_S if begun.exists() else COMPILE_S):
            return False
    return True


def _blame(folder: Path, state: State, failure: str, code: int) -> None:
    """Keep the input that the worker died of."""
    number, _, name = (folder / "scratch" / "name").read_text().strip().partition(" ")
    key = f"{failure}-{sum(state.inputs.values())}"
    current = folder / "scratch" / "current"
    (folder / "found").mkdir(exist_ok=True)
    current.rename(folder / "found" / key)
    state.inputs[name] = int(number or 0) + 1  # the state may be a few inputs older
    state.failures[key] = {
        "format": name,
        "failure": failure,
        "detail": f"exit status {code}",
        "times": 1,
    }


def _commit() -> str:
    """Return the commit that is checked out, and whether files differ from it."""
    words = ("git", "-C", str(HERE), "describe", "--always", "--dirty")
    return subprocess.run(words, capture_output=True, text=True, check=False).stdout.strip()


def summary(state: State) -> dict[str, object]:
    """Return what is kept of a run."""
    names = sorted(state.inputs)
    return {
        "commit": _commit(),
        "seed": state.seed,
        "inputs": state.inputs.total(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.processor() or platform.machine()}, Linux {platform.release()}",
        "hours": round(sum(state.seconds.values()) / 3600, 2),
        "slowest_s": state.slowest_s,
        "formats": {
            n: {
                "inputs": state.inputs[n],
                "read": state.read[n],
                "refused": state.refused[n],
                "seconds": round(state.seconds.get(n, 0.0)),
            }
            for n in names
        },
        "verdicts": dict(state.outcomes),
        "flips_without_a_visible_contradiction": dict(state.flips_unseen),
        "failures": state.failures,
    }


def table(runs: list[dict]) -> str:
    """Return a table in Markdown of the runs that were about one format and had 10,000 inputs at least."""
    lines, notes = [HEAD], []
    for run in runs:
        if len(run["formats"]) > 1 or run["inputs"] < 10_000:
            continue
        ((name, row),) = run["formats"].items()
        times = Counter()
        for failure in run["failures"].values():
            times[failure["failure"]] += int(failure["times"])
        cells = (
            name,
            f"{row['inputs']:,}",
            f"{row['read']:,}",
            sum(times[k] for k in ("traceback", "crash", "message", "memory")),
            times["hang"] + times["stall"],
            times["flip"],
            sum(run["flips_without_a_visible_contradiction"].values()),
            f"{row['seconds']:,}",
            run["slowest_s"],
            run["commit"],
        )
        lines.append(f"| {' | '.join(map(str, cells))} |")
        notes += [f"\n{name}: {run['note']}"] if "note" in run else []
    lines += notes
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
