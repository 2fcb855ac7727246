"""Option values that several verbs share."""

from __future__ import annotations

import json
import sys
from typing import Any


def print_json(value: Any) -> None:
    """One JSON object on stdout."""
    json.dump(value, sys.stdout, separators=(",", ":"), ensure_ascii=False)
    sys.stdout.write("\n")
