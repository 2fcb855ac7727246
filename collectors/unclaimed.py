#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# unclaimed   Find cores that stay idle while threads wait: the paper's online sanity checker.
#             For Linux, uses bcc (as a compiler) and BPF.
#
# USAGE: unclaimed [-h] [-S TIME] [-M TIME] [--seconds N] [--event-driven] [--before N] [--dir DIR] [--metrics :PORT]
#
# What: every S (default 1 s) the kernel looks for an idle CPU and a thread that waits on another CPU and may run on the
# idle one. If there is one, it keeps looking for M (default 100 ms); what is still there then is a violation: the last
# seconds before it (flight recorder) and 20 ms after it are written, and checking goes on.
#
# Innocent reasons it knows: affinity (respected), short imbalances (M), a task left queued by delayed dequeue.
# Innocent reasons it cannot know: CPUs kept free on purpose (isolated by cpusets without affinity). Real-time and
# deadline threads are not looked at.
#
# Overhead: measured, see benchmarks/RESULTS.md ("capture"). --before 0 records nothing until a violation is raised and
# costs least; the flight recorder costs a few per cent on workloads that switch hundreds of thousands of times a second.
#
# REQUIRES: Linux 5.8+ with BTF; CAP_BPF and CAP_PERFMON, or root.

import argparse
import http.server
import json
import os
import re
import select
import signal
import struct
import sys
import threading
import time

import _bpf
import _recorder

EXAMPLES = """examples:
    unclaimed                         # until Ctrl-C, one line per violation
    unclaimed -S 0.5s -M 50ms         # look twice a second, raise after 50 ms
    unclaimed --event-driven          # notice within M + 10 ms of the beginning
    unclaimed --dir evidence          # keep the recording of each violation there
    unclaimed --metrics :9100         # Prometheus text on 127.0.0.1:9100/metrics
    unclaimed --deficit --useless     # the paper's two other checks as well
"""
#: struct wc_check
CHECK = struct.Struct("<14Q4I2q4Q")
FIELDS = (
    "period",
    "persist",
    "event_driven",
    "hold",
    "next_check",
    "suspected_at",
    "misses",
    "last_miss",
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
)
POLL_S = 0.05
AFTER_S = 0.02
#: the artefact's second invariant: 200 ms of waiting per second
DEFICIT = 0.2


def seconds(text):
    """'1s', '100ms', '250us' or a plain number of seconds."""
    m = re.fullmatch(r"([0-9]*\.?[0-9]+)(s|ms|us)?", text)
    if not m:
        raise argparse.ArgumentTypeError("%r: expected a time like 1s, 100ms" % text)
    return float(m.group(1)) * {"s": 1, "ms": 1e-3, "us": 1e-6, None: 1}[m.group(2)]


