"""Checksums of columns that do not depend on how the rows were cut into batches.

A column is taken apart into streams of bytes: its numbers, or its lengths and its text. Each stream has a
running CRC-32, whatever the batches it comes in; a column's checksum is that of its streams'. So the same
messages have the same checksums out of a Parquet file and out of a broker.
"""

import zlib
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

#: What stands for a number that is absent; no time and no length has it.
_ABSENT: Final = -(2**31)


@dataclass(slots=True)
class Checksums:
    """The checksums of some rows, to which batches are added in order."""

    row_count: int = 0
    _streams: dict[str, list[int]] = field(default_factory=dict)

    def add(self, batch: pa.RecordBatch) -> None:
        """Take in the next rows."""
        self.row_count += batch.num_rows
        for name, array in zip(batch.schema.names, batch.columns, strict=True):
            known = self._streams.setdefault(name, [])
            for number, stream in enumerate(_streams(array)):
                if number == len(known):
                    known.append(0)
                known[number] = zlib.crc32(stream, known[number])

    def by_column(self) -> dict[str, str]:
        """Return each column's checksum, eight hexadecimal digits."""
        return {
            name: f"{zlib.crc32(np.array(crcs, np.uint32).tobytes()):08x}"
            for name, crcs in self._streams.items()
        }


def _streams(array: pa.Array) -> list[memoryview]:
    kind = array.type
    if pa.types.is_map(kind):
        offsets = array.offsets.to_numpy()
        lengths = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(offsets), _ABSENT)
        first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
        texts = [*_streams(array.keys.slice(first, count)), *_streams(array.items.slice(first, count))]
        return [lengths.astype(np.int32).view(np.uint8).data, *texts]
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        lengths = pc.fill_null(pc.binary_length(array), _ABSENT)
        filled = pc.fill_null(array, b"" if pa.types.is_binary(kind) else "") if array.null_count else array
        return [_numbers(lengths), _text(filled)]
    if pa.types.is_timestamp(kind):
        array = array.view(pa.int64())
    return [_numbers(pc.fill_null(array, _ABSENT) if array.null_count else array)]


def _numbers(array: pa.Array) -> memoryview:
    numbers: np.ndarray[tuple[int], np.dtype[np.int64]] = array.to_numpy(zero_copy_only=False)
    return np.ascontiguousarray(numbers).view(np.uint8).data


def _text(array: pa.Array) -> memoryview:
    _, offsets, text = array.buffers()
    if text is None or not len(array):
        return memoryview(b"")
    places = np.frombuffer(offsets, np.int32)[array.offset : array.offset + len(array) + 1]
    return memoryview(text)[int(places[0]) : int(places[-1])]
