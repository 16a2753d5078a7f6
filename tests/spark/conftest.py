"""One Spark and one cluster for all tests of this folder, which run in one process (`make test`)."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.sql import SparkSession

from pyromq.testing.cluster import ThreadCluster, running_cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each test of this folder the time that a cold JVM needs, and let Spark warn."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(300))
            item.add_marker(pytest.mark.filterwarnings("ignore"))


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ThreadCluster]:
    """A name server and a broker of PyroMQ, in this process."""
    with running_cluster(data_dir=Path(tmp_path_factory.mktemp("spark"))) as running:
        yield running


@pytest.fixture(scope="session")
def name_server(cluster: ThreadCluster) -> str:
    """The option `nameServer`."""
    return cluster.namesrv_address


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session; starting it takes about ten seconds, so there is one."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    session = (
        SparkSession.builder.master("local[2]")
        .appName("pyromq-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.python.unix.domain.socket.enabled", "true")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        # The default one starts a helper process for each file on a local disk: 50 ms instead of 10.
        .config(
            "spark.sql.streaming.checkpointFileManagerClass",
            "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        )
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def topic() -> str:
    """A topic that no other test uses."""
    return f"topic-{uuid4().hex[:12]}"


@pytest.fixture
def checkpoint(tmp_path: Path) -> str:
    """A folder for a query's checkpoint."""
    return str(tmp_path / "checkpoint")
