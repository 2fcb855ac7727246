#!/usr/bin/python3
# SPDX-License-Identifier: GPL-2.0-only
#
# unclaimed   Find cores that stay idle while threads wait: the paper's online sanity checker.
#             For Linux, uses bcc (as a compiler) and BPF.
#
# USAGE: unclaimed [-h] [-S TIME] [-M TIME] [--seconds N] [--event-driven] [--before N] [--chronic] [--dir DIR]
#
# What: every S (default 1 s) a BPF program looks for an idle CPU and a thread that waits on another CPU and may run on
# the idle one. If there is such a pair, it keeps looking for M (default 100 ms). If the pair is still there, this is a
# violation: the last seconds before it (flight recorder) and 20 ms after it are written, and checking goes on.
#
# During M it watches migrations, new threads and exits on each CPU. An idle CPU that got a thread no longer counts, nor
# does an overloaded one that lost its last waiting thread. The suspicion is dropped when no other pair is left.
#
# With --chronic it also looks at every tick, M / 21. When at least five of the last ten slices of length M had a violation,
# however short, the last ten slices are recorded, so that the waste in them can be measured.
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

import contextlib
import json
import os
import sys
import time

import _bpf
import _btf
import _options
import _privilege
import _recorder
from _checker import Checker
from _unclaimed_options import parse

