"""The scorecard: a first screen that says what was reproduced, and the tables to which it links.

The input is what ``wastedcores reproduce`` writes, see :func:`wastedcores_studies.scorecard.read`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import polars as pl

from wastedcores.words.rich_text import RichText, count, sentence, table

#: a minus, a sign of multiplication, and two spaces that do not break: a thin one inside a number, a plain one before its unit
MINUS, TIMES, SPACE, FIRM = "\u2212", "\u00d7", "\u202f", "\u00a0"


@dataclass(frozen=True)
class Group:
    """Rows that belong together."""

    key: str  #: the value of ``group`` in its rows; the anchors of the page contain this key
    title: str  #: the heading in tables
    short: str  #: the name on axes


GROUPS = (
    Group("table3", "Table 3: NAS, 64 threads, missing domains", "Table 3"),
    Group("table2", "Table 2: database, wakeup and imbalance", "Table 2"),
    Group("make", "3.1, figure 2: make beside R", "make + R"),
    Group("lu", "3.1: lu beside R", "lu + R"),
    Group("looks", "3.2, figure 5: groups, looks", "3.2, fig. 5"),
    Group("wakeup", "1, 3.3: episodes of an idle core", "1, 3.3"),
    Group("rates", "4.2: rates of events", "4.2"),
    Group("desktop", "Walcher 2019: database on a desktop", "desktop"),
    Group("tools", "4.1, 4.2: cost of the tools", "tools"),
    Group("forkwait", "Carver 2019: fork, wait and frequency", "fork/wait"),
    Group("sites", "Sites: anomalies in processor use", "anomalies"),
    Group("newidle", "Newidle balancing, Linux 5.16 to 7.0", "newidle"),
    Group("slides", "The slides: worked examples", "slides"),
    Group("table1", "Table 1: NAS on two nodes, group construction", "Table 1"),
)


def grouped(rows: Sequence[dict[str, Any]]) -> list[tuple[Group, list[dict[str, Any]]]]:
    """Return the groups that have rows, each with its rows: first those of :data:`GROUPS`, then those without a title."""
    known = [g.key for g in GROUPS]
    others = dict.fromkeys(row["group"] for row in rows if row["group"] not in known)
    found = (
        (group, [row for row in rows if row["group"] == group.key])
        for group in (*GROUPS, *(Group(key, key, key) for key in others))
    )
    return [(group, mine) for group, mine in found if mine]


def predictions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows that are predictions; a prediction that is stated both in seconds and as a change counts once."""
    return [r for r in rows if r["kind"] == "predicted" and not r["restates"]]


def text(value: Any, unit: str) -> str:
    """Write a number with its unit and with three significant digits."""
    if value is None:
        return "none"
    if isinstance(value, str):
        return value.replace(";", "; ")
    if unit == "percent":
        rounded = round(float(value), 1) + 0.0
        return f"{rounded:+.1f}{FIRM}%".replace("-", MINUS) if rounded else f"0{FIRM}%"
    number = f"{value:,.0f}".replace(",", SPACE) if abs(value) >= 1000 else f"{value:.3g}"
    if unit == "text":  # a number that is compared with words; its label has the unit
        return number
    return number + (TIMES if unit == "ratio" else f"{FIRM}{unit}")


def span(row: dict[str, Any]) -> str:
    """Write the 5-95 % range of a row; empty if all replays agree or there is only one replay."""
    if row["low"] is None:
        return ""
    low, high = text(row["low"], row["unit"]), text(row["high"], row["unit"])
    if low == high:
        return ""
    return f"{low.partition(FIRM)[0].removesuffix(TIMES)}{FIRM}to{FIRM}{high}"


_SOURCES = {
    "lozi2016": "the paper",
    "slides": "its slides",
    "walcher2019": "Walcher 2019",
    "carver2019": "Carver 2019",
    "sites": "Sites' article",
    "newidle": "reports on newidle balancing, 5.16 to 7.0",
}
#: kind of a number -> its symbol, which is the same in the dot plot
_SIGNS = {
    "predicted": "\u25cf",
    "calibrated": "\u25a0",
    "measured": "\u25c6",
    "computed": "\u25b2",
    "assumed": "\u25cb",
}


