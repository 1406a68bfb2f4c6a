"""Tests the job on a real cluster: its results equal those of one machine, despite failures.

The environment variables XRAY and TRACEGEN name the programs. JARS is the folder of the jars
for s3a. Without it, the S3 tests are skipped.
"""

from __future__ import annotations

import atexit
import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.request
from pathlib import Path
from typing import List

import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent.parent))

import xray_fleet as xf  # noqa: E402
from xray_fleet import dataset, traces  # noqa: E402

from cluster import Cluster, _end, free_port  # noqa: E402

XRAY, TRACEGEN = os.environ["XRAY"], os.environ["TRACEGEN"]
JARS = os.environ.get("JARS", "")
HOSTS = 10


def xray(*args: str) -> str:
    return subprocess.run([XRAY, *args], check=True, stdout=subprocess.PIPE, text=True).stdout


def jars() -> List[str]:
    return sorted(str(p) for p in Path(JARS).glob("*.jar")) if JARS else []


def setUpModule() -> None:
    global scratch, cluster, spark
    scratch = Path(tempfile.mkdtemp(prefix="xray-fleet-"))
    unittest.addModuleCleanup(shutil.rmtree, scratch, ignore_errors=True)
    cluster = unittest.enterModuleContext(Cluster(workers=2, classpath=":".join(jars())))
    global s3
    s3 = S3() if jars() else None
    if s3:
        unittest.addModuleCleanup(s3.stop)
    spark = cluster.session(**(s3.conf() if s3 else {}))
    unittest.addModuleCleanup(spark.stop)
    make_traces(scratch / "traces")


