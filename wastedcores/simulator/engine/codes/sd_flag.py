"""sched_domain flags of Linux v4.1 (include/linux/sched.h, ``SD_*``)."""

from __future__ import annotations

LOAD_BALANCE = 0x1
BALANCE_NEWIDLE = 0x2
BALANCE_EXEC = 0x4
BALANCE_FORK = 0x8
BALANCE_WAKE = 0x10
WAKE_AFFINE = 0x20
SHARE_CPUCAPACITY = 0x80
SHARE_PKG_RESOURCES = 0x200
ASYM_PACKING = 0x800
PREFER_SIBLING = 0x1000
OVERLAP = 0x2000
