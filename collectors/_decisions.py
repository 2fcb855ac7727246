# SPDX-License-Identifier: GPL-2.0-only
"""The balancer's decisions after a violation: probes that are attached for 20 ms, and the marks that balancing leaves.

load_balance() and find_busiest_group() are probed by fentry, else by kprobe, where this kernel allows either. Without a probe
the domains are read every millisecond: sched_domain.last_balance, nr_balance_failed and the tasks that were pulled tell which
CPU asked at which level and whether that failed, but not why. Newidle balancing leaves no mark.
"""

import itertools
import json
import os
import struct
import time

import _bpf
import _btf
import _probes

#: name here -> the kernel's names for it, newest first (renamed in 6.10)
FUNCTIONS = {
    "load_balance": ("sched_balance_rq", "load_balance"),
    "find_busiest_group": ("sched_balance_find_src_group", "find_busiest_group"),
}
#: function -> its programs: at entry by fentry and kprobe, at return by fexit and kretprobe
PROGRAMS = {
    "load_balance": (("fe_load_balance", False), ("fx_load_balance", True)),
    "find_busiest_group": (("fx_find_busiest_group", True),),
}
KPROBES = {"fe_load_balance": "kp_load_balance", "fx_load_balance": "kr_load_balance",
           "fx_find_busiest_group": "kr_find_busiest_group"}  # fmt: skip
#: the names of all programs
NAMES = {"domains", *KPROBES, *KPROBES.values()}
OFFSETS = {
    "OFF_RQ_SD": ("rq", "sd"),
    "OFF_SD_PARENT": ("sched_domain", "parent"),
    "OFF_SD_GROUPS": ("sched_domain", "groups"),
    "OFF_SD_LEVEL": ("sched_domain", "level"),
    "OFF_SD_NAME": ("sched_domain", "name"),
    "OFF_SD_LAST": ("sched_domain", "last_balance"),
    "OFF_SD_INTERVAL": ("sched_domain", "balance_interval"),
    "OFF_SD_FAILED": ("sched_domain", "nr_balance_failed"),
    "OFF_SG_NEXT": ("sched_group", "next"),
    "OFF_SG_SGC": ("sched_group", "sgc"),
    "OFF_SG_SPAN": ("sched_group", "cpumask"),
    "OFF_SGC_CAPACITY": ("sched_group_capacity", "capacity"),
    "OFF_ENV_IMBALANCE": ("lb_env", "imbalance"),
}
VIEW_HEAD = struct.Struct("<4I2Q6I16s16Q")
ASK = struct.Struct("<2Q7I3i")
GROUPS, ASKS = 16, 8192
SAMPLE_S = 0.001
IDLE_NAMES = {
    "CPU_IDLE": "idle",
    "CPU_NOT_IDLE": "busy",
    "__CPU_NOT_IDLE": "busy",
    "CPU_NEWLY_IDLE": "newidle",
}


def defines(btf):
    """Return the offsets that decisions.c needs, as options of the compiler."""
    found = {macro: btf.offset(*where) for macro, where in OFFSETS.items()}
    found["OFF_SD_SPAN"] = _probes.span_offset(btf)
    return _bpf.constants(found)


