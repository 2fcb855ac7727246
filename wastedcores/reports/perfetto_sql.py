"""Queries for Perfetto's trace processor about the tracks of an export; docs/how-to/perfetto-sql.md explains them."""

from __future__ import annotations

#: What a query answers -> the query. Its tables are those of Perfetto's PerfettoSQL prelude (slice, track, counter, args).
RECIPES = {
    "The ten episodes that wasted most CPU time": """\
SELECT slice.ts, slice.dur, slice.name, EXTRACT_ARG(slice.arg_set_id, 'debug.wasted_ns') AS wasted_ns
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'idle CPUs while threads wait'
ORDER BY wasted_ns DESC LIMIT 10;
""",
    "The threads that waited longest beside an idle CPU": """\
SELECT EXTRACT_ARG(slice.arg_set_id, 'debug.comm') AS comm, EXTRACT_ARG(slice.arg_set_id, 'debug.pid') AS pid,
  COUNT(*) AS waits, SUM(slice.dur) AS waited_ns, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.beside_idle_ns')) AS beside_idle_ns
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'waits beside an idle CPU'
GROUP BY comm, pid ORDER BY beside_idle_ns DESC LIMIT 20;
""",
    "What the balancer answered, if its decisions were recorded": """\
SELECT EXTRACT_ARG(slice.arg_set_id, 'debug.result') AS result, EXTRACT_ARG(slice.arg_set_id, 'debug.level') AS level,
  COUNT(*) AS calls, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.moved')) AS moved
FROM slice JOIN track ON slice.track_id = track.id
WHERE track.name = 'decisions of the balancer'
GROUP BY result, level ORDER BY calls DESC;
""",
    "The mean number of threads on each runqueue": """\
SELECT name, SUM(value * dur) / SUM(dur) AS threads FROM (
  SELECT track.name AS name, counter.value AS value,
    LEAD(counter.ts) OVER (PARTITION BY counter.track_id ORDER BY counter.ts, counter.id) - counter.ts AS dur
  FROM counter JOIN track ON counter.track_id = track.id
  WHERE track.name LIKE 'threads on the runqueue of CPU %')
WHERE dur IS NOT NULL GROUP BY name ORDER BY threads DESC;
""",
    "Two runs in one file: the CPU time that each of them wasted": """\
SELECT run.name AS run, COUNT(*) AS episodes, SUM(EXTRACT_ARG(slice.arg_set_id, 'debug.wasted_ns')) AS wasted_ns
FROM slice JOIN track ON slice.track_id = track.id JOIN track AS run ON track.parent_id = run.id
WHERE track.name = 'idle CPUs while threads wait'
GROUP BY run.name ORDER BY run.name;
""",
}


def recipes() -> str:
    """Return a file of all queries, for ``trace_processor_shell -q``."""
    return "\n".join(f"-- {title}\n{query}" for title, query in RECIPES.items())
