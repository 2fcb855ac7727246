"""Judges verdicts about 100,000 random schedules whose truth is known: a part of ``make fuzz``.

Chunks of seeds are judged in worker processes. A chunk that is done is kept, so an interrupted run goes on where it was; the
results of other code are never mixed with it. The tables are written beside this file (random_schedules.md and .json), and every
wrong verdict as a small file into the folder of the run; ``--show SEED`` makes its trace and its snapshot again.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent)]

from loky import get_reusable_executor  # noqa: E402 - found below tests/
from loky.process_executor import BrokenProcessPool  # noqa: E402
from support.random_schedules import tally  # noqa: E402
from tqdm import tqdm  # noqa: E402

#: seeds that a worker judges at a time
CHUNK = 100
#: how often a chunk is begun before the run ends because its process dies
LIVES = 3
#: failures that the JSON file lists; the folder of the run has all
LISTED = 200


def judge_chunk(first: int, count: int, features: tuple[str, ...] | None) -> dict[str, Any]:
    """Judge some seeds in this process; features None: those that the seeds draw."""
    from support.random_schedules.judging import judge

    from wastedcores.trace.readers.text import scan

    # the two ways to read text give the same events; half of the chunks take the one for large files
    scan.WORTHWHILE_BYTES = 0 if first // CHUNK % 2 else 1 << 40
    with tempfile.TemporaryDirectory(prefix="random-schedules-") as folder:
        judged = [judge(seed, Path(folder), features) for seed in range(first, first + count)]
    return {
        "first": first,
        "count": count,
        "tally": dict(tally.tally(judged)),
        "failed": [j.to_json() for j in judged if j.failed],
        "events": sum(j.events for j in judged),
        "made_ms": sum(j.made_ms for j in judged),
        "checked_ms": sum(j.checked_ms for j in judged),
    }


def _begin() -> None:
    """Set up a worker: its libraries use one thread each, and it finds the modules of the tests."""
    os.environ.update(POLARS_MAX_THREADS="1", NUMBA_NUM_THREADS="1")
    sys.path[:0] = [str(HERE.parents[1]), str(HERE.parent), str(HERE)]


def results(
    chunks: list[tuple[int, int]], features: tuple[str, ...] | None, workers: int
) -> Iterator[dict[str, Any]]:
    """Judge chunks in processes; each is given again to a new process if its own dies."""
    lives = dict.fromkeys(chunks, LIVES)
    left = list(reversed(chunks))
    under_way: dict[Future[dict[str, Any]], tuple[int, int]] = {}
    pool = None
    try:
        while left or under_way:
            while left and len(under_way) < 2 * workers:
                pool = get_reusable_executor(workers, timeout=None, initializer=_begin)
                try:
                    future = pool.submit(judge_chunk, *left[-1], features)
                except BrokenProcessPool:
                    continue  # a new pool is made
                under_way[future] = left.pop()
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                chunk = under_way.pop(future)
                try:
                    yield future.result()
                except BrokenProcessPool:
                    lives[chunk] -= 1
                    if not lives[chunk]:
                        raise
                    left.append(chunk)
    finally:
        if pool is not None:
            pool.shutdown(kill_workers=True)


#: what decides a verdict about a schedule, so that results of other code here are never mixed
_DECIDES = (
    "wastedcores/invariant",
    "wastedcores/runqueues",
    "wastedcores/trace/readers/text",
    "tests/support/random_schedules",
)


def commit() -> str:
    """Return the last commit that changed the code that decides, and whether files of it differ from it."""
    root = HERE.parents[1]

    def git(*words: str) -> str:
        run = subprocess.run(
            ("git", "-C", str(root), *words), capture_output=True, text=True, check=False
        )
        return run.stdout.strip()

    dirty = "-dirty" if git("status", "--porcelain", "--", *_DECIDES) else ""
    return git("log", "-1", "--format=%h", "--", *_DECIDES) + dirty


def run(asked: argparse.Namespace) -> dict[str, Any]:
    """Judge all chunks that are not done yet, unless only those that are done are asked for, and return the run's results."""
    folder: Path = asked.folder
    found = folder / "found"
    kept, code = folder / "chunks.jsonl", folder / "commit"
    done = [json.loads(line) for line in kept.read_text().splitlines()] if kept.exists() else []
    if asked.so_far:
        return summary(asked, done, code.read_text())
    found.mkdir(parents=True, exist_ok=True)
    now = f"{commit()} {' '.join(asked.features or ())}".strip()
    if code.exists() and code.read_text() != now:
        raise SystemExit(
            f"{folder} has results of {code.read_text()}, and this run would add those of {now}. Remove the folder, or name "
            "another one with --folder."
        )
    code.write_text(now)
    end = asked.first + asked.schedules
    wanted = [(s, min(CHUNK, end - s)) for s in range(asked.first, end, CHUNK)]
    have = {(d["first"], d["count"]) for d in done}
    done = [d for d in done if (d["first"], d["count"]) in set(wanted)]
    bar = tqdm(total=asked.schedules, unit="schedule", mininterval=5)
    bar.update(sum(d["count"] for d in done))
    with kept.open("a") as file, bar:
        for result in results([c for c in wanted if c not in have], asked.features, asked.workers):
            done.append(result)
            file.write(json.dumps(result) + "\n")
            file.flush()
            for failed in result["failed"]:
                (found / f"{failed['seed']}.json").write_text(json.dumps(failed, indent=1) + "\n")
            bar.update(result["count"])
    return summary(asked, done, now)


