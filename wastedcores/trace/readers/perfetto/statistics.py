"""What the packets with statistics in a Perfetto trace say about missing data; no other packets say this."""

from __future__ import annotations

from collections.abc import Iterable, Set
from dataclasses import dataclass, field


@dataclass
class Stated:
    """What the statistics say about missing data of ftrace."""

    #: FtraceParseStatus: the errors for which traced_probes dropped data that it could not read
    read_errors: set[str] = field(default_factory=set)
    #: why the last events of each CPU may be missing; empty if they are not
    at_the_end: str = ""
    #: whether the service's buffer overwrote the oldest bundles
    overwritten: bool = False


def stated(packets: Iterable[bytes], sequences: Set[int]) -> Stated:
    """Read the statistics in order; later statistics repeat what the earlier ones state.

    ``sequences`` are the packet sequences of the bundles. Sources: src/traced/probes/ftrace/cpu_reader.cc: SetParseError();
    protos/perfetto/common/trace_stats.proto.
    """
    from google.protobuf.message import DecodeError
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import (
        FtraceParseStatus,
        TracePacket,
        TraceStats,
    )

    found = Stated()
    for content in packets:
        try:
            packet = TracePacket.FromString(content)
        except DecodeError:
            continue  # these statistics cannot be read
        found.read_errors.update(
            FtraceParseStatus.Name(e) for e in packet.ftrace_stats.ftrace_parse_errors
        )
        if not packet.HasField("trace_stats"):
            continue
        stats = packet.trace_stats
        ours = {w.buffer for w in stats.writer_stats if w.sequence_id in sequences}
        # a service before Perfetto 35 does not state which sequence is in which buffer
        buffers = [b for i, b in enumerate(stats.buffer_stats) if i in ours or not ours]
        found.overwritten = any(b.chunks_overwritten for b in buffers)
        found.at_the_end = ""
        if any(b.chunks_discarded for b in buffers):
            found.at_the_end = (
                "the service's buffer was full (fill_policy: DISCARD), and the rest was discarded: make "
                "buffers.size_kb larger"
            )
        elif stats.final_flush_outcome == TraceStats.FINAL_FLUSH_FAILED:
            found.at_the_end = (
                "not every data source delivered its last events in time (final_flush_outcome)"
            )
    return found
