"""Mirror: the messages of topics copied to another cluster as they come, by a streaming query.

A copy has the body, the properties and the id of its message, and is in the queue of the same number. The
source's checkpoint and the sink's staged batches make each of them come once, over any restart.

Two clusters may mirror each other: a copy's property MIRRORED_FROM names the clusters it was in, and a
message is not copied to a cluster that is named there.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from pyromq.client.sync.admin import Admin
from pyromq.errors import ConfigError, NoRoute, TopicNotFound
from pyspark_rocketmq.given import given_options
from pyspark_rocketmq.jobs.job_runs import JobFailed, JobProgress, Watch, failed
from pyspark_rocketmq.sink.sink_options import NAMES as SINK_NAMES
from pyspark_rocketmq.source.source_options import NAMES as SOURCE_NAMES
from pyspark_rocketmq.source.source_options import read_connection

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

MIRRORED_FROM: Final = "MIRRORED_FROM"
_SCHEMA: Final = "topic string, queue_id int, msg_id string, body binary, properties map<string,string>"
#: What a cluster is called when nobody gave it a name, so that most are.
_UNNAMED: Final = "DefaultCluster"
#: Seconds between two looks at a query.
LOOK_S: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorOrder:
    """The order to mirror: `source` and `target` are options of `format("rocketmq")`.

    Names of clusters that are not given are found. With `is_once` it ends when all that is there is copied.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    topics: tuple[str, ...]
    checkpoint: str
    source_name: str | None = None
    target_name: str | None = None
    is_once: bool = False


@dataclass(frozen=True, slots=True)
class Mirrored:
    """The result of a run."""

    row_count: int
    source_name: str
    target_name: str
    is_stopped: bool


def mirror(spark: "SparkSession", order: MirrorOrder, watch: Watch) -> Mirrored:
    """Copy until all is copied, or until it is stopped; raise JobFailed when the query fails."""
    source_name, target_name = prepare(order)
    try:
        stream = spark.readStream.format("rocketmq").options(**order.source)
        stream = stream.option("subscribe", ",".join(order.topics)).schema(_SCHEMA)
        copies = copied(stream.load(), source_name, target_name)
        writer = copies.writeStream.format("rocketmq").options(**order.target)
        writer = writer.option("checkpointLocation", order.checkpoint).queryName("mirror")
        writer = (
            writer.trigger(availableNow=True) if order.is_once else writer.trigger(processingTime="0 seconds")
        )
        rows = _follow(writer.start(), watch)
    except PySparkException as error:
        raise failed(error) from error
    return Mirrored(rows, source_name, target_name, watch.is_stopped)


def copied(messages: "DataFrame", source_name: str, target_name: str) -> "DataFrame":
    """Return what is sent: messages that were not in the target before, with where they come from."""
    been = sql.coalesce(sql.col("properties").getItem(MIRRORED_FROM), sql.lit(""))
    names = sql.split(been, " ")
    path = sql.trim(sql.concat_ws(" ", been, sql.lit(source_name)))
    return messages.where(~sql.array_contains(names, target_name)).select(
        "topic",
        "queue_id",
        "msg_id",
        "body",
        with_property("properties", MIRRORED_FROM, path).alias("properties"),
    )


def with_property(column: str, name: str, value: "Column") -> "Column":
    """Return a map of properties with one pair set."""
    others = sql.map_filter(sql.col(column), lambda key, _: key != name)
    return sql.map_concat(others, sql.create_map(sql.lit(name), value))


def prepare(order: MirrorOrder) -> tuple[str, str]:
    """Return the names of both clusters, and see to it that the target has every topic with enough queues."""
    with _admin(order.source, SOURCE_NAMES) as source, _admin(order.target, SINK_NAMES) as target:
        source_name = order.source_name or cluster_name(source)
        target_name = order.target_name or cluster_name(target)
        if source_name == target_name:
            raise ConfigError(
                f"both clusters are called {source_name!r}: a topic is not mirrored into itself. If they are "
                "two, give them names with --source-name and --target-name"
            )
        for name in (source_name, target_name):
            if not name or " " in name:
                raise ConfigError(f"a cluster's name has no space, and {name!r} has")
        for topic in order.topics:
            _prepare_topic(source, target, topic)
    return source_name, target_name


def _admin(options: Mapping[str, str], names: Mapping[str, tuple[str, ...]]) -> Admin:
    connection = read_connection(given_options(options, names))
    return Admin(connection.name_server, connection.settings())


def cluster_name(admin: Admin) -> str:
    """Return a name that tells a cluster from others: its own; the usual one with a broker's address."""
    table = admin.cluster()
    names = sorted(table.cluster_addr_table)
    if names != [_UNNAMED]:
        return "+".join(names).replace(" ", "-")
    first = min(table.broker_addr_table)
    addresses = table.broker_addr_table[first].broker_addrs
    return f"{_UNNAMED}@{addresses[min(addresses)]}"


def _prepare_topic(source: Admin, target: Admin, topic: str) -> None:
    there = queue_count(source, topic)
    if there is None:
        raise ConfigError(
            f"topic {topic!r} does not exist in the cluster that is mirrored; is the name right?"
        )
    here = queue_count(target, topic)
    if here is None:
        target.create_topic(topic, there)
    elif here < there:
        raise ConfigError(
            f"topic {topic!r} has {there} queues in the one cluster and {here} in the other; messages stay "
            f"in the queue of their number: pyromq.Admin(...).create_topic({topic!r}, {there}) adds queues"
        )


def queue_count(admin: Admin, topic: str) -> int | None:
    """Return how many queues each broker has of a topic, the most that one has; None without the topic."""
    try:
        route = admin.route(topic)
    except (TopicNotFound, NoRoute):
        return None
    return max((queues.write_queue_nums for queues in route.queue_datas), default=None)


def _follow(query: "StreamingQuery", watch: Watch) -> int:
    """Wait for a query's end, or the wish to stop; return how many rows it had."""
    rows: dict[int, int] = {}
    while not query.awaitTermination(LOOK_S):
        _look(query, rows, watch)
        if watch.is_stopped:
            # What is under way is repeated by the next run, under the same number, and so comes once.
            query.stop()
            break
    _look(query, rows, watch)
    error = query.exception()
    if error is not None and not watch.is_stopped:
        raise failed(error) if isinstance(error, PySparkException) else JobFailed(str(error))
    return sum(rows.values())


def _look(query: "StreamingQuery", rows: dict[int, int], watch: Watch) -> None:
    left: int | None = None
    for progress in query.recentProgress:
        rows[progress["batchId"]] = progress["numInputRows"] or 0
        left = lag(progress)
    watch.tell(JobProgress(sum(rows.values()), left))


def lag(progress: Any) -> int | None:
    """Return how many messages of a query's source are behind what it has read, by its own report."""
    sources = progress["sources"]
    if not sources:
        return None
    ends, latest = (_offsets(sources[0][name]) for name in ("endOffset", "latestOffset"))
    if ends is None or latest is None:
        return None
    return sum(max(at - ends.get(queue, 0), 0) for queue, at in latest.items())


def _offsets(text: Any) -> dict[str, int] | None:
    """Return the offsets of a report, which is JSON in a text, or what it was parsed to."""
    table = json.loads(text) if isinstance(text, str) else text
    return table.get("q") if isinstance(table, dict) else None