def summary(asked: argparse.Namespace, done: list[dict[str, Any]], code: str) -> dict[str, Any]:
    """Return what is kept of a run of this code."""
    counts: Counter[str] = sum((Counter(d["tally"]) for d in done), Counter())
    failed = sorted((f for d in done for f in d["failed"]), key=lambda f: f["seed"])
    schedules = sum(d["count"] for d in done)
    return {
        "commit": code,
        "first": min((d["first"] for d in done), default=asked.first),
        "schedules": schedules,
        "date": datetime.now(UTC).date().isoformat(),
        "machine": f"{platform.processor() or platform.machine()}, Linux {platform.release()}",
        "made_ms": round(sum(d["made_ms"] for d in done) / schedules, 1),
        "checked_ms": round(sum(d["checked_ms"] for d in done) / schedules, 1),
        "events": round(sum(d["events"] for d in done) / schedules),
        "note": _note(asked.folder),
        "failures": dict(tally.failures(counts)),
        "failed": [
            {k: f[k] for k in ("seed", "features", "truth", "stale", "outcomes", "verdicts")}
            for f in failed[:LISTED]
        ],
        "why": tally.why(counts),
        "rows": tally.as_rows(counts),
    }


def _note(folder: Path) -> str:
    """What somebody wrote about this run into its folder, such as that parts of it are of an earlier commit."""
    file = folder / "note"
    return file.read_text().strip() if file.exists() else ""


def main() -> int:
    """Run until all schedules are judged; returns 1 if a verdict was wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--schedules", type=int, default=100_000)
    parser.add_argument("--first", type=int, default=1_000, help="the first seed")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--folder", type=Path, default=HERE.parents[1] / ".fuzz" / "random")
    parser.add_argument("--output", type=Path, default=HERE, help="where the two tables go")
    parser.add_argument(
        "--features",
        type=lambda text: tuple(sorted(text.split(","))),
        help="names, separated by commas, that all schedules get; default: each seed draws its own",
    )
    parser.add_argument(
        "--so-far", action="store_true", help="only write the tables of what --folder has so far"
    )
    parser.add_argument("--show", type=int, metavar="SEED", help="write this schedule and judge it")
    asked = parser.parse_args()
    if asked.show is not None:
        from support.random_schedules.judging import judge, write

        asked.folder.mkdir(parents=True, exist_ok=True)
        print(json.dumps(judge(asked.show, asked.folder, asked.features).to_json(), indent=1))
        print(write(asked.show, asked.folder / "shown", asked.features))
        return 0
    # so that the workers do not outlive this process
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    found = run(asked)
    (asked.output / "random_schedules.json").write_text(json.dumps(found, indent=1) + "\n")
    (asked.output / "random_schedules.md").write_text(tally.markdown(found))
    print(tally.markdown(found))
    return 1 if found["failures"] else 0


if __name__ == "__main__":
    sys.exit(main())
