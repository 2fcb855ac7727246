"""Segments reduced to pixels: strokes, spans and arrows add their colours to the pixels that they touch.

``sums`` is float64 (cols, height + 1, 4): sums of red, green, blue and weight, as differences between neighbouring pixels of a
column, so that a segment costs the same however many rows it crosses. A stroke weighs 1 in the pixels it touches, an arrow
weighs less, and the weight of a span is the share of the pixel's time that it covers.
"""

from __future__ import annotations

from wastedcores.jit.compile import inner, jit


@inner
def _add(sums, col, top, bottom, rgb, weight):
    for c in range(3):
        sums[col, top, c] += weight * rgb[c]
        sums[col, bottom, c] -= weight * rgb[c]
    sums[col, top, 3] += weight
    sums[col, bottom, 3] -= weight


@jit
def add_strokes(sums, counts, window, ts, row, to, tall, colour, rgb, weight):
    """Add segments that have no length in time."""
    cols = sums.shape[0]
    scale = cols / (window[1] - window[0])
    gap = 1 if tall >= 4 else 0
    for i in range(ts.size):
        col = min(cols - 1, int((ts[i] - window[0]) * scale))
        counts[row[i], col] += 1
        # an arrow goes from the middle of a row to the middle of another, a stroke leaves a gap between rows
        inset = tall // 2 if row[i] != to[i] else gap
        top, bottom = min(row[i], to[i]) * tall + inset, (max(row[i], to[i]) + 1) * tall - inset
        _add(sums, col, top, max(bottom, top + 1), rgb[colour[i]], weight)


@jit
def add_spans(sums, counts, window, start, end, row, heights, colour, rgb):
    """Add segments that have a length in time."""
    cols = sums.shape[0]
    scale = cols / (window[1] - window[0])
    for i in range(start.size):
        a = (max(start[i], window[0]) - window[0]) * scale
        b = (min(end[i], window[1]) - window[0]) * scale
        if b <= a:
            continue
        top = row[i] * heights[0] + heights[1]
        bottom = row[i] * heights[0] + heights[2]
        col = min(cols - 1, int(a))
        counts[row[i], col] += 1
        while col < cols and col < b:
            covered = min(b, col + 1.0) - max(a, float(col))
            _add(sums, col, top, bottom, rgb[colour[i]], covered)
            col += 1


@jit
def mean_colours(sums, image):
    """Turn sums into the mean colour of every pixel."""
    height = image.shape[0]
    for col in range(sums.shape[0]):
        r = g = b = w = 0.0
        for y in range(height):
            r += sums[col, y, 0]
            g += sums[col, y, 1]
            b += sums[col, y, 2]
            w += sums[col, y, 3]
            if w > 1e-7:
                image[y, col, 0] = min(255.0, max(0.0, r / w + 0.5))
                image[y, col, 1] = min(255.0, max(0.0, g / w + 0.5))
                image[y, col, 2] = min(255.0, max(0.0, b / w + 0.5))
                image[y, col, 3] = 255 * min(1.0, w) + 0.5
            else:
                image[y, col, 3] = 0
