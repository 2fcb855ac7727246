"""Right solutions of each lab by three students: one writes little, one writes much, and one thinks differently."""

# ruff: noqa: E501 - a line is what a student writes
from __future__ import annotations

MINIMAL = {
    1: {
        "1": "queues = toy.at(rows, start)",
        "2": "kind = ('idle', 'busy', 'overloaded').__getitem__\nkind = lambda n, words=kind: words(min(n, 2))",
        "3": """
def violations(rows, a, b):
    times = sorted({a, b, *(t for t, _, _ in rows if a < t < b)})
    bad = lambda t: {0} <= (q := set({c: min(n, 2) for x, c, n in rows if x <= t}.values())) and 2 in q
    on = [t for t in times[:-1] if bad(t)]
    edges = [t for t in times if (t in on) != (times[times.index(t) - 1] in on if t != a else False) and (t != b or times[-2] in on)]
    return list(zip(edges[::2], edges[1::2]))""",
        "4": "wasted_ms = sum(b - a for a, b in violations(rows, start, end)) / 1e6",
        "5": "longest = sorted(((b - a) / 1e6 for a, b in violations(rows, start, end)), reverse=True)[:5]",
        "6": "wasted = lambda idle, waiting: any(c in w for c in idle for w in waiting)",
        "7": "verdicts = ['violations', 'clean']",
    },
    2: {
        "1": "near = [n for n in range(len(v.distance)) if v.distance[v.node][n] == 16]",
        "2": "levels = [16, 22]",
        "3": "within = lambda table, a, most: [b for b in range(len(table)) if table[a][b] <= most]",
        "4": "spans = [[c for n in within(v.distance, v.node, d) for c in (2 * n, 2 * n + 1)] for d in (10, 16, 22)]",
        "5": """
def domains(t, c):
    every = [[x for n in within(t, c // 2, d) for x in (2 * n, 2 * n + 1)] for d in sorted({d for r in t for d in r})]
    return [s for i, s in enumerate(every) if s not in every[:i]]""",
        "6": "groups = lambda cpu, span, below: [[c, c + 1] for c in sorted({x & ~1 for x in span}, key=lambda c: (c < cpu & ~1, c))]",
        "7": """
g = [x.cpus for x in wc.build_domains(v.machine, "v6.12").of(v.cpu)[-1].groups]
overlap = [n for n in range(len(v.distance)) if sum(2 * n in x for x in g) > 1]""",
        "8": "sizes = [2, 2 * len(v.distance)]",
    },
    3: {
        "1": """
groups = []
for n, row in enumerate(v.distance):
    if n not in sum(groups, []):
        groups.append([m for m, d in enumerate(row) if d < 22])""",
        "2": """
def construct_4_1(cpu, span, below):
    found = []
    for c in span:
        if c not in sum(found, []):
            found.append(below[c])
    return found""",
        "3": """
pairs = [(a, b) for a in range(len(v.distance)) for b in range(a, len(v.distance))
         if v.distance[a][b] == 22 and not any((a in g) ^ (b in g) for g in groups)]""",
        "4": "prediction = [8, 0]",
        "5": "construct = lambda cpu, span, below: construct_4_1(cpu, span[span.index(cpu):] + span[:span.index(cpu)], below)",
        "6": "best = construct",
        "7": "ratio = round(toy.makespan_ms(v, 'v4.1') / toy.makespan_ms(v, 'v4.13'), 2)",
    },
    4: {
        "1": "loads = v.weight * 100, v.weight * 100 / v.threads",
        "2": "averages = [v.weight * 50] * 2",
        "3": "refusal = v.idle_cpu, toy.BALANCED_LINES[0]",
        "4": "by_average = lambda a, b: a.avg_load >= b.avg_load",
        "5": "by_minimum = lambda a, b: a.min_load >= b.min_load",
        "6": "moved = toy.moved_per_pass(v, by_minimum, 6)",
        "7": "steady = lambda a, b: a.idle_cpus == 0",
        "8": "ratio = round(toy.makespan_ms(v, 'v4.1') / toy.makespan_ms(v, 'v4.1+group_imbalance'), 2)",
    },
    5: {
        "1": "considered = range(v.prev_cpu // 8 * 8, v.prev_cpu // 8 * 8 + 8)",
        "2": "chosen = toy.woken_on(v, 'v4.1')",
        "3": """
def choose(prev, allowed, cpus):
    free = [c for c in allowed if cpus[c].online and not cpus[c].nr_running]
    return min(free, key=lambda c: (c != prev, cpus[c].idle_since_ms), default=None)""",
        "4": "better = choose(v.prev_cpu, v.allowed, v.cpus)",
        "5": "fix = choose",
        "6": "ratio = round(runs['v4.1'].makespan_ns / runs['v4.1+overload_on_wakeup'].makespan_ns, 2)",
        "7": "wasted = [round(wc.check(r.trace).wall_ns / 1e6, 1) for r in runs.values()]",
    },
    6: {
        "1": "before = [v.cores, 2 * v.cores, 4 * v.cores]",
        "2": "after = [d.weight for d in wc.build_domains(v.machine.offline(v.cpu).online(v.cpu), 'v4.1').of(0)]",
        "3": "step = 'online'",
        "4": "affected = 4 * v.cores",
        "5": "working = [sum(b > 0.5 for b in r.busy_per_node) for r in runs.values()]",
        "6": "ratio = runs['v4.1'].makespan_ns / runs['v4.1+missing_domains'].makespan_ns",
        "7": """
class Spread(Module):
    def suggest_cpu(self, k, p, waker_cpu, why):
        node, busy = k.machine.node_of_cpu, [rq.nr_running > 0 for rq in k.rqs]
        load = lambda c: sum(b for b, n in zip(busy, node) if n == node[c])
        return min((c for c in sorted(p.allowed & k.active) if not busy[c]), key=load, default=None)""",
    },
}

