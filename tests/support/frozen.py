"""Digests of what the engine logs for thousands of random cases, to see that a change keeps its behaviour.

``python tests/support/frozen.py FILE [KIND [FIRST LAST]]`` prints the blocks whose digests differ from the file, and with
``--write`` it writes the file anew. A block is :data:`BLOCK` cases that Hypothesis draws from the block's number. Hypothesis also
draws constants that it finds in the project's sources; here it does not, so that the cases stay the same when the code changes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from support.balancing_runs import balancing_cases
from support.eevdf_runs import eevdf_cases, without_policies
from support.random_runs import (
    Case,
    by_engine,
    cases,
    clocked_machines,
    designs,
    kernels,
    later_kernels,
)
from support.rt_runs import contended
from wastedcores.kernels import KernelModel

#: cases of a block, and blocks of a kind
BLOCK, BLOCKS = 50, 100
FILE = Path(__file__).parent.parent / "simulator" / "frozen" / "digests.json"


def _without_policies(case: Case) -> Case:
    return replace(case, program=without_policies(case.program))


_V4_4 = st.sampled_from(
    [KernelModel.named(f"v4.4{fixes}") for fixes in ("", "", "+all_fixes", "+all_fixes:patch")]
)
KINDS: dict[str, st.SearchStrategy[Case]] = {
    "v4.1": cases(),
    "v4.1 with decisions": cases().map(lambda c: replace(c, decisions=True)),
    "v4.4": cases(of=_V4_4).map(_without_policies),
    "v6.1.192": balancing_cases(KernelModel.named("v6.1.192")),
    "v6.12.107": balancing_cases(KernelModel.named("v6.12.107")),
    "v6.18.15": balancing_cases(KernelModel.named("v6.18.15")),
    "v7.2.13": balancing_cases(KernelModel.named("v7.2.13")),
    "any modern kernel": balancing_cases(),
    "order on a CPU": eevdf_cases(),
    "real time": contended(),
    "designs": cases(designs),
    "clocks": cases(kernels | designs | later_kernels, clocked_machines()),
}


def block(kind: str, number: int) -> list[Case]:
    """Return the cases of a block."""
    out: list[Case] = []

    @seed(number)
    @settings(
        max_examples=BLOCK,
        derandomize=False,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(KINDS[kind])
    def collect(case: Case) -> None:
        out.append(case)

    usual = providers._get_local_constants
    providers._get_local_constants = providers.Constants
    providers.CONSTANTS_CACHE.cache.clear()
    try:
        collect()
    finally:
        providers._get_local_constants = usual
        providers.CONSTANTS_CACHE.cache.clear()
    return out


def digest(cases_: list[Case], plain: bool = False) -> str:
    """Return the digest of everything that the engine, compiled or in plain Python, says about some cases."""
    h = hashlib.sha256()
    for case in cases_:
        rows, calls, error = by_engine(case, plain)
        h.update(repr((rows, sorted(calls.items()), error)).encode())
    return h.hexdigest()[:12]


def blocks(
    kind: str, first: int = 0, last: int = BLOCKS, plain: bool = False
) -> Iterator[tuple[int, str]]:
    """Yield number and digest of blocks."""
    for number in range(first, last):
        yield number, digest(block(kind, number), plain)


def main() -> None:
    """Compare with the file, or write it anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--file", type=Path, default=FILE)
    parser.add_argument("--kind", choices=list(KINDS))
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--last", type=int, default=BLOCKS)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--plain", action="store_true", help="run the engine as plain Python")
    args = parser.parse_args()
    known = json.loads(args.file.read_text()) if args.file.exists() else {}
    differ = 0
    for kind in [args.kind] if args.kind else KINDS:
        have = known.setdefault(kind, [])
        last = args.last if args.write else min(args.last, len(have))
        for number, now in blocks(kind, args.first, last, args.plain):
            if args.write:
                have[number : number + 1] = [now]
            elif have[number] != now:
                differ += 1
                print(f"{kind}, block {number}: {now}, expected {have[number]}", flush=True)
        if args.write:
            args.file.parent.mkdir(exist_ok=True)
            args.file.write_text(json.dumps(known, indent=0) + "\n")
        print(f"{kind}: blocks {args.first} to {last - 1} done", flush=True)
    raise SystemExit(f"{differ} blocks differ" if differ else 0)


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    main()
