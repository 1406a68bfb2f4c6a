"""Measures the job: two workers against one, and the cost of a trace and of a gigabyte.

Each worker has one core of the machine for itself and all processes that it starts. The driver
and the master run on any core. Runs with one and two workers alternate on the same cluster, so
other load on the machine affects both alike. The times are those of a whole job on a warm
cluster: executors have started and summarized some traces, so the JVM has compiled the code.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import xray_fleet as xf  # noqa: E402

from cluster import Cluster  # noqa: E402


# WARM is the number of traces that each worker summarizes before the measurement.
WARM = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=int, default=16)
    parser.add_argument("--records", type=int, default=10_000_000, help="records in each trace (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    scratch = Path(tempfile.mkdtemp(prefix="xray-fleet-"))
    try:
        measure(args, scratch)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def measure(args: argparse.Namespace, scratch: Path) -> None:
    folder = scratch / "traces"
    folder.mkdir()
    for n in range(args.traces):
        subprocess.run([os.environ["TRACEGEN"], "-records", str(args.records), "-seed", str(n), "-o", folder / f"{n}.xray"], check=True)
    size = sum(p.stat().st_size for p in folder.iterdir()) / 1e9
    times = {"1": [], "2": []}
    work, cpu = [], []
    with Cluster(workers=2, pinned=True) as cluster:
        for i in range(args.rounds):
            for cores in times:
                spark = cluster.session(**{"spark.cores.max": cores, "spark.sql.codegen.wholeStage": "true"})
                try:
                    warm(spark, int(cores))
                    xf.summarize(spark, [str(f) for f in sorted(folder.iterdir())[: WARM * int(cores)]], str(scratch / f"warm{i}.{cores}"), xray=os.environ["XRAY"])
                    out = str(scratch / f"out{i}.{cores}")
                    start, before = time.monotonic(), cluster.cpu_seconds()
                    xf.summarize(spark, [str(folder)], out, xray=os.environ["XRAY"])
                    times[cores].append(time.monotonic() - start)
                    cpu.append(cluster.cpu_seconds() - before)
                    work.append(xf.outcomes(spark, out).selectExpr("sum(seconds)").head()[0])
                finally:
                    spark.stop()
                print(f"{cores} worker(s): {times[cores][-1]:.1f} s, of which xray {work[-1]:.1f} s; executors used {cpu[-1]:.1f} s of CPU time", flush=True)
    one, two = statistics.median(times["1"]), statistics.median(times["2"])
    print(f"{args.traces} traces, {size:.2f} GB: {one:.1f} s with one worker, {two:.1f} s with two: {one / two:.2f} times")
    least = min(cpu)
    print(f"executors used {least / args.traces:.2f} s of CPU time per trace, {least / size:.1f} s/GB")


def warm(spark, cores: int) -> None:
    """Waits until all executors and their Python workers run."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        sc = spark.sparkContext
        sc.parallelize(range(2 * cores), 2 * cores).map(lambda x: time.sleep(0.5)).count()
        if sc._jsc.sc().getExecutorMemoryStatus().size() > cores:
            return
    raise TimeoutError("executors did not start")


if __name__ == "__main__":
    main()
