"""Clusters of Spark on this machine, and brokers beside them in processes of their own."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pyspark
from forked_command import start_pyromq
from harness.ports import free_broker_port
from pyspark.sql import SparkSession

from pyromq.testing.waiting import eventually

HOST = "127.0.0.1"
WORKERS, MEMORY_MB = 2, 1024
PATIENCE_S = 120.0
_HOME = Path(pyspark.__file__).parent
_ESTABLISHED = "01"


@dataclass(frozen=True)
class Brokers:
    """A name server and a broker in one process."""

    pid: int
    name_server: str
    broker: str

    def peers(self) -> frozenset[str]:
        """Return the far ends of the connections that the broker has now."""
        port = f"{int(self.broker.rpartition(':')[2]):04X}"
        lines = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
        return frozenset(
            remote for _, local, remote, state, *_ in lines if local.endswith(port) and state == _ESTABLISHED
        )


@contextmanager
def running_brokers(folder: Path) -> Iterator[Brokers]:
    """Start `pyromq up`, and end it."""
    ready = folder / "ready.json"
    ports = ["--namesrv-port", "0", "--broker-port", "0"]
    files = ["--data", str(folder / "data"), "--ready-file", str(ready)]
    process = start_pyromq(["up", *ports, *files], folder / "pyromq.log")
    try:
        eventually(ready.exists, PATIENCE_S, what="pyromq is up")
        said = json.loads(ready.read_text())
        assert process.pid is not None
        yield Brokers(process.pid, said["namesrv"], said["broker"])
    finally:
        process.terminate()
        process.join(PATIENCE_S)


@contextmanager
def standalone_master(folder: Path) -> Iterator[str]:
    """Start a master and workers of Spark's own, as an installation does; yield the master's address."""
    with ExitStack() as closing:
        port = free_broker_port()
        address = ["--host", HOST, "--port", str(port), "--webui-port", "0"]
        _start_class("master.Master", address, folder / "master.log", closing)
        eventually(lambda: _accepts(port), PATIENCE_S, what="Spark's master is up")
        for number in range(WORKERS):
            place = ["--host", HOST, "--port", "0", "--webui-port", "0", "-d", str(folder / f"work-{number}")]
            arguments = [*place, "-c", "1", "-m", f"{MEMORY_MB}m", f"spark://{HOST}:{port}"]
            _start_class("worker.Worker", arguments, folder / f"worker-{number}.log", closing)
        yield f"spark://{HOST}:{port}"


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Start a Spark Connect server on this machine, as an installation does; yield its address."""
    with ExitStack() as closing:
        port = free_broker_port()
        settings = {
            "spark.connect.grpc.binding.port": str(port),
            "spark.driver.host": HOST,
            "spark.driver.bindAddress": HOST,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.warehouse.dir": str(folder / "warehouse"),
        }
        arguments = ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer"]
        for name, value in settings.items():
            arguments += ["--conf", f"{name}={value}"]
        arguments += ["--master", "local[2]", "spark-internal"]
        _start_class("SparkSubmit", arguments, folder / "connect.log", closing)
        eventually(lambda: _accepts(port), PATIENCE_S, what="the Connect server is up")
        yield f"sc://{HOST}:{port}"


@contextmanager
def cluster_session(master: str, folder: Path) -> Iterator[SparkSession]:
    """Start a driver here whose tasks run on all executors of a cluster, and end it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = HOST
    session: SparkSession = (
        SparkSession.Builder()
        .master(master)
        .appName("pyromq-cluster")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", HOST)
        .config("spark.executor.memory", f"{MEMORY_MB}m")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.execution.arrow.maxRecordsPerBatch", "100")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    try:
        session.sparkContext.setLogLevel("ERROR")
        eventually(lambda: executor_count(session) == WORKERS, PATIENCE_S, what="all executors are there")
        yield session
    finally:
        session.stop()


def executor_count(session: SparkSession) -> int:
    """Return how many executors there are now."""
    context = session.sparkContext._jsc.sc()
    # The driver is counted too.
    return int(context.getExecutorMemoryStatus().size()) - 1


def _start_class(name: str, arguments: list[str], log: Path, closing: ExitStack) -> None:
    """Run a class of Spark's in a process group of its own, which what it starts belongs to."""
    environment = os.environ | {
        "SPARK_HOME": str(_HOME),
        "SPARK_LOCAL_IP": HOST,
        "PYSPARK_PYTHON": sys.executable,
    }
    with log.open("wb") as out:
        process = subprocess.Popen(
            [_HOME / "bin/spark-class", f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    closing.callback(_end, process)


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(20)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection((HOST, port), 1).close()
    except OSError:
        return False
    return True
