"""Parquet files of an archive: one range of one queue each, written and read as Arrow batches.

Row `n` of a file is the message at offset `start + n`, which is checked when it is written: a file with a gap
or a repeated message is never finished.
"""

import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyromq.model import MessageQueue
from pyspark_rocketmq.cold.archive_manifest import ArchivedFile, ArchiveFault
from pyspark_rocketmq.cold.checksums import Checksums
from pyspark_rocketmq.cold.folder import ArchiveFolder

#: Bytes of Arrow after which the next file begins; Parquet makes about a quarter of it.
FILE_BYTES: Final = 256 << 20
BATCH_ROWS: Final = 10_000
READ_BYTES: Final = 1 << 20


def write_range(
    folder: ArchiveFolder, queue: MessageQueue, start: int, batches: Iterable[pa.RecordBatch]
) -> Iterator[ArchivedFile]:
    """Write the messages of a queue from an offset on, and return the files once they are safe."""
    part: _Part | None = None
    at = start
    for batch in batches:
        _check_offsets(queue, at, batch)
        part = part or _Part(folder, queue, at, batch.schema)
        part.add(batch)
        at += batch.num_rows
        if part.held_bytes >= FILE_BYTES:
            yield part.finish()
            part = None
    if part is not None:
        yield part.finish()


def _check_offsets(queue: MessageQueue, start: int, batch: pa.RecordBatch) -> None:
    offsets = batch.column("queue_offset").to_numpy()
    wanted = np.arange(start, start + batch.num_rows)
    if not np.array_equal(offsets, wanted):
        row = int(np.flatnonzero(offsets != wanted)[0])
        raise ArchiveFault(
            f"topic {queue.topic!r}, queue {queue.queue_id} of {queue.broker_name}: the broker gave message "
            f"{offsets[row]} where {wanted[row]} should be; nothing of this was archived"
        )


class _Summed:
    """A stream to write to, which knows the checksum of what went through it."""

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream = stream
        self.crc = 0
        self.size_bytes = 0

    def write(self, content: bytes) -> int:
        self.crc = zlib.crc32(content, self.crc)
        self.size_bytes += len(content)
        self._stream.write(content)
        return len(content)

    def tell(self) -> int:
        return self.size_bytes

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        if not self._stream.closed:
            self._stream.close()

    @property
    def closed(self) -> bool:
        return bool(self._stream.closed)


class _Part:
    """A file that is being written."""

    def __init__(self, folder: ArchiveFolder, queue: MessageQueue, start: int, schema: pa.Schema) -> None:
        self._folder, self._queue, self._start = folder, queue, start
        self._path = f"{queue.topic}/{queue.broker_name}/{queue.queue_id}/{start}-{uuid4().hex[:16]}.parquet"
        self._stream = _Summed(folder.open_output(self._path))
        self._writer = pq.ParquetWriter(self._stream, schema, compression="zstd")
        self._checksums = Checksums()
        self._times: list[int] = []
        self._last_id = ""
        self.held_bytes = 0

    def add(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)
        self._checksums.add(batch)
        self.held_bytes += batch.nbytes
        stored = batch.column("store_timestamp").view(pa.int64()).to_numpy() // 1_000
        self._times += [int(stored.min()), int(stored.max())]
        self._last_id = batch.column("msg_id")[-1].as_py()

    def finish(self) -> ArchivedFile:
        self._writer.close()
        self._stream.close()
        self._folder.keep(self._path)
        return ArchivedFile(
            queue=self._queue,
            start=self._start,
            end=self._start + self._checksums.row_count,
            path=self._path,
            size_bytes=self._stream.size_bytes,
            crc32=f"{self._stream.crc:08x}",
            first_stored_ms=min(self._times),
            last_stored_ms=max(self._times),
            last_id=self._last_id,
            checksums=self._checksums.by_column(),
        )


@dataclass(frozen=True, slots=True)
class ColdRange:
    """Messages of one file, from `start` up to, not including, `end`."""

    file: ArchivedFile
    start: int
    end: int


def read_range(folder: ArchiveFolder, wanted: ColdRange, columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield some columns of the messages of a range, in order.

    Raises ArchiveFault when the file is not what the manifest says.
    """
    file = wanted.file
    try:
        with folder.open_input(file.path) as stream:
            parquet = pq.ParquetFile(stream)
            if parquet.metadata.num_rows != file.row_count:
                raise ArchiveFault(
                    f"{folder.uri}/{file.path} has {parquet.metadata.num_rows} messages, and the manifest "
                    f"says {file.row_count}; put it back from a copy"
                )
            yield from _slices(parquet, wanted, columns)
    except (OSError, KeyError, ValueError, pa.ArrowException) as error:
        # What a damaged file makes of Arrow's readers.
        raise ArchiveFault(
            f"{folder.uri}/{file.path} does not read: {error}; put it back from a copy, or see what is still "
            f"whole with `pyromq job verify {folder.uri}`"
        ) from error


def check_file(folder: ArchiveFolder, file: ArchivedFile) -> None:
    """Raise ArchiveFault unless a file is, byte for byte, what was written."""
    crc = 0
    try:
        with folder.open_input(file.path) as stream:
            while content := stream.read(READ_BYTES):
                crc = zlib.crc32(content, crc)
    except OSError as error:
        raise ArchiveFault(f"{folder.uri}/{file.path} does not read: {error}") from error
    if f"{crc:08x}" != file.crc32:
        raise ArchiveFault(f"{folder.uri}/{file.path} is not what was written; put it back from a copy")


def _slices(parquet: pq.ParquetFile, wanted: ColdRange, columns: list[str]) -> Iterator[pa.RecordBatch]:
    at = wanted.file.start
    groups: list[int] = []
    for number in range(parquet.metadata.num_row_groups):
        rows = parquet.metadata.row_group(number).num_rows
        if at + rows > wanted.start and at < wanted.end:
            if not groups:
                first = at
            groups.append(number)
        at += rows
    if not groups:
        return
    at = first
    for batch in parquet.iter_batches(BATCH_ROWS, row_groups=groups, columns=columns, use_threads=False):
        begin = max(wanted.start - at, 0)
        length = min(wanted.end - at, batch.num_rows) - begin
        at += batch.num_rows
        if length > 0:
            yield batch.slice(begin, length).select(columns)
