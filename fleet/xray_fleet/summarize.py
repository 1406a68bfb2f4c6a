"""A job that summarizes the traces of a fleet on a Spark cluster.

The dataset is a folder. Each run of the job writes ``runs/ID/kind=summaries`` and
``runs/ID/kind=traces``. Spark writes ``runs/ID/_SUCCESS`` last, and a run without it does
not count. So nothing reads what a failed task or job leaves behind, and you can repeat
it. :mod:`xray_fleet.dataset` reads the dataset.
"""

from __future__ import annotations

import os
import tempfile
import time
import uuid
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Dict, Iterator, List, Mapping, Optional, Sequence, Tuple

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from . import dataset, schema, traces
from .binary import MachineError, Xray, last_attempt

# BATCH is the maximum number of traces in a run. After a failure, a job repeats only the last batch.
BATCH = 20_000

# TASK_BYTES is how many bytes of traces a task reads, unless that would leave cores without tasks.
TASK_BYTES = 256 << 20

# TEXT is the maximum length of a message, in characters.
TEXT = 2000


@dataclass
class Report:
    """The result of a job: numbers of traces, and the IDs of its runs."""

    found: int = 0
    already_done: int = 0
    summarized: int = 0
    problems: int = 0
    vanished: int = 0  # between listing and reading
    runs: List[str] = field(default_factory=list)

    def __str__(self) -> str:
        text = f"{self.found} traces: {self.summarized} summarized, {self.already_done} already done, {self.problems} with problems"
        return text + (f", {self.vanished} vanished before they were read" if self.vanished else "")


