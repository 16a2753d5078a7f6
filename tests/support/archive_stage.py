"""A cluster whose old messages go when its clock is moved, and archives of its topics, without Spark."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from here_spark import HereSpark
from pyspark.sql import SparkSession

from pyromq import Admin
from pyromq.model import MessageQueue
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.jobs.archive import Archived, ArchiveOrder, archive
from pyspark_rocketmq.jobs.job_runs import Watch
from pyspark_rocketmq.jobs.verify import Verified, VerifyOrder, verify
from pyspark_rocketmq.source.source_options import ClusterConnection, TopicChoice

#: Messages of this size fill a file of the log after about eight.
BODY_BYTES = 800
LOG_FILE_BYTES = 8192
KEPT_MS = 24 * 3_600_000
#: Time between two messages; all of a test together must be less than what is kept.
BETWEEN_MS = 600_000


@contextmanager
def forgetful_cluster(folder: Path) -> Iterator[tuple[ThreadCluster, ManualClock]]:
    """A broker with one queue for each topic, that keeps messages for a day, in small files."""
    clock = ManualClock()
    small = {
        "mapped_file_size_commit_log": LOG_FILE_BYTES,
        "mapped_file_size_consume_queue": 20 * 10,
        "file_reserved_time": 24,
        "delete_when": ";".join(str(hour) for hour in range(24)),
        "default_topic_queue_nums": 1,
    }
    with running_cluster(data_dir=folder, clock=clock, **cast(Any, small)) as cluster:
        yield cluster, clock


def let_messages_go(cluster: ThreadCluster, clock: ManualClock, topic: str, begin_ms: int) -> int:
    """Let time pass until a broker drops the oldest messages; return the first offset that is left.

    The first was stored at `begin_ms`; about twenty go, those that are then older than a day.
    """
    until_ms = begin_ms + KEPT_MS + 20 * BETWEEN_MS
    queue = MessageQueue(topic, "broker-a", 0)
    with Admin(cluster.namesrv_address) as admin:
        before = admin.min_offset(queue)

        def has_dropped() -> bool:
            clock.advance(10_000 if clock.now_ms() >= until_ms else 30 * 60_000)
            return admin.min_offset(queue) > before

        eventually(has_dropped, what="the broker drops old messages")
        return admin.min_offset(queue)


def archive_here(
    name_server: str, folder: Path, topic: str, *, round_messages: int = 1_000, accepts_gaps: bool = False
) -> Archived:
    """Archive a topic in this process."""
    order = ArchiveOrder(
        ClusterConnection(name_server),
        TopicChoice("TOPIC", (topic,)),
        ArchiveFolder(str(folder)),
        accepts_gaps=accepts_gaps,
        round_messages=round_messages,
    )
    return archive(cast(SparkSession, HereSpark()), order, Watch())


def verify_here(name_server: str | None, folder: Path) -> Verified:
    """Verify an archive in this process."""
    connection = None if name_server is None else ClusterConnection(name_server)
    order = VerifyOrder(ArchiveFolder(str(folder)), connection)
    return verify(cast(SparkSession, HereSpark()), order, Watch())
