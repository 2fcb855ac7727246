"""Lay replays beside the recordings of real kernels: docs/recorded-vs-replayed.md and datasets/recorded_vs_replayed.csv.

    python tools/compare_with_recordings.py SHARED/traces/guest [--seeds 20] [--only RUN ...] [-o FOLDER]

What is compared, and when it agrees: wastedcores/studies/recorded/recordings.py and agreement.py. ``-o`` writes both files there
instead (for a look at changes, or at other recordings).
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

import wastedcores
from wastedcores.studies.recorded.agreement import FILE, FLOOR, as_markdown, compared
from wastedcores.studies.recorded.recordings import LAST, recordings_in

ROOT = Path(__file__).resolve().parents[1]
PAGE = "recorded-vs-replayed.md"


def main() -> int:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("guest", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--only", nargs="*", metavar="RUN")
    parser.add_argument("-o", "--output", type=Path, metavar="FOLDER")
    args = parser.parse_args()
    found = recordings_in(args.guest)
    unknown = set(args.only or ()) - {r.name for r in found}
    if unknown:
        parser.error(f"{args.guest} has no recording {', '.join(sorted(unknown))} to replay")
    chosen = [r for r in found if not args.only or r.name in args.only]
    if args.only and args.output is None:
        parser.error("--only makes a part of the table; say with -o where to write it")
    began = time.perf_counter()
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    table = compared(
        chosen,
        range(1, args.seeds + 1),
        date=today,
        version=wastedcores.__version__,
        said=lambda line: print(line, file=sys.stderr, flush=True),
    )
    ok = int(table["agrees"].sum())
    page = f"""# Recorded and replayed

Every 4.1.3 recording beside replays of the same workload on the same machine under the same fixes.
Made by `python tools/compare_with_recordings.py SHARED/traces/guest --seeds {args.seeds}`
on {today} with wastedcores {wastedcores.__version__}, in {time.perf_counter() - began:.0f} s;
the same table for machines: `datasets/{FILE}`.
A figure agrees if the recorded value is within 10 % of the
median of the replays (or within {FLOOR} busy CPUs or threads), or inside their 5-95 % range:
**{ok} of {table.height} agree**.

Where a guest's run begins (the recorder's CPU, the phase of the tick, how long the boot took, which kernel threads are
due) was read off these same recordings, for each workload and size, not for each run and not for each fix: for that part
the table is no test. Recordings that were not seen may agree less.

The recordings are one run each; replays differ by seed. 'hog nodes' are those where an R process
runs, 'node 1' and 'node 2' those the threads are pinned to. `busy CPUs` are means over the measured window, in all or a node
of that type. `threads` is who ends on which node: the workload's threads (running, waiting or asleep) a node of that type,
mean of the last {LAST:.0%} of the window; 'fullest' and 'emptiest' node need no names of nodes.

{as_markdown(table)}
Samples of who was where on four kernels (4.1.3, the same patched, 4.12, 6.1; `tests/simulator/golden`) are held to equality by
`tests/simulator/test_behaviour.py`, which also says for which one that is no question of equality, and that 6.1 is not modelled.
"""
    outputs = (ROOT / "docs" / PAGE, ROOT / "datasets" / FILE)
    if args.output is not None:
        args.output.mkdir(parents=True, exist_ok=True)
        outputs = (args.output / PAGE, args.output / FILE)
    outputs[0].write_text(page)
    table.write_csv(outputs[1], float_precision=6)
    print(f"{ok} of {table.height} agree; wrote {outputs[0]} and {outputs[1]}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
