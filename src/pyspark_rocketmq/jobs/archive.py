"""Archive: the messages of topics written to Parquet files, with a manifest of what each has.

A round takes a share of what waits in each queue. Executors pull it and write files; when all of them are
safe the manifest gets one commit. A round that fails leaves files that no commit names, which do not exist.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.cold.archive_manifest import ArchivedFile, ArchiveFault, ArchiveManifest, Gap
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.cold.parquet_files import write_range
from pyspark_rocketmq.failures import place
from pyspark_rocketmq.jobs.job_runs import JobProgress, Watch, run_tasks, width
from pyspark_rocketmq.source.admitting import share
from pyspark_rocketmq.source.bounds import known_edges
from pyspark_rocketmq.source.columns import Columns, choose_columns, table_schema
from pyspark_rocketmq.source.planning import QueueRange, RangeTask, pack
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import (
    ClusterConnection,
    ColumnSet,
    Filter,
    OnLoss,
    Retries,
    Tasks,
    TopicChoice,
)
from pyspark_rocketmq.source.source_reading import ReadTerms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Messages of one round: some seconds of work, which is what a kill can cost.
ROUND_MESSAGES: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class ArchiveOrder:
    """The order to archive. With `accepts_gaps`, messages that brokers have dropped are noted and skipped."""

    connection: ClusterConnection
    choice: TopicChoice
    folder: ArchiveFolder
    accepts_gaps: bool = False
    round_messages: int = ROUND_MESSAGES


@dataclass(frozen=True, slots=True)
class Archived:
    """The messages that a run archived. `left` counts those that a stop kept it from."""

    row_count: int
    file_count: int
    size_bytes: int
    gaps: tuple[Gap, ...]
    left: int


def look(order: ArchiveOrder) -> tuple[ArchiveManifest, dict[MessageQueue, TopicOffset]]:
    """Return what is archived, and what brokers have now; raise ArchiveFault if it cannot be gone on with."""
    manifest = ArchiveManifest.load(order.folder)
    with SourceCluster(order.connection, None) as cluster:
        edges = known_edges(cluster.edges(cluster.queues(order.choice)))
        _check_same(cluster, manifest, edges)
    plan(manifest, edges, accepts_gaps=order.accepts_gaps)
    return manifest, edges


def archive(spark: "SparkSession", order: ArchiveOrder, watch: Watch) -> Archived:
    """Archive all that is there now and was not archived before; raise ArchiveFault if that cannot be."""
    manifest, edges = look(order)
    waiting, gaps = plan(manifest, edges, accepts_gaps=order.accepts_gaps)
    if gaps:
        manifest.commit([], gaps)
    work = WriteFiles(order.folder, reading_all(order.connection))
    files: list[ArchivedFile] = []
    left = sum(end - start for start, end in waiting.values())
    watch.tell(JobProgress(0, left))
    while left and not watch.is_stopped:
        taken = share({queue: end - start for queue, (start, end) in waiting.items()}, order.round_messages)
        ranges = [
            QueueRange(queue, waiting[queue][0], waiting[queue][0] + count) for queue, count in taken.items()
        ]
        results = run_tasks(spark, work, pack(ranges, Tasks(), width(spark)))
        added = [file for result in results for file in result]
        manifest.commit(added)
        for one in ranges:
            waiting[one.queue] = (one.end, waiting[one.queue][1])
        files += added
        left -= sum(one.end - one.start for one in ranges)
        watch.tell(JobProgress(sum(file.row_count for file in files), left))
    rows, size = sum(file.row_count for file in files), sum(file.size_bytes for file in files)
    return Archived(rows, len(files), size, tuple(gaps), left)


def plan(
    manifest: ArchiveManifest, edges: Mapping[MessageQueue, TopicOffset], *, accepts_gaps: bool
) -> tuple[dict[MessageQueue, tuple[int, int]], list[Gap]]:
    """Return what of each queue is to be archived, and what is gone before it was.

    Raises ArchiveFault when there are such gaps and they are not accepted, or when a queue ends before what
    is archived of it.
    """
    waiting: dict[MessageQueue, tuple[int, int]] = {}
    gaps: list[Gap] = []
    for queue, ends in sorted(edges.items()):
        done = manifest.end(queue)
        start = ends.min_offset if done is None else max(done, ends.min_offset)
        if done is not None and done > ends.max_offset:
            raise other_queue(
                manifest, queue, f"it ends at {ends.max_offset}, and {done} messages are archived"
            )
        if done is not None and done < start:
            gaps.append(Gap(queue, done, start, "the broker had dropped them before they were archived"))
        if start < ends.max_offset:
            waiting[queue] = (start, ends.max_offset)
    if gaps and not accepts_gaps:
        first = gaps[0]
        raise ArchiveFault(
            f"{place(first.queue, first.start)}: the broker has dropped {first.end - first.start} messages "
            f"before they were archived ({len(gaps)} queues have such a gap). Archive more often than "
            "fileReservedTime; to go on with what is there, say --accept-gaps: the manifest notes the gaps"
        )
    return waiting, gaps


def _check_same(
    cluster: SourceCluster, manifest: ArchiveManifest, edges: Mapping[MessageQueue, TopicOffset]
) -> None:
    """Raise ArchiveFault when a queue is not the one that was archived before."""
    lasts = {queue: files[-1] for queue in edges if (files := manifest.files(queue))}
    lasts = {queue: last for queue, last in lasts.items() if edges[queue].min_offset < last.end}
    found = cluster.samples({queue: last.end - 1 for queue, last in lasts.items()}, 1)
    for queue, messages in found.items():
        last = lasts[queue]
        if messages and messages[0].queue_offset == last.end - 1 and messages[0].message_id != last.last_id:
            seen = f"message {last.end - 1} is {messages[0].message_id}, and {last.last_id} is archived"
            raise other_queue(manifest, queue, seen)


def other_queue(manifest: ArchiveManifest, queue: MessageQueue, seen: str) -> ArchiveFault:
    """Return the error for a queue that is another one than the archive has."""
    return ArchiveFault(
        f"{place(queue)}: {seen}: the topic was deleted and created again, or its broker lost messages. Keep "
        f"the archive {manifest.folder.uri} as it is, and archive what is there now to another folder"
    )


def all_columns() -> Columns:
    """Return every column of a topic."""
    return choose_columns(table_schema(ColumnSet.ROCKETMQ, with_properties=True), ColumnSet.ROCKETMQ)


def reading_all(connection: ClusterConnection) -> ReadTerms:
    """Return how executors read whole messages, none of which may be missing."""
    return ReadTerms(connection, None, Filter(), OnLoss.FAIL, Retries(), all_columns())


@dataclass(frozen=True, slots=True)
class WriteFiles:
    """An executor's task: each of its ranges becomes one file or several."""

    folder: ArchiveFolder
    reading: ReadTerms

    def __call__(self, task: RangeTask) -> list[ArchivedFile]:
        """Return the files, which are safe by then."""
        files: list[ArchivedFile] = []
        for one in task.ranges:
            added = list(write_range(self.folder, one.queue, one.start, self.reading.ranges((one,))))
            end = added[-1].end if added else one.start
            if end != one.end:
                raise ArchiveFault(
                    f"{place(one.queue, end)}: the broker gave nothing from there to {one.end}"
                )
            files += added
        return files
