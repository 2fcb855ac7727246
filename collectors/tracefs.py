#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# tracefs  Record scheduling events through the kernel's own tracefs: for machines without bcc or BPF.
#
# USAGE: tracefs [-h] [-o FILE] [--seconds N] [--buffer MIB]
#
# What: the sched events are recorded in a tracefs instance of its own, so the global buffer is left alone, with the
# monotonic clock. The pages of the kernel's ring buffers go to the file as they are, with the kernel's marks where
# events were lost. The number of lost events is printed at the end.
#
# The file: the head of a trace.dat of version 6 (man trace-cmd.dat.v6), which has the formats of the events, up to its
# options. Then "pages    \0" and blocks, each of which is a CPU and a number of bytes (two u32) and so many bytes of whole
# pages. The last block has the CPU END and the kernel's counts of all CPUs as text. Only a complete file has it.
#
# Overhead: recording costs several times what it costs with schedtrace, and there are no runqueue sizes; see
# benchmarks/RESULTS.md ("capture").
#
# REQUIRES: root, CONFIG_TRACING. Standard library only.

import argparse
import os
import platform
import re
import struct
import subprocess
import sys
import time
from pathlib import Path

import _mount
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
#: pages that one call reads at most
PAGES = 256
#: the CPU of the last block
END = 0xFFFFFFFF
#: numbers of options (trace-cmd-private.h)
CLOCK, UNAME = 4, 5
#: the kernel's functions whose names in the events matter
FUNCTIONS = (b"sched_cpu_activate", b"sched_cpu_deactivate")


def tracefs():
    """Return the folder of tracefs, which is mounted if it is not yet."""
    for root in ROOTS:
        if Path(root, "instances").is_dir():
            return Path(root)
    why = _mount.mount("tracefs", ROOTS[0])
    if Path(ROOTS[0], "instances").is_dir():
        return Path(ROOTS[0])
    raise OSError(
        "there is no tracefs at %s, and it cannot be mounted: %s"
        % (ROOTS[0], why or "it has no instances")
    )


def remove(path):
    """Switch off and remove an instance; return whether it is gone."""
    for _ in range(50):
        try:
            (path / "tracing_on").write_text("0")
            (path / "events" / "enable").write_text("0")
            path.rmdir()
            return True
        except FileNotFoundError:
            return True
        except OSError:  # somebody still has a file of the instance open
            time.sleep(0.02)
    return False


def remove_orphans(instances):
    """Remove the instances of collectors that were killed together with their guards."""
    for path in instances.glob("wastedcores-*"):
        pid = path.name.partition("-")[2]
        try:
            command = Path("/proc", pid, "cmdline").read_bytes()
        except OSError:
            command = b""
        if pid.isdigit() and b"tracefs" not in command and remove(path):
            print("tracefs: removed %s, which a killed collector left" % path, file=sys.stderr)


#: removes the instance $1 as soon as the standard input ends, which is when the collector ends in whatever way
GUARD = """trap '' INT TERM HUP
read nothing
for i in 1 2 3 4 5 6 7 8 9 10; do
    [ -d "$1" ] || exit 0
    echo 0 > "$1/tracing_on"; echo 0 > "$1/events/enable"
    rmdir "$1" && exit 0
    sleep 0.1
done"""


