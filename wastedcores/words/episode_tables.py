"""The episodes of a trace in sentences and tables: the costliest episodes, the worst episode, and who waited in it."""

from __future__ import annotations

from typing import Any

import polars as pl

from wastedcores.analysis.examined import Examined
from wastedcores.cpulist import format_cpulist
from wastedcores.runqueues.runqueues import comms
from wastedcores.units import human_ns
from wastedcores.words.rich_text import RichText, count, enumerated, sentence, table


def episodes(run: Examined, most: int = 8) -> RichText:
    """List the episodes that wasted most core time.

    Parameters
    ----------
    run
        The examined trace.
    most
        The table has at most this many rows.

    Returns
    -------
    RichText
        A table with one row per episode, the costliest first, and a sentence about the share of these episodes in the waste.
    """
    found = run.result.episodes
    if not found.height:
        return sentence(
            "There is no episode: at no moment was a CPU idle while another had a thread waiting."
        )
    zero = run.scene.window[0]
    part = found.sort("wasted_ns", descending=True).head(most)
    rows = [
        {
            "start (ms)": f"{(row['start_ns'] - zero) / 1e6:.3f}",
            "lasted": human_ns(row["end_ns"] - row["start_ns"]),
            "persistent": "yes" if row["persistent"] else "no",
            "core time wasted": human_ns(row["wasted_ns"]),
            "idle at some moment": format_cpulist(row["idle_cpus"]),
            "overloaded": format_cpulist(row["overloaded_cpus"]),
        }
        for row in part.iter_rows(named=True)
    ]
    # the check drops short episodes if there are very many, but its totals count the dropped ones, too
    share = int(part["wasted_ns"].sum()) / max(1, run.result.thread_ns)
    total = found.height + run.result.episodes_dropped
    listed = table(pl.DataFrame(rows))
    words = sentence(
        f"{count(total, 'episode')} in all."
        if total == part.height
        else f"The {part.height} costliest of {total:,} episodes account for {share:.1%} of the core time wasted."
    )
    return RichText(f"{listed.text}\n{words.text}", listed.html + words.html)


def worst(run: Examined) -> RichText:
    """Say where the idle CPUs were in the worst episode, and who waited meanwhile."""
    row = run.worst
    if row is None:
        return sentence("There is no episode to look at.")
    length = row["end_ns"] - row["start_ns"]
    kind = "persistent" if row["persistent"] else "short"
    words = [
        f"The worst episode ({kind}) lasted {human_ns(length)} and wasted {human_ns(row['wasted_ns'])} of core time: "
        f"on average {row['wasted_ns'] / length:.1f} CPUs could have run a waiting thread."
    ]
    detail = run.result.details.filter(pl.col("episode") == row["episode"])
    if detail.height:
        words += _where(run, detail, length)
    waiting = _waiting(run, row)
    if waiting.height:
        by_comm = (
            waiting.group_by(pl.col("comm").fill_null("?"))
            .agg(pl.col("wait_ns").sum(), pl.col("pid").n_unique())
            .sort("wait_ns", "comm", descending=[True, False])
        )
        total = int(by_comm["wait_ns"].sum())
        who = enumerated(
            [
                f"{comm} ({count(threads, 'thread')}, {ns / total:.0%})"
                for k, (comm, ns, threads) in enumerate(by_comm.head(3).iter_rows())
                if k == 0 or ns * 100 >= total
            ]
        )
        words.append(
            f"Meanwhile threads waited {human_ns(total)} in all; the largest shares fell on {who}."
        )
    else:
        words.append(_nobody_known(run))
    return sentence(" ".join(words))


def _waiting(run: Examined, row: dict[str, Any]) -> pl.DataFrame:
    """Return who waited in an episode. The check knows this for the longest episodes; for others, compute it from all waits."""
    found = run.result.waiting.filter(pl.col("episode") == row["episode"])
    if found.height or not run.result.names_tasks:
        return found
    start = pl.col("start_ns").clip(lower_bound=row["start_ns"])
    end = pl.col("end_ns").clip(upper_bound=row["end_ns"])
    inside = run.waits.with_columns(wait_ns=end - start).filter(pl.col("wait_ns") > 0)
    summed = inside.group_by("pid", "cpu").agg(pl.col("wait_ns").sum())
    return summed.join(comms(run.trace), on="pid", how="left")


def _nobody_known(run: Examined) -> str:
    """Say that it is not known who waited, and why."""
    why = "" if run.result.names_tasks else ", because the trace names no tasks"
    return f"It is not known who waited{why}."


def _where(run: Examined, detail: pl.DataFrame, length: int) -> list[str]:
    """Say which CPUs were idle throughout, and on which nodes idle CPUs and queued threads were, if nodes are known."""
    always = sorted(detail.filter(pl.col("idle_ns") >= 0.99 * length)["cpu"].to_list())
    names = format_cpulist(always)
    some = f"CPU {names} was" if len(always) == 1 else f"{len(always)} CPUs ({names}) were"
    words = [f"{some} idle throughout."] if always else []
    if run.nodes is None or len({run.nodes[c] for c in run.result.counted_cpus}) < 2:
        return words or ["No CPU was idle throughout."]
    by_node = nodes_of(run, detail)
    for column, what in (
        ("idle_ns", "The idle time was on"),
        ("overloaded_ns", "The queued threads were on"),
    ):
        shares = enumerated([f"node {n} ({share:.0%})" for n, share in main_nodes(by_node, column)])
        words.append(f"{what} {shares or 'no node in particular'}.")
    return words


