"""The command xray-fleet. It also runs under spark-submit."""

from __future__ import annotations

import argparse
import sys
from typing import List, Optional

from pyspark.sql import SparkSession

from . import dataset, views
from .summarize import BATCH, summarize
from .traces import ROW_LIMIT
from .why import why


def main(argv: Optional[List[str]] = None) -> int:
    args = _parser().parse_args(argv)
    spark = SparkSession.builder.appName("xray-fleet").getOrCreate()
    return args.run(spark, args)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="xray-fleet", description="Summarize and explain the traces of a fleet with Apache Spark.")
    tasks = parser.add_subparsers(required=True, metavar="TASK")

    p = tasks.add_parser("summarize", help="summarize traces into a dataset")
    p.add_argument("paths", nargs="+", metavar="TRACES", help="files, folders and globs in any file system that Hadoop reads")
    p.add_argument("--out", required=True, help="folder of the dataset")
    _add_xray(p)
    p.add_argument("--label", action="append", default=[], metavar="KEY=VALUE", help="add a label to all traces; repeatable")
    p.add_argument("--row-limit", type=int, default=ROW_LIMIT, metavar="BYTES", help="stream traces larger than BYTES (default %(default)s)")
    p.add_argument("--batch", type=int, default=BATCH, metavar="N", help="commit after every N traces (default %(default)s)")
    p.set_defaults(run=_summarize)

    p = tasks.add_parser("export", help="merge a dataset into one summary file")
    p.add_argument("dataset", help="folder of the dataset")
    p.add_argument("--output", "-o", required=True, metavar="FILE", help="write the summary to FILE, for xray stack, account and other commands")
    p.add_argument("--where", default="true", metavar="SQL", help="export only rows of xray_summaries that meet this condition")
    p.set_defaults(run=_export)

    p = tasks.add_parser("sql", help="run a query on the views of a dataset")
    p.add_argument("dataset", help="folder of the dataset")
    p.add_argument("query", help="Spark SQL")
    p.add_argument("--rows", type=int, default=50, metavar="N", help="show N rows (default %(default)s)")
    p.set_defaults(run=_sql)

    p = tasks.add_parser("why", help="explain the slow calls of a function on all machines")
    p.add_argument("dataset", help="folder of the dataset")
    p.add_argument("--root", required=True, metavar="REGEXP", help="explain calls of the functions that match")
    p.add_argument("--slow", type=float, default=0.99, metavar="Q", help="treat calls from this quantile up as slow (default %(default)s)")
    p.add_argument("--sample", type=int, default=20, metavar="N", help="also take N other calls from each trace (default %(default)s)")
    p.add_argument("--limit", type=int, default=1000, metavar="N", help="use at most N traces (default %(default)s)")
    p.add_argument("--slices", required=True, metavar="DIR", help="local folder for the slices")
    _add_xray(p)
    p.set_defaults(run=_why)
    return parser


def _add_xray(p: argparse.ArgumentParser) -> None:
    p.add_argument("--xray", metavar="FILE", help="ship this xray binary to executors (default: the one on PATH)")
    p.add_argument("--names", action="append", default=[], metavar="FILE", help="ship a traced binary or debug file to get function names from; repeatable")


def _summarize(spark: SparkSession, args: argparse.Namespace) -> int:
    labels = dict(label.split("=", 1) for label in args.label)
    report = summarize(
        spark, args.paths, args.out, xray=args.xray, names=args.names, labels=labels, row_limit=args.row_limit, batch=args.batch
    )
    print(report)
    return 0


def _export(spark: SparkSession, args: argparse.Namespace) -> int:
    rows = views.with_labels(dataset.summaries(spark, args.dataset)).where(args.where)
    views.write_summary(rows, args.output)
    return 0


def _sql(spark: SparkSession, args: argparse.Namespace) -> int:
    views.create(spark, args.dataset)
    spark.sql(args.query).show(args.rows, truncate=False)
    return 0


def _why(spark: SparkSession, args: argparse.Namespace) -> int:
    print(why(spark, args.dataset, args.root, args.slices, xray=args.xray, names=args.names, slow=args.slow, sample=args.sample, limit=args.limit))
    return 0


if __name__ == "__main__":
    sys.exit(main())
