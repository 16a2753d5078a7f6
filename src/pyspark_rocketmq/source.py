"""The data source itself: its name, its columns, and who reads it."""

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from pyspark_rocketmq.batch import TopicReader
from pyspark_rocketmq.columns import SCHEMA
from pyspark_rocketmq.options import read_options


class RocketMQSource(DataSource):
    """`format("rocketmq")`: a topic as a table."""

    @classmethod
    def name(cls) -> str:
        """Return the name that `format` takes."""
        return "rocketmq"

    def schema(self) -> str:
        """Return all columns, for a read that named none."""
        return SCHEMA

    def reader(self, schema: StructType) -> TopicReader:
        """Return the batch reader for the columns asked for."""
        return TopicReader(read_options(self.options), schema)
