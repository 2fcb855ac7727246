#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# schedtrace  Record every scheduling event of all CPUs: runqueue sizes, switches, wakeups, migrations, ...
#             For Linux, uses bcc (as a compiler) and BPF.
#
# USAGE: schedtrace [-h] [-o FILE] [--seconds N] [--flight N] [--events LIST] [--buffer MIB] [--ebpf]
#
# What: this is the paper's recorder (section 4.2) for unpatched kernels. Each event takes 16 bytes in a per-CPU ring. The
# rings are written to the file in bulk, or, as a flight recorder, they are overwritten until you stop it and only then
# written. The state of every task and runqueue at the start is in the file, so nothing is unknown. Events that found no
# room are counted per CPU, in the kernel, and the counts are in the file.
#
# Assumptions: the clock is CLOCK_MONOTONIC, which does not jump. Affinity changes are noticed at the task's next switch.
#
# Overhead: it is measured in benchmarks/RESULTS.md ("capture").
#
# REQUIRES: Linux 5.5+ with BTF for cheap (typed) probes; nr_running needs 5.9+. CAP_BPF and CAP_PERFMON, or root.
#
# The file is read by `wastedcores import`; `wastedcores capture` runs this program for you.

import argparse
import errno
import os
import signal
import sys
import time

import _bpf
import _frequency
import _options
import _output
import _privilege
import _recorder

EXAMPLES = """examples:
    schedtrace -o trace.wct                     # until Ctrl-C
    schedtrace -o trace.wct --seconds 10        # ten seconds
    schedtrace -o trace.wct --flight 5          # keep the last 5 s, write them at Ctrl-C (or on SIGUSR1)
    schedtrace -o trace.wct --events nr_running # runqueue sizes only
    schedtrace --ebpf                           # print the program and exit
"""
DRAIN_S = 0.1


def parse(argv):
    """Parse the options."""
    p = argparse.ArgumentParser(
        prog="schedtrace",
        description="Record every scheduling event of all CPUs.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument(
        "-o", "--output", help="file to write (default: standard output, when it is not a terminal)"
    )
    _options.add_end(p)
    p.add_argument(
        "--flight",
        type=float,
        metavar="N",
        help="flight recorder: keep the last N seconds in memory and write them at the end",
    )
    p.add_argument(
        "--events",
        default=",".join(_recorder.DEFAULT),
        help="record these kinds, separated by commas, of: %s (default: all but cpu_idle, load, transitions and tick)"
        % ", ".join(_recorder.PROBES),
    )
    _options.add_buffer(p)
    p.add_argument(
        "--untyped", action="store_true", help="use the untyped probes of kernels before 5.5"
    )
    p.add_argument(
        "--progress",
        action="store_true",
        help="print a line of counts per second on standard error",
    )
    p.add_argument("--ebpf", action="store_true", help="print the BPF program and exit")
    a = p.parse_args(argv)
    a.events = [e for e in a.events.split(",") if e]
    for e in a.events:
        if e not in _recorder.PROBES:
            p.error("--events: %r is none of %s" % (e, ", ".join(_recorder.PROBES)))
    if not 0.015625 <= a.buffer <= 1024:
        p.error("--buffer: %g MiB per CPU; expected 1/64 to 1024" % a.buffer)
    return a


class Sink:
    """A file descriptor that gets whole blocks only."""

    def __init__(self, fd):
        self.fd, self.size = fd, 0
        try:
            os.lseek(fd, 0, os.SEEK_CUR)
            self.seekable = True
        except OSError:
            self.seekable = False
        self.start = os.lseek(fd, 0, os.SEEK_CUR) if self.seekable else 0

    def write(self, buffers):
        """Write all buffers; on an error cut the file back to the last whole block and raise."""
        views = [memoryview(b).cast("B") for b in buffers if len(b)]
        total = sum(len(v) for v in views)
        try:
            while views:
                n = os.writev(self.fd, views[:64])
                while views and n >= len(views[0]):
                    n -= len(views.pop(0))
                if n:
                    views[0] = views[0][n:]
        except OSError:
            if self.seekable:
                os.ftruncate(self.fd, self.start + self.size)
                os.lseek(self.fd, self.start + self.size, os.SEEK_SET)
            raise
        self.size += total


def main(argv=None):
    """Run the program and return its exit code."""
    a = parse(argv)
    if a.ebpf:
        print(_recorder.text(), end="")
        return 0
    if a.output:
        fd = _output.open_output(a.output)
    elif sys.stdout.isatty():
        print("schedtrace: standard output is a terminal; name a file with -o", file=sys.stderr)
        return 2
    else:
        fd = 1
    try:
        os.nice(-10)  # this process must get its turn even on the busiest machine
    except OSError:
        pass
    stop = _options.stop_signals()
    dumps = []
    signal.signal(signal.SIGUSR1, lambda *_: dumps.append(1))
    frequencies = _frequency.Frequencies() if "tick" in a.events else None
    privileges = _privilege.least_privilege(perf_events="tick" in a.events)
    try:
        r = _recorder.Recorder(
            a.events,
            a.buffer,
            overwrite=a.flight is not None,
            typed=not a.untyped,
            frequencies=frequencies,
        )
        r.start()
    except (_bpf.CannotLoad, OSError) as e:
        print("schedtrace: %s" % e, file=sys.stderr)
        return 2
    _privilege.drop_all(calls_bpf=a.flight is not None)
    return record(a, r, Sink(fd), stop, dumps, privileges)


def record(a, r, sink, stop, dumps, privileges):
    """Drain the rings until the time is up or a signal arrives; always leave a file that can be opened."""
    started = last_counters = time.monotonic()
    why, code = "stopped", 0
    try:
        sink.write([r.header(privileges=privileges, flight_s=a.flight)])
        if a.flight is None:
            sink.write(r.snapshot_block())
        print("ready", file=sys.stderr, flush=True)
        while not stop:
            now = time.monotonic()
            left = a.seconds - (now - started) if a.seconds is not None else 1e9
            if left <= 0:
                why = "time is up"
                break
            if a.until_eof and _options.input_ended():
                why = "end of input"
                break
            if dumps:
                break
            if r.frequencies:
                r.frequencies.update()
            full = r.drain(sink.write) if a.flight is None else 0
            if now - last_counters >= 1:
                last_counters = now
                if a.flight is None:
                    sink.write(r.counters_block())
                if a.progress:
                    print(
                        "%.0f s  %d events  %d lost" % (now - started, *r.totals()),
                        file=sys.stderr,
                        flush=True,
                    )
            if full < 0.25:
                time.sleep(min(DRAIN_S, max(left, 0)))
        if stop:
            why = stop[0]
        if a.flight is not None:
            r.take_snapshot()
            sink.write(r.snapshot_block())
            r.dump(sink.write, a.flight)
            r.close()
        else:
            r.close()
            r.drain(sink.write)
    except OSError as e:
        r.close()
        code = 2
        why = "disk full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else e.strerror
        print(
            "schedtrace: cannot write (%s): stopped; the file has everything up to here" % why,
            file=sys.stderr,
        )
        if not sink.seekable:
            return code
    try:
        sink.write(r.counters_block())
        sink.write(r.end_block(why=why, seconds=round(time.monotonic() - started, 3)))
    except OSError:
        pass
    seen, lost = r.totals()
    print("%d events, %d lost" % (seen, lost), file=sys.stderr, flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
