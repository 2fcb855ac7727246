#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# debugfs  Find cores that stay idle while threads wait, from the kernel's own counts in debugfs: for machines without BPF.
#
# USAGE: debugfs [-h] [-S TIME] [-M TIME] [--seconds N] [--own PID] [--until-eof]
#
# What: this is the paper's online sanity checker as a process. Every S it reads sched/debug and looks for an idle CPU
# (nr_running is 0) and a thread that waits on another CPU and may run on the idle one. If there is such a pair, it looks
# 21 times within M. A violation is raised if the same idle CPU and the same busy CPU were found at all of these looks
# except at most two. Each message is a line of JSON.
#
# Where the process runs, no CPU is idle. During M it therefore runs on the busy CPU, if its cpuset has that one, as a real-time
# thread if it may, and sets its timers there, so the idle CPU is left alone.
#
# Limits: it sees nothing between two looks, so silence proves nothing. It does not see balancing between the looks, which
# is why it insists on the same CPUs. Real-time and deadline threads are not looked at. A CPU that lists more runnable
# threads than it counts has throttled ones among them, and is left out.
#
# Overhead: one look reads the file once, which lists all threads of the machine.
#
# REQUIRES: root, debugfs, which it mounts if nobody has (before Linux 5.13: /proc/sched_debug). Standard library only.

import argparse
import contextlib
import json
import os
import re
import sys
import time

import _mount
import _options
import _privilege

ROOT = "/sys/kernel/debug"
FILES = (
    "/sys/kernel/debug/sched/debug",
    "/proc/sched_debug",  # before Linux 5.13
)
#: looks within M, and how many of them may find a CPU in another state
LOOKS, MISSES = 21, 2
#: after a suspicion that was dropped, the next look is after M instead of S, so many times in a row
AGAIN = 3
#: SCHED_NORMAL, SCHED_BATCH, SCHED_IDLE
FAIR = (0, 3, 5)
#: print_task() in kernel/sched/debug.c writes state, comm, pid and vruntime; before 4.14 the state is R or absent
_TASK = re.compile(rb"^[ >]*([A-Z]?)\s+(\S.*?)\s+(\d+)\s+-?\d+\.\d{6}\s")
_NUMBER = re.compile(rb"^\s+\.(nr_running|curr->pid)\s+: (\d+)$")


class Cpu:
    """One CPU as the kernel prints it."""

    def __init__(self):
        self.nr_running = self.current = None
        self.runnable = []


def parse(text):
    """Return {CPU number: Cpu} from the text of sched/debug (Linux 3.0 to 6.18)."""
    cpus, cpu, in_table = {}, None, False
    for line in text.splitlines():
        if line.startswith(b"cpu#"):
            cpu = cpus[int(re.split(rb"\D", line[4:], maxsplit=1)[0])] = Cpu()
            in_table = False
        elif cpu is None:
            continue
        elif line.startswith(b"runnable tasks"):
            in_table = True
        elif in_table:
            task = _TASK.match(line)
            if task and task[1] in (b"R", b""):
                cpu.runnable.append(int(task[3]))
        elif found := _NUMBER.match(line):
            if found[1] == b"curr->pid":
                cpu.current = int(found[2])
            elif cpu.nr_running is None:
                # the first nr_running of a CPU is that of its runqueue; those that follow belong to its cfs_rq
                cpu.nr_running = int(found[2])
    return cpus


def may_run(tid, cpu):
    """Return the CPUs on which a fair thread that waits on a CPU may run; nothing if it does not wait there any more."""
    try:
        with open("/proc/%d/stat" % tid, "rb") as f:
            fields = f.read().rpartition(b")")[2].split()
        if fields[0] == b"R" and int(fields[36]) == cpu and int(fields[38]) in FAIR:
            return os.sched_getaffinity(tid)
    except (OSError, IndexError):
        pass
    return set()


