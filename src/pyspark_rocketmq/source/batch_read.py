"""A batch read: the queues' ranges are fixed when Spark plans, and each task pulls its own.

With an archive, what brokers no longer have comes from there.

A DataFrame is a snapshot: Spark asks for the partitions once, so a second action on the same DataFrame
reads the same messages. Load again to see newer ones.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyromq.client.plans.admin.lookups import FOREVER_MS
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.cold.archive_manifest import ArchiveManifest
from pyspark_rocketmq.cold.archive_reading import read_cold
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.cold.seam import ColdTask, HotAndCold
from pyspark_rocketmq.failures import ReadFailed, with_retries
from pyspark_rocketmq.plain_errors import plain_errors
from pyspark_rocketmq.source.bounds import Answers, Losses, known_edges, resolve
from pyspark_rocketmq.source.columns import Columns
from pyspark_rocketmq.source.places import Times
from pyspark_rocketmq.source.planning import KeyTask, QueueRange, RangeTask, pack
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import SourceOptions
from pyspark_rocketmq.source.source_reading import ReadTerms


def reading_of(options: SourceOptions, columns: Columns) -> ReadTerms:
    """Return what the executors need of the options."""
    return ReadTerms(
        options.connection, options.group, options.only, options.on_loss, options.retries, columns
    )


@plain_errors("partitions", "read")
class TopicReader(DataSourceReader):
    """Plans on the driver, reads on the executors."""

    def __init__(self, options: SourceOptions, columns: Columns) -> None:
        self._options = options
        self._reading = reading_of(options, columns)

    def partitions(self) -> Sequence[InputPartition]:
        """Return each queue's range as it is now, packed into tasks."""
        options = self._options
        return with_retries(
            options.retries, self._plan, lambda: f"planning the read of {options.choice.option}"
        )

    def _plan(self) -> list[InputPartition]:
        options = self._options
        if options.archive is not None:
            return self._plan_with_archive(options.archive)
        with SourceCluster(options.connection, options.group) as cluster:
            if options.choice.keys:
                topics = dict.fromkeys(queue.topic for queue in cluster.queues(options.choice))
                return [self._key_task(topic) for topic in topics]
            return list(pack(self._ranges(cluster), options.tasks, os.cpu_count() or 1))

    def _ranges(self, cluster: SourceCluster) -> list[QueueRange]:
        options = self._options
        losses = Losses(options.on_loss)
        edges = known_edges(cluster.edges(cluster.queues(options.choice)))
        starts, ends = self._bounds(cluster, edges, losses)
        return [QueueRange(queue, start, ends[queue]) for queue, start in starts.items()]

    def _plan_with_archive(self, path: str) -> list[InputPartition]:
        options, at_once = self._options, os.cpu_count() or 1
        manifest = ArchiveManifest.load(ArchiveFolder(path))
        losses = Losses(options.on_loss)
        with ExitStack() as closing:
            cluster = None
            if options.connection.name_server:
                cluster = closing.enter_context(SourceCluster(options.connection, options.group))
            both = HotAndCold(manifest, cluster, options.choice)
            cold, hot = both.cut(*self._bounds(both, both.edges, losses), losses)
            return [*both.tasks(cold, options.tasks, at_once), *pack(hot, options.tasks, at_once)]

    def _bounds(
        self, asked: Answers, edges: Mapping[MessageQueue, TopicOffset], losses: Losses
    ) -> tuple[dict[MessageQueue, int], dict[MessageQueue, int]]:
        """Return where each queue's part begins and ends."""
        options = self._options
        starts = resolve(asked, options.start, edges, losses)
        ends = resolve(asked, options.end, edges, losses)
        for queue, start in starts.items():
            if start > ends[queue] and ends[queue] > edges[queue].min_offset:
                raise ReadFailed(
                    f"startingOffsets: topic {queue.topic!r}, queue {queue.queue_id} of {queue.broker_name}, "
                    f"offset {start}: the read ends before it, at {ends[queue]}; correct startingOffsets or "
                    "endingOffsets"
                )
        return starts, ends

    def _key_task(self, topic: str) -> KeyTask:
        start, end = self._options.start, self._options.end
        begin_ms = start.at_ms if isinstance(start, Times) else None
        end_ms = end.at_ms if isinstance(end, Times) else None
        # The end of a search is within it, and that of a read is not.
        return KeyTask(
            topic, self._options.choice.keys, begin_ms or 0, FOREVER_MS if end_ms is None else end_ms - 1
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Pull a task's ranges, or find its keys, and yield Arrow batches."""
        if isinstance(partition, RangeTask):
            yield from self._reading.ranges(partition.ranges)
        elif isinstance(partition, KeyTask):
            yield from self._reading.keys(partition)
        elif isinstance(partition, ColdTask):
            yield from read_cold(partition, self._reading.columns, self._reading.only)
