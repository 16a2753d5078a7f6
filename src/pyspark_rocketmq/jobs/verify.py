"""Verify: an archive's files against its manifest, and against what brokers still have.

Each file is read and its checksums made again. What a broker has of the same offsets is pulled, and must have
the same ones, column by column. What brokers have dropped since can only be compared with the manifest.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.cold.archive_manifest import ArchivedFile, ArchiveFault, ArchiveManifest, Gap
from pyspark_rocketmq.cold.checksums import Checksums
from pyspark_rocketmq.cold.folder import ArchiveFolder
from pyspark_rocketmq.cold.parquet_files import ColdRange, check_file, read_range
from pyspark_rocketmq.failures import ReadFailed
from pyspark_rocketmq.jobs.archive import all_columns, reading_all
from pyspark_rocketmq.jobs.job_runs import JobProgress, Watch, run_tasks, width
from pyspark_rocketmq.source.bounds import known_edges
from pyspark_rocketmq.source.planning import QueueRange
from pyspark_rocketmq.source.source_cluster import SourceCluster
from pyspark_rocketmq.source.source_options import ClusterConnection, TopicChoice
from pyspark_rocketmq.source.source_reading import ReadTerms

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Messages of one round, after which progress is shown.
ROUND_MESSAGES: Final = 1_000_000


class RangeVerdict(StrEnum):
    """The verdict on a range."""

    #: The file is whole, and the broker has the same.
    SAME = "same"
    #: The file is whole; the broker no longer has any of it.
    GONE = "gone"
    #: The file is whole; no broker was asked.
    WHOLE = "whole"
    #: The broker has something else.
    DIFFERS = "differs"
    #: The file is missing, does not read, or is not what was written.
    DAMAGED = "damaged"


@dataclass(frozen=True, slots=True)
class FileFinding:
    """The finding on one file. `compared_from` is the first offset that a broker still had."""

    file: ArchivedFile
    verdict: RangeVerdict
    why: str = ""
    compared_from: int | None = None

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong."""
        return self.verdict in (RangeVerdict.SAME, RangeVerdict.GONE, RangeVerdict.WHOLE)

    def to_json(self) -> dict[str, Any]:
        """Return it for programs."""
        file = self.file
        return {
            "verdict": self.verdict,
            "topic": file.queue.topic,
            "broker": file.queue.broker_name,
            "queue": file.queue.queue_id,
            "start": file.start,
            "end": file.end,
            "compared_from": self.compared_from,
            "path": file.path,
            "why": self.why,
        }


@dataclass(frozen=True, slots=True)
class Verified:
    """All findings; and what brokers have that is not archived yet."""

    findings: tuple[FileFinding, ...]
    gaps: tuple[Gap, ...]
    not_archived: int
    #: Files that were not looked at, because the job was stopped.
    left: int

    @property
    def is_good(self) -> bool:
        """Whether nothing is wrong with what was looked at."""
        return all(one.is_good for one in self.findings)


@dataclass(frozen=True, slots=True)
class VerifyOrder:
    """The order to verify; without a connection the files are compared with the manifest alone."""

    folder: ArchiveFolder
    connection: ClusterConnection | None
    topics: tuple[str, ...] = ()


def archived_files(order: VerifyOrder) -> tuple[ArchiveManifest, list[ArchivedFile]]:
    """Return an archive with the files that are meant; raise ArchiveFault when there are none."""
    manifest = ArchiveManifest.load(order.folder)
    files = [file for file in manifest.files() if not order.topics or file.queue.topic in order.topics]
    if not files:
        what = f"nothing of {', '.join(order.topics)}" if order.topics else "no archive"
        raise ArchiveFault(
            f"{order.folder.uri} has {what}; is the path right? "
            f"`pyromq job archive TOPIC --to {order.folder.uri}` makes one"
        )
    return manifest, files


def verify(spark: "SparkSession", order: VerifyOrder, watch: Watch) -> Verified:
    """Look at every file; raise ArchiveFault when there is no archive."""
    manifest, files = archived_files(order)
    edges = None if order.connection is None else _edges(order.connection, files)
    reading = None if order.connection is None else reading_all(order.connection)
    work = CompareFile(order.folder, reading, None if edges is None else dict(edges))
    findings: list[FileFinding] = []
    left = sum(file.row_count for file in files)
    watch.tell(JobProgress(0, left))
    for portion in _rounds(files, max(width(spark), 1)):
        if watch.is_stopped:
            break
        findings += run_tasks(spark, work, portion)
        left -= sum(file.row_count for file in portion)
        bad = sum(not one.is_good for one in findings)
        watch.tell(
            JobProgress(sum(one.file.row_count for one in findings), left, f"{bad} bad" if bad else "")
        )
    behind = sum(
        max(ends.max_offset - (manifest.end(queue) or 0), 0) for queue, ends in (edges or {}).items()
    )
    gaps = tuple(gap for gap in manifest.gaps() if not order.topics or gap.queue.topic in order.topics)
    return Verified(tuple(findings), gaps, behind, len(files) - len(findings))