VERBOSE = {
    1: {
        "1": """
queue_of_cpu = {}
for row in rows:
    time_of_row, cpu_of_row, number_of_threads = row
    if time_of_row > start:
        break
    queue_of_cpu[cpu_of_row] = number_of_threads
queues = []
for cpu in sorted(queue_of_cpu):
    queues.append(queue_of_cpu[cpu])""",
        "2": """
def kind(nr_running):
    if nr_running == 0:
        return "idle"
    if nr_running == 1:
        return "busy"
    return "overloaded\"""",
        "3": """
class State:
    def __init__(self):
        self.lengths = {}

    def is_bad(self):
        has_idle = False
        has_overloaded = False
        for length in self.lengths.values():
            if kind(length) == "idle":
                has_idle = True
            if kind(length) == "overloaded":
                has_overloaded = True
        return has_idle and has_overloaded

def violations(rows, start_ns, end_ns):
    state = State()
    position = 0
    while position < len(rows) and rows[position][0] <= start_ns:
        state.lengths[rows[position][1]] = rows[position][2]
        position += 1
    found = []
    began = None
    if state.is_bad():
        began = start_ns
    while position < len(rows) and rows[position][0] < end_ns:
        now, cpu, length = rows[position]
        state.lengths[cpu] = length
        if state.is_bad():
            if began is None:
                began = now
        else:
            if began is not None:
                found.append((began, now))
                began = None
        position += 1
    if began is not None:
        found.append((began, end_ns))
    return found""",
        "4": """
wasted_ms = 0.0
for first, last in violations(rows, start, end):
    wasted_ms = wasted_ms + (last - first) / 1000000""",
        "5": """
lengths = []
for first, last in violations(rows, start, end):
    lengths.append((last - first) / 1000000)
lengths.sort()
lengths.reverse()
longest = lengths[0:5]""",
        "6": """
def wasted(idle, waiting):
    for cpu in idle:
        for allowed in waiting:
            if cpu in allowed:
                return True
    return False""",
        "7": """
verdicts = []
for trace in [toy.recording(), toy.recording(toy.CONTROL)]:
    result = wc.check(trace)
    verdicts.append(result.verdict)""",
    },
    2: {
        "1": """
near = []
for node in range(len(v.distance)):
    if node != v.node:
        if v.distance[v.node][node] == 16:
            near.append(node)""",
        "2": """
levels = set()
for a in range(len(v.distance)):
    for b in range(len(v.distance)):
        if a != b:
            levels.add(v.distance[a][b])""",
        "3": """
def within(distance, node, limit):
    found = []
    for other in range(len(distance)):
        if distance[node][other] <= limit:
            found.append(other)
    return found""",
        "4": """
def cpus_of_nodes(nodes):
    cpus = []
    for node in nodes:
        cpus.append(2 * node)
        cpus.append(2 * node + 1)
    return cpus
spans = []
for distance_of_level in [10, 16, 22]:
    spans.append(cpus_of_nodes(within(v.distance, v.node, distance_of_level)))""",
        "5": """
def domains(distance, cpu):
    distances = []
    for row in distance:
        for entry in row:
            if entry not in distances:
                distances.append(entry)
    distances.sort()
    result = []
    for level in distances:
        span = cpus_of_nodes(within(distance, cpu // 2, level))
        if len(result) == 0 or len(span) > len(result[-1]):
            result.append(span)
    return result""",
        "6": """
def groups(cpu, span, below):
    position = span.index(cpu)
    order = []
    for i in range(len(span)):
        order.append(span[(position + i) % len(span)])
    result = []
    for candidate in order:
        already = False
        for group in result:
            if candidate in group:
                already = True
        if not already:
            result.append(list(below[candidate]))
    return result""",
        "7": """
own = domains(v.distance, v.cpu)
groups_of_widest = []
for cpu in own[-1]:
    group = domains(v.distance, cpu)
    middle = cpus_of_nodes(within(v.distance, cpu // 2, 16))
    groups_of_widest.append((cpu, middle))
start_at = own[-1].index(v.cpu)
chosen = []
for cpu, group in groups_of_widest[start_at:] + groups_of_widest[:start_at]:
    if not any(cpu in g for g in chosen):
        chosen.append(group)
overlap = []
for node in range(len(v.distance)):
    times = 0
    for group in chosen:
        if 2 * node in group:
            times += 1
    if times > 1:
        overlap.append(node)""",
        "8": """
sizes = []
for span in domains(v.flat, v.cpu):
    sizes.append(len(span))""",
    },
    3: {
        "1": """
groups = []
number_of_nodes = len(v.distance)
for node in range(number_of_nodes):
    covered = False
    for group in groups:
        if node in group:
            covered = True
    if not covered:
        group = []
        for other in range(number_of_nodes):
            if other == node or v.distance[node][other] == 16:
                group.append(other)
        groups.append(group)""",
        "2": """
def construct_4_1(cpu, span, below):
    remaining = list(span)
    groups = []
    while remaining:
        first = remaining[0]
        group = list(below[first])
        groups.append(group)
        still = []
        for c in remaining:
            if c not in group:
                still.append(c)
        remaining = still
    return groups""",
        "3": """
pairs = []
for a in range(len(v.distance)):
    for b in range(a + 1, len(v.distance)):
        if v.distance[a][b] != 22:
            continue
        helped = False
        for group in groups:
            if a in group and b not in group:
                helped = True
            if b in group and a not in group:
                helped = True
        if not helped:
            pairs.append((a, b))""",
        "4": "prediction = []\nfor threads in toy.threads_after(v, 'v4.1'):\n    prediction.append(threads)",
        "5": """
def construct(cpu, span, below):
    order = []
    for c in span:
        if c >= cpu:
            order.append(c)
    for c in span:
        if c < cpu:
            order.append(c)
    groups = []
    covered = []
    for c in order:
        if c in covered:
            continue
        groups.append(list(below[c]))
        for member in below[c]:
            covered.append(member)
    return groups""",
        "6": "def best(cpu, span, below):\n    result = construct(cpu, span, below)\n    return result",
        "7": """
slow = toy.makespan_ms(v, "v4.1")
fast = toy.makespan_ms(v, "v4.13")
ratio = round(slow / fast, 2)""",
    },
    4: {
        "1": """
percent = 100
load_of_session = v.weight * percent
load_of_lone = load_of_session / 1
load_of_each = load_of_session / v.threads
loads = [load_of_lone, load_of_each]""",
        "2": """
load_of_node = [0.0, 0.0]
for node in (0, 1):
    for cpu in (2 * node, 2 * node + 1):
        if cpu == v.lone_cpu:
            load_of_node[node] += load_of_lone
        elif cpu in v.crowded:
            load_of_node[node] += v.threads / 2 * load_of_each
averages = [load_of_node[0] / 2, load_of_node[1] / 2]""",
        "3": """
refusal = None
for step in toy.decisions(v):
    if step.cpu == v.idle_cpu:
        refusal = [step.cpu, step.line]""",
        "4": """
def by_average(local, busiest):
    if local.avg_load < busiest.avg_load:
        return False
    else:
        return True""",
        "5": """
def by_minimum(local, busiest):
    difference = busiest.min_load - local.min_load
    if difference > 0:
        return False
    return True""",
        "6": """
moved = []
for number in toy.moved_per_pass(v, by_minimum, 6):
    moved.append(number)""",
        "7": """
def steady(local, busiest):
    before = local.min_load
    thread = busiest.load_per_task
    after = before + thread
    if after < busiest.min_load:
        return False
    else:
        return True""",
        "8": """
slow = toy.makespan_ms(v, "v4.1")
fast = toy.makespan_ms(v, "v4.1+group_imbalance")
ratio = round(slow / fast, 2)""",
    },
    5: {
        "1": """
considered = []
for cpu in range(16):
    same_node = (cpu < 8) == (v.prev_cpu < 8)
    if same_node:
        considered.append(cpu)""",
        "2": "chosen = toy.woken_on(v, kernel='v4.1')",
        "3": """
def choose(prev_cpu, allowed, cpus):
    candidates = []
    for number in range(len(cpus)):
        cpu = cpus[number]
        if number in allowed and cpu.online and cpu.nr_running == 0:
            candidates.append(number)
    if len(candidates) == 0:
        return None
    for number in candidates:
        if number == prev_cpu:
            return number
    best = candidates[0]
    for number in candidates:
        if cpus[number].idle_since_ms < cpus[best].idle_since_ms:
            best = number
    return best""",
        "4": "better = choose(prev_cpu=v.prev_cpu, allowed=v.allowed, cpus=v.cpus)",
        "5": "def fix(prev_cpu, allowed, cpus):\n    return choose(prev_cpu, allowed, cpus)",
        "6": """
slow_run = runs["v4.1"]
fast_run = runs["v4.1+overload_on_wakeup"]
ratio = slow_run.makespan_ns / fast_run.makespan_ns
ratio = round(ratio, 2)""",
        "7": """
wasted = []
for run in runs.values():
    result = wc.check(run.trace)
    wasted.append(result.wall_ns / 1000000)""",
    },
    6: {
        "1": """
before = []
for domain in wc.build_domains(v.machine, "v4.1").of(0):
    before.append(len(domain.cpus))""",
        "2": """
without = v.machine.offline(v.cpu)
again = without.online(v.cpu)
after = []
for domain in wc.build_domains(again, "v4.1").of(0):
    after.append(len(domain.cpus))""",
        "3": """
number_between = len(list(wc.build_domains(without, "v4.1").of(0)))
if number_between < len(before):
    step = "offline"
else:
    step = "online\"""",
        "4": """
affected = 0
for cpu in range(v.machine.cpus):
    widest_before = wc.build_domains(v.machine, "v4.1").of(cpu)[-1]
    widest_after = wc.build_domains(again, "v4.1").of(cpu)[-1]
    if len(widest_after.cpus) < len(widest_before.cpus):
        affected = affected + 1""",
        "5": """
working = []
for kernel in ["v4.1", "v4.1+missing_domains"]:
    count = 0
    for busy in runs[kernel].busy_per_node:
        if busy > 0.5:
            count = count + 1
    working.append(count)""",
        "6": "ratio = round(runs['v4.1'].makespan_ns / runs['v4.1+missing_domains'].makespan_ns, 2)",
        "7": """
class Spread(Module):
    name = "spread"

    def __init__(self):
        self.suggestions = 0

    def busy_cpus(self, k, node):
        count = 0
        for rq in k.rqs:
            if k.machine.node_of_cpu[rq.cpu] == node and rq.nr_running > 0:
                count = count + 1
        return count

    def suggest_cpu(self, k, p, waker_cpu, why):
        best, fewest = None, None
        for cpu in sorted(p.allowed):
            if cpu not in k.active or k.rqs[cpu].nr_running > 0:
                continue
            busy = self.busy_cpus(k, k.machine.node_of_cpu[cpu])
            if fewest is None or busy < fewest:
                best, fewest = cpu, busy
        self.suggestions += 1
        return best""",
    },
}

