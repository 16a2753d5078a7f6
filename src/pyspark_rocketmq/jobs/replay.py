"""Replay: messages of an archive, or dead letters, sent to a topic again; those that a condition chooses.

First one look at all of them counts what the condition chooses, stretch by stretch. That makes the plan, and
is all that a dry run does. Then each round is read again, and written as one transaction of the sink.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as sql

from pyromq.client.dead_letter import REPLAYED_FROM
from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.wire.properties import RETRY_TOPIC
from pyspark_rocketmq.jobs.job_runs import JobProgress, Watch, failed
from pyspark_rocketmq.jobs.mirror import with_property
from pyspark_rocketmq.jobs.replay_plan import Block, ReplayPlan, ReplayRound, ReplayState, make_rounds
from pyspark_rocketmq.source.planning import QueueRange

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

#: Messages of a round without a rate.
ROUND_MESSAGES: Final = 500_000
#: Offsets that are counted together.
BLOCK: Final = 10_000
#: Seconds of a rate that a round has; messages of a round come out together.
ROUND_S: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayOrder:
    """The order to replay: `source` and `target` are options of `format("rocketmq")`.

    Without a `topic` each message goes to the one it was first sent to. `queue_count` is how many queues the
    target has: a message goes to the one of its number, and without it to any. `rate` is messages a second.
    """

    source: Mapping[str, str]
    target: Mapping[str, str]
    where: str | None = None
    topic: str | None = None
    queue_count: int | None = None
    rate: float | None = None

    @property
    def words(self) -> str:
        """The order in words, the same for the same order: without secrets, and times like "7 days ago"."""
        hidden = {"accessKey", "secretKey", "securityToken", "startingTimestamp", "endingTimestamp"}
        parts = [f"{key}={value}" for key, value in sorted(self.source.items()) if key not in hidden]
        return (
            f"{' '.join(parts)} where {self.where or 'true'} to {self.topic or 'their topics'} at "
            f"{self.target['nameServer']}"
        )


@dataclass(frozen=True, slots=True)
class Replayed:
    """The result of a run: of `total` messages `row_count` now, `before` by earlier runs of the plan."""

    total: int
    row_count: int
    before: int
    by_topic: Mapping[str, int]

    @property
    def left(self) -> int:
        """The number of messages that are still to come."""
        return self.total - self.row_count - self.before


def count(spark: "SparkSession", order: ReplayOrder) -> Replayed:
    """Return what a replay would do; nothing is written."""
    blocks, topics = _blocks(spark, order)
    return Replayed(sum(block.row_count for block in blocks), 0, 0, topics)


def replay(spark: "SparkSession", order: ReplayOrder, state: ReplayState, watch: Watch) -> Replayed:
    """Replay, or go on with a replay that was stopped; raise JobFailed when Spark gives up."""
    plan = state.load()
    if plan is not None and plan.order != order.words:
        raise ConfigError(f"the state is that of another replay: {plan.order}; give --state another folder")
    if plan is None:
        blocks, _ = _blocks(spark, order)
        plan = state.begin(order.words, make_rounds(blocks, _round_rows(order)))
    before = sum(one.row_count for one in plan.rounds[: state.done_count])
    done = before
    pace = _Pace(order.rate)
    watch.tell(JobProgress(done, plan.row_count - done))
    for number in range(state.done_count, len(plan.rounds)):
        if watch.is_stopped:
            break
        one = plan.rounds[number]
        _write(spark, order, plan, number)
        state.note_done(number)
        done += one.row_count
        watch.tell(JobProgress(done, plan.row_count - done))
        if number + 1 < len(plan.rounds):
            pace.wait(one.row_count, watch.stop.wait)
    return Replayed(plan.row_count, done - before, before, {})


def _round_rows(order: ReplayOrder) -> int:
    return ROUND_MESSAGES if order.rate is None else max(int(order.rate * ROUND_S), 1)


def _blocks(spark: "SparkSession", order: ReplayOrder) -> tuple[list[Block], dict[str, int]]:
    """Count what is wanted, stretch by stretch; and by the topic that it goes to."""
    length = min(BLOCK, _round_rows(order))
    place: list[Column | str] = [
        "topic",
        "broker",
        "queue_id",
        sql.floor(sql.col("queue_offset") / length).alias("block"),
    ]
    try:
        messages = _chosen(spark.read.format("rocketmq").options(**order.source).load(), order.where)
        rows = (
            messages.withColumn("to", _topic(order))
            .groupBy(*place, sql.col("to"))
            .agg(
                sql.count("*").alias("rows"),
                sql.min("queue_offset").alias("first"),
                sql.max("queue_offset").alias("last"),
            )
            .collect()
        )
    except PySparkException as error:
        raise failed(error) from error
    blocks: dict[tuple[MessageQueue, int], Block] = {}
    topics: dict[str, int] = {}
    for row in rows:
        topics[row.to] = topics.get(row.to, 0) + row.rows
        queue = MessageQueue(row.topic, row.broker, row.queue_id)
        block = Block(QueueRange(queue, row.first, row.last + 1), row.rows)
        known = blocks.get((queue, row.block))
        blocks[queue, row.block] = block if known is None else _joined(known, block)
    return list(blocks.values()), topics


def _joined(one: Block, other: Block) -> Block:
    start, end = min(one.range.start, other.range.start), max(one.range.end, other.range.end)
    return Block(QueueRange(one.range.queue, start, end), one.row_count + other.row_count)


def _write(spark: "SparkSession", order: ReplayOrder, plan: ReplayPlan, number: int) -> None:
    one = plan.rounds[number]
    try:
        messages = spark.read.format("rocketmq").options(**_narrowed(order.source, one)).load()
        again(_chosen(messages, order.where), order).write.format("rocketmq").options(**order.target).option(
            "txnAppId", plan.id
        ).option("txnVersion", str(number)).mode("append").save()
    except PySparkException as error:
        raise failed(error) from error


def _narrowed(source: Mapping[str, str], one: ReplayRound) -> dict[str, str]:
    """Return the options of a read of just a round's ranges."""
    replaced = ("subscribe", "dlq", "startingTimestamp", "endingTimestamp")
    kept = {name: value for name, value in source.items() if name not in replaced}
    return {
        **kept,
        "assign": one.queues,
        "startingOffsets": one.start_offsets,
        "endingOffsets": one.end_offsets,
    }


