"""Writes a random run (:mod:`support.encoders`) as Perfetto's traces, a page of systrace, and the text of SchedViz's script."""

from __future__ import annotations

import zlib

from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from support.encoders import as_ftrace, comm, tracepoints
from support.recorders import Run

STATES = {"R": 0, "S": 1, "D": 2, "+": 256}


def _bits(state: int | str) -> int:
    return STATES.get(str(state)[-1], 0)


def as_perfetto(run: Run, events_per_bundle: int = 5) -> bytes:
    """Return bundles of single messages, each CPU's one after the other, as traced_probes drains its buffers."""
    trace = pb.Trace()
    trace.packet.add().system_info.utsname.release = "6.1.0-13-amd64"
    pending: dict[int, pb.FtraceEventBundle] = {}
    for ts, cpu, pid, event, f in tracepoints(run):
        if cpu not in pending or len(pending[cpu].event) == events_per_bundle:
            packet = trace.packet.add()
            packet.trusted_packet_sequence_id = 2
            pending[cpu] = packet.ftrace_events
            pending[cpu].cpu = cpu
        out = pending[cpu].event.add()
        out.timestamp, out.pid = ts, pid
        if event == "sched_wakeup":
            w = out.sched_wakeup
            w.comm, w.pid, w.prio, w.success, w.target_cpu = (
                comm(f["pid"]),
                int(f["pid"]),
                120,
                1,
                int(f["cpu"]),
            )
        elif event == "sched_migrate_task":
            m = out.sched_migrate_task
            m.comm, m.pid, m.prio, m.orig_cpu, m.dest_cpu = (
                comm(f["pid"]),
                int(f["pid"]),
                120,
                int(f["src"]),
                int(f["cpu"]),
            )
        elif event == "sched_switch":
            s = out.sched_switch
            s.prev_comm, s.prev_pid, s.prev_prio, s.prev_state = (
                comm(f["prev_pid"]),
                int(f["prev_pid"]),
                120,
                _bits(f["state"]),
            )
            s.next_comm, s.next_pid, s.next_prio = comm(f["pid"]), int(f["pid"]), 120
        else:
            out.cpu_frequency.state, out.cpu_frequency.cpu_id = 2_200_000, 0
    return trace.SerializeToString()


def as_packed_perfetto(run: Run) -> bytes:
    """Return the same with compact_sched for the switches, packed with zlib."""
    plain, out = pb.Trace.FromString(as_perfetto(run, 10**6)), pb.Trace()
    for packet in plain.packet:
        bundle = packet.ftrace_events
        compact, before, names = bundle.compact_sched, 0, {}
        kept = []
        for event in bundle.event:
            if not event.HasField("sched_switch"):
                kept.append(event)
                continue
            s = event.sched_switch
            compact.switch_timestamp.append(event.timestamp - before)
            before = event.timestamp
            compact.switch_prev_state.append(s.prev_state)
            compact.switch_next_pid.append(s.next_pid)
            compact.switch_next_prio.append(s.next_prio)
            compact.switch_next_comm_index.append(names.setdefault(s.next_comm, len(names)))
        compact.intern_table.extend(names)
        kept = [pb.FtraceEvent.FromString(e.SerializeToString()) for e in kept]
        del bundle.event[:]
        bundle.event.extend(kept)
    out.packet.add().compressed_packets = zlib.compress(plain.SerializeToString())
    return out.SerializeToString()


def as_systrace(run: Run) -> bytes:
    """Return a page of systrace (catapult: systrace/output_generator.py)."""
    return (
        b'<!DOCTYPE html>\n<html>\n<script>1;</script>\n<script class="trace-data" type="application/text">\n'
        + as_ftrace(run)
        + b"  </script>\n</body>\n</html>\n"
    )


def as_atrace(run: Run) -> bytes:
    """Return what ``atrace -z`` writes."""
    return b"capturing trace... done\nTRACE:\n" + zlib.compress(as_ftrace(run))


def as_bpftrace(run: Run) -> bytes:
    """Return the text of SchedViz's bpftrace script."""
    lines, known = ["Attaching 5 probes...", "ST:0:0"], set()
    for ts, cpu, _, event, f in tracepoints(run):
        for pid in (f.get("prev_pid"), f.get("pid")):
            if pid is not None and pid not in known:
                known.add(pid)
                lines.append(f"P:{ts:x}:{int(pid):x}:78:{comm(pid)}")
        if event == "sched_switch":
            lines.append(
                f"S:{ts:x}:{cpu:x}:{int(f['prev_pid']):x}:{_bits(f['state']):x}:{int(f['pid']):x}"
            )
        elif event == "sched_migrate_task":
            lines.append(f"M:{ts:x}:{cpu:x}:{int(f['src']):x}:{int(f['cpu']):x}:{int(f['pid']):x}")
        elif event == "sched_wakeup":
            lines.append(f"W:{ts:x}:{cpu:x}:{int(f['cpu']):x}:{int(f['pid']):x}")
    return "\n".join([*lines, ""]).encode()


MORE = {
    "perfetto": as_perfetto,
    "packed perfetto": as_packed_perfetto,
    "systrace": as_systrace,
    "atrace": as_atrace,
    "schedviz": as_bpftrace,
}
