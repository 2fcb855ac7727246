"""A page about many traces: which machines and which hours wasted most cores, and the traces themselves."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path

import polars as pl

from wastedcores.files import written_whole
from wastedcores.sweep.traces import ranked, wasted_on_average
from wastedcores.units import number
from wastedcores.words.rich_text import count

#: The most rows of a table on the page; the Parquet table has all rows.
MOST_ROWS = 200
#: The map has room for at most this many hours and machines.
_MAP_HOURS, _MAP_HOSTS = 48, 60


def fleet_page(table: pl.DataFrame, title: str, groups: pl.DataFrame | None = None) -> str:
    """Return a page that ranks machines, kernels and hours by the cores they wasted."""
    css = (Path(__file__).parent / "report.css").read_text()
    good = table.filter(pl.col("error").is_null())
    failed = table.filter(pl.col("error").is_not_null())
    rows = "traces" if groups is None else "machine hours"
    headline = escape(_summary(table, rows))
    parts = [f"<h1>{escape(title)}</h1>", f'<p class="wc-headline">{headline}</p>']
    if good.height:
        parts += [
            "<h2>Machines, the worst first</h2>",
            _ranking(ranked(table, "host"), "host", "machine", rows),
            "<h2>Kernels, the worst first</h2>",
            _kernels(good),
            *_groups(groups),
            "<h2>Hours, the worst first</h2>",
            _ranking(ranked(table, "hour"), "hour", "hour (UTC)", rows),
            _source_of_hours(good),
            "<h2>Each machine in each hour</h2>",
            _map(good),
            f"<h2>{rows.capitalize()}, the worst first</h2>",
            _traces(good),
        ]
    if failed.height:
        reasons = failed.select("trace", "error").head(MOST_ROWS).rows()
        parts += ["<h2>Not checked</h2>", _html_table(["trace", "reason"], reasons)]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{css}"
        ".wc-table td.wc-said{min-width:36ch}"
        "table.wc-map td{width:22px;height:20px;padding:0;text-align:center;border:1px solid #fff}"
        "table.wc-map th{font-weight:400;font-size:11.5px;text-align:right;padding:0 8px 0 0;white-space:nowrap}"
        "table.wc-map tr:first-child th{text-align:left;padding:0;writing-mode:vertical-rl;height:112px}"
        f"</style></head><body><main>{''.join(parts)}</main></body></html>\n"
    )


def write_fleet_page(
    table: pl.DataFrame, title: str, path: Path, groups: pl.DataFrame | None = None
) -> Path:
    """Write the page of :func:`fleet_page`, which takes the same parameters, to a path."""
    with written_whole(path) as part:
        part.write_text(fleet_page(table, title, groups))
    return path


def _summary(table: pl.DataFrame, rows: str) -> str:
    good = table.filter(pl.col("error").is_null())
    failed = table.height - good.height
    more = f" {failed} of {table.height} {rows} could not be checked." if failed else ""
    if not good.height:
        return f"None of {count(table.height, rows.removesuffix('s'))} could be checked."
    seconds = float(good["seconds"].sum())
    known = good.filter(pl.col("verdict") != "unknown")
    mean = good.select(wasted_on_average()).item()
    waste = "how many CPUs were wasted is not known"
    if mean is not None:
        waste = f"{number(float(known['wasted_cpu_s'].sum()))} CPU-seconds wasted, {number(mean)} CPUs on average"
        if known.height < good.height:
            waste += f" of the {number(float(known['seconds'].sum()))} s whose verdict is known"
    verdicts = dict(good["verdict"].value_counts().iter_rows())
    said = ", ".join(
        f"{verdicts[v]} {v}" for v in ("violations", "unknown", "clean") if v in verdicts
    )
    of = f"{count(good.height, rows.removesuffix('s'))} of {count(good['host'].n_unique(), 'machine')}"
    return f"{of}, {number(seconds)} s recorded: {waste}. Verdicts: {said}.{more}"


def _ranking(table: pl.DataFrame, by: str, name: str, what: str) -> str:
    rows = [
        (
            _hour(row[by]) if by == "hour" else row[by],
            _figure(row["wasted_cpus"]),
            _figure(row["wasted_cpu_s"]),
            f"{row['violations']} of {row['traces']}",
            row["unknown"],
            _figure(row["longest_s"]),
            _figure(row["seconds"]),
        )
        for row in table.head(MOST_ROWS).iter_rows(named=True)
    ]
    head = [
        name,
        "CPUs wasted",
        "CPU-s wasted",
        f"{what} with violations",
        "unknown",
        "longest episode (s)",
        "recorded (s)",
    ]
    return _html_table(head, rows) + _more(table.height)


def _kernels(good: pl.DataFrame) -> str:
    rows = [
        (
            row["kernel"] or "unknown",
            _figure(row["wasted_cpus"]),
            row["machines"],
            (row["since"] or "unknown")[:16].replace("T", " "),
            f"{row['violations']} of {row['traces']}",
        )
        for row in ranked(good, "kernel").head(MOST_ROWS).iter_rows(named=True)
    ]
    head = ["kernel", "CPUs wasted per machine", "machines", "first seen (UTC)", "with violations"]
    return _html_table(head, rows)


def _groups(groups: pl.DataFrame | None) -> list[str]:
    if groups is None:
        return []
    rows = [(name, _figure(wasted_s)) for name, wasted_s in groups.head(MOST_ROWS).iter_rows()]
    head = ["control group", "seconds that its tasks waited beside an idle CPU"]
    return ["<h2>Control groups, the worst first</h2>", _html_table(head, rows)]


def _more(rows: int) -> str:
    return f"<p>{rows - MOST_ROWS} more are in the Parquet table.</p>" if rows > MOST_ROWS else ""


def _source_of_hours(good: pl.DataFrame) -> str:
    from_file = int((good["began_from"] == "file").sum())
    if not from_file:
        return ""
    return (
        f'<p class="wc-note">The hour of {from_file} of {good.height} traces is when the file was last changed, minus its '
        "length, because its clock does not count from 1970. It is wrong for a file that was copied without its time.</p>"
    )


def _map(good: pl.DataFrame) -> str:
    """Return a table of coloured cells with a row per machine, the worst machine first, and a column per hour."""
    cells = (
        good.with_columns(hour=pl.col("began").cast(pl.String).str.slice(0, 13))
        .drop_nulls("hour")
        .group_by("host", "hour")
        .agg(cpus=wasted_on_average())
    )
    if not cells.height:
        return "<p>No trace says when it was recorded.</p>"
    all_hours, ranking = sorted(cells["hour"].unique()), ranked(good, "host")["host"].to_list()
    hours, hosts = all_hours[-_MAP_HOURS:], ranking[:_MAP_HOSTS]
    shown = [
        f"the {which} {len(some)} of {len(every)} {what}"
        for which, what, some, every in (
            ("last", "hours", hours, all_hours),
            ("worst", "machines", hosts, ranking),
        )
        if len(some) < len(every)
    ]
    more = f" The map has {' and '.join(shown)}." if shown else ""
    cells = cells.filter(pl.col("hour").is_in(hours), pl.col("host").is_in(hosts))
    found = {(h, o): c for h, o, c in cells.select("host", "hour", "cpus").iter_rows()}
    most = max((cpus for cpus in found.values() if cpus is not None), default=0.0)
    head = "<tr><th></th>" + "".join(f"<th>{escape(_hour(h))}</th>" for h in hours) + "</tr>"
    body = ""
    for host in hosts:
        body += f"<tr><th>{escape(host)}</th>"
        for hour in hours:
            if (host, hour) not in found:
                body += "<td></td>"
                continue
            value = found[host, hour]
            said = escape(f"{host}, {_hour(hour)}: CPUs wasted: {_figure(value)}")
            light = 96 - 56 * (value or 0.0) / (most or 1.0)
            colour = "" if value is None else f' style="background:hsl(318 60% {light:.0f}%)"'
            body += f'<td title="{said}"{colour}>{"?" * (value is None)}</td>'
        body += "</tr>"
    return (
        f'<div class="wc-scroll"><table class="wc-map">{head}{body}</table></div>'
        f"<p>The darkest cell is {number(most)} CPUs wasted on average; a white one was not recorded, and one "
        f"with a question mark has no verdict.{more}</p>"
    )


def _traces(good: pl.DataFrame) -> str:
    folder = _common_folder(good["trace"].to_list())
    rows = [
        (
            row["trace"].removeprefix(folder),
            row["host"],
            (row["began"] or "")[:16].replace("T", " "),
            _figure(row["wasted_cpus"]),
            row["verdict"],
            _figure(row["longest_s"]),
            row["note"] or "",
        )
        for row in good.with_columns(pl.when(pl.col("verdict") != "unknown").then("wasted_cpus"))
        .sort("wasted_cpus", "trace", descending=[True, False], nulls_last=True)
        .head(MOST_ROWS)
        .iter_rows(named=True)
    ]
    head = ["trace", "machine", "began (UTC)", "CPUs wasted", "verdict", "longest (s)", "note"]
    return _html_table(head, rows) + _more(good.height)


def _common_folder(names: list[str]) -> str:
    """Return the folder that contains all traces, with a slash at its end; the page leaves it out of the traces' names."""
    first, last = min(names), max(names)
    same = next(
        (i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), len(first)
    )
    return first[: first.rfind("/", 0, same) + 1]


def _hour(hour: str | None) -> str:
    return f"{hour.replace('T', ' ')} h" if hour else "unknown"


def _figure(value: float | None) -> str:
    """Return a number for people, without an exponent even if it is tiny."""
    if value is None:
        return "unknown"
    return "< 0.001" if 0 < value < 0.001 else number(value)


def _html_table(head: list[str], rows: Sequence[tuple[object, ...]]) -> str:
    kind = "wc-said" if head[-1] in ("note", "reason") else "wc-short"
    heads = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join(
        "<tr>"
        + "".join(f'<td class="wc-short">{escape(str(cell))}</td>' for cell in row[:-1])
        + f'<td class="{kind}">{escape(str(row[-1]))}</td></tr>'
        for row in rows
    )
    return f'<div class="wc-scroll"><table class="wc-table"><tr>{heads}</tr>{body}</table></div>'
