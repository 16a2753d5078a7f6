"""The data source itself: its name, its columns, who reads it and who writes to it.

Spark imports this module to find the source, in a Python that may lack what reading needs; so that is
imported when it is used, and its absence explained.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_rocketmq.plain_errors import plain_errors

if TYPE_CHECKING:
    from pyspark_rocketmq.sink.write_batch import TopicWriter
    from pyspark_rocketmq.sink.write_stream import TopicStreamWriter
    from pyspark_rocketmq.source.batch_read import TopicReader
    from pyspark_rocketmq.source.stream import TopicStream


@plain_errors("schema", "reader", "streamReader", "writer", "streamWriter")
class RocketMQSource(DataSource):
    """`format("rocketmq")`: a topic as a table."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "rocketmq"

    def schema(self) -> StructType:
        """Return all columns, for a read that named none."""
        with explained_imports():
            from pyspark_rocketmq.source.columns import table_schema
            from pyspark_rocketmq.source.source_options import read_column_set

        columns, with_properties = read_column_set(self.options)
        return table_schema(columns, with_properties=with_properties)

    def reader(self, schema: StructType) -> "TopicReader":
        """Return the batch reader for the columns asked for."""
        with explained_imports():
            from pyspark_rocketmq.source.batch_read import TopicReader
            from pyspark_rocketmq.source.columns import choose_columns
            from pyspark_rocketmq.source.source_options import read_batch_options, read_column_set

        options = read_batch_options(self.options)
        return TopicReader(options, choose_columns(schema, read_column_set(self.options)[0]))

    def streamReader(self, schema: StructType) -> "TopicStream":  # noqa: N802  Spark's name
        """Return the stream reader for the columns asked for."""
        with explained_imports():
            from pyspark_rocketmq.source.columns import choose_columns
            from pyspark_rocketmq.source.source_options import read_column_set, read_stream_options
            from pyspark_rocketmq.source.stream import TopicStream

        options = read_stream_options(self.options)
        return TopicStream(options, choose_columns(schema, read_column_set(self.options)[0]))

    def writer(self, schema: StructType, overwrite: bool) -> "TopicWriter":  # noqa: FBT001  Spark's signature
        """Return who appends a DataFrame to topics."""
        with explained_imports():
            from pyspark_rocketmq.sink.sink import batch_writer

        return batch_writer(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802  Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001  Spark's signature
    ) -> "TopicStreamWriter":
        """Return who appends a streaming query's batches to topics."""
        with explained_imports():
            from pyspark_rocketmq.sink.sink import stream_writer

        return stream_writer(self.options, schema, overwrite=overwrite)


@contextmanager
def explained_imports() -> Iterator[None]:
    """Say which Python lacks a package, and how to use another."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"format('rocketmq') needs {error.name}, which {sys.executable} does not have. Spark's workers "
            "run the Python of PYSPARK_PYTHON, or else python3, and not the one that started Spark: set "
            "PYSPARK_PYTHON to a Python with the packages (os.environ['PYSPARK_PYTHON'] = sys.executable "
            f"before the session is made), or run {sys.executable} -m pip install 'pyromq[spark]'",
            name=error.name,
        ) from error
