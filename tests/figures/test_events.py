"""Events as figures: layers as text and as a file, segments, the raster against its definition, and exact shapes."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import plotly.graph_objects as go
import polars as pl
import pytest
from support.builders import switch, trace_of, wakeup

from wastedcores.analysis.examined import examine
from wastedcores.analysis.segments import ARROW, Segments, pixels_per_row, raster
from wastedcores.errors import MissingEventsError, UsageError
from wastedcores.figures.event_layers import EventLayer, read_layers, styled, write_layers
from wastedcores.figures.event_views import EventView, events
from wastedcores.trace.header import Header
from wastedcores.trace.schema import conform
from wastedcores.trace.trace import Trace

MS = 1_000_000
COLUMNS = {"ts_ns": pl.Int64, "kind": pl.String, "cpu": pl.Int32, "pid": pl.Int32, "comm": pl.String,
           "prev_pid": pl.Int32, "prev_state": pl.String, "src_cpu": pl.Int32, "cpu_mask": pl.Binary,
           "value": pl.Int64, "text": pl.String}  # fmt: skip


def four_cpus(extra=()):
    """CPU 0 runs make and then cc1, CPU 1 runs as; a wakeup goes from CPU 0 to CPU 3."""
    rows = [
        (0, "switch", 0, 5, "make", 0, "S"),
        (10 * MS, "switch", 0, 6, "cc1", 5, "S"),
        (20 * MS, "switch", 1, 7, "as", 0, "S"),
        (30 * MS, "wakeup", 3, 8, None, None, None, 0),
        (40 * MS, "switch", 0, 0, None, 6, "S"),
        (60 * MS, "switch", 1, 0, None, 7, "S"),
        (70 * MS, "considered", 2, None, None, None, None, 1, b"\x0b"),
        *extra,
    ]
    rows = [r + (None,) * (len(COLUMNS) - len(r)) for r in rows]
    frame = conform(pl.DataFrame(rows, schema=COLUMNS, orient="row"), "test")
    header = Header(source_format="test", cpus=4, start_ns=0, end_ns=100 * MS)
    return examine(Trace(frame.lazy(), header), "t")


def lines(fig, colour=None):
    """The lines of a figure as (x0, x1, y0, y1) in ms and rows."""
    found = []
    for t in fig.data:
        if t.mode == "lines" and (colour is None or t.line.color == colour):
            x, y = np.asarray(t.x).reshape(-1, 3), np.asarray(t.y).reshape(-1, 3)
            found += [
                tuple(map(float, (a[0], a[1], b[0], b[1]))) for a, b in zip(x, y, strict=True)
            ]
    return sorted(found)


def pixels(fig):
    """The image of a figure, decoded from its PNG by the definition of the format."""
    data = base64.b64decode(fig.layout.images[0].source.partition(",")[2])
    assert data.startswith(b"\x89PNG\r\n\x1a\n")
    width, height = (int.from_bytes(data[i : i + 4], "big") for i in (16, 20))
    at, body = 8, b""
    while at < len(data):
        size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
        chunk = data[at + 8 : at + 8 + size]
        assert int.from_bytes(data[at + 8 + size : at + 12 + size], "big") == zlib.crc32(
            kind + chunk
        )
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    filtered = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + 4 * width)
    assert (filtered[:, 0] == 2).all()  # every line is the difference from the one above
    return np.cumsum(filtered[:, 1:].astype(int), axis=0).astype(np.uint8).reshape(height, width, 4)


def test_events__spans_strokes_and_arrows_are_where_they_belong():
    run = four_cpus()
    fig = events(run, [
        styled('kind == "switch" and pid != 0', "draw=spans:run_ns colour=#0000ff"),
        styled('kind == "wakeup"', "draw=arrows colour=#00ff00"),
        styled('comm == "as"', "red"),
        styled("3 in cpu_mask", "draw=mask colour=#112233"),
    ])  # fmt: skip
    assert lines(fig, "rgb(0,0,255)") == [(0, 10, 0, 0), (10, 40, 0, 0), (20, 60, 1, 1)]
    assert lines(fig, "rgb(0,255,0)") == [(30, 30, 0, 3)]
    assert [line[:2] for line in lines(fig, "rgb(214,39,40)")] == [(20, 20)]
    (stroke,) = lines(fig, "rgb(214,39,40)")
    assert stroke[2] < 1 < stroke[3]
    assert [round(sum(m[2:]) / 2) for m in lines(fig, "rgb(17,34,51)")] == [0, 1, 3]
    assert list(fig.layout.yaxis.ticktext) == [f"CPU {c}" for c in range(4)]


def test_events__hover_tells_everything_about_an_event():
    fig = events(four_cpus(), [styled("run_ns == 30 * ms", "draw=spans:run_ns colour=by:comm")])
    (said,) = [text for t in fig.data if t.text is not None for text in t.text]
    for fact in (
        "<b>switch</b> at 10 ms",
        "pid: 6",
        "comm: cc1",
        "prev_pid: 5",
        "cpu: 0",
        "run_ns: 30 ms",
    ):
        assert fact in said
    masked = events(four_cpus(), [styled("3 in cpu_mask", "draw=mask")])
    assert any(
        "cpu_mask: 0-1,3" in text for t in masked.data if t.text is not None for text in t.text
    )


def test_events__a_window_clips_spans_and_leaves_out_the_rest():
    view = EventView(four_cpus(), [styled("run_ns > 0", "draw=spans:run_ns colour=#0000ff")])
    assert lines(view.figure((30 * MS, 45 * MS))) == [(30, 40, 0, 0), (30, 45, 1, 1)]
    empty = view.figure((90 * MS, 95 * MS))
    assert lines(empty) == []
    assert "no layer chooses anything here" in empty.layout.title.text
    with pytest.raises(UsageError, match="must end after it starts"):
        view.figure((50 * MS, 50 * MS), most_shapes=-1)


def random_layers(seed, rows=6, n=300, span=1000):
    rng = np.random.default_rng(seed)

    def layer(kind):
        start = np.sort(rng.integers(0, span, n))
        end = start + rng.integers(1, 120, n) if kind == "spans" else start
        row = rng.integers(0, rows, n).astype(np.int32)
        to = rng.integers(0, rows, n).astype(np.int32) if kind == "arrows" else row
        rgb = rng.integers(0, 256, (5, 3)).astype(float)
        colour = rng.integers(0, 5, n).astype(np.int32)
        return Segments(
            start, end, row, to, colour, np.arange(n), rgb, kind == "spans", kind == "arrows"
        )

    return [layer(kind) for kind in ("strokes", "spans", "arrows")]


@pytest.mark.slow
@pytest.mark.parametrize(("window", "cols"), [((0, 1000), 37), ((250, 500), 50), ((900, 1400), 10)])
def test_raster__is_the_mean_of_the_segments_in_each_pixel(window, cols):
    rows = 6
    layers = random_layers(5, rows)
    got = raster(layers, window, cols, rows)
    tall, top, bottom = pixels_per_row(rows)
    assert (top, bottom) != (0, tall)  # spans are thinner than strokes here
    colour, weight = np.zeros((rows * tall, cols, 3)), np.zeros((rows * tall, cols))
    width = (window[1] - window[0]) / cols

    def add(y, x, rgb, w):
        colour[y, x] += w * rgb
        weight[y, x] += w

    for layer in layers:
        for i in range(layer.start.size):
            a, b, r, rgb = layer.start[i], layer.end[i], layer.row[i], layer.rgb[layer.colour[i]]
            if layer.spans:
                for x in range(cols):
                    lo, hi = window[0] + x * width, window[0] + (x + 1) * width
                    share = max(0.0, min(b, hi) - max(a, lo)) / width
                    add(slice(r * tall + top, r * tall + bottom), x, rgb, share)
            elif window[0] <= a < window[1]:
                x = int((a - window[0]) / width)
                lo, hi = sorted((r, layer.to[i]))
                if lo == hi:
                    add(
                        slice(lo * tall + 1, (lo + 1) * tall - 1),
                        x,
                        rgb,
                        ARROW if layer.arrows else 1,
                    )
                else:
                    add(slice(lo * tall + tall // 2, (hi + 1) * tall - tall // 2), x, rgb, ARROW)
    # an arrow from a row to itself is a stroke
    drawn = weight > 1e-6
    assert 0.1 < drawn.mean() < 1
    mean = colour[drawn] / weight[drawn][:, None]
    assert np.abs(got.image[drawn][:, :3] - mean).max() <= 0.51
    assert (got.image[~drawn][:, 3] == 0).all()
    opacity = got.image[..., 3][drawn] / 255
    assert np.abs(opacity - np.clip(weight[drawn], 0, 1)).max() < 0.005
    inside = sum(layer.inside(*window).size for layer in layers)
    assert got.counts.sum() == inside


@pytest.mark.parametrize("window", [(0, 1000), (300, 301), (990, 2000), (-5, 0)])
def test_segments__are_counted_as_they_are_chosen(window):
    for layer in random_layers(3):
        assert layer.count(*window) == layer.inside(*window).size


def test_events__many_segments_are_an_image_and_the_same_in_every_run():
    rows = [
        (t * MS // 100, "switch", t % 4, 5 + t % 2, "cc1" if t % 2 else "as", 0, "S")
        for t in range(7000, 9900)
    ]
    run = four_cpus(rows)
    layers = [styled('comm == "as"', "colour=#ff0000"), styled('comm == "cc1"', "colour=#0000ff")]
    fig = EventView(run, layers).figure(cols=100)
    image = pixels(fig)
    assert image.shape[1] == 100
    tall = image.shape[0] // 4
    # 70 ms to 99 ms is red on CPUs 0 and 2 and blue on CPUs 1 and 3; before that are single events
    assert image[tall // 2, 80].tolist() == [255, 0, 0, 255]
    assert image[tall + tall // 2, 80].tolist() == [0, 0, 255, 255]
    assert image[tall // 2, 50].tolist() == [0, 0, 0, 0]
    assert fig.to_json() == EventView(run, layers).figure(cols=100).to_json()
    assert not [t for t in fig.data if isinstance(t, go.Scatter) and t.mode == "lines"]
    (hover,) = [t for t in fig.data if isinstance(t, go.Heatmap)]
    assert np.asarray(hover.z).sum() == 2902


def test_events__colours_by_value_and_by_number():
    tick = [
        (t * MS, "tick", 2, 9, None, None, None, None, None, khz)
        for t, khz in ((80, 1_200_000), (84, 3_000_000), (88, 2_100_000))
    ]
    fig = events(four_cpus(tick), [styled('kind == "tick"', "colour=scale:frequency_khz")])
    shown = {float(x): t.line.color for t in fig.data if t.mode == "lines" for x in [t.x[0]]}
    assert shown[80.0] == "rgb(0,34,78)"
    assert shown[84.0] == "rgb(254,232,56)"
    assert len(set(shown.values())) == 3
    bar = [t.marker for t in fig.data if t.marker.showscale]
    assert (bar[0].cmin, bar[0].cmax) == (1.2, 3.0)
    assert bar[0].colorbar.title.text == "frequency (GHz)"
    fig = events(
        four_cpus(),
        [
            styled('kind == "switch"', "colour=by:comm"),
            styled('kind == "wakeup"', "draw=arrows colour=by:cause"),
        ],
    )
    names = {t.name: t.marker.color for t in fig.data if t.showlegend is not False}
    assert {"make", "cc1", "as", "comm unknown", "wakeup"} == set(names)
    assert len(set(names.values())) == 5


def test_events__without_layers_show_who_ran_and_how_tasks_moved():
    view = EventView(four_cpus())
    assert [d.layer.shape for d in view.drawn] == ["spans", "arrows"]
    assert lines(view.figure())
    bundled = EventView(examine("live-balancing-off"))
    assert sum(d.segments.start.size for d in bundled.drawn) > 10


@pytest.mark.parametrize(
    ("style", "says"),
    [
        ("draw=circles", "expected strokes, spans:COLUMN"),
        ("draw=spans", "expected strokes, spans:COLUMN"),
        ("colour=nocolour", "expected #rrggbb"),
        ("nocolour", "expected #rrggbb"),
        ("width=thick", "no number of pixels"),
        ("width=900", "up to 50 pixels"),
        ("size=3", "'size' is unknown"),
        ('label="a', "No closing quotation"),
        ("colour=by:nothing", "'nothing'"),
        ("colour=scale:comm", "has no numbers"),
        ("colour=by:cpu_mask", "cannot be a colour"),
        ("draw=spans:comm", "has no lengths"),
        ("colour=scale:frequency_khz", "frequency"),
    ],
)
def test_events__a_wrong_style_gets_a_sentence(style, says):
    with pytest.raises((UsageError, MissingEventsError), match=says):
        events(four_cpus(), [styled("True", style)])


def test_layers__any_text_survives_the_file(tmp_path):
    layer = EventLayer('comm == "\U0001f525"', label='hot \U0001f525 "x" \\ \x7f\t\n')
    write_layers([layer], tmp_path / "l.toml")
    assert read_layers(tmp_path / "l.toml")[0] == [layer]


def test_layers__from_a_file(tmp_path):
    file = tmp_path / "view.toml"
    file.write_text(
        "[[span]]\nname='cc'\nbegin='comm == \"cc1\"'\nend='kind == \"switch\"'\nby='cpu'\nsame=['pid','prev_pid']\n"
        "[[layer]]\nquery='cc_ns > 1 * ms'\ndraw='spans:cc_ns'\ncolour='#0000ff'\nwidth=3\nlabel='compiler'\n"
    )
    layers, spans = read_layers(file)
    assert layers == [EventLayer("cc_ns > 1 * ms", "spans:cc_ns", "#0000ff", 3.0, "compiler")]
    assert lines(events(four_cpus(), layers, spans=spans)) == [(10, 40, 0, 0)]
    for text, says in (
        ("layer = 3", "two brackets"),
        ("[[layer]]\nquery=3", "a text in quotes"),
        ("[[layer]]\ndraw='arrows'", "the query is missing"),
        ("[[layers]]\nquery='True'", "'layers' is unknown"), ("", "there is no"), ("[[", "no TOML"),
        ("[[layer]]\nquery='True'\nlabel=3", "must be a text"),
        ("[[layer]]\nquery='True'\n[[span]]\nname='a'", "name, begin and end"),
    ):  # fmt: skip
        file.write_text(text)
        with pytest.raises(UsageError, match=says):
            read_layers(file)
    with pytest.raises(UsageError, match="cannot be read"):
        read_layers(tmp_path / "absent.toml")


def test_events__the_last_event_is_drawn():
    rows = [switch(0, 0, 0, "R", 5), *(wakeup(t * MS, 0, 7) for t in (0, 5, 10))]
    view = EventView(
        examine(trace_of(rows, cpus=1), "t"), [styled('kind == "wakeup"', "colour=#00ff00")]
    )
    for window in (None, (0, 10 * MS)):
        fig = view.figure(window)
        assert "10 ms of t: 3 segments" in fig.layout.title.text
        assert [x for x, *_ in lines(fig, "rgb(0,255,0)")] == [0, 5, 10]
    assert "2 segments" in view.figure((0, 9 * MS)).layout.title.text
