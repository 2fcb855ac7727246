# SPDX-License-Identifier: GPL-2.0-only
"""The samples of tally.c: what changed since the last call, by control group."""

import os
import resource
import struct
import time

#: how often a sample is taken; no divisor of the times after which tasks usually wake up
PERIOD_NS = 47_300_000
GROUPS = 1024
#: a group that neither ran nor waited for this long loses its row
QUIET_S = 600
TALLY = struct.Struct("<8Q")
GROUP = struct.Struct("<5Q")
ROOT = 2**64 - 1
#: the row of all groups that found no row of their own
OTHERS = -1


class Tally:
    """The shared memory of tally.c."""

    def __init__(self, programs):
        self.memory = programs.mmap("tally", TALLY.size)
        self.groups = programs.mmap("groups", (GROUPS + 1) * GROUP.size, write=True)
        self.rows = memoryview(self.groups).cast("Q")[: 5 * (GROUPS + 1)]
        self.known = {}

    def totals(self):
        """Return what one message tells about the machine and about the costs of this program."""
        _, samples, cut, beside, wasted, spent, _, _ = TALLY.unpack_from(self.memory, 0)
        with open("/proc/self/statm", "rb") as f:
            resident = int(f.read().split()[1]) * resource.getpagesize()
        return {
            "samples": samples,
            "cut": cut,
            "beside_ns": beside,
            "wasted_ns": wasted,
            "kernel_ns": spent,
            "cpu_s": round(sum(os.times()[:4]), 3),
            "resident": resident,
        }

    def changes(self):
        """Return [id, ran, waited, beside, longest] of every group whose tasks ran or waited since the last call, in ns.

        The id is the inode of the group's folder, 0 for the root, and OTHERS for the groups that found no row.
        """
        changed, now = [], time.monotonic()
        keys = self.rows[::5].tolist()  # most rows are free, and are not looked at one by one
        for slot in [*(slot for slot, key in enumerate(keys) if key and slot < GROUPS), GROUPS]:
            at = slot * GROUP.size
            key, *sums, longest = GROUP.unpack_from(self.groups, at)
            key = OTHERS if slot == GROUPS else key
            old, when = self.known.get(slot, ([0, 0, 0], now))
            if sums == old:
                if (
                    now - when > QUIET_S and slot < GROUPS
                ):  # the group is quiet or gone: its row is free
                    struct.pack_into("<5Q", self.groups, at, 0, 0, 0, 0, 0)
                    self.known.pop(slot, None)
                continue
            self.known[slot] = sums, now
            key = 0 if key == ROOT else key
            changed.append([key, *(a - b for a, b in zip(sums, old, strict=True)), longest])
            if longest:
                struct.pack_into("<Q", self.groups, at + 32, 0)
        return changed
