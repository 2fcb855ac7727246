# SPDX-License-Identifier: GPL-2.0-only
"""The options of unclaimed."""

import argparse
import math

import _bpf
import _options

EXAMPLES = """examples:
    unclaimed                         # until Ctrl-C, one line per violation
    unclaimed -S 0.5s -M 50ms         # look twice per second, raise after 50 ms
    unclaimed --event-driven          # notice within M + 10 ms of the beginning
    unclaimed --dir evidence          # keep the recording of each violation there
    unclaimed --deficit --useless     # the paper's two other checks as well
"""


def ring_mib(cpus):
    """Return the size of each CPU's ring: a power of two of which all have 512 MiB at most, from 256 KiB to 8 MiB."""
    return 2.0 ** min(3, max(-2, math.floor(math.log2(512 / cpus))))


def parse(argv):
    """Parse the options."""
    p = argparse.ArgumentParser(
        prog="unclaimed",
        description="Find cores that stay idle while threads wait.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    _options.add_checker(p)
    p.add_argument(
        "--event-driven",
        action="store_true",
        help="look at every change of a runqueue instead of every S",
    )
    _options.add_end(p)
    p.add_argument(
        "--before",
        type=float,
        default=2.0,
        metavar="N",
        help="flight recorder: keep N seconds before a violation (default: 2; 0: record only the 20 ms after)",
    )
    _options.add_buffer(p, ring_mib(_bpf.possible()), ", with more than 64 possible CPUs less")
    p.add_argument(
        "--evidence",
        type=int,
        default=5,
        metavar="N",
        help="keep at most N recordings (default: 5)",
    )
    p.add_argument(
        "--every",
        type=_options.seconds,
        default=0.0,
        metavar="TIME",
        help="record at most one violation in this time (default: all of them)",
    )
    p.add_argument(
        "--chronic",
        action="store_true",
        help="also look at every tick (M / 21), and record ten M when at least five of them had a violation",
    )
    p.add_argument(
        "--profile",
        type=_options.seconds,
        default=0.02,
        metavar="TIME",
        help="watch the load balancer for this long after a violation (default: 20ms; 0: not at all)",
    )
    p.add_argument("--dir", help="folder for recordings; it is made if absent")
    p.add_argument(
        "--deficit",
        action="store_true",
        help="also find CPUs whose threads wait over 200 ms per second",
    )
    p.add_argument(
        "--useless",
        action="store_true",
        help="also count balancing moves to a queue that is at least as loaded",
    )
    p.add_argument(
        "--tally",
        action="store_true",
        help="also sample which control groups run and wait; every message of --framed tells it",
    )
    p.add_argument(
        "--framed", action="store_true", help="write JSON lines and recordings to standard output"
    )
    p.add_argument(
        "--probes", action="store_true", help="say how decisions can be watched here, and exit"
    )
    p.add_argument(
        "--bcc",
        action="store_true",
        help="compile with bcc although there is an object that was built before",
    )
    p.add_argument("--ebpf", action="store_true", help="print the BPF program and exit")
    a = p.parse_args(argv)
    if a.period < 0.001 or a.persist < 0.001:
        p.error("-S and -M must be at least 1ms")
    return a
