"""The scorecard in words: a first screen that says what was reproduced, and tables that it leads to."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import polars as pl

from wastedcores.words.rich_text import RichText, table
from wastedcores.words.scorecard_rows import FIRM, Group, grouped, span, text

_SOURCES = {"lozi2016": "the paper", "carver2019": "Carver 2019", "sites": "Sites' article"}
#: kinds with the sign that the dot plot gives them
_SIGNS = {"predicted": "\u25cf", "calibrated": "\u25a0", "measured": "\u25c6"}


def score_verdict(result: dict[str, Any]) -> RichText:
    """The first screen: how many numbers of which kind, and a table of what was reproduced, what was not, what not tried."""
    s = result["summary"]
    tested = [r for r in result["rows"] if r["kind"] == "predicted"]
    right = sum(r["reproduced"] is True for r in tested)
    wrong, none = len(s["direction_wrong"]), len(s["no_effect"])
    cards = [
        (
            f"{right} of {len(tested)}",
            "predicted numbers reproduced",
            f"{len(tested) - right - wrong - none} go the published way, but more or less far; {none} not at all; "
            f"{wrong} the wrong way",
        ),
        (
            "" if s["predicted_median_error"] is None else _percent(s["predicted_median_error"]),
            "median error of all predicted",
            ""
            if s["predicted_within_1.5"] is None
            else f"as ratios of times; {_percent(s['predicted_within_1.5'])} are within a factor of 1.5",
        ),
        (
            str(s["calibrated"]),
            "numbers calibrated the programs",
            f"and are met to {_worst(result['rows'])}: no proof of anything",
        ),
        (
            str(len(result["not_tried"])),
            "claims not tried",
            f"{s['measured']} measured on tools of ours; {s['failed']} failed to run",
        ),
    ]
    boxes = "".join(
        f'<div class="wc-card"><b>{escape(number)}</b><span>{escape(what)}</span><small>{escape(more)}</small></div>'
        for number, what, more in cards
    )
    lines = [_line(group, rows) for group, rows in grouped(result["rows"])]
    heads = (
        "",
        "predicted",
        "reproduced",
        "not reproduced: the right way, but not as far, or further",
    )
    head = "<tr>" + "".join(f"<th>{h}</th>" for h in heads) + "</tr>"
    if result["not_tried"]:
        lines.append(_left_out(result["not_tried"]))
    body = "".join(
        f"<tr><td>{a}</td><td>{b}</td><td>{c}</td><td>{d}</td></tr>" for (a, b, c, d), _ in lines
    )
    plain = "\n".join(
        [
            f"{len(result['rows'])} published numbers were tried.",
            *(f"{number} {what}: {more}" for number, what, more in cards),
            *(line for _, line in lines),
        ]
    )
    return RichText(
        plain,
        f'<div class="wc-cards">{boxes}</div><div class="wc-scroll"><table class="wc-table wc-score">'
        f"{head}{body}</table></div>",
    )


def _worst(rows: Sequence[dict[str, Any]]) -> str:
    """The largest misfit of a calibrated number of seconds."""
    away = [
        abs(r["ratio"] - 1)
        for r in rows
        if r["kind"] == "calibrated" and r["unit"] == "s" and r["ratio"]
    ]
    return _percent(max(away)) if away else "nothing"


def _percent(share: float) -> str:
    return f"{100 * share:.0f}{FIRM}%"


def _line(group: Group, rows: Sequence[dict[str, Any]]) -> tuple[tuple[str, str, str, str], str]:
    """One group on the first screen: cells, and the same as text."""
    tested = [r for r in rows if r["kind"] != "calibrated"]
    name = f'<a href="#group-{group.key}">{escape(group.title)}</a>'
    if not tested:
        count = f"{len(rows)} calibrated"
        return (name, f'<span class="wc-quiet">{count}</span>', "", ""), f"{group.title}: {count}"
    verdicts = [(r, r["reproduced"]) for r in tested]
    yes = sum(v is True for _, v in verdicts)
    missed = [r for r, v in verdicts if v is False]
    unclear = [r for r, v in verdicts if v is None]
    links = [f'<a href="#row-{escape(r["id"])}">{escape(_missed(r))}</a>' for r in missed]
    links += [
        f'<a href="#row-{escape(r["id"])}">{escape(r["short"])}: not judgeable</a>' for r in unclear
    ]
    kind = "" if tested[0]["kind"] == "predicted" else " measured"
    return (
        (name, f"{len(tested)}{kind}", f"<b>{yes}</b>", "<br>".join(links)),
        f"{group.title}: {yes} of {len(tested)} reproduced"
        + "".join(f"; {_missed(r)} ({r['id']})" for r in missed),
    )


def _missed(row: dict[str, Any]) -> str:
    published, ours = (text(row[k], row["unit"]) for k in ("published", "ours"))
    if row["verdict"] == "no effect":
        ours = "no effect"
    wrong = ", the wrong way" if row["verdict"] == "opposite" else ""
    return f"{row['short']}: {ours}, published {published}{wrong}"


def _left_out(items: Sequence[dict[str, str]]) -> tuple[tuple[str, str, str, str], str]:
    """The last line of the first screen: how many claims were not tried, by paper."""
    by: dict[str, int] = {}
    for item in items:
        by[item["source"]] = by.get(item["source"], 0) + 1
    counts = ", ".join(f"{n} of {_SOURCES.get(name, name)}" for name, n in by.items())
    cells = ('<a href="#not-tried">Not tried</a>', str(len(items)), "", escape(counts))
    return cells, f"Not tried: {len(items)} ({counts})"


def score_table(
    result: dict[str, Any], kinds: Sequence[str] = ("predicted", "measured")
) -> RichText:
    """Rows of some kinds by group: published, ours, range, ratio, part of the effect, verdict."""
    heads = ("", "published", "ours", "5\u201395 %", "ratio", "part of the effect", "verdict")
    head = "".join(f"<th>{h}</th>" for h in heads)
    html, plain = [], []
    for group, all_rows in grouped(result["rows"]):
        rows = [r for r in all_rows if r["kind"] in kinds]
        if not rows:
            continue
        # a group may have rows of both tables; its anchor is where its predictions are
        first = all(r["kind"] == "calibrated" for r in all_rows) or "calibrated" not in kinds
        anchor = f' id="group-{group.key}"' if first else ""
        html.append(f"<tr{anchor}><th colspan={len(heads)}>{escape(group.title)}</th></tr>")
        plain.append(group.title)
        for r in rows:
            cells = _cells(r)
            html.append(
                f'<tr id="row-{escape(r["id"])}"><td><span class="wc-{r["kind"]}" title="{r["kind"]}">'
                f"{_SIGNS[r['kind']]}</span> {escape(r['quantity'])}</td>"
                + "".join(f"<td>{escape(c)}</td>" for c in cells)
                + "</tr>"
            )
            plain.append(f"  {r['quantity']} ({r['kind']}): " + ", ".join(c for c in cells if c))
    body = "".join(html) or "<tr><td>none</td></tr>"
    return RichText(
        "\n".join(plain) or "none",
        f'<div class="wc-scroll"><table class="wc-table wc-score"><tr>{head}</tr>{body}</table></div>',
    )


def _cells(r: dict[str, Any]) -> list[str]:
    far = r["reproduced"] is False and r["verdict"] in ("same", "close", "within 1.5x")
    return [
        text(r["published"], r["unit"]),
        text(r["ours"], r["unit"]),
        span(r),
        "" if r["ratio"] is None else f"{r['ratio']:.2f}",
        "" if r["effect"] is None else _percent(r["effect"]),
        r["verdict"] + (", effect not" if far else ""),
    ]


def score_reasons(result: dict[str, Any], *, beyond: float = 1.1) -> RichText:
    """Why ours differ: reasons, each with the rows that are off by more than a factor; other readings beside them.

    What was not reproduced comes first.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for r in result["rows"]:
        off = not r["ratio"] or max(r["ratio"], 1 / r["ratio"]) > beyond
        told = off or r["reproduced"] is False or any(v is not None for v in r["beside"].values())
        if r["kind"] != "calibrated" and told:
            found.setdefault(r["reason"], []).append(r)
    html, plain = [], []
    missed = {k: any(r["reproduced"] is False for r in rows) for k, rows in found.items()}
    for reason, rows in sorted(found.items(), key=lambda item: not missed[item[0]]):
        lines = [_with_others(r) for r in rows]
        html.append(
            '<div class="wc-why"><ul>'
            + "".join(f"<li>{escape(line)}</li>" for line in lines)
            + f"</ul><p>{escape(reason)}</p></div>"
        )
        plain += [*lines, reason]
    if not html:
        return RichText("every number is within ten percent", "<p>Every number is within 10 %.</p>")
    return RichText("\n".join(plain), "".join(html))