def score_verdict(result: dict[str, Any]) -> RichText:
    """Summarise the scorecard: the count of each kind of number, and what was reproduced, not reproduced, and not attempted."""
    s = result["summary"]
    tested = predictions(result["rows"])
    right = sum(r["reproduced"] is True for r in tested)
    wrong, none, failed = (
        sum(r["verdict"] == word for r in tested) for word in ("opposite", "no effect", "failed")
    )
    cards = [
        (
            f"{right} of {len(tested)}",
            "predictions are reproduced",
            f"within a factor of 1.5, each counted once; of the others: {len(tested) - right - wrong - none - failed} in the "
            f"right direction but of another size, {none} without an effect, {wrong} in the wrong direction"
            + (f", {failed} failed to run" if failed else ""),
        ),
        (
            "" if s["predicted_median_error"] is None else percent(s["predicted_median_error"]),
            "median error of predictions",
            "of changes, as parts of the published change",
        ),
        (
            str(s["calibrated"]),
            "numbers were used for calibration",
            f"the programs were fitted to them{_misfit(result['rows'])}, so they prove nothing",
        ),
        (
            str(len(result["not_tried"])),
            "claims were not attempted",
            f"{count(s['measured'], 'number')} measured on this project's own tools; {s['failed']} failed to run",
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
        "not reproduced: what was obtained, and what is published",
    )
    head = "<tr>" + "".join(f"<th>{h}</th>" for h in heads) + "</tr>"
    if result["not_tried"]:
        lines.append(_left_out(result["not_tried"]))
    body = "".join(
        f"<tr><td>{a}</td><td>{b}</td><td>{c}</td><td>{d}</td></tr>" for (a, b, c, d), _ in lines
    )
    plain = "\n".join(
        [
            f"{len(result['rows'])} published numbers were attempted.",
            *(f"{number} {what}: {more}" for number, what, more in cards),
            *(line for _, line in lines),
        ]
    )
    return RichText(
        plain,
        f'<div class="wc-cards">{boxes}</div><div class="wc-scroll"><table class="wc-table wc-score">'
        f"{head}{body}</table></div>",
    )


def _misfit(rows: Sequence[dict[str, Any]]) -> str:
    """Return a clause with the largest error of a calibrated number of seconds, if there is one."""
    away = [
        abs(r["ratio"] - 1)
        for r in rows
        if r["kind"] == "calibrated" and r["unit"] == "s" and r["ratio"]
    ]
    return f" with errors of up to {percent(max(away))}" if away else ""


def percent(share: float) -> str:
    """Write a share in percent."""
    return f"{100 * share:.0f}{FIRM}%"


def _line(group: Group, rows: Sequence[dict[str, Any]]) -> tuple[tuple[str, str, str, str], str]:
    """Return the row of a group on the first screen, as cells and as text."""
    tested = [r for r in rows if r["kind"] not in ("calibrated", "assumed") and not r["restates"]]
    name = f'<a href="#group-{group.key}">{escape(group.title)}</a>'
    if not tested:
        count = f"{len(rows)} calibrated"
        return (name, f'<span class="wc-quiet">{count}</span>', "", ""), f"{group.title}: {count}"
    verdicts = [(r, r["reproduced"]) for r in tested]
    yes = sum(v is True for _, v in verdicts)
    missed = [r for r, v in verdicts if v is False]
    unclear = [r for r, v in verdicts if v is None]
    links = [f'<a href="#row-{escape(r["id"])}">{escape(missed_by(r))}</a>' for r in missed]
    links += [
        f'<a href="#row-{escape(r["id"])}">{escape(r["short"])}: cannot be judged</a>'
        for r in unclear
    ]
    kind = "" if tested[0]["kind"] == "predicted" else f" {tested[0]['kind']}"
    return (
        (name, f"{len(tested)}{kind}", f"<b>{yes}</b>", "<br>".join(links)),
        f"{group.title}: {yes} of {len(tested)} reproduced"
        + "".join(f"; {missed_by(r)} ({r['id']})" for r in missed),
    )


def missed_by(row: dict[str, Any]) -> str:
    """Say what was obtained instead of a published number."""
    published, ours = (text(row[k], row["unit"]) for k in ("published", "ours"))
    if row["verdict"] == "no effect":
        ours = "no effect"
    wrong = ", in the wrong direction" if row["verdict"] == "opposite" else ""
    return f"{row['short']}: {ours}, published {published}{wrong}"


def _left_out(items: Sequence[dict[str, str]]) -> tuple[tuple[str, str, str, str], str]:
    """Return the last row of the first screen: how many claims were not attempted, by source."""
    by: dict[str, int] = {}
    for item in items:
        by[item["source"]] = by.get(item["source"], 0) + 1
    counts = ", ".join(f"{n} of {_SOURCES.get(name, name)}" for name, n in by.items())
    cells = ('<a href="#not-tried">Not attempted</a>', str(len(items)), "", escape(counts))
    return cells, f"Not attempted: {len(items)} ({counts})"


def score_table(
    result: dict[str, Any], kinds: Sequence[str] = ("predicted", "measured", "computed", "assumed")
) -> RichText:
    """Tabulate the numbers of some kinds, group by group.

    Parameters
    ----------
    result
        What ``wastedcores reproduce`` writes.
    kinds
        Any of ``predicted``, ``measured``, ``computed``, ``assumed`` and ``calibrated``.

    Returns
    -------
    RichText
        A table with the published number, the obtained one, its 5-95 % range over the seeds, their ratio, the obtained
        change as a part of the published one, and the verdict. An asterisk marks rows for which the reading of the source
        was chosen after a result had been seen.
    """
    heads = ("", "published", "obtained", "5\u201395 %", "ratio", "part of the effect", "verdict")
    head = "".join(f"<th>{h}</th>" for h in heads)
    html, plain = [], []
    for group, all_rows in grouped(result["rows"]):
        rows = [r for r in all_rows if r["kind"] in kinds]
        if not rows:
            continue
        # the notebook shows two such tables. If a group has rows in both, its anchor is in the table with its predictions
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
    return [
        text(r["published"], r["unit"]),
        text(r["ours"], r["unit"]),
        span(r),
        "" if r["ratio"] is None else f"{r['ratio']:.2f}",
        "" if r["effect"] is None else percent(r["effect"]),
        r["verdict"] + ", counted as its effect" * bool(r["restates"]) + " *" * r["afterwards"],
    ]


def score_reasons(result: dict[str, Any], *, beyond: float = 1.1) -> RichText:
    """List the reasons why numbers differ; the reasons for numbers that were not reproduced come first.

    Parameters
    ----------
    result
        What ``wastedcores reproduce`` writes.
    beyond
        Numbers within this factor of the published ones are left out if they are reproduced.

    Returns
    -------
    RichText
        Each reason with its numbers, and with the results of other readings of the source.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    for r in result["rows"]:
        off = not r["ratio"] or max(r["ratio"], 1 / r["ratio"]) > beyond
        listed = off or r["reproduced"] is False or any(v is not None for v in r["beside"].values())
        if r["kind"] != "calibrated" and listed:
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
        return sentence("Every number is within 10 % of the published one.")
    return RichText("\n".join(plain), "".join(html))


def _with_others(r: dict[str, Any]) -> str:
    others = [f"{k}: {text(v, r['unit'])}" for k, v in r["beside"].items() if v is not None]
    line = f"{r['quantity']}: obtained {text(r['ours'], r['unit'])}, published {text(r['published'], r['unit'])}"
    return line + (f" ({'; '.join(others)})" if others else "")


def score_not_tried(result: dict[str, Any]) -> RichText:
    """List the published claims that were not attempted, by reason."""
    by: dict[str, list[str]] = {}
    for item in result["not_tried"]:
        by.setdefault(item["why_not"], []).append(
            f"{item['quantity']}: {item['published']} ({_SOURCES.get(item['source'], item['source'])})"
        )
    if not by:
        return RichText("Nothing was left out.", '<p id="not-tried">Nothing was left out.</p>')
    html = "".join(
        f"<div class='wc-why'><p>{escape(why[:1].upper() + why[1:])}:</p><ul>"
        + "".join(f"<li>{escape(c)}</li>" for c in claims)
        + "</ul></div>"
        for why, claims in by.items()
    )
    plain = "\n".join(line for why, claims in by.items() for line in (why, *claims))
    return RichText(plain, f'<div id="not-tried">{html}</div>')


def tick_table(study: dict[str, Any]) -> RichText:
    """Tabulate the predicted times of Table 3 with other lengths of the tick, one row per program."""
    by: dict[str, dict[str, Any]] = {}
    for r in study["tick"]:
        row = by.setdefault(r["id"], {"program": r["name"]})
        row[f"tick {r['tick_ms']} ms"] = text(r["s"], "s")
    return table(pl.DataFrame(list(by.values()) or [{"program": "none"}]))
