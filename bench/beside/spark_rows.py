"""Rows that cost nothing to get, and a sink that does nothing with them: what Spark itself takes.

`format("prebuilt")` yields the same rows again and again, made beforehand: as Arrow batches, or as tuples
with the option `tuples`. Written to, it takes Arrow batches and drops them.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType


class Prebuilt(DataSource):
    """`option("file", …)` is an Arrow file with one batch, and `rows` says how many rows there are."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "prebuilt"

    def reader(self, schema: StructType) -> "PrebuiltReader":
        """Return who yields the columns asked for."""
        options = self.options
        return PrebuiltReader(
            options["file"], schema.names, int(options["rows"]), int(options["tasks"]), "tuples" in options
        )

    def writer(self, schema: StructType, overwrite: bool) -> "Dropping":  # noqa: FBT001  Spark's signature
        """Return who drops what it gets."""
        return Dropping()


class PrebuiltReader(DataSourceReader):
    """Yields rows."""

    def __init__(self, file: str, names: list[str], rows: int, tasks: int, is_tuples: bool) -> None:  # noqa: FBT001
        self._file, self._names, self._rows, self._tasks, self._is_tuples = (
            file,
            names,
            rows,
            tasks,
            is_tuples,
        )

    def partitions(self) -> list[InputPartition]:
        """Return as many as tasks."""
        return [InputPartition(self._rows // self._tasks) for _ in range(self._tasks)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Yield the batch, or its rows, until there are enough."""
        batch = _batch(self._file).select(self._names)
        tuples = (
            list(zip(*(_values(column) for column in batch.columns), strict=True)) if self._is_tuples else []
        )
        left: int = partition.value
        while left > 0:
            count = min(left, batch.num_rows)
            if self._is_tuples:
                yield from tuples[:count]
            else:
                yield batch if count == batch.num_rows else batch.slice(0, count)
            left -= count


def _values(column: pa.Array) -> list[Any]:
    values = column.to_pylist()
    return [dict(value) for value in values] if pa.types.is_map(column.type) else values


@cache
def _batch(file: str) -> pa.RecordBatch:
    with pa.OSFile(file) as source:
        return pa.ipc.open_file(source).get_batch(0)


class Dropping(DataSourceArrowWriter):
    """Takes rows and drops them."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Take all batches."""
        for _ in iterator:
            pass
        return WriterCommitMessage()


def register(spark: SparkSession) -> None:
    """Make it known; workers import this module too."""
    spark.dataSource.register(Prebuilt)
