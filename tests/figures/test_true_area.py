"""The area that a figure paints for a state is the state's share of the time, also where its parts are narrower than a pixel."""

from __future__ import annotations

import base64
import re
import zlib

import numpy as np
import polars as pl
import pytest
from support.builders import migrate, nr, switch, trace_of, wakeup

from wastedcores.analysis.alignment import align
from wastedcores.analysis.binning_jit import bin_share
from wastedcores.analysis.critical_path import critical_path
from wastedcores.analysis.examined import examine
from wastedcores.analysis.states import States, pixel_edges
from wastedcores.analysis.transitions import modes
from wastedcores.figures.compare import aligned, wasted
from wastedcores.figures.critical_path import path_timeline
from wastedcores.figures.decisions import decision_marks
from wastedcores.figures.event_layers import styled
from wastedcores.figures.event_views import events
from wastedcores.figures.fork_wait import fork_wait_zoom
from wastedcores.figures.frequencies import frequency
from wastedcores.figures.heatmaps import heatmap, load_heatmap, side_by_side
from wastedcores.figures.kernel_user import transitions
from wastedcores.figures.timelines import runs, task_class, threads_per_node, timeline

LONG = 40_000_000
CPUS = 2
#: the other three seeds show the same, so that they run later
SEEDS = [0, 2, 3, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 4, 5))]


