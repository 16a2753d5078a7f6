"""The half of the data source that is written to: who writes a DataFrame, and who a streaming query."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyspark_rocketmq.sink_options import read_sink_options
from pyspark_rocketmq.write_batch import TopicWriter
from pyspark_rocketmq.write_stream import TopicStreamWriter

_NOT_REPLACED = "a topic is a log, and what is in it cannot be replaced"


class TopicSink(DataSource):
    """Appends rows to topics."""

    def writer(self, schema: StructType, overwrite: bool) -> TopicWriter:  # noqa: FBT001  Spark's signature
        """Return who appends a DataFrame."""
        if overwrite:
            raise ConfigError(f"{_NOT_REPLACED}: write with .mode('append')")
        return TopicWriter(read_sink_options(self.options), schema)

    def streamWriter(  # noqa: N802  Spark's name
        self,
        schema: StructType,
        overwrite: bool,  # noqa: FBT001  Spark's signature
    ) -> TopicStreamWriter:
        """Return who appends a streaming query's batches."""
        if overwrite:
            raise ConfigError(f"{_NOT_REPLACED}: use .outputMode('append'), or 'update'")
        return TopicStreamWriter(read_sink_options(self.options), schema)