def threads(pids):
    """Return the threads of some processes."""
    found = set()
    for pid in pids:
        try:
            found.update(int(t) for t in os.listdir("/proc/%d/task" % pid))
        except OSError:
            pass
    return found


class Look:
    """One look at all runqueues; threads in ``own`` do not count.

    ``idle`` and ``busy`` are the CPUs that ran nothing and those where at least one other thread waited, ``asleep`` those of
    the idle ones that ran nothing at all.
    """

    def __init__(self, cpus, own):
        self.cpus, self.own = cpus, own
        self.idle, self.asleep, self.busy = set(), set(), {}
        for number, cpu in cpus.items():
            if cpu.nr_running is None:
                continue
            others = cpu.nr_running - len(own.intersection(cpu.runnable))
            if others <= 0:
                self.idle.add(number)
                if cpu.nr_running == 0:
                    self.asleep.add(number)
            elif others >= 2 and len(cpu.runnable) <= cpu.nr_running:
                self.busy[number] = others

    def pair(self, idle, busy, may_run=may_run):
        """Return (idle CPU, busy CPU, waiting thread) of these CPUs, or None; an idle CPU that runs nothing at all goes first."""
        found = None
        for number in sorted(busy & self.busy.keys()):
            cpu = self.cpus[number]
            for tid in cpu.runnable:
                if tid == cpu.current or tid in self.own:
                    continue
                allowed = may_run(tid, number) & idle & self.idle
                if allowed & self.asleep:
                    return min(allowed & self.asleep), number, tid
                if allowed and found is None:
                    found = min(allowed), number, tid
        return found


class Suspicion:
    """The CPUs that may take part in a violation, from the first look on."""

    def __init__(self, look, pair, now_ns):
        self.began_ns, self.pair_found = now_ns, pair
        self.idle, self.busy = set(look.idle), set(look.busy)
        self.missed = dict.fromkeys(
            [("idle", c) for c in self.idle] + [("busy", c) for c in self.busy], 0
        )
        self.hits, self.looks, self.misses = 1, 1, 0

    def add(self, look, may_run=may_run):
        """Add a look and return whether the suspicion still holds."""
        self.looks += 1
        for kind, mine, now in (
            ("idle", self.idle, look.idle),
            ("busy", self.busy, look.busy.keys()),
        ):
            for cpu in mine - now:
                self.missed[kind, cpu] += 1
                if self.missed[kind, cpu] > MISSES:
                    mine.discard(cpu)
        pair = look.pair(self.idle, self.busy, may_run)
        if pair is None:
            self.misses += 1
        elif pair[0] in look.asleep:
            # only this program ran on the idle CPU, so at this look the pair still held
            self.hits += 1
            self.pair_found = pair
        return self.misses <= MISSES

    def confirmed(self, now_ns, persist_ns):
        """Return whether it held at enough looks and for long enough."""
        return self.hits >= LOOKS - MISSES and now_ns - self.began_ns >= persist_ns


def run_on(cpus):
    """Let this process run on these CPUs only, unless its cpuset has none of them."""
    with contextlib.suppress(OSError):
        os.sched_setaffinity(0, cpus)