def _chosen(messages: "DataFrame", where: str | None) -> "DataFrame":
    return messages if where is None else messages.where(where)


def _topic(order: ReplayOrder) -> "Column":
    if order.topic is not None:
        return sql.lit(order.topic)
    # A dead letter says which topic it was sent to.
    return sql.coalesce(sql.col("properties").getItem(RETRY_TOPIC), sql.col("topic"))


def again(messages: "DataFrame", order: ReplayOrder) -> "DataFrame":
    """Return messages as they are sent again: the same, with where they were replayed from."""
    origin = sql.concat_ws("/", "topic", "broker", "queue_id", "queue_offset")
    path = sql.concat_ws(" ", sql.col("properties").getItem(REPLAYED_FROM), origin)
    columns = [
        _topic(order).alias("topic"),
        sql.col("msg_id"),
        sql.col("body"),
        with_property("properties", REPLAYED_FROM, path).alias("properties"),
    ]
    if order.queue_count is not None:
        columns.append(sql.pmod("queue_id", sql.lit(order.queue_count)).cast("int").alias("queue_id"))
    return messages.select(*columns)


class _Pace:
    """Keeps rounds apart, so that no more than so many messages a second go out."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._due_at = time.monotonic()

    def wait(self, rows: int, pause: Callable[[float], bool]) -> None:
        """Wait until the next round may go out, behind one with so many rows."""
        if self._rate is None:
            return
        self._due_at = max(self._due_at, time.monotonic() - ROUND_S) + rows / self._rate
        left = self._due_at - time.monotonic()
        if left > 0:
            pause(left)