def _edges(connection: ClusterConnection, files: Iterable[ArchivedFile]) -> dict[MessageQueue, TopicOffset]:
    """Return where the brokers' queues begin and end; those that are not there any more are left out."""
    found: dict[MessageQueue, TopicOffset] = {}
    with SourceCluster(connection, None) as cluster:
        for topic in dict.fromkeys(file.queue.topic for file in files):
            try:
                queues = cluster.queues(TopicChoice("subscribe", (topic,)))
            except ReadFailed:
                continue
            found |= known_edges(cluster.edges(queues))
    return found


def _rounds(files: list[ArchivedFile], at_once: int) -> Iterator[list[ArchivedFile]]:
    portion: list[ArchivedFile] = []
    rows = 0
    for file in files:
        portion.append(file)
        rows += file.row_count
        if rows >= ROUND_MESSAGES and len(portion) >= at_once:
            yield portion
            portion, rows = [], 0
    if portion:
        yield portion


@dataclass(frozen=True, slots=True)
class CompareFile:
    """An executor's comparison of a file."""

    folder: ArchiveFolder
    reading: ReadTerms | None
    edges: Mapping[MessageQueue, TopicOffset] | None

    def __call__(self, file: ArchivedFile) -> FileFinding:
        """Return what is known of it."""
        seam = self._seam(file)
        whole, tail = Checksums(), Checksums()
        try:
            check_file(self.folder, file)
            _add_file(self.folder, file, seam, whole, tail)
        except ArchiveFault as error:
            return FileFinding(file, RangeVerdict.DAMAGED, str(error))
        wrong = _differing(file.checksums, whole.by_column())
        if wrong:
            return FileFinding(
                file, RangeVerdict.DAMAGED, f"{self.folder.uri}/{file.path}: not what was written: {wrong}"
            )
        if self.edges is None:
            return FileFinding(file, RangeVerdict.WHOLE)
        if seam >= file.end:
            return FileFinding(file, RangeVerdict.GONE)
        return self._compare(file, seam, tail.by_column())

    def _seam(self, file: ArchivedFile) -> int:
        """Return the first offset of a file that a broker still has."""
        ends = None if self.edges is None else self.edges.get(file.queue)
        return file.end if ends is None else min(max(ends.min_offset, file.start), file.end)

    def _compare(self, file: ArchivedFile, seam: int, archived: Mapping[str, str]) -> FileFinding:
        assert self.reading is not None, "brokers are asked"
        assert self.edges is not None, "brokers are asked"
        end = self.edges[file.queue].max_offset
        if end < file.end:
            return FileFinding(file, RangeVerdict.DIFFERS, f"the broker's queue ends at {end}", seam)
        stored = Checksums()
        try:
            for batch in self.reading.ranges((QueueRange(file.queue, seam, file.end),)):
                stored.add(batch)
        except PyroError as error:
            return FileFinding(file, RangeVerdict.DIFFERS, str(error), seam)
        if stored.row_count != file.end - seam:
            why = f"the broker has {stored.row_count} messages there, and the archive {file.end - seam}"
            return FileFinding(file, RangeVerdict.DIFFERS, why, seam)
        wrong = _differing(archived, stored.by_column())
        if wrong:
            return FileFinding(file, RangeVerdict.DIFFERS, f"the broker has other values: {wrong}", seam)
        return FileFinding(file, RangeVerdict.SAME, "", seam)


def _add_file(
    folder: ArchiveFolder, file: ArchivedFile, seam: int, whole: Checksums, tail: Checksums
) -> None:
    columns = [name for name in all_columns().names if name in file.checksums]
    at = file.start
    for batch in read_range(folder, ColdRange(file, file.start, file.end), columns):
        whole.add(batch)
        if at + batch.num_rows > seam:
            tail.add(_from(batch, max(seam - at, 0)))
        at += batch.num_rows


def _from(batch: pa.RecordBatch, first: int) -> pa.RecordBatch:
    return batch.slice(first) if first else batch


def _differing(expected: Mapping[str, str], found: Mapping[str, str]) -> str:
    """Return the columns that are not the same, in words."""
    names = [name for name in expected if found.get(name) != expected[name]]
    return f"column{'s' if len(names) > 1 else ''} {', '.join(names)}" if names else ""
