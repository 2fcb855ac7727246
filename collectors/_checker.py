# SPDX-License-Identifier: GPL-2.0-only
"""The online checker: its programs are loaded, its state is in shared memory, and its recordings are taken."""

import os
import struct
import time

import _bpf
import _btf
import _decisions
import _deficit
import _recorder
import _tally

#: struct wc_check
CHECK = struct.Struct("<14Q4I2q16Q")
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
    "every_tick",
    "slice",
    "wasted",
    "gap",
)
#: the fields of the shared state that this process may write -> their offsets in bytes
_AT = {
    **{name: 8 * i for i, name in enumerate(FIELDS[:14])},
    "n_idle": 128,
    "n_over": 136,
    **{name: 144 + 8 * i for i, name in enumerate(FIELDS[20:])},
}
#: chronic waste: the number of last slices that are examined, and in how many of them a look must have found a pair
SLICES, NEEDED = 10, 5
#: the tracepoints that are watched during M
WATCHED = [
    ("sched_migrate_task", "watch_migrate"),
    ("sched_wakeup_new", "watch_new"),
    ("sched_process_exit", "watch_exit"),
]
AFTER_S = 0.02


class Checker:
    """The loaded checker and its state in shared memory."""

    def __init__(self, a):
        self.a = a
        # Many tasks wake up every 5, 10 or 50 ms. This is no divisor of such times, so no task meets look after look.
        self.tick = min(0.00937, max(0.00097, a.persist / 21.37))
        recording = a.before > 0
        extra = list(WATCHED)
        if a.event_driven:
            extra.append(("sched_update_nr_running_tp", "watch_nr"))
        self.r = r = _recorder.Recorder(
            _recorder.DEFAULT,
            a.buffer if recording else min(a.buffer, 1.0),
            overwrite=True,
            sources=("look.c", "tally.c", "unclaimed.c", "decisions.c"),
            # with 128 CPUs or more, a look examines fewer tasks, because the verifier follows every step of bcc's unrolled loops
            defines=[
                f"-DSTEPS={256 if _bpf.possible() < 128 else 128}",
                *_decisions.defines(_btf.kernel()),
            ],
            functions=None if a.bcc else self._functions(a, extra),
        )
        self.memory = memoryview(r.programs.mmap("check", 512, write=True))
        self.nr_of = memoryview(r.programs.mmap("nr_of", r.cpus * 8, write=True)).cast("I")
        for cpu in range(r.cpus):  # array elements are 8 bytes apart
            self.nr_of[cpu * 2] = 0xFFFFFFFF
        self.recording = recording
        self.put("period", int(a.period * 1e9))
        self.put("persist", int(a.persist * 1e9))
        self.put("event_driven", int(a.event_driven))
        self.put("every_tick", int(a.chronic))
        self.put("gap", int(4 * self.tick * 1e9))
        self.put("hold", 1)
        sudo = os.getppid() if "SUDO_UID" in os.environ else 0
        struct.pack_into("<3I", self.memory, CHECK.size, os.getpid(), a.own or 0, sudo)
        if a.event_driven:
            self._start_counts()  # while the kernel does not count yet: this program's additions are not atomic
        r.start(extra, attach=recording)
        r.programs.iterate("task", "own_leaders")
        self.decisions = _decisions.Decisions(r.programs) if a.profile else None
        if a.event_driven and "sched_update_nr_running_tp" in r.programs.missing:
            raise _bpf.CannotLoad(
                "--event-driven needs the tracepoint sched_update_nr_running_tp (Linux 5.9 or later)"
            )
        if a.deficit:
            self.delays = self._delays()
        self.put("next_check", time.monotonic_ns())
        self.tally = _tally.Tally(r.programs) if a.tally else None
        self.start_timers(_bpf.online()[0])
        self.put("hold", 0)
        self.deficits, self.next_recording = 0, 0.0

    @staticmethod
    def _functions(a, extra):
        """Return the names of the BPF programs that the checker needs besides those of the recorder."""
        names = {"own_leaders", "on_timer", *(function for _, function in extra)}
        if a.profile:
            names |= _decisions.NAMES
        return names | ({"delays"} if a.deficit else set()) | ({"on_sample"} if a.tally else set())

    def start_timers(self, cpu):
        """Look, and take samples, at the ticks of one CPU."""
        self.timer_cpu = cpu
        self.r.programs.timer("on_timer", int(self.tick * 1e9), cpu)
        if self.tally:
            self.r.programs.timer("on_sample", _tally.PERIOD_NS, cpu)

    def _start_counts(self):
        """Give each CPU the state that a snapshot of all tasks shows. One that has changed since is right at its next change."""
        self.r.take_snapshot()
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
        struct.pack_into("<q", self.memory, _AT[name], value)

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
        if not self.recording:
            return self._from_now(began, self.a.profile or AFTER_S, self.decisions)
        return self._last_seconds(began, self.a.before + self.a.persist, self.decisions)

    def may_be_chronic(self, s):
        """Return whether the looks at every tick found pairs in enough slices and no suspicion is open."""
        return bin(s["wasted"]).count("1") >= NEEDED and not s["suspected_at"]

    def recording_of_slices(self):
        """Return a recording of more than ten slices, as one file in memory; the checker pauses meanwhile."""
        self.put("hold", 1)
        self.put("suspected_at", 0)
        slices_s = (SLICES + 1) * self.a.persist
        if self.recording:
            blob = self._last_seconds(None, max(self.a.before, slices_s))
        else:
            blob = self._from_now(None, slices_s)
        self.put("wasted", 0)
        self.put("hold", 0)
        return blob

    def _watched(self, seconds, decisions):
        """Wait, and profile the load balancer meanwhile if asked to; return the block of its decisions."""
        if not decisions:
            time.sleep(seconds)
            return []
        payload = decisions.profile(seconds)
        return [self.r.block(_recorder.DECISIONS, len(payload)), payload]

    def _last_seconds(self, began, seconds, decisions=None):
        """Wait 20 ms and return the flight recorder's content."""
        decided = self._watched(self.a.profile or AFTER_S, decisions)
        parts, r = [], self.r
        since = r.dump(
            lambda views: parts.extend(bytes(v) for v in views),
            seconds + AFTER_S + 0.2,
        )
        r.take_snapshot()
        head = r.header(flight_s=self.a.before, complete_from=since, violation_ns=began)
        return b"".join(
            [
                head,
                *r.snapshot_block(),
                *parts,
                *decided,
                *r.counters_block(),
                *r.end_block(why="violation"),
            ]
        )

    def _from_now(self, began, seconds, decisions=None):
        """Attach the recorder, take the state of every task and record for a while, as the paper's checker did."""
        parts, r = [], self.r
        started = time.monotonic()
        r.attach()
        r.take_snapshot()
        head = [r.header(violation_ns=began), *r.snapshot_block()]
        decided = self._watched(seconds, decisions)
        r.dump(lambda views: parts.extend(bytes(v) for v in views), time.monotonic() - started)
        r.detach()
        return b"".join(
            [*head, *parts, *decided, *r.counters_block(), *r.end_block(why="violation")]
        )
