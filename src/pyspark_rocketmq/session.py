"""A Spark session for a program of ours: on this machine, on a cluster, or behind Spark Connect."""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

from pyromq.errors import ConfigError
from pyspark_rocketmq.java import check_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOCAL: Final = "local[*]"
#: What pays everywhere; a user's own settings stand above.
_SETTINGS: Final = {
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
}
#: What pays where everything is on one machine.
_LOCAL_SETTINGS: Final = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
    # The default one starts a helper process for each file on a local disk: 50 ms instead of 10.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


@dataclass(frozen=True, slots=True)
class SparkPlace:
    """The place of Spark: `master` starts a driver here, `remote` is a Spark Connect server (sc://host:15002)."""

    master: str | None = None
    remote: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def is_local(self) -> bool:
        """Whether all of it is on this machine."""
        return self.remote is None and (self.master or LOCAL).startswith("local")


@contextmanager
def spark_session(name: str, place: SparkPlace) -> Iterator["SparkSession"]:
    """Start a session, or join one, and end it; what is missing is said first, with what installs it."""
    check_machine(place)
    # Workers would take the first python3 there is, which may lack pyarrow.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if place.is_local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    session = _start(name, place)
    try:
        yield session
    finally:
        session.stop()


def check_machine(place: SparkPlace) -> None:
    """Raise ConfigError or JavaMissing when Spark cannot run so, with what to do; takes no time."""
    if place.master and place.remote:
        raise ConfigError("--master and --remote are two ways to the same; give one of them")
    check_packages()
    if place.remote is None or not place.remote.startswith("sc://"):
        check_java()


def check_packages() -> None:
    """Raise ConfigError when a package that Spark needs here is not installed, with what installs it."""
    for package in ("pyspark", "pyarrow", "numpy"):
        if find_spec(package) is None:
            raise ConfigError(
                f"this needs {package}, which {sys.executable} does not have; install it with\n"
                f"{sys.executable} -m pip install 'pyromq[spark]'"
            )


def _start(name: str, place: SparkPlace) -> "SparkSession":
    from pyspark.sql import SparkSession

    builder = SparkSession.Builder().appName(name)
    builder = builder.remote(place.remote) if place.remote else builder.master(place.master or LOCAL)
    settings = {} if place.remote else {**_SETTINGS, **(_LOCAL_SETTINGS if place.is_local else {})}
    for key, value in {**settings, **place.settings}.items():
        builder = builder.config(key, value)
    session: SparkSession = builder.getOrCreate()
    if place.remote is None:
        session.sparkContext.setLogLevel("FATAL")
    return session
