"""The segments that an events figure draws, stored as arrays so that any window can be reduced to pixels quickly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from wastedcores.analysis.states import MAX_COLS
from wastedcores.errors import UsageError

#: an arrow crosses rows that it does not concern, so it has only this weight there
ARROW = 0.15
#: the greatest height of an image in pixels; it may be exceeded, because every row has at least one pixel
HEIGHT = 384


@dataclass(frozen=True)
class Segments:
    """The segments of one layer, ordered by their beginnings."""

    #: times in ns, int64; equal for strokes and arrows
    start: np.ndarray
    end: np.ndarray
    #: the row where each segment is, and the row where an arrow ends, int32; equal unless the segments are arrows
    row: np.ndarray
    to: np.ndarray
    colour: np.ndarray  #: index into ``rgb``, int32
    event: np.ndarray  #: the number of the event in its table, int64
    rgb: np.ndarray  #: the colours, float64 (colours, 3), 0 to 255
    spans: bool  #: whether the segments have lengths
    arrows: bool = False  #: whether the segments lead from one row to another

    def inside(self, start_ns: int, end_ns: int) -> np.ndarray:
        """Return the indices of the segments that a window touches."""
        first, last = np.searchsorted(self.start, [start_ns, end_ns])
        if not self.spans:
            return np.arange(first, last)
        before = np.flatnonzero(self.end[:first] > start_ns)
        return np.concatenate([before, np.arange(first, last)])

    def count(self, start_ns: int, end_ns: int) -> int:
        """Count the segments that a window touches."""
        first, last = np.searchsorted(self.start, [start_ns, end_ns])
        before = np.count_nonzero(self.end[:first] > start_ns) if self.spans else 0
        return int(last - first + before)

    def part(self, chosen: np.ndarray) -> Segments:
        """Return some of the segments, by their indices or by a mask."""
        names = ("start", "end", "row", "to", "colour", "event")
        return replace(self, **{name: getattr(self, name)[chosen] for name in names})


@dataclass(frozen=True)
class Raster:
    """A window of segments as pixels."""

    #: uint8 (height, cols, 4): the mean colour of the segments in each pixel, and an opacity
    image: np.ndarray
    counts: np.ndarray  #: int32 (rows, cols): how many segments begin in each row and column


def pixels_per_row(rows: int) -> tuple[int, int, int]:
    """Return how many pixels a row has, the first pixel that a span fills, and the first pixel after the span."""
    tall = max(1, min(12, HEIGHT // max(rows, 1)))
    return (tall, 0, tall) if tall < 4 else (tall, tall // 3, tall - tall // 3)


def raster(layers: Sequence[Segments], window: tuple[int, int], cols: int, rows: int) -> Raster:
    """Reduce a window to pixels."""
    from wastedcores.analysis.raster_jit import add_spans, add_strokes, mean_colours

    start, end = window
    if end <= start:
        raise UsageError(f"window {start}..{end} ns: it must end after it starts.")
    cols = int(min(cols, MAX_COLS, end - start))
    tall, top, bottom = pixels_per_row(rows)
    sums = np.zeros((cols, rows * tall + 1, 4))
    counts = np.zeros((rows, cols), np.int32)
    ends = np.array(window, np.int64)
    for layer in layers:
        if layer.spans:
            last = int(np.searchsorted(layer.start, end))
            heights = np.array([tall, top, bottom], np.int64)
            add_spans(sums, counts, ends, layer.start[:last], layer.end[:last], layer.row[:last],
                      heights, layer.colour[:last], layer.rgb)  # fmt: skip
            continue
        first, last = np.searchsorted(layer.start, [start, end])
        add_strokes(sums, counts, ends, layer.start[first:last], layer.row[first:last], layer.to[first:last],
                    tall, layer.colour[first:last], layer.rgb, ARROW if layer.arrows else 1.0)  # fmt: skip
    image = np.zeros((rows * tall, cols, 4), np.uint8)
    mean_colours(sums, image)
    return Raster(image, counts)
