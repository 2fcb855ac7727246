"""Asks a Prometheus that scrapes ``wastedcores watch`` for a table with one row per machine and hour."""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from datetime import UTC, datetime
from http.client import HTTPException
from typing import Any

import polars as pl

from wastedcores.errors import UsageError

#: the address of a Prometheus begins with this instead of ``http``
PREFIX = "prometheus+http"
_HOUR_S = 3600
#: at most this many control groups are asked for
MOST_GROUPS = 200
#: column -> the query about the hour before a moment
_OF_HOUR = {
    "wasted_cpu_s": "sum by (instance) (increase(wastedcores_wasted_cpu_seconds_total[1h]))",
    "longest_s": "max by (instance) (max_over_time(wastedcores_longest_wait_seconds[1h]))",
    "_violations": 'max by (instance) (max_over_time(wastedcores_verdict{wastedcores_verdict="violations"}[1h]))',
    "_unknown": 'max by (instance) (avg_over_time(wastedcores_verdict{wastedcores_verdict="unknown"}[1h]))',
    # the hour is asked for at twelve or thirteen moments: how many of them have a sample in the ten minutes before
    "_seen": "count_over_time(max by (instance) "
    '(present_over_time(wastedcores_verdict{wastedcores_verdict="unknown"}[10m]))[1h:5m])',
}
#: the query for the last moment at which each machine had each kernel
_KERNELS = (
    "max by (instance, kernel, cpus) (max_over_time(timestamp(wastedcores_machine_info)[1h:5m]))"
)
_GROUPS = (
    f"topk({MOST_GROUPS}, sum by (cgroup) (increase(wastedcores_cgroup_seconds_total"
    '{{state="wasted"}}[{hours}h])))'
)
#: the verdict of an hour without violations is unknown if watch said "unknown" for more than this share of the hour, or if fewer
#: than this many moments of the hour have a sample
_MOST_UNKNOWN = 0.5
_FEWEST_SEEN = 6
#: an hour is asked for at this many moments, five minutes apart; an answer may have a thirteenth moment, where the previous hour
#: ends
_MOMENTS = 12


class Prometheus:
    """The query API of a Prometheus."""

    def __init__(self, address: str) -> None:
        self._url = address.removeprefix("prometheus+").rstrip("/") + "/api/v1/query"

    def ask(self, query: str, moment: float) -> list[dict[str, Any]]:
        """Return the labels and the value of every series that a query gives at a moment."""
        data = urllib.parse.urlencode({"query": query, "time": f"{moment:.0f}"}).encode()
        try:
            with urllib.request.urlopen(self._url, data, timeout=120) as answer:
                found = json.load(answer)["data"]["result"]
        except (OSError, HTTPException, ValueError, KeyError, TypeError) as e:
            raise UsageError(
                f"{self._url}: does not answer as a Prometheus does ({e}). Expected the address of one, such as "
                "prometheus+http://localhost:9090."
            ) from e
        return [{**series["metric"], "value": float(series["value"][1])} for series in found]


def machine_hours(address: str, hours: int, now: float | None = None) -> pl.DataFrame:
    """Return a row for every machine in each of the last hours.

    Each request is about one hour, so the memory holds only the table and one answer at a time.
    """
    source, end = Prometheus(address), time.time() if now is None else now
    parts = [_hour(source, end - ago * _HOUR_S) for ago in reversed(range(hours))]
    table = pl.concat([part for part in parts if part.height] or parts[:1])
    if not table.height:
        raise UsageError(
            f"{address}: has no metric of `wastedcores watch --serve` in the last {hours} hours. "
            "docs/how-to/fleet.md shows how a Prometheus gets them."
        )
    return table


def wasted_by_group(address: str, hours: int, now: float | None = None) -> pl.DataFrame:
    """Return a table (cgroup, wasted_s summed over all machines) of the control groups that waited longest beside an idle CPU."""
    found = Prometheus(address).ask(
        _GROUPS.format(hours=hours), time.time() if now is None else now
    )
    rows = [(series.get("cgroup", ""), series["value"]) for series in found]
    schema = {"cgroup": pl.String, "wasted_s": pl.Float64}
    return pl.DataFrame(rows, schema, orient="row").sort(
        "wasted_s", "cgroup", descending=[True, False]
    )


def _hour(source: Prometheus, end: float) -> pl.DataFrame:
    kernels = sorted(source.ask(_KERNELS, end), key=lambda series: series["value"])
    newest = {series["instance"]: series for series in kernels}
    hosts = pl.DataFrame(
        [(h, s.get("kernel"), int(s.get("cpus", 0)) or None) for h, s in newest.items()],
        {"host": pl.String, "kernel": pl.String, "cpus": pl.Int64},
        orient="row",
    )
    for column, query in _OF_HOUR.items():
        values = [(series["instance"], series["value"]) for series in source.ask(query, end)]
        told = pl.DataFrame(values, {"host": pl.String, column: pl.Float64}, orient="row")
        hosts = hosts.join(told, on="host", how="full", coalesce=True)
    began = datetime.fromtimestamp(end - _HOUR_S, UTC).isoformat(timespec="seconds")
    verdict = (
        pl.when(pl.col("_violations") > 0).then(pl.lit("violations"))
        .when(pl.col("_unknown").fill_null(1) > _MOST_UNKNOWN).then(pl.lit("unknown"))
        .when(pl.col("_seen").fill_null(0) < _FEWEST_SEEN).then(pl.lit("unknown"))
        .otherwise(pl.lit("clean"))
    )  # fmt: skip
    # if a machine is new or told nothing for a while, its hour is only as long as the time in which it was watched
    watched_s = pl.col("_seen").fill_null(0.0).clip(0, _MOMENTS) * (_HOUR_S / _MOMENTS)
    return hosts.select(
        "host",
        "kernel",
        "cpus",
        trace="host",
        began=pl.lit(began),
        began_from=pl.lit("clock"),
        seconds=watched_s,
        verdict=verdict,
        wasted_cpu_s=pl.col("wasted_cpu_s").fill_null(0.0),
        wasted_cpus=pl.when(watched_s > 0)
        .then(pl.col("wasted_cpu_s").fill_null(0.0) / watched_s)
        .otherwise(0.0),
        longest_s=pl.col("longest_s").fill_null(0.0),
        note=pl.lit(None, pl.String),
        error=pl.lit(None, pl.String),
    )
