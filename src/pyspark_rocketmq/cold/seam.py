"""One table over what brokers have and what an archive has: where one ends and the other begins.

A broker's first message is the seam. What lies before it comes from the archive's files, what lies behind it
from the log, even where the archive has it too. So no message is read twice, and what neither has is a loss
that the option failOnDataLoss decides about.

                 archive's start          the seam            archive's end        broker's end
    archive      ├──────────────── cold ──────┤╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌╌┤
    broker                                    ├──────────────── hot ────────────────────┤
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import InputPartition

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.cold.archive_manifest import ArchiveFault, ArchiveManifest
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.cold.parquet_files import ColdRange, read_range
from pyspark_rocketmq.failures import ReadFailed, place
from pyspark_rocketmq.source.bounds import Losses, known_edges
from pyspark_rocketmq.source.planning import QueueRange, pack
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import Tasks, TopicChoice

_GONE: Final = "no broker has them any more, and the archive does not have them"


@dataclass
class ColdTask(InputPartition):
    """The ranges of an archive that one task reads, in this order."""

    folder: ArchiveFolder
    ranges: tuple[ColdRange, ...]


class HotAndCold:
    """The queues of a read, with what brokers and an archive have of each; or the archive alone."""

    def __init__(self, manifest: ArchiveManifest, cluster: SourceCluster | None, choice: TopicChoice) -> None:
        self._manifest = manifest
        self._cluster = cluster
        self._hot: dict[MessageQueue, TopicOffset] = {}
        if cluster is not None:
            self._hot = known_edges(cluster.edges(cluster.queues(choice)))
        archived = [queue for queue in manifest.queues if _is_chosen(queue, choice) and manifest.files(queue)]
        if cluster is None and not archived:
            there = ", ".join(sorted({queue.topic for queue in manifest.queues})) or "nothing"
            raise ReadFailed(
                f"{choice.option}: the archive {manifest.folder.uri} has none of that; it has {there}"
            )
        self._cold = dict.fromkeys(archived)
        self._check_same()

    @property
    def edges(self) -> dict[MessageQueue, TopicOffset]:
        """The first and last offsets of each queue, archive and broker together."""
        found = {}
        for queue in sorted({*self._hot, *self._cold}):
            hot, start = self._hot.get(queue), self._manifest.start(queue)
            if hot is None:
                found[queue] = TopicOffset(min_offset=start or 0, max_offset=self._seam(queue))
            elif start is None:
                found[queue] = hot
            else:
                found[queue] = TopicOffset(min_offset=min(start, hot.min_offset), max_offset=hot.max_offset)
        return found

    def committed(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return how far the group got in each queue, None where it never was."""
        if self._cluster is None:
            raise ConfigError("'group' asks brokers how far it is; give nameServer too")
        known = self._cluster.committed([queue for queue in queues if queue in self._hot])
        return {queue: known.get(queue) for queue in queues}

    def by_time(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the offset of the first message of each queue that was stored at or after a time."""
        hot = {queue: at_ms for queue, at_ms in times.items() if queue in self._hot}
        found = self._cluster.by_time(hot) if self._cluster is not None and hot else {}
        return {queue: self._by_time(queue, at_ms, found.get(queue)) for queue, at_ms in times.items()}

    def _by_time(self, queue: MessageQueue, at_ms: int, hot: int | None) -> int:
        seam = self._seam(queue)
        if hot is not None and hot > seam:
            return hot
        for file in self._manifest.files(queue):
            if file.start >= seam:
                break
            if file.last_stored_ms >= at_ms:
                at = _first_stored_since(
                    self._manifest.folder, ColdRange(file, file.start, min(file.end, seam)), at_ms
                )
                if at is not None:
                    return at
        return seam if hot is None else hot

    def cut(
        self, starts: Mapping[MessageQueue, int], ends: Mapping[MessageQueue, int], losses: Losses
    ) -> tuple[list[QueueRange], list[QueueRange]]:
        """Return what to read of the archive, and what of brokers; `losses` is told what neither has."""
        cold: list[QueueRange] = []
        hot: list[QueueRange] = []
        for queue, start in sorted(starts.items()):
            end, seam = ends[queue], self._seam(queue)
            at = start
            for file in self._manifest.files(queue) if queue in self._cold else ():
                begin, finish = max(file.start, at), min(file.end, end, seam)
                if begin >= finish:
                    continue
                if begin > at:
                    losses.note(queue, at, begin, _GONE)
                cold.append(QueueRange(queue, begin, finish))
                at = finish
            if at < min(seam, end):
                losses.note(queue, at, min(seam, end), _GONE)
            if max(at, seam) < end:
                hot.append(QueueRange(queue, max(start, seam), end))
        return cold, hot

    def tasks(self, cold: Iterable[QueueRange], tasks: Tasks, at_once: int) -> list[ColdTask]:
        """Return tasks for what is read of the archive."""
        folder = self._manifest.folder
        return [
            ColdTask(folder, tuple(piece for one in task.ranges for piece in self._pieces(one)))
            for task in pack(cold, tasks, at_once)
        ]

    def _pieces(self, wanted: QueueRange) -> Iterator[ColdRange]:
        for file in self._manifest.files(wanted.queue):
            begin, finish = max(file.start, wanted.start), min(file.end, wanted.end)
            if begin < finish:
                yield ColdRange(file, begin, finish)

    def _seam(self, queue: MessageQueue) -> int:
        """Return the first offset that is not read from the archive."""
        hot = self._hot.get(queue)
        if hot is not None:
            return hot.min_offset
        files = self._manifest.files(queue)
        return files[-1].end if files else 0

    def _check_same(self) -> None:
        """Raise ArchiveFault when a broker's queue is not the one that was archived."""
        lasts = {}
        for queue in self._cold:
            hot, last = self._hot.get(queue), self._manifest.files(queue)[-1]
            if hot is None:
                continue
            if last.end > hot.max_offset:
                raise _other(
                    self._manifest, queue, last.end - 1, f"the broker's queue ends at {hot.max_offset}"
                )
            if last.end > hot.min_offset:
                lasts[queue] = last
        if self._cluster is None:
            return
        found = self._cluster.samples({queue: last.end - 1 for queue, last in lasts.items()}, 1)
        for queue, messages in found.items():
            last = lasts[queue]
            if (
                messages
                and messages[0].queue_offset == last.end - 1
                and messages[0].message_id != last.last_id
            ):
                seen = f"the broker has message {messages[0].message_id} there, not {last.last_id}"
                raise _other(self._manifest, queue, last.end - 1, seen)


def _other(manifest: ArchiveManifest, queue: MessageQueue, offset: int, seen: str) -> ArchiveFault:
    return ArchiveFault(
        f"archive {manifest.folder.uri}: {place(queue, offset)}: {seen}: the topic was deleted and created "
        "again, or its broker lost messages, since it was archived. Read the archive without nameServer, or "
        "the topic without archive"
    )


def _is_chosen(queue: MessageQueue, choice: TopicChoice) -> bool:
    if choice.queues is not None:
        return choice.queues.has(queue)
    if choice.pattern is not None:
        return re.fullmatch(choice.pattern, queue.topic) is not None
    return queue.topic in choice.topics


def _first_stored_since(folder: ArchiveFolder, wanted: ColdRange, at_ms: int) -> int | None:
    at = wanted.start
    for batch in read_range(folder, wanted, ["store_timestamp"]):
        stored = batch.column(0).view(pa.int64()).to_numpy()
        found = np.flatnonzero(stored >= at_ms * 1_000)
        if len(found):
            return at + int(found[0])
        at += batch.num_rows
    return None
