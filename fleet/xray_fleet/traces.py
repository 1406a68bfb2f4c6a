"""Traces in any file system that Hadoop reads: find them, and read one on an executor.

There are three ways to read a trace:

- ``file``: xray opens the path of a file that is mounted on the executors.
- ``row``: Spark reads a small trace into one row. This needs memory for the whole trace,
  but no process besides xray.
- ``stream``: Hadoop's client, ``hadoop fs -cat``, pipes a large trace to xray. It is a
  separate process, because Python workers cannot use the file systems of their executor's
  Java process. This starts a Java process for each trace. Its memory does not grow with
  the trace.
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

# LISTED are the columns of a list of traces. Times are numbers, which do not depend on the time zone.
LISTED = ["path AS trace", "length", "unix_micros(modificationTime) AS modified"]

# UNREAD is the message of the client if its reader closes the pipe.
UNREAD = "Unable to write to output stream"

LABEL = re.compile(r"(?:^|/)([A-Za-z_][A-Za-z0-9_.-]*)=([^/]+)(?=/)")


def find(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    """Lists the files below paths, which may be files, folders and globs.

    The columns are trace (a URI), length (in bytes) and modified (in microseconds since
    1970). Like all of Spark, find ignores files whose names begin with ``_`` or ``.``. Spark
    raises an error for a path that matches no file.
    """
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(list(paths))
    return files.selectExpr(*LISTED)


# LISTING are settings with which find uses a few tasks instead of one for each large file. It
# does not read the files.
LISTING = {"spark.sql.files.maxPartitionBytes": str(1 << 60), "spark.sql.files.openCostInBytes": "0"}


def rows(spark: SparkSession, traces: Sequence[str]) -> DataFrame:
    """Reads traces. The column content has the whole content of each."""
    paths = [re.sub(r"([\\{}\[\]*?,])", r"\\\1", t) for t in traces]  # not globs
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)
    return files.selectExpr(*LISTED, "content")


def labels_of(trace: str) -> Dict[str, str]:
    """Returns keys and values of the folders of a path that are named KEY=VALUE, like Hive partitions."""
    return {key: unquote(value) for key, value in LABEL.findall(trace)}


def hadoop_path(spark: SparkSession, uri: str) -> Tuple[Any, Any]:
    """Returns Hadoop's file system and path objects for a URI."""
    sc = spark.sparkContext
    assert sc._jvm is not None
    path = sc._jvm.org.apache.hadoop.fs.Path(uri)
    return path.getFileSystem(sc._jsc.hadoopConfiguration()), path


def local_path(trace: str) -> str:
    """Returns the local path of a trace, or "" if its URI has another scheme than file."""
    scheme, colon, rest = trace.partition(":")
    if not colon or "/" in scheme:
        return trace
    return "/" + rest.lstrip("/") if scheme == "file" else ""


@dataclass(frozen=True)
class Hadoop:
    """The settings with which a separate Hadoop client reads the same file systems as Spark."""

    settings: Dict[str, str]
    classpath: str

    @staticmethod
    def of(spark: SparkSession) -> "Hadoop":
        """Returns the file system settings of a session, including credentials."""
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
        """Opens a trace. Yields the path of a local file, or else a stream.

        Raises OSError at the end of the block if the stream broke.
        """
        path = local_path(trace)
        if path:
            os.stat(path)  # if the file is missing here, another machine may have it
            yield path
            return
        with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as errors:
            site = Path(folder, "core-site.xml")
            site.touch(mode=0o600)  # it has credentials, which a command line would show to all users
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
                    return  # xray stopped reading, for example because this is not a trace
                raise OSError(f"{trace}: hadoop fs -cat: {text[-1000:] or f'exit status {status}'}")

    def _site(self) -> str:
        entries = "".join(
            f"<property><name>{escape(k)}</name><value>{escape(v)}</value></property>\n" for k, v in self.settings.items()
        )
        return f"<configuration>\n{entries}</configuration>\n"

    def _client(self, site: Path) -> List[str]:
        hadoop = shutil.which("hadoop")
        if hadoop:
            return [hadoop, "fs", "-conf", str(site)]  # in addition to the settings of the machine
        from pyspark import SparkFiles
        from pyspark.find_spark_home import _find_spark_home

        jars = [str(site.parent), self.classpath, os.path.join(SparkFiles.getRootDirectory(), "*"), os.path.join(_find_spark_home(), "jars", "*")]
        home = os.environ.get("JAVA_HOME")
        java = os.path.join(home, "bin", "java") if home else "java"
        # A small heap that starts quickly: the client copies one file.
        options = ["-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto"]
        return [java, *options, "-cp", os.pathsep.join(filter(None, jars)), "org.apache.hadoop.fs.FsShell"]

    def _environment(self) -> Dict[str, str]:
        # The hadoop script adds HADOOP_CLASSPATH to its classes.
        extra = os.pathsep.join(filter(None, [self.classpath, os.environ.get("HADOOP_CLASSPATH", "")]))
        return dict(os.environ, HADOOP_CLASSPATH=extra)
