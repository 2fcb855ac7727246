"""Looks at every figure and table of a page in the browser: text that is cut or overlaps, and figures without content."""

from __future__ import annotations

from playwright.sync_api import Page

#: widths of the window in pixels at which pages are judged
WIDTHS = (800, 1100, 1400)

_AUDIT = r"""() => {
const bad = [];
// the corners of an element's box on the screen, turned as the element is
const corners = e => { const b = e.getBBox(), m = e.getScreenCTM();
    return [[b.x, b.y], [b.x + b.width, b.y], [b.x + b.width, b.y + b.height], [b.x, b.y + b.height]]
        .map(([x, y]) => [m.a * x + m.c * y + m.e, m.b * x + m.d * y + m.f]) };
// boxes overlap unless some side of one of them separates them; what touches by `slack` pixels does not overlap
const apart = (p, q, slack) => [p, q].some(box => [0, 1].some(i => {
    const dx = box[i + 1][0] - box[i][0], dy = box[i + 1][1] - box[i][1], len = Math.hypot(dx, dy) || 1;
    const [pp, qq] = [p, q].map(c => c.map(([x, y]) => (x * dx + y * dy) / len));
    return Math.max(...pp) - slack <= Math.min(...qq) || Math.max(...qq) - slack <= Math.min(...pp) }));
const rgb = c => { const box = document.createElement('canvas').getContext('2d'); box.fillStyle = c;
    box.fillRect(0, 0, 1, 1); return [...box.getImageData(0, 0, 1, 1).data].slice(0, 3) };
const luminance = c => { const [r, g, b] = c.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b };
for (const [number, div] of [...document.querySelectorAll('.js-plotly-plot')].entries()) {
    const svg = div.querySelector('.main-svg').getBoundingClientRect();
    const name = `figure ${number} "${(div.querySelector('.gtitle')?.textContent || '').slice(0, 40)}"`;
    const lines = [];
    for (const text of div.querySelectorAll('.main-svg text')) {
        const seen = getComputedStyle(text);
        if (!text.textContent.trim() || text.closest('.hoverlayer') ||
            seen.visibility === 'hidden' || +seen.opacity < 0.1) continue;
        const parts = text.querySelectorAll('tspan.line');
        for (const part of parts.length ? parts : [text]) {
            if (!part.textContent.trim() || !part.getBBox().width) continue;
            const m = part.getScreenCTM(); if (!m) continue;
            lines.push({words: part.textContent.trim(), box: corners(part), of: text}) } }
    for (const {words, box} of lines)
        if (box.some(([x, y]) => x < svg.left - 1.5 || x > svg.right + 1.5 || y < svg.top - 1.5 || y > svg.bottom + 1.5))
            bad.push(`${name}: "${words.slice(0, 40)}" is cut`);
    const bar = div.querySelector('.modebar');
    if (bar) { const b = bar.getBoundingClientRect();
        lines.push({words: '(tool bar)', box: [[b.left, b.top], [b.right, b.top], [b.right, b.bottom], [b.left, b.bottom]]}) }
    for (let i = 0; i < lines.length; i++) for (let j = 0; j < i; j++)
        if (lines[i].of !== lines[j].of && !apart(lines[i].box, lines[j].box, 2.5))
            bad.push(`${name}: "${lines[j].words.slice(0, 40)}" overlaps "${lines[i].words.slice(0, 40)}"`);
    // words outside the marks can be read: their contrast with the figure's paper (WCAG 2.2, 1.4.3: 4.5 for normal text)
    const paper = rgb(div._fullLayout.paper_bgcolor);
    for (const text of div.querySelectorAll('.xtick text, .ytick text, .gtitle, .xtitle, .ytitle, .legendtext')) {
        const light = [luminance(rgb(getComputedStyle(text).fill)), luminance(paper)].sort((a, b) => b - a);
        if ((light[0] + 0.05) / (light[1] + 0.05) < 4.5)
            bad.push(`${name}: "${text.textContent.slice(0, 40)}" is hard to read`) }
    const marks = [...div.querySelectorAll(
        '.hm image, .scatterlayer path.js-line, .scatterlayer path.point, .bars .point path, .boxes path, .shapelayer path')];
    if (!marks.some(m => { const b = m.getBoundingClientRect(); return b.width + b.height > 1 }))
        bad.push(`${name}: nothing is drawn`) }
for (const table of document.querySelectorAll('.wc-scroll'))
    if (table.scrollWidth > table.clientWidth + 1) bad.push(`table "${table.textContent.trim().slice(0, 40)}" is cut`);
const page = rgb(getComputedStyle(document.body).backgroundColor);
for (const e of document.querySelectorAll('main :is(h1, h2, p, li, td, th)')) {
    if (!e.textContent.trim() || e.closest('.wc-code')) continue;
    const light = [luminance(rgb(getComputedStyle(e).color)), luminance(page)].sort((a, b) => b - a);
    if ((light[0] + 0.05) / (light[1] + 0.05) < 4.5) bad.push(`"${e.textContent.trim().slice(0, 40)}" is hard to read`) }
if (document.documentElement.scrollWidth > window.innerWidth + 1) bad.push('the page scrolls sideways');
return bad }"""

_DRAWN = """() => [...document.querySelectorAll('.plotly-graph-div')].every(
    f => f.querySelector('.main-svg') && Math.abs(f._fullLayout.width - f.clientWidth) < 2)"""


def audit(page: Page, width: int, scheme: str = "light") -> list[str]:
    """Return what is wrong with the figures and tables of a page that is open.

    Parameters
    ----------
    page
        The page.
    width
        Width of the window in pixels.
    scheme
        ``light`` or ``dark``, the colours that the reader prefers.

    Returns
    -------
    list of str
        One sentence per text that is cut, overlaps another or has too little contrast, and per figure in which nothing is
        drawn.
    """
    page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
    page.set_viewport_size({"width": width, "height": 900})
    page.wait_for_function(_DRAWN)
    return [f"{width} px: {words}" for words in faults(page)]


def faults(page: Page) -> list[str]:
    """Return what is wrong with the figures and tables of a page as it is, as :func:`audit` does."""
    return list(page.evaluate(_AUDIT))
