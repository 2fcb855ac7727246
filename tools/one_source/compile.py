"""Compile the units of the engine one after the other and print what fails.

Usage: python tools/one_source/compile.py [HOW MANY FAILURES]
"""

from __future__ import annotations

import importlib
import sys
import time
import traceback
from pathlib import Path

import llvmlite.binding as llvm

from wastedcores.jit import units


def main() -> None:
    """Compile all units without stopping at the first failure."""
    for path in sorted(Path("wastedcores/simulator/engine").rglob("*_jit.py")):
        importlib.import_module(".".join(path.with_suffix("").parts))
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    failed = 0
    begun = time.process_time()
    for unit in units._in_order():
        try:
            unit.compile()
            unit.publish()
        except Exception as e:  # noqa: BLE001
            failed += 1
            llvm.add_symbol(unit.symbol, 1)
            text = str(e) or traceback.format_exc()
            print(f"--- {unit.symbol}\n{text[-1500:]}", flush=True)
            if failed >= limit:
                break
    print(f"{len(units._units)} units, {failed} failed, {time.process_time() - begun:.1f} s of CPU time")


if __name__ == "__main__":
    main()
