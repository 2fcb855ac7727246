"""Compares importing with ``perf script`` on the same recording, interleaved, and measures the memory for a large file."""

from __future__ import annotations

import hashlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from benchmarks.limits import Limits

ROUNDS = 9
#: Size of the large text, which repeats the recording with later times.
LARGE_BYTES = 2 << 30


def record(folder: Path) -> Path:
    """Record about a million and a half events of this machine's scheduler."""
    path = folder / "perf.data"
    bench = ["perf", "bench", "sched", "messaging", "-g", "8", "-l", "4000"]
    command = ["perf", "sched", "record", "-m", "32M", "-o", str(path), "--", *bench]
    subprocess.run(command, check=True, capture_output=True)
    return path


def seconds(work) -> float:
    os.sync()  # what the measurement before has written must not reach the disk during this one
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def printed(path: Path, text: Path) -> None:
    with text.open("wb") as out:
        subprocess.run(
            ["perf", "script", "-i", str(path)], stdout=out, stderr=subprocess.DEVNULL, check=True
        )


def hashed(path: Path) -> None:
    """Compute only the hash that an import notes; one thread computes it, so no import can be faster."""
    with path.open("rb") as file:
        hashlib.file_digest(file, "sha256")


def large(text: Path, target: Path) -> int:
    """Repeat a text with later times, so that time goes forward, and return its size."""
    import re

    whole = text.read_bytes()
    stamp = re.compile(rb"(?<=\] ) *(\d+)(?=\.\d{6}: )")
    first, last = (
        int(stamp.search(part).group(1)) for part in (whole, whole[whole.rindex(b"\n", 0, -1) :])
    )
    step = last - first + 1
    with target.open("wb") as out:
        turn = 0
        while out.tell() < LARGE_BYTES:
            shift = turn * step
            out.write(stamp.sub(lambda m: b"%7d" % (int(m.group(1)) + shift), whole))  # noqa: B023
            turn += 1
        return out.tell()


def peak_rss(source: Path, target: Path) -> tuple[float, int]:
    """Return the seconds and the peak memory in bytes of an import in a process of its own."""
    code = (
        "import resource, sys, time\n"
        "from wastedcores.trace.io import import_trace\n"
        "t = time.perf_counter()\n"
        "import_trace(sys.argv[1], sys.argv[2])\n"
        "print(time.perf_counter() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(source), str(target)],
        check=True,
        capture_output=True,
        text=True,
    )
    took, rss = out.stdout.split()
    return float(took), int(rss)


def run() -> list[dict]:
    from wastedcores.trace.io import import_trace, open_trace
    from wastedcores.trace.parquet import write_parquet

    if shutil.which("perf") is None:
        return []
    with tempfile.TemporaryDirectory(prefix="wastedcores-bench-") as name:
        folder = Path(name)
        data, text, out = record(folder), folder / "perf.txt", folder / "out.parquet"
        printed(data, text)
        import_trace(text, out)  # compile
        import_trace(data, out)
        times: dict[str, list[float]] = {
            k: [] for k in ("perf", "text", "data", "bare", "hash", "open", "write")
        }
        used: list[tuple[float, float]] = []  # CPU seconds of perf script and of the import
        for _ in range(ROUNDS):
            children = os.times().children_user + os.times().children_system
            times["perf"].append(seconds(lambda: printed(data, folder / "again.txt")))
            children = os.times().children_user + os.times().children_system - children
            times["text"].append(seconds(lambda: import_trace(text, out)))
            before = time.process_time()
            times["data"].append(seconds(lambda: import_trace(data, out)))
            used.append((children, time.process_time() - before))
            times["bare"].append(seconds(lambda: import_trace(data, out, source="benchmark")))
            times["hash"].append(seconds(lambda: hashed(data)))
            times["open"].append(seconds(lambda: open_trace(data)))
            times["write"].append(seconds(partial(write_parquet, open_trace(data), out)))
        median = {k: statistics.median(v) for k, v in times.items()}
        # the CPU time of the whole import, spread over all CPUs, beside the CPU time of perf script
        cpus = len(os.sched_getaffinity(0))
        median["bound"] = median["perf"] * statistics.median(b / a for a, b in used) / cpus
        kept = import_trace(data, out).header.events
        shares = Limits(data, out).shares(median["open"], median["data"])
        lines = text.read_bytes().count(b"\n")
        note = (
            f"{lines} printed events, of which {kept} are rows, {text.stat().st_size / 1e6:.0f} MB of text; "
            f"median of {ROUNDS}, interleaved"
        )
        size = large(text, folder / "large.txt")
        took, rss = peak_rss(folder / "large.txt", out)
        peer = f"perf script to a file, {median['perf']:.2f} s"
    # perf script reads and prints. Only reading is compared with it; the other rows show what writing adds.
    speedups: list[tuple[str, str, float | None]] = [
        ("perf.data read, the events of use as rows in memory", "open", 50.0),
        ("perf.data read and kept as Parquet", "data", 25.0),
        ("the same if no CPU of the machine ever waited", "bound", None),
        ("perf.data read and kept as Parquet, SHA-256 of it not noted", "bare", None),
        ("SHA-256 of perf.data alone, by one thread", "hash", None),
        ("writing the rows as Parquet alone", "write", None),
        ("import of perf script text", "text", 5.0),
    ]
    rows = [
        {
            "id": key,
            "name": name,
            "value": median["perf"] / median[key],
            "unit": "x",
            "goal": f">= {goal:.0f} x" if goal else "-",
            "peer": peer,
            "met": median["perf"] / median[key] >= goal if goal else None,
            "note": f"{median[key]:.3f} s; {note}",
        }
        for name, key, goal in speedups
    ]
    rows.append(
        {
            "id": "text_memory",
            "name": "memory of a text import",
            "value": rss / 2**20,
            "unit": "MiB",
            "goal": "bounded (10 GB file)",
            "met": rss < 2 << 30,
            "note": f"peak RSS, {size / 2**30:.1f} GiB of text in {took:.1f} s",
        }
    )
    return rows + shares
