# SPDX-License-Identifier: GPL-2.0-only
"""The options that several collectors have, and the ways in which a collector is told to stop."""

import argparse
import os
import re
import select
import signal


def seconds(text):
    """Return the seconds in '1s', '100ms', '250us' or a plain number of seconds."""
    m = re.fullmatch(r"([0-9]*\.?[0-9]+)(s|ms|us)?", text)
    if not m:
        raise argparse.ArgumentTypeError("%r: expected a time like 1s, 100ms" % text)
    return float(m.group(1)) * {"s": 1, "ms": 1e-3, "us": 1e-6, None: 1}[m.group(2)]


def add_end(p):
    """Add the options that say when to stop."""
    p.add_argument("--seconds", type=float, help="stop after this many seconds (default: Ctrl-C)")
    p.add_argument(
        "--until-eof", action="store_true", help="also stop when standard input is closed"
    )


def add_buffer(p, default=8.0, or_less=""):
    """Add the size of the buffers."""
    p.add_argument(
        "--buffer",
        type=float,
        default=default,
        metavar="MIB",
        help="size of each CPU's ring (default: 8%s)" % or_less,
    )


def add_checker(p):
    """Add the times S and M of a checker, and the process whose threads it ignores."""
    p.add_argument(
        "-S", "--period", type=seconds, default=1.0, help="look this often (default: 1s)"
    )
    p.add_argument(
        "-M",
        "--persist",
        type=seconds,
        default=0.1,
        help="raise a violation that lasts this long (default: 100ms)",
    )
    p.add_argument(
        "--own",
        type=int,
        metavar="PID",
        help="the process that started this one; neither of the two hides a violation or is one",
    )


def stop_signals():
    """Return a list to which the name of each signal is added that asks to stop."""
    stop = []
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda s, _: stop.append(signal.Signals(s).name))
    return stop


def input_ended(wait_s=0):
    """Wait for at most this long, and return whether standard input was closed."""
    return bool(select.select([0], [], [], wait_s)[0]) and not os.read(0, 4096)