def address(text):
    """':9100' -> loopback; 'HOST:PORT' as said."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdigit() or not 0 <= int(port) < 65536:
        raise argparse.ArgumentTypeError("%r: expected :PORT or HOST:PORT" % text)
    return host or "127.0.0.1", int(port)


def parse(argv):
    """Options."""
    p = argparse.ArgumentParser(
        prog="unclaimed",
        description="Find cores that stay idle while threads wait.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("-S", "--period", type=seconds, default=1.0, help="look every S (default 1s)")
    p.add_argument(
        "-M", "--persist", type=seconds, default=0.1, help="raise what lasts M (default 100ms)"
    )
    p.add_argument(
        "--event-driven", action="store_true", help="look at every change instead of every S"
    )
    p.add_argument("--seconds", type=float, help="stop after this many seconds (default: Ctrl-C)")
    p.add_argument(
        "--before",
        type=float,
        default=2.0,
        metavar="N",
        help="flight recorder: seconds kept before a violation (default 2; 0: no recorder)",
    )
    p.add_argument(
        "--buffer", type=float, default=8.0, metavar="MIB", help="ring per CPU (default 8)"
    )
    p.add_argument(
        "--evidence",
        type=int,
        default=5,
        metavar="N",
        help="recordings to keep at most (default 5)",
    )
    p.add_argument("--dir", help="folder for recordings (made if absent)")
    p.add_argument(
        "--deficit", action="store_true", help="also: CPUs whose threads wait over 200 ms a second"
    )
    p.add_argument(
        "--useless", action="store_true", help="also: balancing moves to a queue at least as loaded"
    )
    p.add_argument(
        "--metrics",
        type=address,
        metavar=":PORT",
        help="Prometheus text (loopback unless a host is named)",
    )
    p.add_argument(
        "--framed", action="store_true", help="JSON lines and recordings on standard output"
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
    """The program, its state in shared memory, what the loader adds."""

    def __init__(self, a):
        self.a = a
        self.tick = min(0.01, max(0.001, a.persist / 20))
        defines = ["-DSTEPS=256", *(["-DEVENT_DRIVEN=1"] if a.event_driven else [])]
        recording = a.before > 0
        events = _recorder.DEFAULT if recording else ()
        extra = [("sched_migrate_task", "on_migrate")] if not recording else []
        if a.event_driven and not recording:
            extra.append(("sched_update_nr_running_tp", "on_nr_running"))
        self.r = r = _recorder.Recorder(
            events,
            a.buffer if recording else 0.02,
            overwrite=True,
            sources=("unclaimed.c",),
            defines=[*defines, "-DHAVE_CHECKER=1"],
        )
        self.memory = memoryview(r.programs.mmap("check", 256, write=True))
        self.nr_of = memoryview(r.programs.mmap("nr_of", r.cpus * 8, write=True)).cast("I")
        for cpu in range(r.cpus):  # array elements are 8 bytes apart
            self.nr_of[cpu * 2] = 0xFFFFFFFF
        self.recording = recording
        self.put("period", int(a.period * 1e9))
        self.put("persist", int(a.persist * 1e9))
        self.put("event_driven", int(a.event_driven))
        self.put("hold", 1)
        r.start(extra)
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
        """A CPU that had no change yet is as the first look at every task found it."""
        size = 48 + 8 * self.r.mask_words
        for at in range(0, len(self.r.tasks) - size + 1, size):
            _, _, _, cpu, nr, *_ = struct.unpack_from("<QIIIIHHI16s", self.r.tasks, at)
            if cpu < self.r.cpus and self.nr_of[cpu * 2] == 0xFFFFFFFF:
                self.nr_of[cpu * 2] = nr
                field = "n_idle" if nr == 0 else "n_over" if nr >= 2 else None
                if field:
                    self.put(field, self.state()[field] + 1)

    def put(self, name, value):
        """Write one field of the shared state."""
        assert FIELDS.index(name) < 14 or name in ("n_idle", "n_over")
        at = FIELDS.index(name) * 8 if FIELDS.index(name) < 14 else 128 + 8 * (name == "n_over")
        struct.pack_into("<q", self.memory, at, value)

    def state(self):
        """The shared state by name."""
        return dict(
            zip(FIELDS, CHECK.unpack_from(self.memory, 0), strict=False)
        )  # spare fields at the end

    def _delays(self):
        raw = self.r.programs.iterate("task", "delays") or b""
        return {pid: (delay, cpu) for delay, pid, cpu in struct.iter_unpack("<QII", raw)}

    def deficit(self, elapsed):
        """CPUs whose threads waited over 200 ms per second while another's waited a tenth of that."""
        now = self._delays()
        per_cpu = dict.fromkeys(_bpf.online(), 0)
        for pid, (delay, cpu) in now.items():
            if cpu in per_cpu:
                per_cpu[cpu] += max(0, delay - self.delays.get(pid, (delay, cpu))[0])
        self.delays = now
        share = {c: d / 1e9 / elapsed for c, d in per_cpu.items()}
        bad = [c for c, s in share.items() if s > DEFICIT and min(share.values()) < 0.1 * s]
        self.deficits += bool(bad)
        return bad, share

    def recording_of(self, began):
        """The flight recorder as one file in memory."""
        parts = []
        r = self.r
        since = r.dump(
            lambda views: parts.extend(bytes(v) for v in views),
            self.a.before + self.a.persist + AFTER_S + 0.2,
        )
        r.take_snapshot()
        head = r.header(flight_s=self.a.before, complete_from=since, violation_ns=began)
        return b"".join(
            [head, *r.snapshot_block(), *parts, *r.counters_block(), *r.end_block(why="violation")]
        )


