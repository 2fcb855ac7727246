#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# tracefs  Record scheduling events through the kernel's own tracefs: for machines without bcc or BPF.
#
# USAGE: tracefs [-h] [-o FILE] [--seconds N] [--buffer MIB]
#
# What: the sched events are recorded in a tracefs instance of its own, so the global buffer is left alone, with the
# monotonic clock. The kernel's text goes to the file while it is recorded, with the kernel's marks where events were
# lost. The number of lost events is printed at the end.
#
# Overhead: it is several times that of schedtrace, and there are no runqueue sizes; see benchmarks/RESULTS.md ("capture").
#
# REQUIRES: root, CONFIG_TRACING. Standard library only.

import argparse
import ctypes
import os
import platform
import sys
import time
from pathlib import Path

import _options
import _output

EVENTS = (
    "sched/sched_switch",
    "sched/sched_wakeup",
    "sched/sched_wakeup_new",
    "sched/sched_migrate_task",
    "sched/sched_process_fork",
    "sched/sched_process_exec",
    "sched/sched_process_exit",
    "cpuhp/cpuhp_enter",
    "power/cpu_frequency",  # rare; virtual machines have none
)
#: the shortest and the longest time between two looks into the buffers
LEAST_S, MOST_S = 0.02, 1.0
ROOTS = ("/sys/kernel/tracing", "/sys/kernel/debug/tracing")


def tracefs():
    """Return the folder of tracefs, which is mounted if it is not yet."""
    for root in ROOTS:
        if Path(root, "instances").is_dir():
            return Path(root)
    libc = ctypes.CDLL(None, use_errno=True)
    if (
        libc.mount(b"nodev", ROOTS[0].encode(), b"tracefs", 0, None) == 0
        and Path(ROOTS[0], "instances").is_dir()
    ):
        print("tracefs: mounted %s" % ROOTS[0], file=sys.stderr)
        return Path(ROOTS[0])
    raise OSError(
        "there is no tracefs at %s, and it cannot be mounted: %s"
        % (ROOTS[0], os.strerror(ctypes.get_errno()))
    )


class Instance:
    """A trace buffer of its own, until close()."""

    def __init__(self, buffer_mib):
        self.path = tracefs() / "instances" / ("wastedcores-%d" % os.getpid())
        self.path.mkdir()
        try:
            (self.path / "trace_clock").write_text("mono")
            (self.path / "buffer_size_kb").write_text(str(max(64, int(buffer_mib * 1024))))
            self.enable(True)
        except OSError:
            self.close()
            raise

    def enable(self, on):
        """Switch on or off the events that this kernel has."""
        for event in EVENTS:
            switch = self.path / "events" / event / "enable"
            if switch.exists():
                switch.write_text("1" if on else "0")

    def losses(self):
        """Yield (CPU, number of events) for each CPU that dropped events, as the kernel counted them."""
        for stats in sorted(self.path.glob("per_cpu/cpu*/stats")):
            counts = dict(
                line.split(": ", 1) for line in stats.read_text().splitlines() if ": " in line
            )
            lost = int(counts.get("overrun", 0)) + int(counts.get("dropped events", 0))
            if lost:
                yield int(stats.parent.name[3:]), lost

    def close(self):
        """Remove the instance."""
        self.enable(False)
        for _ in range(50):
            try:
                self.path.rmdir()
                return
            except OSError:
                time.sleep(0.02)


def main(argv=None):
    """Run the program and return its exit code."""
    p = argparse.ArgumentParser(
        prog="tracefs", description="Record scheduling events through tracefs."
    )
    p.add_argument("-o", "--output", help="file to write (default: standard output)")
    _options.add_end(p)
    _options.add_buffer(p)
    a = p.parse_args(argv)
    stop = _options.stop_signals()
    out = _output.open_output(a.output) if a.output else 1
    try:
        instance = Instance(a.buffer)
    except OSError as e:
        print("tracefs: %s" % e, file=sys.stderr)
        return 2
    try:
        record(a, instance, out, stop)
    except OSError as e:
        print(
            "tracefs: cannot write: %s; the file has everything up to here" % e.strerror,
            file=sys.stderr,
        )
        return 2
    finally:
        instance.close()
    return 0


def write_all(fd, data):
    """Write all of the data."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def record(a, instance, out, stop):
    """Copy the merged text until the time is up or a signal arrives, then copy the rest."""
    write_all(
        out,
        (
            "# tracer: nop\n#\n# entries-in-buffer/entries-written: 0/0   #P:%d\n#\n"
            % os.sysconf("SC_NPROCESSORS_ONLN")
        ).encode(),
    )
    pipe = os.open(instance.path / "trace_pipe", os.O_RDONLY | os.O_NONBLOCK)
    started = time.monotonic()
    print("ready", file=sys.stderr, flush=True)
    rest, looked, copied, ended = b"", started, 0, False
    while True:
        done = (
            ended
            or bool(stop)
            or (a.seconds is not None and time.monotonic() - started >= a.seconds)
        )
        if done:
            instance.enable(False)
        while True:
            try:
                chunk = os.read(pipe, 1 << 16)
            except BlockingIOError:
                break
            if not chunk:
                break
            copied += len(chunk)
            rest = rest + chunk
            cut = rest.rfind(b"\n") + 1
            write_all(out, rest[:cut])
            rest = rest[cut:]
        if done:
            break
        # each look may wake an idle CPU, so look rarely: when an eighth of a buffer is full at the rate so far
        now = time.monotonic()
        rate = copied / (now - looked)
        looked, copied = now, 0
        wait = min(MOST_S, max(LEAST_S, a.buffer * (1 << 17) / rate if rate else 0))
        if a.seconds is not None:
            wait = min(wait, max(0, a.seconds - (now - started)))
        if a.until_eof:
            ended = _options.input_ended(wait)
        else:
            time.sleep(wait)
    os.close(pipe)
    lost = list(instance.losses())
    print(
        "%d events lost, kernel %s" % (sum(n for _, n in lost), platform.release()), file=sys.stderr
    )


if __name__ == "__main__":
    sys.exit(main())
