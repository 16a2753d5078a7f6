"""`make demo`: a cluster in this process, orders through it, and Spark, which sums them by minute."""

import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from pyromq import Admin, Message, Producer, PullConsumer
from pyromq.testing.cluster import running_cluster
from pyspark_rocketmq.java import JavaMissing, check_java, install_command
from pyspark_rocketmq.pipelines.document import Findings
from pyspark_rocketmq.pipelines.running import start_pipeline
from pyspark_rocketmq.pipelines.session_log import quiet_session
from pyspark_rocketmq.pipelines.spec import read_pipeline
from pyspark_rocketmq.session import SparkPlace

TOPIC, ANSWERS = "orders", "orders-per-minute"
ORDERS = 2_000
OPENED = datetime(2026, 11, 16, 10, 0, tzinfo=UTC)
MINUTES = 5
KINDS = ("paid", "shipped", "refunded")
PIPELINE = Path(__file__).with_name("orders-per-minute.yml")
console = Console()

#: Orders and cents of each minute.
Sums = dict[datetime, tuple[int, int]]


def need_java() -> None:
    """Install Java where that may be done without asking; else say how, before anything starts."""
    try:
        check_java()
    except JavaMissing as error:
        command = install_command()
        may = not command.startswith(("sudo", "see")) or (
            command.startswith("sudo")
            and shutil.which("sudo") is not None
            and subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
        )
        if not may:
            raise
        console.print(f"java      {str(error).splitlines()[0]}; running it: {command}")
        subprocess.run(command.split(), check=False)
        check_java()


def orders() -> Iterator[tuple[datetime, int]]:
    """Yield when each order was made and its cents; the last is hours later and closes all minutes."""
    dice = random.Random(7)
    for number in range(ORDERS - 1):
        at = OPENED + timedelta(seconds=number * MINUTES * 60 // ORDERS)
        yield at, dice.randrange(500, 50_000)
    yield OPENED + timedelta(hours=8), 100


def send(name_server: str) -> Sums:
    """Send the orders of a day, each with its key and tag; return the sums that are to come out."""
    dice = random.Random(7)
    sums: Sums = {}
    with Producer("demo-producer", name_server) as producer:
        made = enumerate(orders())
        if console.is_terminal:
            made = track(made, total=ORDERS, description="sending", console=console, transient=True)
        for number, (at, cents) in made:
            body = json.dumps({"order": number, "at": at.isoformat(), "cents": cents}).encode()
            producer.send(Message(TOPIC, body, tags=dice.choice(KINDS), keys=[f"o{number}"]))
            minute = at.replace(second=0)
            count, total = sums.get(minute, (0, 0))
            sums[minute] = (count + 1, total + cents)
    # The last order's minute is still open.
    sums.pop(max(sums))
    return sums


def consume(name_server: str, topic: str) -> list[bytes]:
    """Read every message of a topic as a consumer group, commit, and return the bodies."""
    with PullConsumer("demo-consumer", name_server) as consumer:
        bodies = []
        for queue in consumer.queues(topic):
            at, end = consumer.min_offset(queue), consumer.max_offset(queue)
            while at < end:
                found = consumer.pull(queue, at)
                bodies += [message.body for message in found.messages]
                at = found.next_offset
            consumer.commit(queue, at)
        return bodies


def run_pipeline(name_server: str, folder: Path) -> Sums:
    """Run the pipeline over all that is there, and return what it wrote to Parquet."""
    variables = {"NAMESRV_ADDR": name_server, "DEMO_FOLDER": str(folder)}
    pipeline = read_pipeline(PIPELINE, variables, Findings())
    assert pipeline is not None
    with quiet_session("pyromq demo", SparkPlace(master="local[2]"), folder / "spark.log") as spark:
        rows: Counter[str] = Counter()
        for done in start_pipeline(spark, pipeline, is_once=True).watch():
            rows[done.sink] += done.rows
        console.print(f"pipeline  {rows['answers']:,} orders to a topic, {rows['table']:,} to Parquet")
        written = spark.read.parquet(str(folder / ANSWERS)).collect()
        return {row.minute.astimezone(UTC): (row.orders, row.cents) for row in written}


def answered(name_server: str) -> Sums:
    """Return what the pipeline wrote to the topic."""
    told = [json.loads(body) for body in consume(name_server, ANSWERS)]
    return {datetime.fromisoformat(one["minute"]): (one["orders"], one["cents"]) for one in told}


def table_of(sums: Sums) -> Table:
    """Return the sums for people."""
    table = Table("minute", "orders", "amount", title="Spark: orders per minute")
    for minute, (count, cents) in sorted(sums.items()):
        table.add_row(f"{minute:%H:%M}", str(count), f"{cents / 100:,.2f}")
    return table


def main() -> int:
    """Tell what happens, step by step; return 0 when every number is the one that was sent."""
    need_java()
    started = time.perf_counter()
    with (
        tempfile.TemporaryDirectory(prefix="pyromq-demo-") as data,
        running_cluster(data_dir=Path(data) / "broker") as cluster,
    ):
        name_server = cluster.namesrv_address
        console.print(f"cluster   name server and broker up in {time.perf_counter() - started:.2f} s")
        sending = time.perf_counter()
        expected = send(name_server)
        console.print(f"producer  {ORDERS:,} messages acknowledged in {time.perf_counter() - sending:.2f} s")
        received = len(consume(name_server, TOPIC))
        console.print(f"consumer  {received:,} messages read back and committed")
        console.print("spark     starting a session; this takes some seconds")
        with Admin(name_server) as admin:
            admin.create_topic(ANSWERS)
        written = run_pipeline(name_server, Path(data) / "pipeline")
        console.print(table_of(written))
        told = answered(name_server)
    for name, found in {"Parquet": written, "the answer topic": told}.items():
        if found != expected:
            console.print(f"[red]{name} has {found}, and what was sent comes to {expected}")
            return 1
    if received != ORDERS:
        console.print(f"[red]{ORDERS} messages were sent and {received} came back")
        return 1
    console.print(
        "done      every message was read back, and topic and Parquet have the sums of what was sent"
    )
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except JavaMissing as missing:
        console.print(str(missing))
        sys.exit(1)
