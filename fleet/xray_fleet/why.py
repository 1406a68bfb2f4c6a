"""Explains the slow calls of a function on all machines of a fleet."""

from __future__ import annotations

import os
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple
from urllib.parse import quote

from pyspark.sql import SparkSession, functions as F
from pyspark.sql.types import StructType

from . import dataset, traces, views
from .binary import MachineError, Xray, last_attempt

SLICE = StructType().add("trace", "string").add("slice", "binary").add("error", "string")


@dataclass(frozen=True)
class Thresholds:
    """Which calls of a function are slow and which are usual, in nanoseconds."""

    calls: int
    usual_from: int
    usual_to: int
    slow: int


def thresholds(spark: SparkSession, out: str, root: str, *, slow: float = 0.99, usual: Tuple[float, float] = (0.25, 0.75)) -> Thresholds:
    """Returns the thresholds for the functions that match a regular expression.

    They are quantiles of the durations of all calls of these functions on all machines.
    Raises ValueError if there are no calls.
    """
    rows = dataset.summaries(spark, out).where(F.col("function").rlike(root) & (F.col("unit") == "ns"))
    row = views.merge(rows, ["unit"]).select(
        "calls", views.quantile("bins", usual[0]), views.quantile("bins", usual[1]), views.quantile("bins", slow)
    ).head()
    if row is None or not row[0]:
        raise ValueError(f"the summaries have no calls of functions that match {root!r}")
    # A quantile represents all values of its bin.
    calls, low, high, most = row
    return Thresholds(calls, low - low // 128, high + high // 128, most - most // 128)


def why(
    spark: SparkSession,
    out: str,
    root: str,
    folder: str,
    *,
    xray: Optional[str] = None,
    names: Sequence[str] = (),
    slow: float = 0.99,
    usual: Tuple[float, float] = (0.25, 0.75),
    sample: int = 20,
    limit: int = 1000,
    args: Sequence[str] = (),
) -> str:
    """Explains why calls of the root are slow, from traces of all machines.

    Executors cut the slow calls of the root, and a sample of the others, out of each trace.
    The slices go to a local folder of the driver, in folders by label, host and build. Then
    ``xray why`` explains them together. Returns its report. If there are more traces than
    limit, half of those used have the longest calls, and the others are a pseudo-random
    sample. Usual calls come from both.

    Raises ValueError if the summaries have no calls of the root, and RuntimeError if no
    trace could be cut or ``xray why`` fails.
    """
    t = thresholds(spark, out, root, slow=slow, usual=usual)
    chosen = _choose(spark, out, root, limit)
    sc = spark.sparkContext
    tries = int(spark.conf.get("spark.task.maxFailures", "4") or 4)
    cut = Cut(Xray.ship(sc, xray, names), traces.Hadoop.of(spark), root, max(t.slow, t.usual_to + 1), sample, tries)
    df = spark.createDataFrame(sc.parallelize([(c["trace"],) for c in chosen], max(len(chosen), 1)), "trace string")
    origin = {c["trace"]: c for c in chosen}
    problems = []
    for row in df.mapInArrow(cut, SLICE).toLocalIterator(prefetchPartitions=True):
        if row.error is not None:
            problems.append(f"{row.trace}: {row.error}")
        elif row.slice is not None:
            _save(Path(folder), origin[row.trace], row.slice)
    if not any(Path(folder).rglob("*.slice")):
        raise RuntimeError(f"no slices could be cut from the traces: {'; '.join(problems[:3])}")
    command = [
        xray or "xray", "why", "--root", root, "--slow", f">{cut.slow - 1}ns", "--usual", f"{t.usual_from}ns..{t.usual_to + 1}ns",
        *sum((["--symbols", os.path.dirname(os.path.abspath(n))] for n in names), []), *args, folder,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    notes = [
        f"Slow calls take more than {cut.slow - 1:,} ns and usual calls {t.usual_from:,} to {t.usual_to:,} ns, according to the summaries of {t.calls:,} calls. "
        f"The traces are slices: all slow calls of each trace, and at most {sample} others.",
        *(f"Not cut: {p}" for p in problems),
    ]
    return done.stdout + "\n" + "\n".join(notes) + "\n"


def _choose(spark: SparkSession, out: str, root: str, limit: int) -> List[Dict[str, Any]]:
    """Chooses up to limit traces with calls of the root, half of them by their longest call."""
    rows = views.with_labels(dataset.summaries(spark, out)).where(F.col("function").rlike(root) & (F.col("calls") > 0))
    found = rows.groupBy("trace").agg(
        F.max("max").alias("max"), F.first("host").alias("host"), F.first("build_id").alias("build"), F.first("label").alias("label")
    )
    slowest = found.orderBy(F.desc("max"), "trace").limit((limit + 1) // 2).collect()
    others = found.orderBy(F.xxhash64("trace"), "trace").limit(limit).collect()
    chosen = {r["trace"]: r.asDict() for r in [*slowest, *others]}
    return [chosen[t] for t in list(chosen)[:limit]]


def _save(folder: Path, origin: Dict[str, Any], content: bytes) -> None:
    """Saves a slice in folders that name its origin, in the form that ``xray why`` reads."""
    labels = {**(origin["label"] or {}), "host": origin["host"], "build": origin["build"]}
    for key, value in sorted(labels.items()):
        if value:
            folder = folder / f"{quote(key, safe='')}={quote(value, safe='')}"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / (quote(origin["trace"], safe="")[-200:].lstrip("._") + ".slice")).write_bytes(content)


@dataclass(frozen=True)
class Cut:
    """The work of executors on each trace. It is a function for ``mapInArrow``."""

    xray: Xray
    hadoop: traces.Hadoop
    root: str
    slow: int  # ns
    sample: int
    tries: int

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow as pa
        from pyspark.sql.pandas.types import to_arrow_schema

        for batch in batches:
            for row in batch.to_pylist():
                yield pa.RecordBatch.from_pylist([self.trace(row["trace"])], schema=to_arrow_schema(SLICE))

    def trace(self, trace: str) -> Dict[str, Any]:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "slice.xray")
            args = ["slice", "--root", self.root, "--slow", f">{self.slow - 1}ns", "--sample", str(self.sample), "-o", path]
            try:
                with self.hadoop.open(trace) as file:
                    status, text = self.xray.run(args, file)
            except (MachineError, OSError) as e:
                if not last_attempt(self.tries):
                    raise
                return {"trace": trace, "slice": None, "error": str(e)}
            if status != 0:
                return {"trace": trace, "slice": None, "error": text}
            return {"trace": trace, "slice": Path(path).read_bytes(), "error": None}