def make_traces(folder: Path) -> None:
    """Makes traces of ten hosts with two builds. The second build has a regression, and one host a bad disk."""
    for build, flags in [("old", []), ("new", ["-DREGRESSED"])]:
        (scratch / build).mkdir()
        source = str(Path(__file__).with_name("shop.cpp"))
        program, trace = scratch / build / "shop", scratch / build / "shop.xray"
        subprocess.run(
            ["clang++-22", "-O1", "-g", "-fxray-instrument", *flags, "-o", program, source],
            check=True,
        )
        subprocess.run([XRAY, "record", "-o", trace, "--", program, "1"], check=True, capture_output=True)
    for h in range(HOSTS):
        trace = folder / f"region={'eu' if h % 2 else 'us'}" / f"host=h{h}" / "shop.xray"
        trace.parent.mkdir(parents=True)
        regressed = h >= HOSTS // 2
        serve(scratch / ("new" if regressed else "old") / "shop.xray", trace, regressed=regressed, bad_disk=h == 2, extra=h % 5)
    (folder / "damaged.xray").write_bytes(b"no trace at all")
    whole = (folder / "region=us" / "host=h0" / "shop.xray").read_bytes()
    (folder / "cut.xray").write_bytes(whole[: len(whole) * 2 // 3])


REQUESTS = 600
DISK_NS = 10_000_000


def serve(recorded: Path, trace: Path, regressed: bool, bad_disk: bool, extra: int) -> None:
    """Writes a trace of REQUESTS requests with known durations, however busy the machine is.

    The program, its build and its clock are those of a recorded trace. extra, in units of
    10 ns, makes the calls of a host longer than those of others.
    """
    text = xray("fdr-dump", "--text", str(recorded))
    frequency = int(re.search(r"frequency=(\d+)", text)[1])
    ids = {r["function"]: r["function_id"] for r in csv.DictReader(io.StringIO(xray("account", "-f", "csv", str(recorded))))}
    records: List[str] = []

    def record(what: str, ns: int) -> None:
        records.append(f"{what} +{ns * frequency // 1_000_000_000}")

    def call(function: str, ns: int) -> None:
        record(f"enter {ids[function]}", 20)
        record(f"exit {ids[function]}", ns + 10 * extra)

    record(f"enter {ids['main']}", 0)
    for request in range(REQUESTS):
        record(f"enter {ids['handleRequest']}", 20)
        call("parse", 1800 + request % 7)
        call("checksum", 4_000_000 if regressed and request % 25 == 7 else 1900 + request % 7)
        if bad_disk and request % 25 == 11:
            record(f"enter {ids['readDisk']}", 20)
            # Off CPU once, for the whole time.
            off = struct.pack("<QQIIIIQ", DISK_NS, 0, 1, 0, 0, 0, 0)
            record('metadata switch "' + "".join(f"\\x{b:02x}" for b in off) + '"', DISK_NS)
            record(f"exit {ids['readDisk']}", 950)
        else:
            call("readDisk", 950)
        call("reply", 1400)
        record(f"exit {ids['handleRequest']}", 20)
    record(f"exit {ids['main']}", 20)

    # The other blocks describe the recording. They do not change.
    head, *blocks = re.split(r"(?m)^(?=extents )", text)
    calls = [b for b in blocks if re.search(r"(?m)^enter ", b)]
    start = re.split(r"(?m)^(?=enter )", calls[0])[0]
    blocks[blocks.index(calls[0])] = start + "\n".join(records) + "\n"
    kept = [b for b in blocks if b not in calls]
    subprocess.run([XRAY, "fdr-dump", "--from-text", "-o", trace, "-"], check=True, input=head + "".join(kept), text=True)


def one_machine(folder: Path, out: Path) -> Path:
    """Summarizes the traces of a folder without Spark, into one file."""
    parts = []
    for n, trace in enumerate(sorted(folder.rglob("*.xray"))):
        labels = traces.labels_of(str(trace.relative_to(folder)))
        host = labels.pop("host", None)
        args = [*(["--host", host] if host else []), *sum((["--label", f"{k}={v}"] for k, v in sorted(labels.items())), [])]
        part = str(out.with_suffix(f".{n}.parquet"))
        if subprocess.run([XRAY, "summarize", "-o", part, *args, trace], capture_output=True).returncode == 0:
            parts.append(part)
    xray("summarize", "-o", str(out), *parts)
    return out


def rows_of(path: Path) -> List[str]:
    """Returns the rows of a summary, in order."""
    return sorted(json.dumps({**row, "bins": row["bins"] or []}, sort_keys=True) for row in pq.read_table(path).to_pylist())


class FleetTest(unittest.TestCase):
    maxDiff = 2000

    def setUp(self) -> None:
        self.dir = Path(tempfile.mkdtemp(dir=scratch))
        self.out = str(self.dir / "out")

    def assertEqualsOneMachine(self, folder: Path, out: str) -> None:
        want = one_machine(folder, self.dir / "want.parquet")
        got = self.dir / "got.parquet"
        xf.write_summary(xf.summaries(spark, out), str(got))
        self.assertEqual(rows_of(got), rows_of(want))
        # xray makes the same bytes from both, so the results of all commands are equal.
        again = self.dir / "again.parquet"
        xray("summarize", "-o", str(again), str(got))
        self.assertEqual(again.read_bytes(), want.read_bytes())


class SummarizeTest(FleetTest):
    def test_all_at_once_then_nothing_then_what_changed(self) -> None:
        folder = self.dir / "traces"
        shutil.copytree(scratch / "traces", folder)
        report = xf.summarize(spark, [str(folder)], self.out, xray=XRAY)
        self.assertEqual((report.found, report.summarized, report.problems, report.vanished), (HOSTS + 2, HOSTS + 1, 1, 0))
        self.assertEqualsOneMachine(folder, self.out)
        problems = {Path(r.trace).name: r for r in xf.outcomes(spark, self.out).collect() if r.error or r.notes}
        self.assertIn("not an XRay trace", problems["damaged.xray"].error)
        self.assertIn("loss", problems["cut.xray"].notes)

        report = xf.summarize(spark, [str(folder)], self.out, xray=XRAY)
        self.assertEqual((report.already_done, report.summarized, report.runs), (HOSTS + 2, 0, []))

        shutil.copy(folder / "region=eu" / "host=h1" / "shop.xray", folder / "damaged.xray")
        report = xf.summarize(spark, [str(folder)], self.out, xray=XRAY)
        self.assertEqual((report.already_done, report.summarized, report.problems), (HOSTS + 1, 1, 0))
        self.assertEqualsOneMachine(folder, self.out)

    def test_a_run_that_did_not_end_does_not_count(self) -> None:
        folder = scratch / "traces" / "region=eu"
        report = xf.summarize(spark, [str(folder)], self.out, xray=XRAY)
        os.remove(Path(dataset.run_path(self.out, report.runs[0]), "_SUCCESS"))
        self.assertEqual(xf.summaries(spark, self.out).count(), 0)
        again = xf.summarize(spark, [str(folder / "*" / "shop.xray")], self.out, xray=XRAY)
        self.assertEqual((again.already_done, again.summarized), (0, HOSTS // 2))

    def test_xray_is_killed_and_tried_again(self) -> None:
        """A task that fails leaves nothing behind, and the next attempt has the whole result."""
        marks = self.dir / "marks"
        marks.mkdir()
        flaky = self.dir / "flaky"
        flaky.write_text(f'#!/bin/sh\nfor last; do :; done\nmark={marks}/$(echo "$last" | tr / _)\n'
                         f'case $last in *h3*) [ -e $mark ] || {{ touch $mark; kill -9 $$; }};; esac\nexec {XRAY} "$@"\n')
        flaky.chmod(0o755)
        report = xf.summarize(spark, [str(scratch / "traces")], self.out, xray=str(flaky))
        self.assertEqual((report.summarized, report.problems), (HOSTS + 1, 1))
        self.assertEqual(len(list(marks.iterdir())), 1)
        self.assertEqualsOneMachine(scratch / "traces", self.out)


class ViewsTest(FleetTest):
    @classmethod
    def setUpClass(cls) -> None:
        cls.shared = str(scratch / "views")
        xf.summarize(spark, [str(scratch / "traces" / "region=*")], cls.shared, xray=XRAY)
        xf.create(spark, cls.shared)

    def test_account_equals_that_of_xray(self) -> None:
        files = sorted(map(str, (scratch / "traces").glob("region=*/*/shop.xray")))
        for host in ("h2", "h7"):
            trace = next(f for f in files if f"host={host}/" in f)
            want = {r["function"]: r for r in csv.DictReader(io.StringIO(xray("account", "-f", "csv", trace)))}
            got = spark.sql(f"SELECT * FROM xray_by_host WHERE host = '{host}'").collect()
            self.assertEqual(len(got), len(want))
            for r in got:
                w = want[r.function]
                self.assertEqual((r.calls, r.min, r.max), (int(w["count"]), int(w["min_ns"]), int(w["max_ns"])), r)
                self.assertLessEqual(abs(r["self"] - int(w["self_ns"])), 2)
                for q in ("p50", "p90", "p99"):
                    self.assertLessEqual(abs(r[q] - int(w[q + "_ns"])), 1 + int(w[q + "_ns"]) / 250, (r.function, q))

    def test_sums_agree_in_all_views(self) -> None:
        total = spark.sql("SELECT sum(calls) FROM xray_account").head()[0]
        self.assertEqual(total, HOSTS * (REQUESTS * 5 + 1))
        for view in ("xray_by_build", "xray_by_host", "xray_by_hour", "xray_stack"):
            self.assertEqual(spark.sql(f"SELECT sum(calls) FROM {view}").head()[0], total, view)
        regions = spark.sql("SELECT label['region'], count(DISTINCT host) FROM xray_summaries GROUP BY 1 ORDER BY 1").collect()
        self.assertEqual([tuple(r) for r in regions], [("eu", HOSTS // 2), ("us", HOSTS // 2)])

    def test_regression_between_builds(self) -> None:
        rows = xf.with_labels(xf.summaries(spark, self.shared))
        build = {r.host: r.build_id for r in rows.select("host", "build_id").distinct().collect()}
        found = {r.function: r for r in xf.regressions(rows, build["h0"], build["h9"]).collect()}
        worse = found["checksum"]
        self.assertTrue(0 < worse.low < worse.change < worse.high, worse)
        # One bad disk is not a regression, although it also makes handleRequest slower.
        self.assertEqual([f for f, r in found.items() if r.significant], ["checksum"], found)

    def test_the_slow_calls_of_the_fleet(self) -> None:
        text = xf.why(spark, self.shared, "^handleRequest", str(self.dir / "slices"), xray=XRAY, slow=0.96, args=["--slow", ">2ms"])
        # The last --slow counts.
        flat = " ".join(text.split())
        self.assertIn("checksum itself is slower", flat)
        self.assertRegex(flat, "are on hosts h5, h6, h7, h8, h9, as are")
        self.assertRegex(flat, "5 of the 5 hosts with nearly all affected calls run build")
        self.assertIn("are on host h2, as are", flat)

    def test_command(self) -> None:
        from xray_fleet.__main__ import main

        path = self.dir / "h3.parquet"
        self.assertEqual(main(["export", self.shared, "-o", str(path), "--where", "host = 'h3'"]), 0)
        self.assertIn("checksum", xray("account", str(path)))
        self.assertEqual({r["host"] for r in pq.read_table(path).to_pylist()}, {"h3"})
        self.assertEqual(main(["sql", self.shared, "SELECT count(*) FROM xray_problems"]), 0)

    def test_stack_reads_what_spark_wrote(self) -> None:
        path = self.dir / "fleet.parquet"
        xf.write_summary(xf.summaries(spark, self.shared), str(path), by=["program", "unit", "path", "depth", "function", "symbol", "file", "line", "object"])
        xray("stack", "--format", "svg", "-o", str(self.dir / "flame.svg"), str(path))
        self.assertIn("checksum", (self.dir / "flame.svg").read_text())
        folded = dict(line.rsplit(" ", 1) for line in xray("stack", "--format", "folded", str(path)).splitlines())
        self.assertIn("main;handleRequest;checksum", folded)


class TablesTest(FleetTest):
    """Tests of the tables that `xray convert -f parquet` writes."""

    def test_calls_in_spark_equal_account(self) -> None:
        tables = self.dir / "tables"
        files = sorted(map(str, (scratch / "traces").glob("region=*/*/shop.xray")))[:2]
        for name, file in zip("ab", files):
            xray("convert", "-f", "parquet", "-o", str(tables), "--trace-name", name, file)
        for table in ("calls", "functions", "paths"):
            spark.read.parquet(str(tables / table)).createOrReplaceTempView(table)
        rows = spark.sql("""
            SELECT function, count(*) AS calls, sum(duration) AS total, sum(self) AS self FROM calls
            WHERE ended <> 'truncated' GROUP BY function""").collect()
        got = {r.function: r for r in rows}
        want = list(csv.DictReader(io.StringIO(xray("account", "-f", "csv", "--names", "full", *files))))
        self.assertEqual(set(got), {w["function"] for w in want})
        for w in want:
            r = got[w["function"]]
            self.assertEqual(r.calls, int(w["count"]), w)
            # Each call is rounded to nanoseconds.
            self.assertLessEqual(abs(r.self - int(w["self_ns"])), r.calls, w)
        joined = spark.sql("SELECT count(*) FROM calls JOIN paths USING (trace, path)").head()[0]
        self.assertEqual(joined, sum(r.calls for r in rows) + spark.table("calls").where("ended = 'truncated'").count())


class WorkerTest(FleetTest):
    """Runs last, because it kills a worker."""

    def test_worker_killed_in_the_middle(self) -> None:
        folder = self.dir / "traces"
        folder.mkdir()
        for n in range(16):
            subprocess.run([TRACEGEN, "-records", "400000", "-functions", "200", "-seed", str(n % 2), "-o", folder / f"{n}.xray"], check=True)
        failure: List[BaseException] = []

        def job() -> None:
            try:
                xf.summarize(spark, [str(folder)], self.out, xray=str(self.paused(8)))
            except BaseException as e:
                failure.append(e)

        thread = threading.Thread(target=job)
        thread.start()
        try:
            self.wait_for_tasks(2, thread)
            cluster.kill_worker(1)
        finally:
            (self.dir / "marks" / "killed").touch()
        thread.join(timeout=900)
        self.assertFalse(thread.is_alive())
        self.assertEqual(failure, [])
        self.assertEqual(xf.outcomes(spark, self.out).where("error IS NULL").count(), 16)
        self.assertEqualsOneMachine(folder, self.out)

    def paused(self, traces: int) -> Path:
        """Returns an xray that summarizes some traces at once, and the others when marks/killed exists."""
        marks, program = self.dir / "marks", self.dir / "paused"
        marks.mkdir()
        program.write_text(f'#!/bin/sh\nn=0\nwhile ! mkdir {marks}/$n 2>/dev/null && [ -d {marks} ]; do n=$((n + 1)); done\n'
                           f'while [ $n -ge {traces} ] && [ -d {marks} ] && [ ! -e {marks}/killed ]; do sleep 0.1; done\nexec {XRAY} "$@"\n')
        program.chmod(0o755)
        return program

    def wait_for_tasks(self, n: int, thread: threading.Thread) -> None:
        """Waits until n tasks have written their rows. The job must not have ended."""
        end = time.monotonic() + 600
        while time.monotonic() < end:
            self.assertTrue(thread.is_alive(), "the job ended before a worker was killed")
            if len(list(Path(self.out).glob("runs/*/_temporary/0/task_*"))) >= n:
                return
            time.sleep(0.1)
        self.fail(f"no {n} tasks wrote their rows in 600 s")


class S3:
    """A process with an S3 API on the loopback interface."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        server = Path(sys.executable).with_name("moto_server")
        self.process = subprocess.Popen(
            [server, "-H", "127.0.0.1", "-p", str(self.port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
        )
        atexit.register(self.stop)
        end = time.monotonic() + 300
        while time.monotonic() < end:
            try:
                urllib.request.urlopen(self.url, timeout=5).close()
                return
            except OSError:
                time.sleep(0.2)
        self.stop()
        raise TimeoutError("the S3 API did not start in 300 s")

    def stop(self) -> None:
        _end(self.process)

    def conf(self) -> dict:
        return {
            "spark.hadoop.fs.s3a.endpoint": self.url,
            "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
            "spark.hadoop.fs.s3a.path.style.access": "true",
            "spark.hadoop.fs.s3a.access.key": "test",
            "spark.hadoop.fs.s3a.secret.key": "test",
            "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        }

    def client(self):
        import boto3

        return boto3.client("s3", endpoint_url=self.url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test")


@unittest.skipUnless(jars(), "no jars for s3a: set JARS")
class S3Test(FleetTest):
    def test_rows_and_streams_equal_files(self) -> None:
        client = s3.client()
        client.create_bucket(Bucket="fleet")
        folder = scratch / "traces"
        for path in folder.rglob("*.xray"):
            client.upload_file(str(path), "fleet", f"day/{path.relative_to(folder)}")
        # Much larger than a pipe: xray refuses it before it has read all of it.
        client.put_object(Bucket="fleet", Key="day/large.xray", Body=b"no trace" * (1 << 20))
        for name, limit in [("rows", traces.ROW_LIMIT), ("streams", 0)]:
            with self.subTest(name):
                out = f"s3a://fleet/{name}"
                report = xf.summarize(spark, ["s3a://fleet/day"], out, xray=XRAY, row_limit=limit)
                self.assertEqual((report.found, report.summarized, report.problems), (HOSTS + 3, HOSTS + 1, 2))
                for r in xf.outcomes(spark, out).where("error IS NOT NULL").collect():
                    self.assertIn("not an XRay trace", r.error)
                rows = xf.summaries(spark, out)
                xf.write_summary(rows, f"s3a://fleet/{name}.parquet")
                got = self.dir / f"{name}.parquet"
                client.download_file("fleet", f"{name}.parquet", str(got))
                self.assertEqual(rows_of(got), rows_of(one_machine(folder, self.dir / f"{name}-want.parquet")))
                again = xf.summarize(spark, ["s3a://fleet/day/*/*/*.xray", "s3a://fleet/day/*.xray"], out, xray=XRAY)
                self.assertEqual(again.already_done, HOSTS + 3)
        text = xf.why(spark, "s3a://fleet/rows", "^handleRequest", str(self.dir / "slices"), xray=XRAY, slow=0.98)
        self.assertIn("are on host h2, as are", " ".join(text.split()))


def load_tests(loader, _tests, _pattern):
    suite = unittest.TestSuite()
    for case in (SummarizeTest, ViewsTest, TablesTest, S3Test, WorkerTest):
        suite.addTests(loader.loadTestsFromTestCase(case))
    return suite


if __name__ == "__main__":
    unittest.main(verbosity=2)