def drawn(seed: int):
    """A random trace: threads that take turns, some of which run for less than a pixel, and ticks of the kernel.

    Seeds 0 and 1 are those of the recording that was painted full of kernel time: 4 us of a tick every 1 ms, and else idle.
    """
    rng = np.random.default_rng(seed)
    rows: list[dict] = []
    for cpu in range(CPUS):
        at, running = int(rng.integers(0, 5000)), 0
        short = seed < 2 or rng.random() < 0.5
        while at < LONG:
            pid = 0 if running else int(10 * (cpu + 1) + rng.integers(0, 4))
            more = {
                "src_cpu": cpu,
                "prev_comm": f"t{running}-x",
                "comm": f"t{pid}-x" if pid else "swapper",
            }
            if pid and rng.random() < 0.4:
                rows.append(wakeup(at, cpu, pid, src_cpu=cpu))
            rows.append(switch(at, cpu, running, "S", pid, **(more | {"src_cpu": None})))
            running = pid
            at += (
                int(rng.integers(3000, 5000))
                if pid and short
                else int(rng.exponential(900_000)) + 1
            )
        for tick in range(500_000, LONG, 1_000_000):
            more = {"op": "irq", "value": 0, "text": "timer"}
            rows += [
                {"ts_ns": tick, "kind": "kernel_entry", "cpu": cpu, **more},
                {"ts_ns": tick + 4000, "kind": "kernel_exit", "cpu": cpu, **more},
            ]
        for moment in range(0, LONG, 3_000_000):
            khz = int(rng.choice([800_000, 3_000_000]))
            rows.append({"ts_ns": moment, "kind": "frequency", "cpu": cpu, "value": khz})
            rows.append(
                {"ts_ns": moment, "kind": "load", "cpu": cpu, "value": int(rng.integers(0, 2048))}
            )
    rows.append(wakeup(LONG // 3, 1, 11, src_cpu=1))
    rows.append(migrate(LONG // 2, 1, 0, 11))
    rows.sort(key=lambda r: r["ts_ns"])
    machine = {"name": "two", "cpus": CPUS, "node_of_cpu": [0, 1]}
    return examine(trace_of(rows, cpus=CPUS), f"random {seed}", persist_ns=2_000_000), machine


@pytest.fixture(scope="module", params=SEEDS)
def run(request):
    return drawn(request.param)[0]


def states_of(run, cpu: int) -> dict[int, int]:
    """How long every runqueue length held, 5 standing for more, -1 for unknown."""
    states, (start, end) = run.scene.states, run.scene.window
    lo, hi = states.offsets[cpu], states.offsets[cpu + 1]
    ts = np.r_[start, np.clip(states.ts[lo:hi], start, end), end]
    values = np.minimum(np.r_[-1, states.values[lo:hi]], 5)
    out: dict[int, int] = {}
    for value, length in zip(values.tolist(), np.diff(ts).tolist(), strict=True):
        out[value] = out.get(value, 0) + length
    return out


def check_rows(trace, run, codes: int = 7) -> None:
    """Every row of a heat map has as many pixels of a length as its share of the time, up to a pixel per length."""
    z = np.asarray(trace.z)
    pixel = (run.scene.window[1] - run.scene.window[0]) / z.shape[1]
    for row, cpu in enumerate(run.scene.cpus):
        want = states_of(run, cpu)
        for value in range(-1, 6):
            painted = (z[row] == value).sum() * pixel
            assert abs(painted - want.get(value, 0)) <= codes * pixel, (cpu, value)


def named(fig, name: str):
    return next(t for t in fig.data if t.name == name)


def area(x, y) -> float:
    """Integral of a curve, whose points may lack a value."""
    if len(set(x)) == len(x):  # steps
        x, y = np.repeat(x, 2)[1:], np.repeat(y, 2)[:-1]
    x, y = np.asarray(x, float), np.nan_to_num(np.asarray(y, float))
    return float(np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2))


@pytest.mark.slow
@pytest.mark.parametrize("cols", [40, 300])
def test_heat_maps_paint_each_length_for_its_share(run, cols):
    check_rows(named(heatmap(run.scene, cols=cols), "threads per runqueue"), run)
    both = side_by_side(run.scene, run.scene, cols=cols)
    for trace in both.data:
        if trace.name == "threads per runqueue":
            check_rows(trace, run)
    pair = aligned(align(run, run, "start of the traces"), cols=cols)
    check_rows(pair.data[0], run)


def test_the_longest_lengths_would_not_be_true():
    """What was drawn before: a thread that runs for 0.3 ms of every 1 ms could not be seen in pixels of 1 ms."""
    ticks = [
        switch(at + part, 0, 5 - pid, "S", pid)
        for at in range(0, LONG, 1_000_000)
        for part, pid in ((0, 5), (300_000, 0))
    ]
    run = examine(trace_of([*ticks, switch(LONG, 0, 0, "R", 5)], cpus=1), "ticks")
    shown = {
        reduce: np.asarray(
            named(heatmap(run.scene, cols=40, reduce=reduce), "threads per runqueue").z
        )
        for reduce in ("longest", "share")
    }
    assert (shown["longest"] > 0).sum() == 0
    assert (shown["share"] > 0).sum() == 12


def test_curves_have_the_area_of_what_they_count(run):
    fig = heatmap(run.scene, cols=60)
    for name, weight in (
        ("idle CPUs", lambda n: n == 0),
        ("waiting threads", lambda n: max(n - 1, 0)),
    ):
        want = (
            sum(weight(n) * t for cpu in run.scene.cpus for n, t in states_of(run, cpu).items())
            / 1e6
        )
        assert area(named(fig, name).x, named(fig, name).y) == pytest.approx(
            want, rel=1e-5, abs=1e-6
        )


def test_the_band_has_the_area_of_the_episodes(run):
    fig = heatmap(run.scene, cols=60)
    pixel = (run.scene.window[1] - run.scene.window[0]) / 60
    for name, persistent in (("short episodes", False), ("persistent episodes", True)):
        part = run.result.episodes.filter(pl.col("persistent") == persistent)
        want = int((part["end_ns"] - part["start_ns"]).sum())
        if not want and not persistent:
            continue
        trace = named(fig, name)
        assert float(np.sum(trace.z)) * pixel == pytest.approx(want, rel=1e-4, abs=1)
        # the opacity of its colour is the share
        assert [float(c[1].split(",")[3][:-1]) for c in trace.colorscale] == [0, 1]


def test_who_ran_has_the_area_of_the_run_time(run):
    window = run.scene.window
    table = runs(run.trace, *window)
    fig = timeline(run.scene, table, window, cols=50)
    z, pixel = np.asarray(named(fig, "running task").z), (window[1] - window[0]) / 50
    texts = np.asarray(named(fig, "running task").text)
    for row, cpu in enumerate(run.scene.cpus):
        want: dict[str, int] = {}
        for start, end, pid, comm in (
            table.filter(pl.col("cpu") == cpu)
            .select("start_ns", "end_ns", "pid", "comm")
            .iter_rows()
        ):
            kind = task_class(comm or "?") if pid else "idle"
            want[kind] = want.get(kind, 0) + end - start
        got: dict[str, int] = {}
        for code, text in zip(z[row].tolist(), texts[row].tolist(), strict=True):
            kind = (
                "idle"
                if code == 0
                else "unknown"
                if code < 0
                else task_class(text.rpartition(":")[0])
            )
            got[kind] = got.get(kind, 0) + 1
        for kind, length in want.items():
            assert abs(got.get(kind, 0) * pixel - length) <= (len(want) + 2) * pixel, (cpu, kind)


def boxes(trace) -> float:
    """The widths of the boxes of a layer, added up."""
    x = np.asarray(trace.x).reshape(-1, 6)
    return float((x[:, 2] - x[:, 0]).sum())


@pytest.mark.parametrize("most", [0, 10**9])
def test_transitions_have_the_area_of_their_modes(run, monkeypatch, most):
    monkeypatch.setattr("wastedcores.figures.kernel_user.MOST_SPANS", most)
    table = modes(run.trace, *run.scene.window)
    length = table["end_ns"] - table["start_ns"]
    fig = transitions(run)
    if most:
        layers = [t for t in fig.data if t.fill == "toself"]
        for trace in layers:
            # an outline would make each box at least as wide as its line
            assert trace.line.width == 0
            assert trace.line.simplify is False
        for mode, layer in (("idle", "idle"), ("kernel", "interrupt")):
            want = int(length.filter(table["mode"] == mode).sum()) / 1e6
            assert sum(boxes(t) for t in layers if t.name == layer) == pytest.approx(want, rel=1e-9)
        user = int(length.filter(table["mode"] == "user").sum()) / 1e6
        assert sum(boxes(t) for t in layers if t.name.startswith("user")) == pytest.approx(user)
        return
    for name, wanted in (("kernel", ["kernel"]), ("user", ["user", "kernel"])):
        want = int(length.filter(table["mode"].is_in(wanted)).sum()) / 1e6
        got = 0.0
        for trace in fig.data:
            if trace.name == name and trace.fill == "toself":
                x, y = np.asarray(trace.x)[:-2], np.asarray(trace.y)
                got += area(x, (y[-1] - y[:-2]) / 0.8)
        assert got == pytest.approx(want, rel=1e-6)


def pixels(fig) -> np.ndarray:
    """The image of a figure, as (rows, columns, 4)."""
    data = base64.b64decode(fig.layout.images[-1].source.partition(",")[2])
    width, height = (int.from_bytes(data[at : at + 4], "big") for at in (16, 20))
    body = b"".join(data[m.end() : m.end() + int.from_bytes(data[m.start() - 4 : m.start()], "big")]
                    for m in re.finditer(b"IDAT", data))  # fmt: skip
    lines = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 4 * width)[:, 1:]
    return np.cumsum(lines, axis=0, dtype=np.uint8).reshape(height, width, 4)


SPANS = [styled('kind == "switch" and pid != 0', "draw=spans:run_ns colour=red")]


def test_events_have_the_area_of_their_spans(run):
    # the length of a run that the end of the trace cuts is not known, so it is no span
    ends = run.trace.only("switch").select("cpu", end_ns="ts_ns").collect()
    table = runs(run.trace, *run.scene.window).filter(pl.col("pid") > 0)
    table = table.join(ends.unique(), on=["cpu", "end_ns"], how="semi")
    single = events(run, SPANS, most_shapes=10**9)
    lines = [t for t in single.data if t.mode == "lines" and t.x[0] is not None]
    assert all(t.line.simplify is False for t in lines)
    image = pixels(events(run, SPANS, most_shapes=0, cols=80))
    tall = image.shape[0] // len(run.scene.cpus)
    pixel = (run.scene.window[1] - run.scene.window[0]) / image.shape[1]
    for row, cpu in enumerate(run.scene.cpus):
        mine = table.filter(pl.col("cpu") == cpu)
        want = int((mine["end_ns"] - mine["start_ns"]).sum())
        ends = [
            np.asarray(t.x, float).reshape(-1, 3)[
                np.asarray(t.y, float).reshape(-1, 3)[:, 0] == row
            ]
            for t in lines
        ]
        assert sum(float((e[:, 1] - e[:, 0]).sum()) for e in ends) * 1e6 == pytest.approx(
            want, rel=1e-6
        )
        painted = image[row * tall + tall // 2, :, 3].astype(float).sum() / 255 * pixel
        assert painted == pytest.approx(want, abs=0.5 / 255 * pixel * image.shape[1])


def test_the_critical_path_has_the_area_of_its_parts(run):
    path = critical_path(run.trace)
    fig = path_timeline(path)
    totals = path.totals
    for kind, name in (
        ("running", "running:"),
        ("avoidable", "waiting beside"),
        ("other_waiting", "other waiting"),
        ("sleeping", "sleeping"),
    ):
        trace = next(t for t in fig.data if t.name.startswith(name))
        ends = np.asarray(trace.x, float).reshape(-1, 3)
        assert float((ends[:, 1] - ends[:, 0]).sum()) * 1e6 == pytest.approx(totals[kind], abs=1), (
            kind
        )
        assert trace.line.simplify is False


def test_threads_per_node_have_the_area_of_their_number():
    run, machine = drawn(3)
    run = examine(run.trace.with_header(machine=machine), "two nodes")
    fig = threads_per_node(run, cols=64)
    curves = [t for t in fig.data if t.name == "threads, running or waiting"]
    filled = [t for t in fig.data if t.fill == "tonexty"]
    for node, curve in enumerate(curves):
        want = sum(n * t for n, t in states_of(run, node).items() if n > 0) / 1e6
        known = sum(t for n, t in states_of(run, node).items() if n >= 0) / 1e6
        assert area(curve.x, curve.y) == pytest.approx(want, rel=1e-6)
        more, fewer = filled[2 * node : 2 * node + 2]
        length = (run.scene.window[1] - run.scene.window[0]) / 1e6
        above, below = area(more.x, more.y) - length, length - area(fewer.x, fewer.y)
        assert above - below == pytest.approx(want - known, rel=1e-6)
        assert not np.isnan(np.asarray(more.y)).any()


def test_slow_cpus_and_loads_have_their_means(run):
    fig = frequency(run, cols=50)
    told = run.trace.only("frequency").collect()
    start, end = run.scene.window
    states = States.collect(
        [tuple(told[c].to_numpy() for c in ("ts_ns", "cpu", "value"))], CPUS, start, end
    )
    assert named(fig, "frequency").hoverongaps is False
    z = np.asarray(named(fig, "frequency").z)
    want = states.bin(cols=2000, cpus=run.scene.cpus).mean
    assert np.nanmean(z, axis=1) == pytest.approx(np.nanmean(want, axis=1) / 1e6, rel=1e-6)
    load = load_heatmap(run.scene, cols=50).data[0]
    assert np.exp2(np.asarray(load.z)) - 1 == pytest.approx(
        run.scene.loads.bin(cols=50, cpus=run.scene.cpus).mean, rel=1e-4, nan_ok=True
    )


def test_the_difference_of_two_runs_has_its_area():
    pair = align(drawn(2)[0], drawn(4)[0], "start of the traces")
    fig = aligned(pair, cols=90)
    difference = np.subtract(*(wasted(b) for b in pair.bins(pair.window, 90)))
    edges = pair.bins(pair.window, 90)[0].edges
    for name, sign in (("the first wastes more", 1), ("the second wastes more", -1)):
        want = float(np.nansum(np.maximum(sign * difference, 0) * np.diff(edges))) / 1e6
        assert area(named(fig, name).x, named(fig, name).y) * sign == pytest.approx(
            want, rel=1e-5, abs=1e-6
        )


def test_cores_are_not_wasted_where_idle_cpus_and_waiting_threads_take_turns():
    """5 ms with an idle CPU and nobody waiting, then 5 ms with both CPUs busy and a thread waiting."""
    ms = 1_000_000
    turn = ((0, 0, 0), (0, 1, 1), (5 * ms, 0, 2))
    rows = [nr(t * 10 * ms + at, cpu, n) for t in range(100) for at, cpu, n in turn]
    run = examine(trace_of([*rows, nr(1000 * ms, 0, 1)], cpus=2), "turns")
    assert run.result.thread_ns == 0
    pair = align(run, run, "start of the traces")
    assert wasted(pair.bins(pair.window, 10)[0]).tolist() == [0] * 10


def test_stays_of_fork_and_wait_have_their_lengths(run):
    start, end = run.scene.window
    fig = fork_wait_zoom(run.trace, start, end)
    stays = runs(run.trace, start, end).filter(pl.col("pid") > 0)
    lines = [t for t in fig.data if t.mode == "lines"]
    got = sum(np.diff(np.asarray(t.x, float).reshape(-1, 3)[:, :2]).sum() for t in lines)
    assert got * 1e6 == pytest.approx(int((stays["end_ns"] - stays["start_ns"]).sum()))
    assert all(t.line.simplify is False for t in lines)


def test_decisions_stand_on_a_true_heat_map():
    run = examine("live-balancing-off")
    if "decision" not in run.trace.kinds():
        rows = run.trace.events.collect()
        more = rows.head(1).with_columns(
            kind=pl.lit("decision").cast(rows["kind"].dtype), op=pl.lit("balanced").cast(rows["op"].dtype), text=pl.lit("{}")
        )  # fmt: skip
        both = pl.concat([rows, more]).sort("ts_ns", maintain_order=True)
        run = examine(
            type(run.trace)(both.lazy(), run.trace.header.model_copy(update={"kinds": None}))
        )
    check_rows(decision_marks(run, cols=200).data[0], run)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_random_pixels_are_shared_out(seed):
    """Also with many kinds that come and go, no kind is ever more than a few pixels behind or ahead."""
    rng = np.random.default_rng(seed)
    codes, cols = int(rng.integers(1, 11)), int(rng.integers(1, 500))
    ends = np.unique(rng.integers(0, 10**7, int(rng.integers(2, 3000))))
    start, end = ends[:-1].copy(), ends[1:].copy()
    code = rng.integers(0, codes, start.size)
    if seed % 2:  # not all of the time has an interval, and kinds come in phases
        code = (code + (start // 3_000_000)) % codes
        keep = rng.random(start.size) < 0.7
        start, end, code = start[keep], end[keep], code[keep]
    edges = pixel_edges(0, 10**7, cols)
    out, which = bin_share(start, end, code, np.array([0, start.size]), edges, codes)
    pixel = np.diff(edges).max()
    painted, held = np.zeros(codes), np.zeros(codes)
    for k in range(cols):
        inside = np.minimum(end, edges[k + 1]) - np.maximum(start, edges[k])
        for c in range(codes):
            held[c] += inside[(code == c) & (inside > 0)].sum()
        if out[0, k] >= 0:
            painted[out[0, k]] += edges[k + 1] - edges[k]
            assert code[which[0, k]] == out[0, k]
            assert inside[which[0, k]] > 0
        assert np.abs(painted - held).max() <= (codes + 1) / 2 * pixel