def _with_others(r: dict[str, Any]) -> str:
    others = [f"{k}: {text(v, r['unit'])}" for k, v in r["beside"].items() if v is not None]
    line = f"{r['quantity']}: {text(r['ours'], r['unit'])}, published {text(r['published'], r['unit'])}"
    return line + (f" ({'; '.join(others)})" if others else "")


def score_not_tried(result: dict[str, Any]) -> RichText:
    """Published claims that have no row, by reason."""
    by: dict[str, list[str]] = {}
    for item in result["not_tried"]:
        by.setdefault(item["why_not"], []).append(
            f"{item['quantity']}: {item['published']} ({_SOURCES.get(item['source'], item['source'])})"
        )
    if not by:
        return RichText("nothing was left out", '<p id="not-tried">Nothing was left out.</p>')
    html = "".join(
        f"<div class='wc-why'><p>{escape(why[:1].upper() + why[1:])}:</p><ul>"
        + "".join(f"<li>{escape(c)}</li>" for c in claims)
        + "</ul></div>"
        for why, claims in by.items()
    )
    plain = "\n".join(line for why, claims in by.items() for line in (why, *claims))
    return RichText(plain, f'<div id="not-tried">{html}</div>')


def tick_table(study: dict[str, Any]) -> RichText:
    """Table 3's predicted times under other ticks."""
    by: dict[str, dict[str, Any]] = {}
    for r in study["tick"]:
        row = by.setdefault(r["id"], {"program": r["name"]})
        row[f"tick {r['tick_ms']} ms"] = text(r["s"], "s")
    return table(pl.DataFrame(list(by.values()) or [{"program": "none"}]))
