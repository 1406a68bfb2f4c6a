"""Traces in any file system that Hadoop reads: find them, and read one on an executor.

There are three ways to read a trace:

- ``file``: a path that executors have mounted is passed to xray as it is.
- ``row``: Spark reads a small trace into one row. This needs memory for the whole trace,
  and no process besides xray.
- ``stream``: a large trace is piped from Hadoop's own client, ``hadoop fs -cat``, in a
  process of its own. Python workers cannot reach the file systems of their executor's
  Java process. This takes the start of a Java process per trace, and memory that does not
  grow with the trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Dict, Iterator, List, Sequence, Tuple, Union
from urllib.parse import unquote
from xml.sax.saxutils import escape

from pyspark.sql import DataFrame, SparkSession

# ROW_LIMIT is the size in bytes of the largest trace that is read as a row. An executor holds a
# row several times: in Java, in Arrow's format and in Python.
ROW_LIMIT = 16 << 20

# LISTED are the columns of a list of traces. A number is the same in all time zones.
LISTED = ["path AS trace", "length", "unix_micros(modificationTime) AS modified"]

# UNREAD is the message of the client if its reader is gone.
UNREAD = "Unable to write to output stream"

LABEL = re.compile(r"(?:^|/)([A-Za-z_][A-Za-z0-9_.-]*)=([^/]+)(?=/)")


def find(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lists the files below paths, which may be files, folders and globs.

    The columns are trace (a URI), length (in bytes) and modified, in microseconds since 1970. Files whose name begins
    with ``_`` or ``.`` are left out, as everywhere in Spark. A path without any file is an
    error of Spark.
    """
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(paths))
    return files.selectExpr(*LISTED)


# LISTING are settings under which find takes a few tasks, and not one for each large file: it
# reads none.
LISTING = {"spark.sql.files.maxPartitionBytes": str(1 << 60), "spark.sql.files.openCostInBytes": "0"}


def rows(spark: SparkSession, traces: Sequence[str]) -> DataFrame:
    """Reads traces, with their whole content as a column."""
    paths = [re.sub(r"([\\{}\[\]*?,])", r"\\\1", t) for t in traces]  # they are no globs
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)
    return files.selectExpr(*LISTED, "content")


def labels_of(trace: str) -> Dict[str, str]:
    """Returns the folders of a path that are named KEY=VALUE, as Hive names partitions."""
    return {key: unquote(value) for key, value in LABEL.findall(trace)}


def hadoop_path(spark: SparkSession, uri: str) -> Tuple[Any, Any]:
    """Returns Hadoop's file system and path of a URI."""
    sc = spark.sparkContext
    assert sc._jvm is not None
    path = sc._jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(sc._jsc.hadoopConfiguration()), path


def local_path(trace: str) -> str:
    """Returns the path of a file: URI, or "" for other schemes."""
    scheme, colon, rest = trace.partition(":")
    if not colon or "/" in scheme:
        return trace
    return "/" + rest.lstrip("/") if scheme == "file" else ""


@dataclass(frozen=True)
class Hadoop:
    """The settings for a separate Hadoop client that reads like Spark."""

    settings: Dict[str, str]
    classpath: str

    @staticmethod
    def of(spark: SparkSession) -> "Hadoop":
        """Takes the settings of file systems from a session, credentials included."""
        conf = spark.sparkContext._jsc.hadoopConfiguration()
        defaults = {"core-default.xml", "hdfs-default.xml"}
        settings = {}
        entries = conf.iterator()
        while entries.hasNext():
            key = entries.next().getKey()
            sources = conf.getPropertySources(key)
            if key.startswith("fs.") and not (sources and set(sources) <= defaults):
                settings[key] = conf.get(key)
        return Hadoop(settings, spark.conf.get("spark.executor.extraClassPath", "") or "")

    @contextmanager
    def open(self, trace: str) -> Iterator[Union[str, IO[bytes]]]:
        """Opens a trace: its path if it is a file here, or else a stream.

        The end of the block raises OSError if the stream broke.
        """
        path = local_path(trace)
        if path:
            os.stat(path)  # a file that is not here may be on another machine
            yield path
            return
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
            site = Path(folder, "core-site.xml")
            site.touch(mode=0o600)  # it has credentials, which a command line would show to all
            site.write_text(self._site())
            command = [*self._client(site), "-cat", trace]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=self._environment())
            try:
                assert process.stdout is not None
                yield process.stdout
                process.stdout.close()
                status = process.wait()
            finally:
                process.kill()
                process.wait()
            if status != 0:
                errors.seek(0)
                text = errors.read().decode(errors="replace").strip()
                if UNREAD in text:
                    return  # the reader had enough, as xray has of what is no trace
                raise OSError(f"{trace}: hadoop fs -cat: {text[-1000:] or f'exit status {status}'}")

    def _site(self) -> str:
        entries = "".join(
            f"<property><name>{escape(k)}</name><value>{escape(v)}</value></property>\n" for k, v in self.settings.items()
        )
        return f"<configuration>\n{entries}</configuration>\n"

    def _client(self, site: Path) -> List[str]:
        hadoop = shutil.which("hadoop")
        if hadoop:
            return [hadoop, "fs", "-conf", str(site)]  # beside the settings of the machine
        from pyspark import SparkFiles
        from pyspark.find_spark_home import _find_spark_home

        jars = [str(site.parent), self.classpath, os.path.join(SparkFiles.getRootDirectory(), "*"), os.path.join(_find_spark_home(), "jars", "*")]
        home = os.environ.get("JAVA_HOME")
        java = os.path.join(home, "bin", "java") if home else "java"
        # A small heap that starts quickly: the client copies one file.
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return [java, *options, "-cp", os.pathsep.join(filter(None, jars)), "org.apache.hadoop.fs.FsShell"]

    def _environment(self) -> Dict[str, str]:
        # The hadoop script takes classes from there.
        extra = os.pathsep.join(filter(None, [self.classpath, os.environ.get("HADOOP_CLASSPATH", "")]))
        return dict(os.environ, HADOOP_CLASSPATH=extra)
