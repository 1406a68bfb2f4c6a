"""Runs the xray program on executors."""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import subprocess
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, List, Optional, Sequence, Set, Tuple, Union

from pyspark import SparkContext, SparkFiles, TaskContext

# TIMEOUT is how long xray may take for one trace, in seconds.
TIMEOUT = 3600


# _added has the files that were added to each application, by application ID and name.
_added: Set[Tuple[str, str]] = set()


@functools.lru_cache(maxsize=None)
def _folder() -> str:
    """Returns a folder from which executors can fetch files until the driver ends."""
    folder = tempfile.mkdtemp(prefix="xray-fleet-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _digest(*paths: str) -> str:
    sha = hashlib.sha256()
    for path in paths:
        with open(path, "rb") as f:
            for block in iter(lambda: f.read(1 << 20), b""):
                sha.update(block)
    return sha.hexdigest()[:16]


def _add(sc: SparkContext, path: str, package: bool = False) -> None:
    key = (sc.applicationId, os.path.basename(path))
    if key not in _added:
        (sc.addPyFile if package else sc.addFile)(path)
        _added.add(key)


def _add_package(sc: SparkContext) -> None:
    """Sends this package to executors, so they need not have it installed."""
    files = sorted(str(f) for f in Path(__file__).parent.glob("*.py"))
    package = os.path.join(_folder(), f"xray_fleet-{_digest(*files)}.zip")
    with zipfile.ZipFile(package, "w") as z:
        for file in files:
            z.write(file, f"xray_fleet/{os.path.basename(file)}")
    _add(sc, package, package=True)


class MachineError(Exception):
    """xray failed, perhaps because of the machine. Another attempt may succeed."""


@dataclass(frozen=True)
class Xray:
    """The program and the files with function names, as shipped with a job."""

    program: str
    names: Tuple[str, ...] = ()

    @staticmethod
    def ship(sc: SparkContext, program: Optional[str] = None, names: Sequence[str] = ()) -> "Xray":
        """Sends the program, the files with function names, and this package to all executors.

        Raises FileNotFoundError if there is no program.
        """
        path = program or shutil.which("xray")
        if not path or not os.path.isfile(path):
            raise FileNotFoundError(f"{program or 'xray'}: program not found: pass its path with --xray")
        shipped = os.path.join(_folder(), f"xray-{_digest(path)}")  # Spark refuses a different file with a known name
        shutil.copyfile(path, shipped)
        _add(sc, shipped)
        for file in names:
            _add(sc, file)
        _add_package(sc)
        return Xray(os.path.basename(shipped), tuple(os.path.basename(n) for n in names))

    def run(self, args: Sequence[str], trace: Union[str, bytes, IO[bytes]]) -> Tuple[int, str]:
        """Runs xray on an executor, on the path, the bytes or the stream of a trace.

        Returns its exit status and what it wrote to standard error. Raises MachineError if
        it cannot be started, is killed or takes longer than TIMEOUT.
        """
        program = SparkFiles.get(self.program)
        operand = trace if isinstance(trace, str) else "-"
        command: List[str] = [program, *args, *self._symbols(), "--", operand]
        context = TaskContext.get()
        env = dict(os.environ, GOMAXPROCS=str(context.cpus() if context else 1))
        content = trace if isinstance(trace, bytes) else None
        stdin: Union[int, IO[bytes]] = subprocess.DEVNULL
        if isinstance(trace, bytes):
            stdin = subprocess.PIPE
        elif not isinstance(trace, str):
            stdin = trace
        try:
            os.chmod(program, 0o755)
            with subprocess.Popen(command, env=env, stdin=stdin, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
                try:
                    said = process.communicate(content, timeout=TIMEOUT)[1]
                finally:
                    process.kill()
        except (OSError, subprocess.TimeoutExpired) as e:
            raise MachineError(f"xray: {e}") from e
        text = said.decode(errors="replace").strip()
        if process.returncode < 0:
            raise MachineError(f"xray was killed by signal {-process.returncode}: {text[-500:]}")
        return process.returncode, text

    def _symbols(self) -> List[str]:
        return ["--symbols", SparkFiles.getRootDirectory()] if self.names else []


def last_attempt(tries: int) -> bool:
    """Reports whether Spark ends the job if this task fails once more."""
    context = TaskContext.get()
    return context is None or context.attemptNumber() + 1 >= tries
