#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# unclaimed   Find cores that stay idle while threads wait: the paper's online sanity checker.
#             For Linux, uses bcc (as a compiler) and BPF.
#
# USAGE: unclaimed [-h] [-S TIME] [-M TIME] [--seconds N] [--event-driven] [--before N] [--dir DIR] [--metrics :PORT]
#
# What: every S (default 1 s) a BPF program looks for an idle CPU and a thread that waits on another CPU and may run on
# the idle one. If there is such a pair, it keeps looking for M (default 100 ms). If the pair is still there, this is a
# violation: the last seconds before it (flight recorder) and 20 ms after it are written, and checking goes on.
#
# During M it watches migrations, new threads and exits on each CPU. An idle CPU that got a thread no longer counts, nor
# does an overloaded one that lost its last waiting thread. The suspicion is dropped when no other pair is left.
#
# It knows these innocent reasons: affinity, which it respects; short imbalances, by M; tasks that delayed dequeue left on
# the queue. It cannot know that CPUs are kept free on purpose (isolated by cpusets without affinity). It does not look
# at real-time and deadline threads.
#
# Overhead: it is measured in benchmarks/RESULTS.md ("capture"). --before 0 records nothing until a violation is raised
# and then 20 ms of it, as the paper's checker did; this costs least. The flight recorder costs a few per cent on
# workloads that switch hundreds of thousands of times per second.
#
# REQUIRES: Linux 5.8+ with BTF; CAP_BPF and CAP_PERFMON, or root.

import argparse
import json
import os
import platform
import re
import select
import signal
import struct
import sys
import time

import _bpf
import _deficit
import _metrics
import _recorder

EXAMPLES = """examples:
    unclaimed                         # until Ctrl-C, one line per violation
    unclaimed -S 0.5s -M 50ms         # look twice per second, raise after 50 ms
    unclaimed --event-driven          # notice within M + 10 ms of the beginning
    unclaimed --dir evidence          # keep the recording of each violation there
    unclaimed --metrics :9100         # Prometheus text on 127.0.0.1:9100/metrics
    unclaimed --deficit --useless     # the paper's two other checks as well
"""
#: struct wc_check
CHECK = struct.Struct("<14Q4I2q12Q")
FIELDS = (
    "period",
    "persist",
    "event_driven",
    "hold",
    "next_check",
    "suspected_at",
    "misses",
    "dropped",
    "checks",
    "suspected",
    "cleared",
    "confirmed",
    "began",
    "confirmed_at",
    "idle_cpu",
    "busy_cpu",
    "pid",
    "busy_nr",
    "n_idle",
    "n_over",
    "moves",
    "useless",
    "looked",
    "truncated",
    "by_move",
    "by_fork",
    "by_exit",
    "recovered",
    "cleared_at",
    "last_look",
    "late",
    "own_ns",
)
#: the tracepoints that are watched during M
WATCHED = [
    ("sched_migrate_task", "watch_migrate"),
    ("sched_wakeup_new", "watch_new"),
    ("sched_process_exit", "watch_exit"),
]
POLL_S = 0.05
AFTER_S = 0.02


def seconds(text):
    """Return the seconds in '1s', '100ms', '250us' or a plain number of seconds."""
    m = re.fullmatch(r"([0-9]*\.?[0-9]+)(s|ms|us)?", text)
    if not m:
        raise argparse.ArgumentTypeError("%r: expected a time like 1s, 100ms" % text)
    return float(m.group(1)) * {"s": 1, "ms": 1e-3, "us": 1e-6, None: 1}[m.group(2)]


