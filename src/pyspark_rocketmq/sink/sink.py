"""The writers of a DataFrame and of a streaming query to topics."""

from collections.abc import Mapping

from pyspark.sql.types import StructType

from pyromq.errors import ConfigError
from pyspark_rocketmq.sink.sink_options import read_sink_options
from pyspark_rocketmq.sink.write_batch import TopicWriter
from pyspark_rocketmq.sink.write_stream import TopicStreamWriter

_NOT_REPLACED = "a topic is a log, and what is in it cannot be replaced"


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TopicWriter:
    """Return who appends a DataFrame; raise ConfigError for what cannot be written, or not so."""
    if overwrite:
        raise ConfigError(f"{_NOT_REPLACED}: write with .mode('append')")
    return TopicWriter(read_sink_options(options), schema)


def stream_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TopicStreamWriter:
    """Return who appends a streaming query's batches; raise ConfigError as `batch_writer` does."""
    if overwrite:
        raise ConfigError(f"{_NOT_REPLACED}: use .outputMode('append')")
    return TopicStreamWriter(read_sink_options(options), schema)