def summarize(
    spark: SparkSession,
    paths: Sequence[str],
    out: str,
    *,
    xray: Optional[str] = None,
    names: Sequence[str] = (),
    labels: Optional[Mapping[str, str]] = None,
    args: Sequence[str] = (),
    row_limit: int = traces.ROW_LIMIT,
    batch: int = BATCH,
) -> Report:
    """Summarizes the traces that the dataset at out does not have yet.

    paths are files, folders and globs in any file system that Hadoop reads. xray is the
    program on the driver, by default the one on PATH. names are binaries and debug files with
    the names of functions. The executors get copies of these. labels apply to all traces.
    Folders named KEY=VALUE in the path of a trace add labels to it, and host=NAME sets its
    host. args are further arguments of ``xray summarize``. row_limit is in bytes: larger
    traces are streamed. The job commits after every batch traces.

    A trace that has changed is summarized again, and the result replaces its older summary.
    A trace that xray cannot read becomes a row with an error in the table of traces.

    Do not run two jobs with the same out at the same time.
    """
    count = Observation()
    with _settings(spark, traces.LISTING):
        found = traces.find(spark, paths).observe(count, F.count(F.lit(1)).alias("n"))
        new = found.join(dataset.outcomes(spark, out), schema.columns(schema.TRACE), "left_anti")
        todo = sorted((r.trace, r.length, r.modified) for r in new.collect())
    report = Report(found=count.get["n"], already_done=count.get["n"] - len(todo))
    if not todo:
        return report
    sc = spark.sparkContext
    tries = int(spark.conf.get("spark.task.maxFailures", "4") or 4)
    task = Task(Xray.ship(sc, xray, names), traces.Hadoop.of(spark), tuple(sorted((labels or {}).items())), tuple(args), tries)
    for start in range(0, len(todo), batch):
        part = todo[start : start + batch]
        run = f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{uuid.uuid4().hex[:8]}"
        good, bad = _write(spark, task, part, row_limit, dataset.run_path(out, run))
        report.runs.append(run)
        report.summarized += good
        report.problems += bad
        report.vanished += len(part) - good - bad
    return report


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Changes settings of a session, and restores them at the end of the block."""
    before = {k: spark.conf.get(k, None) for k in settings}
    try:
        for k, v in settings.items():
            spark.conf.set(k, v)
        yield
    finally:
        for k, old in before.items():
            spark.conf.unset(k) if old is None else spark.conf.set(k, old)


Listed = Tuple[str, int, Any]


def _write(spark: SparkSession, task: "Task", part: Sequence[Listed], row_limit: int, path: str) -> Tuple[int, int]:
    """Summarizes traces into a run. Returns how many were summarized and how many have problems."""
    by_row = [t for t in part if t[1] <= row_limit and not traces.local_path(t[0])]
    rest = sorted(set(part) - set(by_row), key=lambda t: (-t[1], t[0]))
    inputs: List[DataFrame] = []
    if rest:
        rdd = spark.sparkContext.parallelize(*_spread(rest, spark.sparkContext.defaultParallelism))
        inputs.append(spark.createDataFrame(rdd, schema.TRACE).selectExpr("*", "CAST(NULL AS binary) AS content"))
    if by_row:
        inputs.append(traces.rows(spark, [t[0] for t in by_row]))
    settings = {
        "spark.sql.execution.arrow.maxRecordsPerBatch": "1",  # the content of a trace may be large
        "spark.sql.files.ignoreMissingFiles": "true",  # they are counted as vanished
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.maxConcurrentOutputFileWriters": "2",  # otherwise Spark sorts the rows by table
    }
    outcomes = Observation()
    is_outcome = F.col("kind") == schema.TRACES
    with _settings(spark, settings):
        every = reduce(DataFrame.union, inputs).mapInArrow(task, schema.WRITTEN)
        # Spark counts the rows of each task once, no matter how often it attempts the task.
        counted = every.observe(
            outcomes,
            F.count(F.when(is_outcome & F.col("error").isNull(), 1)).alias("good"),
            F.count(F.when(is_outcome & F.col("error").isNotNull(), 1)).alias("bad"),
        )
        counted.write.partitionBy("kind").parquet(path)
    return outcomes.get["good"], outcomes.get["bad"]


def _spread(largest_first: List[Listed], cores: int) -> Tuple[List[Listed], int]:
    """Divides traces into tasks, each with large and small traces, and returns the number of tasks.

    Each task writes a file, so small traces share a task.
    """
    total = sum(t[1] for t in largest_first)
    n = min(len(largest_first), max(total // TASK_BYTES, 4 * cores))
    return [t for i in range(n) for t in largest_first[i::n]], n


@dataclass(frozen=True)
class Task:
    """The work of executors on each trace. It is a function for ``mapInArrow``."""

    xray: Xray
    hadoop: traces.Hadoop
    labels: Tuple[Tuple[str, str], ...]
    args: Tuple[str, ...]
    tries: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                yield from self.trace(row)

    def trace(self, row: Dict[str, Any]) -> Iterator[Any]:
        """Yields the rows of a trace: first its outcome, then its summary."""
        import pyarrow.parquet as pq

        outcome = {k: row[k] for k in ("trace", "length", "modified")}
        start = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            summary = os.path.join(folder, "summary.parquet")
            try:
                status, text = self.run(row, summary)
            except (MachineError, OSError) as e:
                if not last_attempt(self.tries):
                    raise  # Spark repeats the task, on another machine if possible
                status, text = 1, str(e)
            outcome["seconds"] = time.monotonic() - start
            outcome["error" if status else "notes"] = text[:TEXT] or (f"exit status {status}" if status else None)
            yield from _rows(schema.TRACES, [outcome])
            if status == 0:
                with pq.ParquetFile(summary) as file:
                    for part in file.iter_batches(batch_size=4096):
                        yield _with(part, row)

    def run(self, row: Dict[str, Any], summary: str) -> Tuple[int, str]:
        """Runs xray on a trace, in any of the ways to read it. Returns the exit status and messages."""
        labels = {**dict(self.labels), **traces.labels_of(row["trace"])}
        args = ["summarize", "-o", summary, *self.args]
        host = labels.pop("host", None)
        if host is not None:
            args += ["--host", host]
        for key, value in sorted(labels.items()):
            args += ["--label", f"{key}={value}"]
        if row["content"] is not None:
            return self.xray.run(args, row["content"])
        with self.hadoop.open(row["trace"]) as trace:
            return self.xray.run(args, trace)


def _arrow_schema() -> Any:
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema.WRITTEN)


def _rows(kind: str, rows: List[Dict[str, Any]]) -> Iterator[Any]:
    import pyarrow as pa

    wanted = _arrow_schema()
    yield pa.RecordBatch.from_pylist([{"kind": kind, **r} for r in rows], schema=wanted)


def _with(part: Any, row: Dict[str, Any]) -> Any:
    """Adds the columns of TRACE to rows of a summary."""
    import pyarrow as pa

    own = {"kind": schema.SUMMARIES, **{k: row[k] for k in schema.columns(schema.TRACE)}}
    arrays = []
    wanted = _arrow_schema()
    for f in wanted:
        if f.name in own:
            arrays.append(pa.array([own[f.name]] * part.num_rows, f.type))
        elif f.name in part.schema.names:
            column = part.column(f.name)
            if isinstance(column, pa.DictionaryArray):
                column = column.dictionary_decode()
            arrays.append(column.cast(f.type))
        else:
            arrays.append(pa.nulls(part.num_rows, f.type))
    return pa.RecordBatch.from_arrays(arrays, schema=wanted)