def guard(path):
    """Start a process that removes the instance when this one ends, even by SIGKILL."""
    return subprocess.Popen(
        ["/bin/sh", "-c", GUARD, "wastedcores-guard", str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Instance:
    """A trace buffer of its own, until close()."""

    def __init__(self, buffer_mib):
        instances = tracefs() / "instances"
        remove_orphans(instances)
        self.path = instances / ("wastedcores-%d" % os.getpid())
        self.guard = guard(self.path)
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

    def counts(self):
        """Return what the kernel counted, as text, and the number of events that it lost."""
        told, lost = "", 0
        for stats in sorted(self.path.glob("per_cpu/cpu*/stats")):
            text = stats.read_text()
            told += "CPU: %s\n%s" % (stats.parent.name[3:], text)
            lost += sum(
                map(int, re.findall(r"^(?:overrun|dropped events): (\d+)$", text, re.MULTILINE))
            )
        return told, lost

    def close(self):
        """Remove the instance."""
        remove(self.path)
        self.guard.stdin.close()
        self.guard.wait()


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


def sized(bits, content):
    """Return some bytes with their length in front."""
    return struct.pack(bits, len(content)) + content


def head(instance):
    """Return the head of the file, up to the pages."""
    events = instance.path / "events"
    out = b"\x17\x08\x44tracing6\0" + struct.pack(
        "=BBI", sys.byteorder == "big", struct.calcsize("l"), os.sysconf("SC_PAGE_SIZE")
    )
    for name in ("header_page", "header_event"):
        out += name.encode() + b"\0" + sized("<Q", (events / name).read_bytes())
    present = [e.split("/") for e in EVENTS if (events / e / "format").exists()]
    systems = sorted({system for system, _ in present})
    out += struct.pack("<II", 0, len(systems))
    for system in systems:
        names = [event for of, event in present if of == system]
        out += system.encode() + b"\0" + struct.pack("<I", len(names))
        for name in names:
            out += sized("<Q", (events / system / name / "format").read_bytes())
    known = Path("/proc/kallsyms").read_bytes()
    found = (re.search(rb"^.* %s$" % f, around(known, f), re.MULTILINE) for f in FUNCTIONS)
    out += sized("<I", b"".join(f[0] + b"\n" for f in found if f)) + struct.pack("<I", 0)
    out += sized("<Q", (instance.path.parents[1] / "saved_cmdlines").read_bytes())
    out += struct.pack("<I", os.sysconf("SC_NPROCESSORS_ONLN")) + b"options  \0"
    machine = os.uname()
    uname = "%s %s %s %s" % (machine.sysname, machine.nodename, machine.release, machine.machine)
    for number, text in ((CLOCK, "[mono]"), (UNAME, uname)):
        out += struct.pack("<H", number) + sized("<I", text.encode() + b"\0")
    return out + struct.pack("<H", 0) + b"pages    \0"


def around(text, name):
    """Return the line of a symbol; a regular expression would take longer to search all of them."""
    at = text.find(b" " + name + b"\n")
    return text[text.rfind(b"\n", 0, at) + 1 : at + 1 + len(name)] if at >= 0 else b""


class Buffers:
    """The ring buffers of all CPUs, and the file to which their pages are copied."""

    def __init__(self, instance, out):
        page = os.sysconf("SC_PAGE_SIZE")
        self.out, self.memory = out, memoryview(bytearray(PAGES * page))
        self.pages = [self.memory[i : i + page] for i in range(0, len(self.memory), page)]
        self.files = {
            int(path.name[3:]): os.open(path / "trace_pipe_raw", os.O_RDONLY | os.O_NONBLOCK)
            for path in instance.path.glob("per_cpu/cpu*")
        }

    def copy(self):
        """Copy all pages that have events; return the number of bytes of the CPU that had most."""
        most = 0
        for cpu, file in sorted(self.files.items()):
            copied, size = 0, len(self.memory)
            while size == len(self.memory):
                try:
                    size = os.readv(file, self.pages)
                except BlockingIOError:
                    break
                if size:
                    self.write(cpu, self.memory[:size])
                copied += size
            most = max(most, copied)
        return most

    def close(self):
        """Close the buffers."""
        for file in self.files.values():
            os.close(file)

    def write(self, cpu, content):
        """Write a block."""
        write_all(self.out, struct.pack("<II", cpu, len(content)))
        write_all(self.out, content)


def record(a, instance, out, stop):
    """Copy the pages until the time is up or a signal arrives, then copy the rest."""
    write_all(out, head(instance))
    buffers = Buffers(instance, out)
    started = looked = time.monotonic()
    print("ready", file=sys.stderr, flush=True)
    ended = False
    while True:
        done = (
            ended
            or bool(stop)
            or (a.seconds is not None and time.monotonic() - started >= a.seconds)
        )
        if done:
            instance.enable(False)
        copied = buffers.copy()
        if done:
            break
        # each look may wake an idle CPU, so look rarely: when an eighth of a buffer is full at the rate so far
        now = time.monotonic()
        rate = copied / (now - looked)
        looked = now
        wait = min(MOST_S, max(LEAST_S, a.buffer * (1 << 17) / rate if rate else 0))
        if a.seconds is not None:
            wait = min(wait, max(0, a.seconds - (now - started)))
        if a.until_eof:
            ended = _options.input_ended(wait)
        else:
            time.sleep(wait)
    told, lost = instance.counts()
    buffers.write(END, told.encode())
    buffers.close()  # the instance cannot be removed while a file of it is open
    print("%d events lost, kernel %s" % (lost, platform.release()), file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
