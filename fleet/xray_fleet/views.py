"""Sums of the summaries in a dataset, for Spark SQL."""

from __future__ import annotations

from statistics import NormalDist
from typing import List, Sequence

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from . import dataset, schema
from .traces import hadoop_path

# TOTAL is the total time of a function. Calls inside another call of the function do not count.
TOTAL = "time + open_time - nested_time"


def merge(rows: DataFrame, by: Sequence[str]) -> DataFrame:
    """Adds up rows of summaries with equal values in the columns by.

    The result has these columns and all value columns. docs/summaries.md defines how they
    merge. The result is exact for any order and number of partitions.
    """
    # A row for each bin. The first one has the sums too, so one shuffle suffices.
    spread = rows.select("*", F.posexplode_outer("bins").alias("at", "b"))
    first = F.coalesce(F.col("at"), F.lit(0)) == 0
    bins = spread.groupBy(*by, F.col("b.bin").alias("bin")).agg(
        *[F.sum(F.when(first, F.col(c))).alias(c) for c in schema.SUMS],
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        *[F.sum(f"b.{c}").alias(f"b_{c}") for c in schema.BIN_SUMS],
    )
    bin_row = F.struct(F.col("bin").alias("bin"), *[F.col(f"b_{c}").alias(c) for c in schema.BIN_SUMS])
    merged = bins.groupBy(*by).agg(
        *[F.sum(c).alias(c) for c in schema.SUMS],
        F.min("min").alias("min"),
        F.max("max").alias("max"),
        F.array_sort(F.collect_list(F.when(F.col("bin").isNotNull(), bin_row))).alias("bins"),
    )
    return merged.select(*by, *[f.name for f in schema.SUMMARY.fields if f.name not in schema.KEY])


def quantile(bins: str, q: float, least: str = "min", most: str = "max") -> Column:
    """Returns the q-quantile of the durations in a column of bins, by xray's rule.

    This is the value at index floor(q * n) of n values in ascending order. The middle of a
    bin represents all of its values. The error is at most one part in 256, and for calls of
    profiles at most a third.
    """
    shift = "CASE WHEN b.bin < 256 THEN 0 ELSE CAST(b.bin DIV 128 AS INT) - 1 END"
    middle = (
        f"CASE WHEN b.bin < 256 THEN CAST(b.bin AS BIGINT) ELSE "
        f"shiftleft(CAST(b.bin - 128 * ({shift}) AS BIGINT), {shift}) + (shiftleft(CAST(1 AS BIGINT), {shift}) - 1) DIV 2 END"
    )
    n = f"aggregate({bins}, CAST(0 AS BIGINT), (s, b) -> s + b.durations + b.coarse)"
    rank = f"least(CAST(floor({q!r}D * ({n})) AS BIGINT), ({n}) - 1)"
    found = (
        f"aggregate(array_sort({bins}), struct(CAST(0 AS BIGINT) AS seen, CAST(NULL AS BIGINT) AS value), "
        f"(a, b) -> struct(a.seen + b.durations + b.coarse AS seen, "
        f"CASE WHEN a.value IS NULL AND a.seen + b.durations + b.coarse > ({rank}) THEN {middle} ELSE a.value END AS value), "
        f"a -> a.value)"
    )
    return F.expr(f"greatest(least({found}, {most}), {least})")


def with_labels(rows: DataFrame) -> DataFrame:
    """Adds the map label, and the hour in which the trace was last modified, to summaries."""
    labels = F.from_json("labels", "map<string,string>")
    return rows.withColumn("label", labels).withColumn("hour", F.date_trunc("hour", F.expr("timestamp_micros(modified)")))