def address(text):
    """Return (host, port) of 'HOST:PORT'; the host of ':9100' is the loopback."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) < 65536:
        raise argparse.ArgumentTypeError("%r: expected :PORT or HOST:PORT" % text)
    return host or "127.0.0.1", int(port)


def parse(argv):
    """Parse the options."""
    p = argparse.ArgumentParser(
        prog="unclaimed",
        description="Find cores that stay idle while threads wait.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
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
        "--event-driven",
        action="store_true",
        help="look at every change of a runqueue instead of every S",
    )
    p.add_argument("--seconds", type=float, help="stop after this many seconds (default: Ctrl-C)")
    p.add_argument(
        "--before",
        type=float,
        default=2.0,
        metavar="N",
        help="flight recorder: keep N seconds before a violation (default: 2; 0: record only the 20 ms after)",
    )
    p.add_argument(
        "--buffer",
        type=float,
        default=8.0,
        metavar="MIB",
        help="size of each CPU's ring (default: 8)",
    )
    p.add_argument(
        "--evidence",
        type=int,
        default=5,
        metavar="N",
        help="keep at most N recordings (default: 5)",
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
        "--metrics",
        type=address,
        metavar=":PORT",
        help="serve Prometheus text (on the loopback unless a host is named)",
    )
    p.add_argument(
        "--own",
        type=int,
        metavar="PID",
        help="the process that started this one; neither of the two hides a violation or is one",
    )
    p.add_argument(
        "--framed", action="store_true", help="write JSON lines and recordings to standard output"
    )
    p.add_argument(
        "--until-eof", action="store_true", help="also stop when standard input is closed"
    )
    p.add_argument("--ebpf", action="store_true", help="print the BPF program and exit")
    a = p.parse_args(argv)
    if a.period < 0.001 or a.persist < 0.001:
        p.error("-S and -M must be at least 1ms")
    return a


class Checker:
    """The loaded checker and its state in shared memory."""

    def __init__(self, a):
        self.a = a
        # Many tasks wake up every 5, 10 or 50 ms. This is no divisor of such times, so no task meets look after look.
        self.tick = min(0.00937, max(0.00097, a.persist / 21.37))
        defines = ["-DSTEPS=256"]
        release = [int(x) for x in platform.release().split("-")[0].split(".")[:2]]
        if release >= [6, 1]:
            defines.append("-DDETACHED_LOAD=1")
        recording = a.before > 0
        extra = list(WATCHED)
        if a.event_driven:
            extra.append(("sched_update_nr_running_tp", "watch_nr"))
        self.r = r = _recorder.Recorder(
            _recorder.DEFAULT,
            a.buffer if recording else min(a.buffer, 1.0),
            overwrite=True,
            sources=("unclaimed.c",),
            defines=defines,
        )
        self.memory = memoryview(r.programs.mmap("check", 512, write=True))
        self.nr_of = memoryview(r.programs.mmap("nr_of", r.cpus * 8, write=True)).cast("I")
        for cpu in range(r.cpus):  # array elements are 8 bytes apart
            self.nr_of[cpu * 2] = 0xFFFFFFFF
        self.recording = recording
        self.put("period", int(a.period * 1e9))
        self.put("persist", int(a.persist * 1e9))
        self.put("event_driven", int(a.event_driven))
        self.put("hold", 1)
        sudo = os.getppid() if "SUDO_UID" in os.environ else 0
        struct.pack_into("<3I", self.memory, CHECK.size, os.getpid(), a.own or 0, sudo)
        r.start(extra, attach=recording)
        r.programs.iterate("task", "own_leaders")
        if a.event_driven and "sched_update_nr_running_tp" in r.programs.missing:
            raise _bpf.CannotLoad(
                "--event-driven needs the tracepoint sched_update_nr_running_tp (Linux 5.9 or later)"
            )
        if a.deficit:
            self.delays = self._delays()
        if a.event_driven:
            self._start_counts()
        self.put("next_check", time.monotonic_ns())
        r.programs.timer("on_timer", int(self.tick * 1e9), _bpf.online()[0])
        self.put("hold", 0)
        self.timer_cpu = _bpf.online()[0]
        self.deficits = 0

    def _start_counts(self):
        """Count each CPU that had no change yet as the first snapshot of all tasks found it."""
        size = 48 + 8 * self.r.mask_words
        for at in range(0, len(self.r.tasks) - size + 1, size):
            _, _, _, cpu, nr, *_ = struct.unpack_from("<QIIIIHHI16s", self.r.tasks, at)
            if cpu < self.r.cpus and self.nr_of[cpu * 2] == 0xFFFFFFFF:
                self.nr_of[cpu * 2] = nr
                field = "n_idle" if nr == 0 else "n_over" if nr >= 2 else None
                if field:
                    self.put(field, self.state()[field] + 1)

    def put(self, name, value):
        """Write one field of the shared state; only those that the loader may write."""
        assert FIELDS.index(name) < 14 or name in ("n_idle", "n_over")
        at = FIELDS.index(name) * 8 if FIELDS.index(name) < 14 else 128 + 8 * (name == "n_over")
        struct.pack_into("<q", self.memory, at, value)

    def state(self):
        """Return the shared state by name."""
        return dict(
            zip(FIELDS, CHECK.unpack_from(self.memory, 0), strict=False)
        )  # there are spare fields at the end

    def _delays(self):
        raw = self.r.programs.iterate("task", "delays") or b""
        return {pid: (delay, cpu) for delay, pid, cpu in struct.iter_unpack("<QII", raw)}

    def deficit(self, elapsed):
        """Return the CPUs with a run-delay deficit since the last call, and the waiting per second on every CPU."""
        now = self._delays()
        share = _deficit.shares(self.delays, now, _bpf.online(), elapsed)
        self.delays = now
        bad = _deficit.deficits(share)
        self.deficits += bool(bad)
        return bad, share

    def recording_of(self, began):
        """Return the recording of a violation, as one file in memory."""
        return self._last_seconds(began) if self.recording else self._from_now(began)

    def _last_seconds(self, began):
        """Wait 20 ms and return the flight recorder's content."""
        time.sleep(AFTER_S)
        parts, r = [], self.r
        since = r.dump(
            lambda views: parts.extend(bytes(v) for v in views),
            self.a.before + self.a.persist + AFTER_S + 0.2,
        )
        r.take_snapshot()
        head = r.header(flight_s=self.a.before, complete_from=since, violation_ns=began)
        return b"".join(
            [head, *r.snapshot_block(), *parts, *r.counters_block(), *r.end_block(why="violation")]
        )

    def _from_now(self, began):
        """Attach the recorder, take the state of every task and record for 20 ms, as the paper's checker did."""
        parts, r = [], self.r
        started = time.monotonic()
        r.attach()
        r.take_snapshot()
        head = [r.header(violation_ns=began), *r.snapshot_block()]
        time.sleep(AFTER_S)
        r.dump(lambda views: parts.extend(bytes(v) for v in views), time.monotonic() - started)
        r.detach()
        return b"".join([*head, *parts, *r.counters_block(), *r.end_block(why="violation")])

    def counts(self):
        """Return (name, value, help) of the metrics."""
        s = self.state()
        return [
            ("checks", s["checks"], "Looks at the invariant"),
            ("suspected", s["suspected"], "Looks that found a violation"),
            ("confirmed", s["confirmed"], "Violations that lasted M"),
            ("recovered", s["recovered"], "Suspicions that a migration, a fork or an exit ended"),
            ("balance_moves", s["moves"], "Balancing migrations"),
            (
                "useless_moves",
                s["useless"],
                "Balancing migrations to a queue that is at least as loaded",
            ),
            ("deficits", self.deficits, "Run-delay deficits"),
        ]


