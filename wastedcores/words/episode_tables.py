"""What a run's episodes say in words and small tables: the costliest, the worst, who waited in it."""

from __future__ import annotations

from html import escape

import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.topology.cpulist import format_cpulist
from wastedcores.units import human_ns
from wastedcores.words.rich_text import RichText, sentence, table


def episodes(run: Examined, most: int = 8) -> RichText:
    """The episodes that wasted most."""
    e = run.result.episodes
    zero = run.scene.window[0]
    part = e.sort("wasted_ns", descending=True).head(most)
    rows = [
        (
            f"{(row['start_ns'] - zero) / 1e6:.3f}",
            human_ns(row["end_ns"] - row["start_ns"]),
            "yes" if row["persistent"] else "no",
            human_ns(row["wasted_ns"]),
            format_cpulist(row["idle_cpus"]),
            format_cpulist(row["overloaded_cpus"]),
        )
        for row in part.iter_rows(named=True)
    ]
    columns = [
        "start (ms)",
        "lasted",
        "persistent",
        "core time wasted",
        "idle at some moment",
        "overloaded",
    ]
    shown = table(pl.DataFrame(rows, schema=columns, orient="row"))
    rest = e.height - part.height
    share = int(part["wasted_ns"].sum()) / max(1, int(e["wasted_ns"].sum()))
    if not e.height:
        return sentence(
            "There is no episode: at no moment was a CPU idle while another had a thread waiting."
        )
    words = f"The {part.height} costliest of {e.height:,} episodes make {share:.1%} of the core time wasted in all."
    if not rest:
        words = f"{e.height} episode{'s' if e.height != 1 else ''} in all."
    return RichText(
        f"{shown.text}\n{words}", f'{shown.html}<p class="wc-reading">{escape(words)}</p>'
    )


def worst(run: Examined) -> RichText:
    """Where the idle CPUs were in the worst episode, and who waited meanwhile."""
    row = run.worst
    if row is None:
        return sentence("There is no episode to look at.")
    length = row["end_ns"] - row["start_ns"]
    detail = run.result.details.filter(pl.col("episode") == row["episode"])
    kind = "persistent" if row["persistent"] else "short"
    words = [
        f"The worst episode ({kind}) lasted {human_ns(length)} and wasted {human_ns(row['wasted_ns'])} of core time: "
        f"{row['wasted_ns'] / length:.1f} CPUs on average could have run a waiting thread."
    ]
    if detail.height:
        words.append(_where(run, detail, length))
    waiting = run.result.waiting.filter(pl.col("episode") == row["episode"])
    if waiting.height:
        by_comm = (
            waiting.group_by(pl.col("comm").fill_null("?"))
            .agg(pl.col("wait_ns").sum(), pl.col("pid").n_unique())
            .sort("wait_ns", "comm", descending=[True, False])
        )
        total = int(by_comm["wait_ns"].sum())
        who = ", ".join(
            f"{c} ({n} thread{'s' if n > 1 else ''}, {w / total:.0%})"
            for c, w, n in by_comm.head(3).iter_rows()
        )
        words.append(f"Meanwhile threads waited {human_ns(total)} in all: {who}.")
    else:
        words.append("Who waited is not known: the trace names no tasks.")
    return sentence(" ".join(words))


def _where(run: Examined, detail: pl.DataFrame, length: int) -> str:
    """Idle and overloaded time by node, or by CPU where the nodes are not known."""
    always = sorted(detail.filter(pl.col("idle_ns") >= 0.99 * length)["cpu"].to_list())
    words = (
        f"{len(always)} CPUs ({format_cpulist(always)}) were idle all through it." if always else ""
    )
    nodes = run.nodes
    if nodes is None or len({nodes[c] for c in run.result.counted_cpus}) < 2:
        return words or "No CPU was idle all through it."
    by_node = nodes_of(run, detail)
    for column, what in (
        ("idle_ns", "Idle time was on"),
        ("overloaded_ns", "queued threads were on"),
    ):
        names = ", ".join(f"node {n} ({share:.0%})" for n, share in main_nodes(by_node, column))
        words += f" {what} {names or 'no node in particular'}" + (
            ";" if column == "idle_ns" else "."
        )
    return words.strip()


def nodes_of(run: Examined, detail: pl.DataFrame) -> pl.DataFrame:
    """Idle and overloaded CPU time of an episode per node."""
    nodes = run.nodes or ()
    return (
        detail.with_columns(
            node=pl.Series([nodes[c] for c in detail["cpu"].to_list()], dtype=pl.Int64)
        )
        .group_by("node")
        .agg(pl.col("idle_ns").sum(), pl.col("overloaded_ns").sum())
        .sort("node")
    )


def main_nodes(by_node: pl.DataFrame, column: str) -> list[tuple[int, float]]:
    """Nodes with at least a tenth of the column's total, the greatest first, and their shares."""
    total = int(by_node[column].sum())
    part = by_node.filter(pl.col(column) * 10 >= total, pl.col(column) > 0).sort(
        column, "node", descending=[True, False]
    )
    return [(n, x / total) for n, x in part.select("node", column).iter_rows()]


def waited_most(run: Examined, most: int = 8) -> RichText:
    """The threads that waited longest in the worst episode."""
    row = run.worst
    waiting = run.result.waiting
    if row is None or not waiting.height:
        return sentence(
            "Who waited is not known: the trace names no tasks, or there is no episode."
        )
    part = (
        waiting.filter(pl.col("episode") == row["episode"])
        .group_by("pid", pl.col("comm").fill_null("?"))
        .agg(pl.col("wait_ns").sum(), pl.col("cpu").unique().sort())
        .sort("wait_ns", "pid", descending=[True, False])
        .head(most)
    )
    length = row["end_ns"] - row["start_ns"]
    rows = [
        (c, p, human_ns(w), f"{w / length:.1%}", format_cpulist(cpus))
        for p, c, w, cpus in part.iter_rows()
    ]
    return table(
        pl.DataFrame(
            rows, schema=["thread", "pid", "waited", "of the episode", "on CPUs"], orient="row"
        )
    )
