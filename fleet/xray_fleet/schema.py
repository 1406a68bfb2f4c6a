"""The tables of a fleet's dataset. docs/summaries.md explains the columns of summaries."""

from __future__ import annotations

from typing import List

from pyspark.sql.types import ArrayType, StructType


def _table(**columns: str) -> StructType:
    table = StructType()
    for name, kind in columns.items():
        table.add(name, kind)
    return table

# KEY lists the columns that identify a row of a summary: the origin of its calls, and their path.
KEY = [
    "program", "build_id", "host", "labels", "unit", "path", "depth",
    "function", "symbol", "file", "line", "object",
]

# SUMS lists the columns that merge by SUM. The others are min, max and bins.
SUMS = [
    "calls", "time", "self_time", "on_cpu", "blocked", "queued",
    "open_calls", "open_time", "open_self_time", "nested_time",
    "inferred", "left_calls", "tail_exited", "continued", "untimed_calls",
    "pruned_calls", "pruned_time", "folded_calls", "folded_self_time",
]

# BIN_SUMS lists the fields that merge by SUM in bins with the same number.
BIN_SUMS = ["durations", "self_times", "coarse"]

BIN = _table(bin="integer", **dict.fromkeys(BIN_SUMS, "long"))

SUMMARY = _table(
    **{c: "integer" if c in ("depth", "line") else "string" for c in KEY},
    **dict.fromkeys(["calls", "time", "self_time", "min", "max", *SUMS[3:]], "long"),
).add("bins", ArrayType(BIN))

# TRACE identifies the trace of a row: its URI, size in bytes, and time of modification in
# microseconds since 1970.
TRACE = _table(trace="string", length="long", modified="long")

# OUTCOME is the result for a trace: seconds of work, the error with which xray rejected it, or
# the messages of xray on standard error, for example about losses.
OUTCOME = _table(seconds="double", error="string", notes="string")

# KIND distinguishes the two tables in the output of a task.
TRACES, SUMMARIES = "traces", "summaries"
KIND = _table(kind="string")

# WRITTEN is the output of a task: rows of both tables.
WRITTEN = StructType([*KIND.fields, *TRACE.fields, *OUTCOME.fields, *SUMMARY.fields])


def columns(*tables: StructType) -> List[str]:
    """Returns the names of the columns of tables."""
    return [f.name for t in tables for f in t.fields]
