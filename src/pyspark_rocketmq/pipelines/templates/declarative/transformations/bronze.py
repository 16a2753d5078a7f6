"""Bronze: the orders as they came, one row a message, kept for good."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()


@dp.table(comment="Messages of the topic orders")
def orders_bronze() -> DataFrame:
    """Read what is new in the topic; Spark knows how far it is."""
    return (
        spark.readStream.format("rocketmq")
        .option("nameServer", os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"))
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .option("groupId", "@NAME@")
        .load()
        .selectExpr(
            "keys", "tags", "CAST(body AS STRING) AS body", "store_timestamp", "queue_id", "queue_offset"
        )
    )
