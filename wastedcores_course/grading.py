"""Grades the submissions of a class, several at a time, and keeps the grades of those that have not changed."""

from __future__ import annotations

import os
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path

from wastedcores.errors import WastedCoresError
from wastedcores.files import written_whole
from wastedcores.sweep.run import digest
from wastedcores_course import inside
from wastedcores_course.grader import Grader
from wastedcores_course.nbgrader_tree import assignment_name, write_nbgrader
from wastedcores_course.otter_assignment import write_otter
from wastedcores_course.sandbox import Limits
from wastedcores_course.source import read_source
from wastedcores_course.submissions import submissions
from wastedcores_course.summary import Row, save_row, saved_row


def prepare(
    lab: int,
    work: Path,
    tool: str,
    cache: Path,
    secret: bytes,
    limits: Limits,
    sandboxed: bool,
) -> Grader:
    """Make what a grader needs, and grade the solution, which must get all points; this also compiles the code."""
    source = read_source(lab)
    if tool == "nbgrader":
        write_nbgrader([lab], work)
        material = {inside.GRADEBOOK: work / "gradebook.db"}
        solution = work / "source" / assignment_name(lab) / f"{source.name}.ipynb"
    else:
        (archive,) = write_otter([lab], work, run_tests=False)
        material = {inside.AUTOGRADER: archive}
        solution = archive.parent / f"{source.name}.ipynb"
    cache.mkdir(parents=True, exist_ok=True)
    grader = Grader(source, tool, material, solution, cache, secret, limits, sandboxed)
    patient = Grader(source, tool, material, solution, cache, secret, Limits(wall_s=600), sandboxed)
    row = patient.graded(solution, "the solution", warm=True)
    missing = [
        f"task {name}: {row.feedback[name]}" for name, points in row.points.items() if not points
    ]
    if missing:
        raise WastedCoresError(
            f"lab {lab}: the solution does not get all points on this machine, so no submission was graded. {row.note} "
            f"{' '.join(missing)}"
        )
    return grader


def grade(
    folder: Path,
    lab: int,
    rows: Path,
    *,
    tool: str = "nbgrader",
    secret: Path | None = None,
    limits: Limits = Limits(),
    jobs: int = 0,
    sandboxed: bool = True,
    quiet: bool = False,
) -> list[Row]:
    """Grade all submissions of a folder except those that were graded before and have not changed."""
    from tqdm import tqdm

    source = read_source(lab)
    found = submissions(folder, source)
    rows.mkdir(parents=True, exist_ok=True)
    key = secret.read_bytes() if secret else _random_secret(rows / ".secret")
    # the tasks of the source are left out, because they have functions; the digest covers the code of these functions
    lab_and_code = (source.lab, source.cells, digest("wastedcores_course"))
    settings = repr((lab_and_code, tool, key, limits, sandboxed)).encode()
    digests = {who: sha256(settings + path.read_bytes()).hexdigest() for who, path in found.items()}
    done = {who: row for who in found if (row := saved_row(rows / f"{who}.json", digests[who]))}
    todo = [who for who in found if who not in done]
    if todo:
        with tempfile.TemporaryDirectory() as work:
            grader = prepare(lab, Path(work), tool, rows / ".compiled", key, limits, sandboxed)
            with (
                ThreadPoolExecutor(jobs or len(os.sched_getaffinity(0))) as pool,
                tqdm(
                    total=len(found), initial=len(done), desc=f"lab {lab}", unit="submission", file=sys.stderr, disable=quiet
                ) as bar,
            ):  # fmt: skip
                try:
                    for final in (
                        False,
                        True,
                    ):
                        # submissions that ran out of time get a second chance when the others have ended
                        pending = [
                            pool.submit(grader.graded, found[who], who, digests[who])
                            for who in todo
                            if who not in done
                        ]
                        for future in as_completed(pending):
                            row = future.result()
                            if final or not row.timed_out:
                                save_row(row, rows / f"{row.student}.json")
                                done[row.student] = row
                                bar.update()
                except BaseException:
                    pool.shutdown(wait=True, cancel_futures=True)
                    raise
    return [done[who] for who in sorted(done)]


def _random_secret(path: Path) -> bytes:
    """Return random bytes, which are kept in a file, so that later runs need not grade unchanged submissions again."""
    if not path.exists():
        with written_whole(path) as part:
            part.write_bytes(os.urandom(32))
            part.chmod(0o600)
    return path.read_bytes()
