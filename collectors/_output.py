# SPDX-License-Identifier: GPL-2.0-only
"""Opens a collector's output with the rights of the user who called sudo, so that root's rights open nothing for them."""

import os
import sys

FLAGS = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC


def open_output(path):
    """Return a descriptor of the new file; end with code 2 and a message if that user may not write it."""
    uid, gid = int(os.environ.get("SUDO_UID", 0)), int(os.environ.get("SUDO_GID", 0))
    as_root = os.geteuid() == 0 and uid != 0
    groups = os.getgroups()
    try:
        if as_root:
            os.setgroups([])
            os.setegid(gid)
            os.seteuid(uid)
        return os.open(path, FLAGS, 0o644)
    except OSError as e:
        print("%s: cannot write: %s" % (path, e.strerror), file=sys.stderr)
        raise SystemExit(2) from e
    finally:
        if as_root:
            os.seteuid(0)
            os.setegid(0)
            os.setgroups(groups)
