"""A Spark cluster of processes on the loopback interface, for tests."""

from __future__ import annotations

import atexit
import functools
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Dict, List, Optional, Sequence

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
STARTUP_SECONDS = 300


def free_port() -> int:
    """Returns a port that nothing listens on."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Cluster:
    """A standalone master and its workers, each with one core.

    Use it as a context manager. All processes end with it. pinned gives each worker, and all
    processes that it starts, a separate core, as if it were a machine with one core.
    """

    def __init__(self, workers: int = 2, classpath: str = "", pinned: bool = False) -> None:
        self.scratch = Path(tempfile.mkdtemp(prefix="xray-fleet-"))
        self.classpath = classpath
        self.port, self.ui = free_port(), free_port()
        self.url = f"spark://127.0.0.1:{self.port}"
        self.master: Optional[subprocess.Popen] = None
        self.workers: List[subprocess.Popen] = []
        self._wanted = workers
        self._cores = sorted(os.sched_getaffinity(0)) if pinned else []
        # No process outlives the tests, however they end.
        atexit.register(self.__exit__)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))

    def __enter__(self) -> "Cluster":
        try:
            self.master = self._launch(
                "master.Master", "--port", str(self.port), "--webui-port", str(self.ui), name="master"
            )
            self._wait(lambda: self._state() is not None)
            for _ in range(self._wanted):
                self.add_worker()
            self._wait(lambda: self.alive() == self._wanted)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for p in [*self.workers, self.master]:
            if p is not None:
                _end(p)
        shutil.rmtree(self.scratch, ignore_errors=True)

    def add_worker(self) -> None:
        n = len(self.workers)
        self.workers.append(
            self._launch(
                "worker.Worker", "--cores", "1", "--memory", "1g", "--webui-port", str(free_port()),
                "--work-dir", str(self.scratch / f"worker{n}"), self.url, name=f"worker{n}",
                cores=self._cores[n : n + 1],
            )
        )

    def kill_worker(self, n: int) -> None:
        """Kills a worker and its executors without warning."""
        os.killpg(self.workers[n].pid, signal.SIGKILL)
        self.workers[n].wait(timeout=60)

    def alive(self) -> int:
        """Returns the number of workers that the master knows to be alive."""
        state = self._state() or {}
        return sum(w["state"] == "ALIVE" for w in state.get("workers", []))

    def cpu_seconds(self) -> float:
        """Returns the CPU time of the workers, their executors, and all processes that these started."""
        sessions = {p.pid for p in self.workers}
        ticks = 0
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended
            if int(fields[3]) in sessions:
                ticks += sum(map(int, fields[11:15]))  # those of the process, and of children that ended
        return ticks / os.sysconf("SC_CLK_TCK")

    def _launch(self, what: str, *args: str, name: str, cores: Sequence[int] = ()) -> subprocess.Popen:
        env = dict(os.environ, SPARK_HOME=str(SPARK_HOME), SPARK_LOCAL_IP="127.0.0.1", SPARK_NO_DAEMONIZE="1",
                   SPARK_LOCAL_DIRS=str(self.scratch), SPARK_DAEMON_MEMORY="256m")
        command = [str(SPARK_HOME / "bin" / "spark-class"), "org.apache.spark.deploy." + what, "--host", "127.0.0.1"]
        with open(self.scratch / f"{name}.log", "wb") as log:
            # Executors are children of a worker. A session of its own makes a process group to kill.
            bind = functools.partial(os.sched_setaffinity, 0, cores) if cores else None
            return subprocess.Popen([*command, *args], env=env, stdout=log, stderr=log, start_new_session=True, preexec_fn=bind)

    def _state(self) -> Optional[Dict]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ui}/json/", timeout=5) as r:
                return json.load(r)
        except OSError:
            return None

    def _wait(self, ready) -> None:
        end = time.monotonic() + STARTUP_SECONDS
        while not ready():
            for p in [*self.workers, self.master]:
                if p is not None and p.poll() is not None:
                    raise RuntimeError(f"the cluster did not start:\n{self.logs()}")
            if time.monotonic() > end:
                raise TimeoutError(f"the cluster did not start in {STARTUP_SECONDS} s:\n{self.logs()}")
            time.sleep(0.1)

    def logs(self) -> str:
        return "\n".join(f"== {p.name}\n{p.read_text(errors='replace')[-2000:]}" for p in self.scratch.glob("*.log"))

    def session(self, **conf: str):
        """Connects to the cluster. Stop the session before the next one."""
        from pyspark.sql import SparkSession

        os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
        os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        options = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "700m",
            "spark.executor.memory": "700m",
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.adaptive.enabled": "true",
            "spark.sql.codegen.wholeStage": "false",  # compiling costs more than it saves here
            "spark.log.level": "ERROR",
            "spark.local.dir": str(self.scratch),
            "spark.sql.warehouse.dir": str(self.scratch / "warehouse"),
            "spark.sql.parquet.compression.codec": "zstd",
            **conf,
        }
        if self.classpath:
            options["spark.driver.extraClassPath"] = options["spark.executor.extraClassPath"] = self.classpath
        builder = SparkSession.builder.appName("xray-fleet tests").master(self.url)
        for key, value in options.items():
            builder = builder.config(key, value)
        return builder.getOrCreate()


def _end(p: subprocess.Popen) -> None:
    """Ends a process and all processes that it started."""
    for sig in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(p.pid, sig)
            p.wait(timeout=15)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
    p.wait(timeout=15)
