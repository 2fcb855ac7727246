"""How a load_balance() call ended."""

from __future__ import annotations

NOT_DESIGNATED, BALANCED, NO_QUEUE, PINNED, FAILED, ACTIVE, MOVED = range(7)
NAMES = ["not_designated", "balanced", "no_queue", "pinned", "failed", "active", "moved"]