def nodes_of(run: Examined, detail: pl.DataFrame) -> pl.DataFrame:
    """Sum the idle and the overloaded CPU time of an episode per node."""
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
    """Return the nodes that have at least a tenth of a column's total."""
    total = int(by_node[column].sum())
    part = by_node.filter(pl.col(column) * 10 >= total, pl.col(column) > 0).sort(
        column, "node", descending=[True, False]
    )
    return [(n, x / total) for n, x in part.select("node", column).iter_rows()]


def waited_most(run: Examined, most: int = 8) -> RichText:
    """List the threads that waited longest in the worst episode, or in the whole window if there is no episode.

    Parameters
    ----------
    run
        The examined trace.
    most
        The table has at most this many rows.

    Returns
    -------
    RichText
        A table with one row per thread, the longest wait first; or a sentence if the waiting threads are not known.
    """
    row = run.worst
    if row is None:
        return _waited_in_all(run, most)
    waiting = _waiting(run, row)
    if not waiting.height:
        return sentence(_nobody_known(run))
    part = (
        waiting.group_by("pid", pl.col("comm").fill_null("?"))
        .agg(pl.col("wait_ns").sum(), pl.col("cpu").unique().sort())
        .sort("wait_ns", "pid", descending=[True, False])
        .head(most)
    )
    length = row["end_ns"] - row["start_ns"]
    rows = [
        (comm, pid, human_ns(ns), f"{ns / length:.1%}", format_cpulist(cpus))
        for pid, comm, ns, cpus in part.iter_rows()
    ]
    columns = ["thread", "pid", "waited", "of the episode", "on CPUs"]
    return table(pl.DataFrame(rows, schema=columns, orient="row"))


def _waited_in_all(run: Examined, most: int) -> RichText:
    """List the threads that waited longest in the window."""
    length = pl.col("end_ns") - pl.col("start_ns")
    part = (
        run.waits.group_by("pid")
        .agg(length.sum().alias("ns"), length.max().alias("longest"), pl.len().alias("waits"))
        .sort("ns", "pid", descending=[True, False])
        .head(most)
        .join(comms(run.trace), on="pid", how="left", maintain_order="left")
    )
    if not part.height:
        return sentence("No wait for a CPU is known.")
    rows = [
        (r["comm"] or "?", r["pid"], f"{r['waits']:,}", human_ns(r["ns"]), human_ns(r["longest"]))
        for r in part.iter_rows(named=True)
    ]
    columns = ["thread", "pid", "waits", "waited in all", "longest"]
    return table(pl.DataFrame(rows, schema=columns, orient="row"))


def avoidable(run: Examined, most: int = 8) -> RichText:
    """List the threads that waited longest while a CPU that they may use was idle, or their processes if these are known.

    Parameters
    ----------
    run
        The examined trace.
    most
        The table has at most this many rows.

    Returns
    -------
    RichText
        A sentence and a table with one row per thread or process, sorted by the time waited beside an idle CPU.
    """
    found = run.avoidable
    if not found.height:
        return sentence("No thread is known to have waited while a CPU that it may use was idle.")
    grouped = bool(found["tgid"].is_not_null().all())
    part = found
    if grouped:
        part = (
            found.group_by("tgid", maintain_order=True)
            .agg(
                pl.col("comm").first(),
                pl.len().alias("threads"),
                pl.col("waits", "waited_ns", "avoidable_ns", "ran_ns").sum(),
                pl.col("longest_ns").max(),
            )
            .sort("avoidable_ns", descending=True, maintain_order=True)
        )
    rows = [
        (
            r["comm"],
            r["tgid"] if grouped else r["pid"],
            *([r["threads"]] if grouped else []),
            f"{r['waits']:,}",
            human_ns(r["waited_ns"]),
            human_ns(r["avoidable_ns"]),
            human_ns(r["longest_ns"]),
            f"{r['avoidable_ns'] / r['ran_ns']:.1%}" if r["ran_ns"] else "it never ran",
        )
        for r in part.head(most).iter_rows(named=True)
    ]
    columns = [
        "process" if grouped else "thread",
        "pid",
        *(["threads"] if grouped else []),
        "waits",
        "waited in all",
        "beside an idle CPU",
        "longest",
        "of its run time",
    ]
    total, waited = int(found["avoidable_ns"].sum()), int(found["waited_ns"].sum())
    share, longest = total / max(1, waited), human_ns(found["longest_ns"].max())  # type: ignore[arg-type]
    part_of = (
        "less than 0.1%" if share < 0.001 else f"{share:.1%}" if share < 0.1 else f"{share:.0%}"
    )
    words = sentence(
        f"{count(found.height, 'thread')} waited {human_ns(total)} in all while a CPU that they may use was idle. That is "
        f"{part_of} of the time they waited. The longest such wait lasted {longest}."
    )
    listed = table(pl.DataFrame(rows, schema=columns, orient="row"))
    return RichText(f"{words.text}\n{listed.text}", words.html + listed.html)
