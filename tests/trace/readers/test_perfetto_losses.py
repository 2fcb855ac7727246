"""What a trace of Perfetto says about lost events puts the time in doubt, whatever else comes with it."""

from __future__ import annotations

from pathlib import Path

import pytest
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb

from wastedcores.invariant import check
from wastedcores.trace import Trace
from wastedcores.trace.io import open_trace


def bundle(trace: pb.Trace, cpu: int, *times: int) -> pb.FtraceEventBundle:
    """Add a bundle in which thread 5 of a CPU goes to sleep and wakes up in turn."""
    packet = trace.packet.add()
    packet.trusted_packet_sequence_id = 2
    made = packet.ftrace_events
    made.cpu = cpu
    for i, ts in enumerate(times):
        event = made.event.add()
        event.timestamp, event.pid = ts, 5
        s = event.sched_switch
        s.prev_comm, s.prev_pid, s.prev_prio, s.prev_state = ("a", 5, 120, 1)
        s.next_comm, s.next_pid, s.next_prio = ("swapper", 0, 120)
        if i % 2:
            s.prev_pid, s.next_pid, s.prev_comm, s.next_comm = 0, 5, "swapper", "a"
    return made


@pytest.fixture
def opened(tmp_path: Path):
    def made(trace: pb.Trace) -> Trace:
        path = tmp_path / "t.pftrace"
        path.write_bytes(trace.SerializeToString())
        return open_trace(path)

    return made


def losses(trace: Trace) -> list[tuple[int, int | None]]:
    return trace.only("lost").select("ts_ns", "cpu").collect().rows()


@pytest.mark.parametrize("other_first", [False, True])
def test_a_loss_before_a_bundle_without_events_is_one_before_the_next_events(opened, other_first):
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 0).lost_events = True
    if other_first:
        bundle(trace, 1, 3500)
    bundle(trace, 0, 3000, 4000)
    got = opened(trace)
    assert got.header.lost == {0: -1}
    assert losses(got) == [(3000, 0)]


def test_a_loss_after_the_last_events_lasts_until_the_end(opened):
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 0).lost_events = True
    bundle(trace, 1, 3000, 4000)
    got = opened(trace)
    assert got.header.lost == {0: -1}
    assert losses(got) == [(4000, 0)]
    assert check(got).unknown_spans == [(2000, 4000, 0)]


def test_after_a_page_that_was_skipped_nobody_knows_what_is_missing(opened):
    # traced_probes, cpu_reader.cc: the rest of a page is skipped, and the pages after it may be in the same bundle
    trace = pb.Trace()
    error = bundle(trace, 0, 1000, 2000).error.add()
    error.timestamp, error.status = 1000, pb.FTRACE_STATUS_ABI_ZERO_DATA_LENGTH
    bundle(trace, 0, 3000, 4000)
    bundle(trace, 1, 1500, 4500)
    got = opened(trace)
    assert got.header.lost == {0: -1}
    assert losses(got) == [(3000, 0), (4500, None)]
    assert "skipped pages" in str(got.header.provenance)
    assert check(got).verdict == "unknown"


def test_dropped_packets_are_a_loss_of_unknown_place_beside_a_known_one(opened):
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 0, 3000, 4000).lost_events = True
    bundle(trace, 1, 1500, 4500)
    trace.packet[-1].previous_packet_dropped = 1
    got = opened(trace)
    assert got.header.lost == {0: -1, -1: -1}
    assert losses(got) == [(3000, 0), (4500, None)]
    assert check(got).verdict == "unknown"


def test_a_buffer_that_overwrote_the_oldest_bundles_makes_the_window_shorter(opened):
    """ftrace_event_bundle.proto: previous_bundle_end_timestamp."""
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000, 6000, 7000).previous_bundle_end_timestamp = 900
    bundle(trace, 1, 5000, 6500).previous_bundle_end_timestamp = 4000
    got = opened(trace)
    assert (got.header.overwritten, got.header.lost) == ({1: -1}, {1: -1})
    assert any("overwritten" in note for note in check(got).notes)