POLL_S = 0.05
#: the counts that each message contains
COUNTED = (
    "checks",
    "suspected",
    "cleared",
    "confirmed",
    "looked",
    "truncated",
    "moves",
    "useless",
    "recovered",
    "by_move",
    "by_fork",
    "by_exit",
)


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
    elif event == "chronic":
        print(
            "%s  violations come and go; ten slices of M were recorded" % time.strftime("%H:%M:%S"),
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
        print(_recorder.text("look.c", "tally.c", "unclaimed.c"), end="")
        return 0
    if a.probes:
        return show_probes(a)
    stop = _options.stop_signals()
    privileges = _privilege.least_privilege(perf_events=True)
    try:
        checker = Checker(a)
    except (_bpf.CannotLoad, OSError) as e:
        print("unclaimed: %s" % e, file=sys.stderr)
        return 2
    _privilege.drop_all(calls_bpf=True)
    _btf.kernel.cache_clear()  # everything is loaded
    say(
        a,
        "ready",
        privileges=privileges,
        way=checker.r.programs.way,
        no_object="; ".join(checker.r.no_object),
        s_ns=int(a.period * 1e9),
        m_ns=int(a.persist * 1e9),
    )
    try:
        watch(a, checker, stop)
    except BrokenPipeError:
        return 2
    except _bpf.CannotLoad as e:
        print("unclaimed: %s" % e, file=sys.stderr)
        return 2
    checker.r.close()
    return 1 if checker.state()["confirmed"] else 0


def show_probes(a):
    """Print how the balancer's decisions can be watched on this kernel, as a JSON object."""
    _privilege.least_privilege(perf_events=True)
    try:
        checker = Checker(a)
    except (_bpf.CannotLoad, OSError) as e:
        print("unclaimed: %s" % e, file=sys.stderr)
        return 2
    d, r = checker.decisions, checker.r
    found = {"how": d.how, "refused": d.refused, "sampled": d.sampled}
    print(json.dumps({**found, "way": r.programs.way, "no_object": "; ".join(r.no_object)}))
    return 0


def keep(a, event, blob, **fields):
    """Send a message with its recording, and write that into the folder for recordings if one was named."""
    if a.dir and blob:
        name = os.path.join(a.dir, "%s-%d.wct" % (event, fields["number"]))
        try:
            os.makedirs(a.dir, exist_ok=True)
            with open(name + ".part", "wb") as f:
                f.write(blob)
            os.replace(name + ".part", name)
        except OSError as e:
            with contextlib.suppress(OSError):
                os.unlink(name + ".part")
            print("unclaimed: %s: cannot write: %s" % (name, e.strerror), file=sys.stderr)
    say(a, event, blob if a.framed else b"", **fields)


def is_due(a, checker, number):
    """Return whether a violation is to be recorded; the options limit how many are, and how often."""
    now = time.monotonic()
    if number > a.evidence or now < checker.next_recording:
        return False
    checker.next_recording = now + a.every
    return True


def raise_violation(a, checker, s):
    """Send a violation that the kernel has raised, and let the kernel look again."""
    number = s["confirmed"]
    keep(
        a,
        "violation",
        checker.recording_of(s["began"]) if is_due(a, checker, number) else b"",
        idle_cpu=s["idle_cpu"],
        busy_cpu=s["busy_cpu"],
        pid=s["pid"],
        busy_nr=s["busy_nr"],
        began_ns=s["began"],
        confirmed_ns=s["confirmed_at"],
        lasted_ms=round((s["confirmed_at"] - s["began"]) / 1e6),
        cleared_ns=s["cleared_at"],
        late_ns=s["late"],
        number=number,
    )
    checker.put("hold", 0)


def counted(s):
    """Return the counts of the checker's state."""
    return {name: s[name] for name in COUNTED}


def sampled(a, checker):
    """Return what the samples add to a message: nothing unless they were asked for."""
    if not checker.tally:
        return {}
    seen, lost = checker.r.totals()
    return {
        "sample": checker.tally.totals(),
        "groups": checker.tally.changes(),
        "events": seen,
        "lost": lost,
        **({"deficits": checker.deficits} if a.deficit else {}),
    }


class Looks:
    """Notices that the kernel looks no more, as when the timer's CPU goes offline and comes back."""

    def __init__(self, period):
        self.most_s, self.missed_s = 2 * period + 5, 0.0
        self.last, self.now = None, time.monotonic()

    def add(self, s, now):
        """Take the state of the checker; raises CannotLoad if there was no look for two periods and 5 s."""
        # however long this process or the machine was stopped, the timer gets its turn
        passed, self.now = min(now - self.now, 1.0), now
        if s["hold"] or s["last_look"] != self.last:
            self.last, self.missed_s = s["last_look"], 0.0
            return
        self.missed_s += passed
        if self.missed_s > self.most_s:
            raise _bpf.CannotLoad(
                "there was no look for %g s, so the timer is lost; start this program again"
                % self.most_s
            )


def watch(a, checker, stop):
    """Wait until the kernel raises a violation, write its recording, and continue; raises CannotLoad if the timer is lost."""
    started = last_deficit = time.monotonic()
    rest_s = min(max(POLL_S, a.persist), 2 * POLL_S)
    raised = slices = 0
    quiet_until = started + 11 * a.persist  # until ten slices have been recorded
    last_ping = last_online = started
    up, looks = _bpf.online(), Looks(a.period)
    while not stop:
        now = time.monotonic()
        if a.seconds is not None and now - started >= a.seconds:
            break
        if a.until_eof and _options.input_ended():
            break
        if now - last_online >= 1:
            last_online, up = now, _bpf.online()
        if checker.timer_cpu not in up:  # the CPU went offline, and the timer with it
            try:
                checker.start_timers(up[0])
            except (_bpf.CannotLoad, OSError) as e:
                raise _bpf.CannotLoad(
                    "the CPU of the timer went offline; start this program again"
                ) from e
        s = checker.state()
        looks.add(s, now)
        if s["confirmed"] > raised:
            raised = s["confirmed"]
            raise_violation(a, checker, s)
            # a violation in these slices has been recorded already
            quiet_until = now + 11 * a.persist
        elif a.chronic and now >= quiet_until and checker.may_be_chronic(s):
            slices += 1
            keep(a, "chronic", checker.recording_of_slices(), number=slices)
            # the reader judges it on this machine, and its work must not be in the next recording
            quiet_until = time.monotonic() + min(600, 5 * 2**slices)
        if a.deficit and now - last_deficit >= a.period:
            bad, share = checker.deficit(now - last_deficit)
            last_deficit = now
            if bad:
                say(a, "deficit", cpus=bad, share={str(c): round(v, 3) for c, v in share.items()})
        if a.framed and now - last_ping >= 1:
            last_ping = now
            say(a, "progress", **counted(s), **sampled(a, checker))
        # without a suspicion nothing can be confirmed for at least M, so this may wait longer
        time.sleep(POLL_S if s["suspected_at"] or a.event_driven else rest_s)
    s = checker.state()
    seen, _ = checker.r.totals()
    say(
        a,
        "end",
        **counted(s),
        deficits=checker.deficits,
        events=seen,
        seconds=round(time.monotonic() - started, 3),
    )


if __name__ == "__main__":
    sys.exit(main())