UNUSUAL = {
    1: {
        "1": """
from functools import reduce
queues = list(reduce(lambda q, r: (r[2], q[1]) if r[1] == 0 else (q[0], r[2]), (r for r in rows if r[0] <= start), (0, 0)))""",
        "2": "import bisect\ndef kind(n):\n    return ['idle', 'busy', 'overloaded'][bisect.bisect([1, 2], n)]",
        "3": """
import numpy as np
def violations(rows, a, b):
    last, spans = {}, {}
    for t, c, n in rows:
        spans.setdefault(c, []).append((t, n))
    times = np.unique([a, b, *[t for t, _, _ in rows if a < t < b]])
    table = np.array([[n for n in [([0] + [n for t, n in spans[c] if t <= now])[-1]]][0] for c in spans for now in times]).reshape(len(spans), -1)
    bad = (table.min(axis=0) == 0) & (table.max(axis=0) >= 2)
    bad[-1] = False
    edge = np.flatnonzero(np.diff(np.r_[0, bad.astype(int)]))
    return times[edge].reshape(-1, 2)""",
        "4": "wasted_ms = np.diff(violations(rows, start, end)).sum() / 1e6",
        "5": "import heapq\nlongest = heapq.nlargest(5, (np.diff(violations(rows, start, end)) / 1e6).ravel())",
        "6": "def wasted(idle, waiting):\n    return not set(idle).isdisjoint(c for w in waiting for c in w)",
        "7": "verdicts = tuple(wc.examine(toy.recording(n)).result.verdict for n in (toy.RECORDING, toy.CONTROL))",
    },
    2: {
        "1": "import numpy as np\ntable = np.array(v.distance)\nnear = np.flatnonzero(table[v.node] == 16)",
        "2": "levels = np.unique(table[~np.eye(len(table), dtype=bool)])",
        "3": "def within(distance, node, limit):\n    return set(np.flatnonzero(np.array(distance)[:, node] <= limit))",
        "4": """
def expand(nodes):
    return np.add.outer(2 * np.array(sorted(nodes)), [0, 1]).ravel()
spans = [expand(within(v.distance, v.node, d)) for d in np.unique(table)]""",
        "5": """
def domains(distance, cpu, limit=None):
    distances = sorted(set(distance[cpu // 2]))
    return [expand(within(distance, cpu // 2, d)) for d in distances]""",
        "6": """
from itertools import groupby
def groups(cpu, span, below):
    order = sorted(span, key=lambda c: (c - cpu) % 1000)
    firsts = dict.fromkeys(tuple(below[c]) for c in order)
    return list(firsts)""",
        "7": """
from collections import Counter
widest = wc.build_domains(v.machine, "v6.12").of(v.cpu)[-1]
overlap = {n for n, times in Counter(c // 2 for g in widest.groups for c in g.cpus).items() if times > 2}""",
        "8": "sizes = (2, int(table.size ** 0.5) * 2)",
    },
    3: {
        "1": """
def grow(left):
    if not left:
        return []
    mine = {n for n, d in enumerate(v.distance[min(left)]) if d <= 16}
    return [mine, *grow(left - mine)]
groups = grow(set(range(len(v.distance))))""",
        "2": """
def construct_4_1(cpu, span, below):
    if not span:
        return []
    head = below[span[0]]
    return [set(head)] + construct_4_1(cpu, [c for c in span if c not in head], below)""",
        "3": """
from itertools import combinations
pairs = {frozenset(p) for p in combinations(range(len(v.distance)), 2)
         if v.distance[p[0]][p[1]] == 22 and all(len(set(p) & g) != 1 for g in groups)}""",
        "4": "import numpy as np\nprediction = np.array(toy.threads_after(v))",
        "5": """
from collections import deque
def construct(cpu, span, below):
    ring = deque(span)
    ring.rotate(-span.index(cpu))
    found = []
    while ring:
        first = below[ring[0]]
        found.append(tuple(reversed(first)))
        ring = deque(c for c in ring if c not in first)
    return found""",
        "6": "class Best:\n    def __call__(self, cpu, span, below):\n        return construct(cpu, span, below)\nbest = Best()",
        "7": "ratio = float(np.round(np.divide(*[toy.makespan_ms(v, k) for k in ('v4.1', 'v4.13')]), 2))",
    },
    4: {
        "1": "from fractions import Fraction\nloads = [v.weight * 100, float(Fraction(v.weight * 100, v.threads))]",
        "2": """
last = toy.decisions(v)[0]
averages = [sum(last.cpu_load(c) for c in v.machine.cpus_of_node(n)) / 2 for n in (0, 1)]""",
        "3": "by_cpu = {d.cpu: d for d in toy.decisions(v)}\nrefusal = (v.idle_cpu, by_cpu[v.idle_cpu].line)",
        "4": "import operator\ndef by_average(local, busiest):\n    return operator.ge(*[g.avg_load for g in (local, busiest)])",
        "5": "class Minimum:\n    def __call__(self, local, busiest):\n        return max(local.min_load, busiest.min_load) == local.min_load\nby_minimum = Minimum()",
        "6": "import numpy as np\nmoved = np.array(toy.moved_per_pass(v, by_minimum, 6))",
        "7": """
def steady(local, busiest):
    # pull for an idle CPU only, and only if a thread of the other group waits
    return not (local.idle_cpus and busiest.nr_running > busiest.weight - busiest.idle_cpus)""",
        "8": "ratio = np.round(np.divide(*(toy.makespan_ms(v, f'v4.1{x}') for x in ('', '+group_imbalance'))), 2)",
    },
    5: {
        "1": "considered = set(v.machine.cpus_of_node(v.machine.node_of_cpu[v.prev_cpu]))",
        "2": "import numpy as np\nchosen = np.int64(toy.woken_on(v, 'v4.1'))",
        "3": """
def choose(prev_cpu, allowed, cpus):
    ranked = sorted((c != prev_cpu, cpu.idle_since_ms, c) for c, cpu in enumerate(cpus)
                    if c in allowed and cpu.online and cpu.nr_running == 0)
    return np.int64(ranked[0][-1]) if ranked else None""",
        "4": "better = choose(v.prev_cpu, v.allowed, v.cpus)",
        "5": """
from functools import lru_cache
remembered = lru_cache(maxsize=None)(choose)
def fix(prev_cpu, allowed, cpus):
    answer = remembered(prev_cpu, allowed, tuple(cpus))
    return -1 if answer is None else answer""",
        "6": "ratio = np.round(np.divide(*[r.makespan_ns for r in runs.values()]), 2)",
        "7": "wasted = {k: wc.check(r.trace).wall_ns / 1e6 for k, r in runs.items()}\nwasted = tuple(wasted.values())",
    },
    6: {
        "1": "import numpy as np\nbefore = np.array([d.weight for d in wc.build_domains(v.machine, 'v4.1').of(0)])",
        "2": "after = tuple(d.weight for d in wc.build_domains(v.machine.offline(v.cpu).online(v.cpu), 'v4.1').of(0))",
        "3": "step = min(('offline', 'online'), key=lambda s: len(wc.build_domains(v.machine.offline(v.cpu) if s == 'offline' else v.machine.offline(v.cpu).online(v.cpu), 'v4.1').of(0)))",
        "4": "affected = int(np.sum([True] * v.machine.cpus))",
        "5": "working = [int((np.array(r.busy_per_node) > 0.5).sum()) for r in runs.values()]",
        "6": "ratio = np.float64(runs['v4.1'].makespan_ns) / runs['v4.1+missing_domains'].makespan_ns",
        "7": """
from dataclasses import dataclass, field
@dataclass(frozen=True)
class Spread(Module):
    asked: list = field(default_factory=list)

    def suggest_cpu(self, k, p, waker_cpu, why):
        idle = [c for c in p.allowed & k.active if k.rqs[c].nr_running == 0]
        if not idle:
            return None
        node = np.array(k.machine.node_of_cpu)
        busy = np.bincount(node, weights=[rq.nr_running > 0 for rq in k.rqs])
        self.asked.append(why)
        return np.int64(min(idle, key=lambda c: (busy[node[c]], c)))

    def suggest_source(self, k, cpu):
        return max(range(len(k.rqs)), key=lambda c: k.rqs[c].nr_running) if self.asked is None else None""",
    },
}

KINDS = {"minimal": MINIMAL, "verbose": VERBOSE, "unusual": UNUSUAL}
