"""`make demo`: a cluster in this process, messages through it, and a Spark pipeline over the topic."""

import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from pyromq import Message, Producer, PullConsumer
from pyromq.testing.cluster import running_cluster

TOPIC = "orders"
ORDERS = 2_000
KINDS = ("paid", "shipped", "refunded")
console = Console()


def send(name_server: str) -> None:
    """Send the orders of a day, each with its key and tag."""
    dice = random.Random(7)
    with Producer("demo-producer", name_server) as producer:
        numbers = range(ORDERS)
        if console.is_terminal:
            numbers = track(numbers, description="sending", console=console, transient=True)
        for number in numbers:
            order = {"order": number, "amount": round(dice.uniform(5, 500), 2)}
            producer.send(
                Message(TOPIC, json.dumps(order).encode(), tags=dice.choice(KINDS), keys=[f"o{number}"])
            )


def consume(name_server: str) -> int:
    """Read every message back as a consumer group, and commit."""
    with PullConsumer("demo-consumer", name_server) as consumer:
        total = 0
        for queue in consumer.queues(TOPIC):
            at, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while at < end:
                found = consumer.pull(queue, at)
                total += len(found.messages)
                at = found.next_offset
            consumer.commit(queue, at)
        return total


def pipeline(name_server: str) -> Table:
    """Sum the orders of each kind with Spark, straight from the topic."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    from pyspark.sql import SparkSession, functions

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("pyromq demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    orders = spark.read.format("rocketmq").option("nameServer", name_server).option("subscribe", TOPIC).load()
    kinds = (
        orders.selectExpr("tags", "from_json(cast(body as string), 'order int, amount double') as o")
        .groupBy("tags")
        .agg(functions.count("o.order"), functions.sum("o.amount"))
        .orderBy("tags")
    )
    table = Table("kind", "orders", "amount", title="Spark: orders by kind")
    for kind, count, amount in kinds.collect():
        table.add_row(kind, str(count), f"{amount:,.2f}")
    spark.stop()
    return table


def main() -> int:
    """Tell what happens, step by step; return 0 when every message arrived."""
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="pyromq-demo-") as data,
        running_cluster(data_dir=Path(data)) as cluster,
    ):
        console.print(f"cluster   name server and broker up in {time.perf_counter() - started:.2f} s")
        sending = time.perf_counter()
        send(cluster.namesrv_address)
        console.print(f"producer  {ORDERS:,} messages acknowledged in {time.perf_counter() - sending:.2f} s")
        received = consume(cluster.namesrv_address)
        console.print(f"consumer  {received:,} messages read back and committed")
        console.print("spark     starting a session; this takes some seconds")
        console.print(pipeline(cluster.namesrv_address))
    if received != ORDERS:
        console.print(f"[red]{ORDERS} messages were sent and {received} came back")
        return 1
    console.print("done      every message was sent, stored, read back and counted by Spark")
    return 0


if __name__ == "__main__":
    sys.exit(main())