class Decisions:
    """Programs that are loaded now and attached for some milliseconds after a violation."""

    def __init__(self, programs):
        self.programs, self.words = programs, programs.most_words
        self.how, self.refused, self.ready = {}, {}, []
        self.idle = {programs.btf.enum_value("cpu_idle_type", k): v for k, v in IDLE_NAMES.items()}
        self.view = struct.Struct("%s%dQ" % (VIEW_HEAD.format, GROUPS * self.words))
        self.asks = memoryview(programs.mmap("asks", ASKS * ASK.size))
        self.count = memoryview(programs.mmap("asked", 8, write=True))
        try:
            self.sampled = bool(self._views())
        except (_bpf.CannotLoad, OSError, KeyError) as e:
            self.sampled, self.refused["domains"] = False, str(e).splitlines()[0]
        for name, names in FUNCTIONS.items():
            # a function with type information has its plain name; others need a kprobe, and reading all symbols takes 0.1 s
            symbol = next((n for n in names if programs.btf.id_of(_btf.FUNC, n)), None)
            if not symbol or _probes.KPROBE_TYPE.exists():
                symbol = _probes.symbols({name: names})[name]
            try:
                self._prepare(name, symbol)
            except (_bpf.CannotLoad, OSError) as e:
                self.refused[name] = str(e).splitlines()[0]
        if "load_balance" not in self.how:  # find_busiest_group() alone tells nothing
            self.how, self.ready = {}, []

    def _prepare(self, name, symbol):
        """Load the programs of a function, so that attaching them needs no privilege since 5.19."""
        if not symbol:
            raise _bpf.CannotLoad("not in this kernel, or inlined")
        tid = self.programs.btf.id_of(_btf.FUNC, symbol)
        try:
            if not tid:
                raise _bpf.CannotLoad("no type information of %s" % symbol)
            loaded = [
                self.programs.load(
                    func, _bpf.TYPE_TRACING, _probes.FEXIT if at_return else _bpf.ATTACH_FENTRY, tid
                )
                for func, at_return in PROGRAMS[name]
            ]
            self.ready += [("fentry", fd) for fd in loaded]
            self.how[name] = "fentry"
        except (_bpf.CannotLoad, OSError) as e:
            if not _probes.KPROBE_TYPE.exists():
                raise _bpf.CannotLoad(
                    "fentry: %s; kprobe: this kernel has none (CONFIG_KPROBES)"
                    % str(e).splitlines()[0]
                ) from e
            for func, at_return in PROGRAMS[name]:
                fd = _probes.open_kprobe(self.programs, KPROBES[func], symbol, at_return)
                self.ready.append(("kprobe", fd))
            self.how[name] = "kprobe"

    def _views(self):
        """Read the domains of all CPUs: a list per CPU, the innermost first. None before 5.8, or if the kernel refuses."""
        raw = self.programs.iterate("task", "domains")
        if raw is None:
            return None
        out = {}
        for at in range(0, len(raw) - self.view.size + 1, self.view.size):
            v = View(self.view.unpack_from(raw, at), self.words)
            out.setdefault(v.cpu, []).append(v)
        return out

    def _attach(self):
        """Attach the probes and return their links; if the kernel refuses one, none is tried again."""
        links = []
        try:
            for kind, fd in self.ready:
                if kind == "fentry":
                    links.append(_bpf.bpf(_bpf.RAW_TRACEPOINT_OPEN, struct.pack("<QI", 0, fd)))
                else:
                    _probes.enable(fd)
        except (_bpf.CannotLoad, OSError) as e:
            self._detach(links)
            self.refused.update(dict.fromkeys(self.how, getattr(e, "strerror", None) or str(e)))
            self.how, self.ready, links = {}, [], []
        return links

    def _detach(self, links):
        for link in links:
            os.close(link)
        for kind, fd in self.ready:
            if kind == "kprobe":
                _probes.disable(fd)

    def profile(self, seconds):
        """Attach, watch, detach, and return the payload of a block: JSON with the decisions."""
        # nothing is attached, so all places are free again
        struct.pack_into("<Q", self.count, 0, 0)
        links = self._attach()
        samples, end = [], time.monotonic() + seconds
        while time.monotonic() < end or (self.sampled and len(samples) < 2):
            if self.sampled:
                now, views = time.monotonic_ns(), self._views()
                if views is None:
                    self.sampled, self.refused["domains"] = False, "the iterator cannot be read"
                else:
                    samples.append((now, views))
            time.sleep(SAMPLE_S)
        self._detach(links)
        (calls,) = struct.unpack_from("<Q", self.count)
        rows = without_domain(samples)
        rows += self._probed(calls, samples) if self.how else sampled(samples)
        return json.dumps(
            {
                "how": self.how,
                "refused": self.refused,
                "sampled": self.sampled,
                "lost": max(0, calls - ASKS),
                "rows": rows,
            }
        ).encode()

    def _probed(self, calls, samples):
        """Return a row per call that the probes saw."""
        rows = []
        for i in range(min(calls, ASKS)):
            ts, imbalance, cpu, by_cpu, idle, level, before, after, goes_on, moved, busiest, _ = (
                ASK.unpack_from(self.asks, i * ASK.size)
            )
            views = [s for t, s in samples if t <= ts] or [s for _, s in samples]
            at = next(
                (v for v in (views[-1] if views else {}).get(cpu, ()) if v.level == level), None
            )
            if moved > 0:
                result = "moved"
            elif not goes_on:
                result = "not_designated"
            elif busiest == 0:
                result = "balanced"
            else:
                result = "failed" if after > before else "nothing_moved"
            text = (
                described(at, views[-1] if views else {})
                if at and result != "not_designated"
                else {}
            )
            text.update(level=at.name if at else "level %d" % level, by_cpu=by_cpu, idle=self.idle.get(idle),
                        imbalance=imbalance, nr_balance_failed=before)  # fmt: skip
            rows.append([ts, cpu, None, result, max(moved, 0), text])
        return rows