def say(a, event, blob=b"", **fields):
    """Send one message: a JSON line (and a recording) with --framed, else a line for people."""
    if a.framed:
        line = json.dumps({"event": event, "bytes": len(blob), **fields}) + "\n"
        out = sys.stdout.buffer
        out.write(line.encode() + blob)
        out.flush()
    elif event == "violation":
        print(
            "%s  CPU %d was idle for %d ms while pid %d waited among %d on CPU %d"
            % (
                time.strftime("%H:%M:%S"),
                fields["idle_cpu"],
                fields["lasted_ms"],
                fields["pid"],
                fields["busy_nr"],
                fields["busy_cpu"],
            ),
            flush=True,
        )
    elif event == "deficit":
        print(
            "%s  the threads of CPUs %s waited over 200 ms per second"
            % (time.strftime("%H:%M:%S"), fields["cpus"]),
            flush=True,
        )
    elif event in ("ready", "end"):
        print("unclaimed: %s" % json.dumps(fields), file=sys.stderr, flush=True)


def main(argv=None):
    """Run the program and return its exit code."""
    a = parse(argv)
    if a.ebpf:
        print(_recorder.text("unclaimed.c"), end="")
        return 0
    stop = []
    for sig in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(sig, lambda s, _: stop.append(signal.Signals(s).name))
    privileges = _recorder.least_privilege(perf_events=True)
    try:
        checker = Checker(a)
        server = _metrics.serve(a.metrics, checker.counts) if a.metrics else None
    except (_bpf.CannotLoad, OSError) as e:
        print("unclaimed: %s" % e, file=sys.stderr)
        return 2
    _recorder.drop_all()
    say(
        a,
        "ready",
        privileges=privileges,
        s_ns=int(a.period * 1e9),
        m_ns=int(a.persist * 1e9),
        metrics=server.server_address[1] if server else None,
    )
    try:
        watch(a, checker, stop)
    except BrokenPipeError:
        return 2
    checker.r.close()
    return 1 if checker.state()["confirmed"] else 0


