# SPDX-License-Identifier: GPL-2.0-only
"""File systems of the kernel that nobody has mounted yet."""

import ctypes
import os
import sys


def mount(kind, folder):
    """Mount one of the kernel's file systems, such as debugfs, at a folder; return the reason if this fails, else ''."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"nodev", folder.encode(), kind.encode(), 0, None) != 0:
        return os.strerror(ctypes.get_errno())
    print("%s: mounted %s" % (kind, folder), file=sys.stderr)
    return ""
