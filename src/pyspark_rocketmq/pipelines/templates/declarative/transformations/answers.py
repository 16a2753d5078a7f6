"""A sink: each order that is worth a look goes back to a topic, exactly once."""

import os

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()

dp.create_sink(
    "big_orders",
    "rocketmq",
    {"nameServer": os.environ.get("NAMESRV_ADDR", "127.0.0.1:9876"), "topic": "big-orders"},
)


@dp.append_flow(target="big_orders")
def big_orders_flow() -> DataFrame:
    """Pick them from the table, so that the topic is read once only."""
    return (
        spark.readStream.table("orders_bronze")
        .where("CAST(get_json_object(body, '$.amount') AS DOUBLE) >= 100")
        .select("body", "keys", "tags")
    )