def watch(a, checker, stop):
    """Wait until the kernel raises a violation, write its recording, and continue."""
    started = last_deficit = time.monotonic()
    raised = 0
    last_ping = last_online = started
    up = _bpf.online()
    while not stop:
        now = time.monotonic()
        if a.seconds is not None and now - started >= a.seconds:
            break
        if a.until_eof and select.select([0], [], [], 0)[0] and not os.read(0, 4096):
            break
        if now - last_online >= 1:
            last_online, up = now, _bpf.online()
        if checker.timer_cpu not in up:  # the CPU went offline, and the timer with it
            checker.timer_cpu = up[0]
            try:
                checker.r.programs.timer("on_timer", int(checker.tick * 1e9), checker.timer_cpu)
            except (_bpf.CannotLoad, OSError):
                print(
                    "unclaimed: the CPU of the timer went offline; start this program again",
                    file=sys.stderr,
                )
                break
        s = checker.state()
        if s["confirmed"] > raised:
            raised = s["confirmed"]
            blob = checker.recording_of(s["began"]) if raised <= a.evidence else b""
            fields = {
                "idle_cpu": s["idle_cpu"],
                "busy_cpu": s["busy_cpu"],
                "pid": s["pid"],
                "busy_nr": s["busy_nr"],
                "began_ns": s["began"],
                "confirmed_ns": s["confirmed_at"],
                "lasted_ms": round((s["confirmed_at"] - s["began"]) / 1e6),
                "cleared_ns": s["cleared_at"],
                "late_ns": s["late"],
                "number": raised,
            }
            if a.dir and blob:
                os.makedirs(a.dir, exist_ok=True)
                with open(os.path.join(a.dir, "violation-%d.wct" % raised), "wb") as f:
                    f.write(blob)
            say(a, "violation", blob if a.framed else b"", **fields)
            checker.put("hold", 0)
        if a.deficit and now - last_deficit >= a.period:
            bad, share = checker.deficit(now - last_deficit)
            last_deficit = now
            if bad:
                say(a, "deficit", cpus=bad, share={str(c): round(v, 3) for c, v in share.items()})
        if a.framed and now - last_ping >= 1:
            last_ping = now
            say(
                a,
                "progress",
                checks=s["checks"],
                suspected=s["suspected"],
                confirmed=s["confirmed"],
            )
        time.sleep(POLL_S)
    s = checker.state()
    seen, _ = checker.r.totals()
    say(
        a,
        "end",
        checks=s["checks"],
        suspected=s["suspected"],
        cleared=s["cleared"],
        confirmed=s["confirmed"],
        looked=s["looked"],
        truncated=s["truncated"],
        moves=s["moves"],
        useless=s["useless"],
        recovered=s["recovered"],
        by_move=s["by_move"],
        by_fork=s["by_fork"],
        by_exit=s["by_exit"],
        deficits=checker.deficits,
        events=seen,
        seconds=round(time.monotonic() - started, 3),
    )


if __name__ == "__main__":
    sys.exit(main())
