"""Runs the SQL for ClickHouse in clickhouse.sql in chDB, which is ClickHouse's engine."""

from __future__ import annotations

import csv
import io
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path
from typing import List

from chdb import session

XRAY = os.environ["XRAY"]
ROOT = Path(__file__).parent.parent.parent
SQL = ROOT / "fleet" / "clickhouse.sql"


def xray(*args: object) -> str:
    return subprocess.run([XRAY, *map(str, args)], check=True, stdout=subprocess.PIPE, text=True).stdout


def statements() -> List[str]:
    """Returns the SQL statements of the file, in order."""
    text = re.sub(r"^--.*\n", "", SQL.read_text(), flags=re.M)
    return [s.strip() for s in text.split(";\n") if s.strip()]


class ClickHouseTest(unittest.TestCase):
    def test_page(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            trace, binary = ROOT / "testdata" / "kvserver-fdr.xray", ROOT / "testdata" / "kvserver"
            for host in ("h1", "h2"):
                xray("summarize", "-m", binary, "--host", host, "--program", "kv", "--label", "region=eu", "-o", Path(folder, f"{host}.parquet"), trace)
            db = session.Session(str(Path(folder, "db")))
            try:
                self.page(db, folder)
            finally:
                db.close()

    def page(self, db: session.Session, folder: str) -> None:
        create, insert, select = [], [], []
        for s in statements():
            (create if s.startswith("CREATE") else insert if s.startswith("INSERT") else select).append(s)
        self.assertTrue(create and insert and select)
        for s in create:
            db.query(s)
        for _ in range(3):  # in three parts, which ClickHouse merges
            for s in insert:
                db.query(s.replace("day/*.parquet", folder + "/*.parquet"))
        self.assertEqual(self.sums(db), self.expected())
        db.query("OPTIMIZE TABLE xray_summaries FINAL")
        rows = int(db.query("SELECT count() FROM xray_summaries", "CSV").bytes())
        paths = len(set(xray("stack", "-m", ROOT / "testdata" / "kvserver", "-f", "folded", ROOT / "testdata" / "kvserver-fdr.xray").splitlines()))
        self.assertGreaterEqual(rows, 2 * paths)
        self.assertLess(rows, 4 * paths)  # the rows of the three inserts have merged
        self.assertEqual(self.sums(db), self.expected())
        for s in select:
            self.assertTrue(db.query(s, "CSV").bytes(), s)
        p50 = dict(csv.reader(io.StringIO(db.query(
            "SELECT function, toString(xray_quantile(sumMap(durations), 0.5)) FROM xray_summaries GROUP BY function", "CSV").bytes().decode())))
        for row in self.account():
            want = int(row["p50_ns"] or 0)
            self.assertLessEqual(abs(int(p50[row["function"]]) - want), 1 + want / 250, row["function"])

    def account(self) -> List[dict]:
        return list(csv.DictReader(io.StringIO(xray("account", "-f", "csv", "-m", ROOT / "testdata" / "kvserver", ROOT / "testdata" / "kvserver-fdr.xray"))))

    def expected(self) -> dict:
        return {r["function"]: 6 * int(r["count"]) for r in self.account()}

    def sums(self, db: session.Session) -> dict:
        text = db.query("SELECT function, sum(calls) FROM xray_summaries GROUP BY function", "CSV").bytes().decode()
        return {k: int(v) for k, v in csv.reader(io.StringIO(text))}


if __name__ == "__main__":
    unittest.main(verbosity=2)
