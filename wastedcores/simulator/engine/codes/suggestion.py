"""What becomes of a module's suggestion, and why the core module refuses one (docs/design-mode.md)."""

from __future__ import annotations

SILENT, TAKEN, REFUSED = range(3)
NAMES = ["silent", "taken", "refused"]

#: the moments at which a module is asked are the codes of log_op below this
MOMENTS = 16

WASTEFUL, IMPOSSIBLE = range(2)
REFUSALS = ["a core would stay idle", "not possible"]