def test_a_bundle_before_the_beginning_of_all_cpus_is_no_loss(opened):
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000).previous_bundle_end_timestamp = 900
    bundle(trace, 1, 1500, 4500).previous_bundle_end_timestamp = 0
    assert opened(trace).header.overwritten == {}


def test_what_could_not_be_read_is_missing_somewhere(opened):
    """cpu_reader.cc: SetParseError() tells it to the statistics only."""
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 1, 1500, 4500)
    stats = trace.packet.add().ftrace_stats
    stats.phase = pb.FtraceStats.END_OF_TRACE
    stats.ftrace_parse_errors.append(pb.FTRACE_STATUS_PARTIAL_PAGE_READ)
    got = opened(trace)
    assert got.header.lost == {-1: -1}
    assert losses(got) == [(4500, None)]
    assert "PARTIAL_PAGE_READ" in got.header.provenance["read errors"]
    assert check(got).verdict == "unknown"


def discarding(mapped: bool) -> tuple[pb.Trace, pb.TraceStats]:
    """Return a trace of two CPUs and the statistics of two buffers, of which the second is that of ftrace."""
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 1, 1500, 4500)
    stats = trace.packet.add().trace_stats
    for _ in range(2):
        stats.buffer_stats.add()
    if mapped:
        writer = stats.writer_stats.add()
        writer.sequence_id, writer.buffer = 2, 1
    return trace, stats


def test_a_buffer_that_is_full_ends_at_another_time_for_each_cpu(opened):
    """trace_stats.proto: chunks_discarded, under fill_policy DISCARD; CPU 0's last event is of 2 us."""
    trace, stats = discarding(mapped=True)
    stats.buffer_stats[1].chunks_discarded = 3
    got = opened(trace)
    assert got.header.lost == {0: -1, 1: -1}
    assert losses(got) == [(4500, 1), (4500, 0)]
    assert "DISCARD" in got.header.provenance["missing at the end"]
    assert (2000, 4500, 0) in check(got).unknown_spans


@pytest.mark.parametrize("mapped", [True, False])
def test_only_the_buffer_of_ftrace_counts_if_it_is_known(opened, mapped):
    trace, stats = discarding(mapped)
    stats.buffer_stats[0].chunks_discarded = 3
    assert opened(trace).header.lost == ({} if mapped else {0: -1, 1: -1})


def test_the_last_statistics_count(opened):
    trace, stats = discarding(mapped=True)
    trace.packet.add().trace_stats.CopyFrom(stats)
    trace.packet[-1].trace_stats.final_flush_outcome = pb.TraceStats.FINAL_FLUSH_FAILED
    got = opened(trace)
    assert "final_flush_outcome" in got.header.provenance["missing at the end"]
    assert got.header.lost == {0: -1, 1: -1}
    trace.packet.add().trace_stats.CopyFrom(stats)
    trace.packet[-1].trace_stats.final_flush_outcome = pb.TraceStats.FINAL_FLUSH_SUCCEEDED
    assert opened(trace).header.lost == {}


@pytest.mark.parametrize("newer", [False, True])
def test_an_old_service_states_only_that_it_overwrote(opened, newer):
    """Before Perfetto 44 the bundles do not tell when those before them ended."""
    trace, stats = discarding(mapped=True)
    stats.buffer_stats[1].chunks_overwritten = 3
    if newer:
        trace.packet[0].ftrace_events.previous_bundle_end_timestamp = 900
    assert opened(trace).header.overwritten == ({} if newer else {1: -1})


def test_packets_of_another_machine_are_left_out(opened):
    """The service stamps what a guest's tracer sends; CPU 0 of the guest is not CPU 0 of the host."""
    trace = pb.Trace()
    bundle(trace, 0, 1000, 2000)
    bundle(trace, 0, 1200, 1300)
    bundle(trace, 3, 1500)
    for packet in trace.packet[1:]:
        packet.machine_id = 7
    got = opened(trace)
    assert got.events.select("ts_ns", "cpu").collect().rows() == [(1000, 0), (2000, 0)]
    assert "other machines" in got.header.provenance