def metrics_server(where, checker):
    """Prometheus text format on its own thread."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            if self.path not in ("/metrics", "/"):
                self.send_error(404)
                return
            s = checker.state()
            rows = [
                ("checks", s["checks"], "Looks at the invariant"),
                ("suspected", s["suspected"], "Looks that found one"),
                ("confirmed", s["confirmed"], "Violations that lasted M"),
                ("balance_moves", s["moves"], "Balancing migrations"),
                ("useless_moves", s["useless"], "of them to a queue at least as loaded"),
                ("deficits", checker.deficits, "Run-delay deficits"),
            ]
            text = "".join(
                "# HELP wastedcores_%s_total %s\n# TYPE wastedcores_%s_total counter\nwastedcores_%s_total %d\n"
                % (n, h, n, n, v)
                for n, v, h in rows
            ).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *args):
            pass

    server = http.server.HTTPServer(where, Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def say(a, event, blob=b"", **fields):
    """One message: a JSON line (and a recording) when framed, else a line for people."""
    if a.framed:
        line = json.dumps({"event": event, "bytes": len(blob), **fields}) + "\n"
        out = sys.stdout.buffer
        out.write(line.encode() + blob)
        out.flush()
    elif event == "violation":
        print(
            "%s  CPU %d idle for %d ms while %d (pid %d) waits among %d on CPU %d"
            % (
                time.strftime("%H:%M:%S"),
                fields["idle_cpu"],
                fields["lasted_ms"],
                fields["pid"],
                fields["pid"],
                fields["busy_nr"],
                fields["busy_cpu"],
            ),
            flush=True,
        )
    elif event == "deficit":
        print(
            "%s  threads of CPU %s waited over 200 ms/s"
            % (time.strftime("%H:%M:%S"), fields["cpus"]),
            flush=True,
        )
    elif event in ("ready", "end"):
        print("unclaimed: %s" % json.dumps(fields), file=sys.stderr, flush=True)


def main(argv=None):
    """Entry point."""
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
        server = metrics_server(a.metrics, checker) if a.metrics else None
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
    checker.r.programs.detach()
    return 1 if checker.state()["confirmed"] else 0


def watch(a, checker, stop):
    """Wait for the kernel to raise something; dump; go on."""
    started = last_deficit = time.monotonic()
    raised = 0
    last_ping = started
    while not stop:
        now = time.monotonic()
        if a.seconds is not None and now - started >= a.seconds:
            break
        if a.until_eof and select.select([0], [], [], 0)[0] and not os.read(0, 4096):
            break
        if checker.timer_cpu not in _bpf.online():  # its CPU went away, and the timer with it
            checker.timer_cpu = _bpf.online()[0]
            try:
                checker.r.programs.timer("on_timer", int(checker.tick * 1e9), checker.timer_cpu)
            except (_bpf.CannotLoad, OSError):
                print("unclaimed: the CPU of the timer went offline: start again", file=sys.stderr)
                break
        s = checker.state()
        if s["confirmed"] > raised:
            raised = s["confirmed"]
            blob = b""
            if checker.recording and raised <= a.evidence:
                time.sleep(AFTER_S)
                blob = checker.recording_of(s["began"])
            fields = {
                "idle_cpu": s["idle_cpu"],
                "busy_cpu": s["busy_cpu"],
                "pid": s["pid"],
                "busy_nr": s["busy_nr"],
                "began_ns": s["began"],
                "confirmed_ns": s["confirmed_at"],
                "lasted_ms": round((s["confirmed_at"] - s["began"]) / 1e6),
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
        deficits=checker.deficits,
        events=seen,
        seconds=round(time.monotonic() - started, 3),
    )


if __name__ == "__main__":
    sys.exit(main())
