"""Reads the dataset that :func:`xray_fleet.summarize` writes."""

from __future__ import annotations

from typing import List

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from . import schema
from .traces import hadoop_path


def run_path(out: str, run: str) -> str:
    return f"{out.rstrip('/')}/runs/{run}"


def runs(spark: SparkSession, out: str) -> List[str]:
    """Returns the completed runs, in the order in which they began."""
    fs, path = hadoop_path(spark, f"{out.rstrip('/')}/runs/*/_SUCCESS")
    found = fs.globStatus(path)
    return sorted(f.getPath().getParent().getName() for f in found or [])


def outcomes(spark: SparkSession, out: str) -> DataFrame:
    """Returns the table of traces, each with its latest outcome."""
    from pyspark.sql import Window

    every = _read(spark, out, runs(spark, out), schema.TRACES)
    latest = Window.partitionBy("trace").orderBy(F.desc("run"))
    return every.withColumn("n", F.row_number().over(latest)).where("n = 1").drop("n")


def summaries(spark: SparkSession, out: str) -> DataFrame:
    """Returns the rows of the latest summary of each trace."""
    every = _read(spark, out, runs(spark, out), schema.SUMMARIES)
    return every.join(outcomes(spark, out).select("trace", "run"), ["trace", "run"], "left_semi")


def _read(spark: SparkSession, out: str, ids: List[str], kind: str) -> DataFrame:
    own = schema.OUTCOME if kind == schema.TRACES else schema.SUMMARY
    wanted = schema.StructType([*schema.TRACE.fields, *own.fields])
    if not ids:
        # The planner knows that this is empty, and removes joins with it.
        empty = spark.range(0).select(*[F.lit(None).cast(f.dataType).alias(f.name) for f in wanted])
        return empty.withColumn("run", F.lit(""))
    paths = [f"{run_path(out, i)}/kind={kind}" for i in ids]
    if kind == schema.SUMMARIES:
        paths = _existing(spark, paths)  # a run may have only problems
        if not paths:
            return _read(spark, out, [], kind)
    rows = spark.read.schema(wanted).parquet(*paths)
    return rows.withColumn("run", F.regexp_extract(F.col("_metadata.file_path"), r"/runs/([^/]+)/kind=", 1))


def _existing(spark: SparkSession, paths: List[str]) -> List[str]:
    found = []
    for p in paths:
        fs, path = hadoop_path(spark, p)
        if fs.exists(path):
            found.append(p)
    return found