class Checker:
    """Reads the file and counts."""

    def __init__(self, fd, persist_ns, own):
        self.fd, self.persist_ns, self.own = fd, persist_ns, own
        self.counts = dict.fromkeys(("checks", "suspected", "cleared", "confirmed"), 0)
        self.everywhere = os.sched_getaffinity(0)

    def look(self):
        """Read all runqueues."""
        os.lseek(self.fd, 0, os.SEEK_SET)
        parts = []
        while part := os.read(self.fd, 1 << 20):
            parts.append(part)
        return Look(parse(b"".join(parts)), threads(self.own))

    def check(self):
        """Look once, and for M if there is a pair; return the fields of a violation or None."""
        self.counts["checks"] += 1
        now_ns = time.monotonic_ns()
        look = self.look()
        pair = look.pair(look.idle, look.busy.keys())
        if pair is None:
            return None
        self.counts["suspected"] += 1
        suspicion = Suspicion(look, pair, now_ns)
        try:
            run_on({pair[1]})
            return self._watch(suspicion)
        finally:
            run_on(self.everywhere)

    def _watch(self, suspicion):
        last_ns, late_ns = suspicion.began_ns, 0
        while True:
            # as in unclaimed.py, no divisor of the times at which many tasks wake up
            time.sleep(self.persist_ns / 1e9 / (LOOKS + 0.37))
            now_ns = time.monotonic_ns()
            late_ns, last_ns = max(late_ns, now_ns - last_ns), now_ns
            look = self.look()
            if not suspicion.add(look):
                self.counts["cleared"] += 1
                return None
            if suspicion.confirmed(now_ns, self.persist_ns):
                break
        self.counts["confirmed"] += 1
        idle, busy, tid = suspicion.pair_found
        return {
            "idle_cpu": idle,
            "busy_cpu": busy,
            "pid": tid,
            "busy_nr": look.busy.get(busy, 2),
            "began_ns": suspicion.began_ns,
            "confirmed_ns": now_ns,
            "lasted_ms": round((now_ns - suspicion.began_ns) / 1e6),
            "late_ns": late_ns,
            "number": self.counts["confirmed"],
        }


def find():
    """Return the file of the kernel's counts, or None and why debugfs cannot be mounted; it is mounted if it is not yet."""
    why = ""
    if not any(os.path.exists(f) for f in FILES) and not os.path.ismount(ROOT):
        why = _mount.mount("debugfs", ROOT)
    name = next((f for f in FILES if os.path.exists(f)), None)
    return name, why and ", and debugfs cannot be mounted at %s: %s" % (ROOT, why)


def say(event, **fields):
    """Send one message."""
    print(json.dumps({"event": event, "bytes": 0, **fields}), flush=True)


def main(argv=None):
    """Run the program and return its exit code."""
    p = argparse.ArgumentParser(
        prog="debugfs",
        description="Find idle CPUs beside waiting threads in the kernel's own counts.",
    )
    _options.add_checker(p)
    _options.add_end(p)
    a = p.parse_args(argv)
    stop = _options.stop_signals()
    name, why = find()
    if name is None:
        print("debugfs: there is neither %s nor %s%s" % (*FILES, why), file=sys.stderr)
        return 2
    try:
        fd = os.open(name, os.O_RDONLY)
    except OSError as e:
        print("debugfs: cannot open %s: %s" % (name, e.strerror), file=sys.stderr)
        return 2
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    except OSError:
        # some control groups allow no real-time threads, and some containers no higher priority
        with contextlib.suppress(OSError):
            os.nice(-20)
    _privilege.drop_all()
    checker = Checker(fd, int(a.persist * 1e9), {os.getpid(), *([a.own] if a.own else [])})
    say("ready", s_ns=int(a.period * 1e9), m_ns=int(a.persist * 1e9))
    started = due = time.monotonic()
    dropped = 0
    try:
        while not stop:
            now = time.monotonic()
            if a.seconds is not None and now - started >= a.seconds:
                break
            if now >= due:
                due, cleared = now + a.period, checker.counts["cleared"]
                found = checker.check()
                # brief work on the idle CPU may have hidden a violation that goes on
                dropped = dropped + 1 if checker.counts["cleared"] > cleared else 0
                if dropped % (AGAIN + 1):
                    due = min(due, time.monotonic() + a.persist)
                say("violation", **found) if found else say("progress", **checker.counts)
            left = max(0.0, due - time.monotonic())
            if a.until_eof:
                if _options.input_ended(left):
                    break
            else:
                time.sleep(left)
        say("end", seconds=round(time.monotonic() - started, 3), **checker.counts)
    except BrokenPipeError:
        return 2
    return 1 if checker.counts["confirmed"] else 0


if __name__ == "__main__":
    sys.exit(main())