def account(rows: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Returns calls and times by function, and by the columns by, like ``xray account``."""
    keys = [*by, "program", "function", "file", "line", "unit"]
    merged = merge(rows, keys)
    return merged.select(
        *keys,
        F.expr("calls + untimed_calls + pruned_calls").alias("calls"),
        F.expr("self_time + open_self_time + pruned_time").alias("self"),
        F.expr(f"{TOTAL} + pruned_time").alias("total"),
        "min", "max",
        *[quantile("bins", q).alias(name) for name, q in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)]],
        "on_cpu", "blocked", "queued",
    )


def stack(rows: DataFrame, by: Sequence[str] = ()) -> DataFrame:
    """Returns calls and times by call path, and by the columns by, like ``xray stack``."""
    keys = [*by, "program", "path", "depth", "function", "unit"]
    merged = merge(rows, keys)
    return merged.select(
        *keys, "calls", F.expr("self_time + open_self_time").alias("self"), F.expr("time + open_time").alias("total"),
        "min", "max", quantile("bins", 0.5).alias("p50"), quantile("bins", 0.99).alias("p99"),
    )


def create(spark: SparkSession, out: str) -> List[str]:
    """Creates temporary views of the dataset at out, and returns their names.

    xray_summaries and xray_traces are the tables. xray_problems has the traces that could
    not be summarized. xray_account, xray_stack, xray_by_build, xray_by_host and
    xray_by_hour have sums.
    """
    rows = with_labels(dataset.summaries(spark, out))
    traces = dataset.outcomes(spark, out)
    views = {
        "xray_summaries": rows,
        "xray_traces": traces,
        "xray_problems": traces.where("error IS NOT NULL"),
        "xray_account": account(rows),
        "xray_stack": stack(rows),
        "xray_by_build": account(rows, ["build_id"]),
        "xray_by_host": account(rows, ["host"]),
        "xray_by_hour": account(rows, ["hour"]),
    }
    for name, view in views.items():
        view.createOrReplaceTempView(name)
    return sorted(views)


# MIN_HOSTS is the minimum number of hosts of each build for a confidence interval.
MIN_HOSTS = 4


def regressions(rows: DataFrame, before: str, after: str, by: str = "build_id") -> DataFrame:
    """Compares the mean duration of each function between two builds, over hosts.

    before and after are values of the column by, or of a label if by is ``label.NAME``.
    Each host counts once, with the mean of its calls, because calls on a host are not
    independent. low and high are the 95 % confidence interval of the change (Welch's
    method), or NULL if a side has fewer than MIN_HOSTS hosts. significant takes the number
    of functions into account (Bonferroni).
    """
    key = F.col("label")[by[len("label."):]] if by.startswith("label.") else F.col(by)
    sides = rows.withColumn("side", F.when(key == before, "a").when(key == after, "b")).where("side IS NOT NULL AND calls > 0")
    hosts = sides.groupBy("side", "host", "program", "function", "unit").agg(
        F.sum("calls").alias("calls"), (F.sum("time") / F.sum("calls")).alias("mean")
    )
    stats = hosts.groupBy("program", "function", "unit").agg(
        *[
            f(F.when(F.col("side") == s, F.col(c))).alias(f"{n}_{s}")
            for s in "ab"
            for n, c, f in [("hosts", "mean", F.count), ("calls", "calls", F.sum), ("mean", "mean", F.avg), ("var", "mean", F.var_samp)]
        ]
    )
    both = stats.where("hosts_a > 0 AND hosts_b > 0")
    m = max(both.where(f"hosts_a >= {MIN_HOSTS} AND hosts_b >= {MIN_HOSTS}").count(), 1)
    u, v = "(var_a / hosts_a)", "(var_b / hosts_b)"
    enough = f"hosts_a >= {MIN_HOSTS} AND hosts_b >= {MIN_HOSTS} AND {u} + {v} > 0"
    df = f"(pow({u} + {v}, 2) / (pow({u}, 2) / (hosts_a - 1) + pow({v}, 2) / (hosts_b - 1)))"
    z, strict = NormalDist().inv_cdf(0.975), NormalDist().inv_cdf(1 - 0.025 / m)
    change, error = "(mean_b - mean_a)", f"sqrt({u} + {v})"
    return both.select(
        "program", "function", "unit", "hosts_a", "hosts_b", "calls_a", "calls_b", "mean_a", "mean_b",
        F.expr(change).alias("change"),
        F.expr(f"{change} / nullif(mean_a, 0)").alias("relative"),
        F.expr(f"CASE WHEN {enough} THEN {change} - {_student(z, df)} * {error} END").alias("low"),
        F.expr(f"CASE WHEN {enough} THEN {change} + {_student(z, df)} * {error} END").alias("high"),
        F.expr(f"coalesce({enough} AND abs({change}) > {_student(strict, df)} * {error}, false)").alias("significant"),
    ).orderBy(F.desc("significant"), F.desc(F.abs("change")), "program", "function")


def _student(z: float, df: str) -> str:
    """Returns SQL for a quantile of Student's distribution, given that of the normal distribution.

    It uses Fisher's expansion. The error is 1 % with 3 degrees of freedom, and less with more.
    """
    terms = [
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
    ]
    return f"({z!r}D" + "".join(f" + {t!r}D / pow({df}, {i})" for i, t in enumerate(terms, 1)) + ")"


def write_summary(rows: DataFrame, path: str, by: Sequence[str] = schema.KEY) -> None:
    """Merges rows into one summary file for ``xray stack``, ``account`` and other commands.

    Key columns that are not in by are empty in the file. For example, without host and
    labels, xray sees a single host. Raises OSError if the file cannot be written.
    """
    merged = merge(rows, list(by))
    empty = {"labels": F.lit("{}"), "depth": F.lit(0), "line": F.lit(0)}
    whole = merged.select(
        *[
            (F.col(f.name) if f.name in merged.columns else empty.get(f.name, F.lit(""))).cast(f.dataType).alias(f.name)
            for f in schema.SUMMARY.fields
        ]
    )
    folder = path + ".parts"
    whole.repartition(1).sortWithinPartitions(*schema.KEY).write.mode("overwrite").option("compression", "zstd").parquet(folder)
    fs, parts = hadoop_path(rows.sparkSession, folder + "/part-*.parquet")
    _, target = hadoop_path(rows.sparkSession, path)
    fs.delete(target, False)
    if not fs.rename(fs.globStatus(parts)[0].getPath(), target):
        raise OSError(f"{path}: cannot be written")
    fs.delete(parts.getParent(), True)