class View:
    """One domain of one CPU as the kernel had it."""

    def __init__(self, values, words):
        (self.cpu, self.depth, self.nr, self.has_domain, self.load, self.last_balance, self.interval,
         self.failed, self.level, self.groups, self.pulled, _, name) = values[:13]  # fmt: skip
        self.name = name.split(b"\0")[0].decode(errors="replace") or "level %d" % self.level
        capacity, spans = values[13:29], values[29:]
        self.capacity = capacity[: self.groups]
        self.spans = [
            [64 * w + b for w in range(words) for b in range(64) if spans[words * g + w] >> b & 1]
            for g in range(self.groups)
        ]


def without_domain(samples):
    """Return two rows, for the beginning and the end, for each CPU without a domain, on which the balancer is never started."""
    return [
        [ts, cpu, None, "no_domain", 0, {"idle": "busy" if own[0].nr else "idle"}]
        for ts, views in (samples[:1] + samples[-1:] if len(samples) > 1 else samples)
        for cpu, own in sorted(views.items())
        if not own[0].has_domain
    ]


def sampled(samples):
    """Return a row per call that left a mark between two samples."""
    rows = []
    for (_, before), (ts, now) in itertools.pairwise(samples):
        for cpu, own in now.items():
            old = {v.level: v for v in before.get(cpu, ()) if v.has_domain}
            for v in own:
                was = old.get(v.level)
                if not v.has_domain or was is None or was.last_balance == v.last_balance:
                    continue
                moved = v.pulled - was.pulled
                result = (
                    "moved" if moved > 0 else "failed" if v.failed > was.failed else "nothing_moved"
                )
                text = described(v, before)
                text.update(nr_balance_failed=was.failed)
                rows.append([ts, cpu, None, result, max(moved, 0), text])
    return rows


def described(v, views):
    """Return the statistics of a domain's groups, under the keys of a decision's text."""
    state = {cpu: own[0] for cpu, own in views.items()}
    groups = {
        key: []
        for key in ("cpus", "local", "load", "avg_load", "nr_running", "idle_cpus", "capacity")
    }
    busiest = None
    for i, (cpus, capacity) in enumerate(zip(v.spans, v.capacity, strict=True)):
        seen = [state[c] for c in cpus if c in state]
        load = sum(s.load for s in seen)
        groups["cpus"].append(ranges(cpus))
        groups["local"].append(v.cpu in cpus)
        groups["load"].append(load)
        groups["avg_load"].append(load * 1024 // capacity if capacity else 0)
        groups["nr_running"].append(sum(s.nr for s in seen))
        groups["idle_cpus"].append(sum(s.nr == 0 for s in seen))
        groups["capacity"].append(capacity)
        most = -1 if busiest is None else groups["avg_load"][busiest]
        if v.cpu not in cpus and groups["avg_load"][i] > most:
            busiest = i
    idle = "busy" if v.cpu in state and state[v.cpu].nr else "idle"
    return {
        "level": v.name,
        "idle": idle,
        "busiest": busiest,
        "interval_ms": v.interval,
        "compares": "avg_load",
        "groups": groups,
    }


def ranges(cpus):
    """[0, 1, 2, 5] -> '0-2,5'."""
    out = []
    for c in cpus:
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return ",".join(str(a) if a == b else "%d-%d" % (a, b) for a, b in out)
