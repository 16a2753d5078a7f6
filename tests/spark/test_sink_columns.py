"""What the columns of a written DataFrame become, and which cannot be written; without Spark."""

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
)
from sink_stage import batch_of, bodies, ids, messages_in, write
from spark_stage import make_topic

from pyromq.client.sync.staged import StagedPart
from pyromq.errors import ConfigError, MessageIllegal, Refused
from pyspark_rocketmq.sink import outlets
from pyspark_rocketmq.sink.outlets import WrittenPart
from pyspark_rocketmq.sink.rows import check_columns
from pyspark_rocketmq.sink.sink import batch_writer, stream_writer
from pyspark_rocketmq.sink.sink_options import read_sink_options

DELIVERIES = pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])


def publish(name_server: str, *parts: WrittenPart) -> None:
    outlets.publish(read_sink_options({"nameserver": name_server}), list(parts))


@DELIVERIES
def test_every_column_reaches_its_message(name_server: str, topic: str, delivery: str) -> None:
    rows = batch_of(
        body=["one", "two"],
        tags=["paid", None],
        keys=[["k1", "k2"], ["k3"]],
        properties=pa.array([[("area", "north")], None], pa.map_(pa.string(), pa.string())),
        msg_id=["MINE", None],
        message_group=["customer-7", None],
    )

    publish(name_server, write(rows, topic=topic, nameServer=name_server, delivery=delivery))

    first, second = sorted(messages_in(name_server, topic), key=lambda message: message.body)
    assert (first.body, first.tags, first.keys) == (b"one", "paid", ["k1", "k2"])
    assert first.properties["area"] == "north"
    assert first.properties["__SHARDINGKEY"] == "customer-7"
    assert first.message_id == "MINE"
    assert (second.body, second.tags, second.keys) == (b"two", None, ["k3"])
    assert len(second.message_id) == 32


def test_nested_values_may_be_declared_as_never_null(name_server: str, topic: str) -> None:
    key = pa.field("element", pa.string(), nullable=False)
    value = pa.field("value", pa.string(), nullable=False)
    rows = batch_of(
        body=["a"],
        keys=pa.array([["k1", "k2"]], pa.list_(key)),
        properties=pa.array([[("x", "1")]], pa.map_(pa.string(), value)),
    )

    publish(name_server, write(rows, topic=topic, nameServer=name_server))

    (message,) = messages_in(name_server, topic)
    assert (message.keys, message.properties["x"]) == (["k1", "k2"], "1")


def test_kafkas_names_of_columns_mean_the_same(name_server: str, topic: str) -> None:
    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    rows = batch_of(
        key=[b"k1"],
        value=[b"one"],
        headers=pa.array([[{"key": "area", "value": b"north"}]], pa.list_(header)),
        partition=pa.array([2], pa.int32()),
    )

    publish(name_server, write(rows, topic=topic, nameServer=name_server))

    (message,) = messages_in(name_server, topic)
    assert (message.body, message.keys, message.properties["area"]) == (b"one", ["k1"], "north")
    assert message.queue.queue_id == 2


@DELIVERIES
def test_a_column_says_the_topic_of_each_row(name_server: str, topic: str, delivery: str) -> None:
    rows = batch_of(body=["1", "2", "3"], topic=[f"{topic}-a", f"{topic}-b", f"{topic}-a"])

    publish(name_server, write(rows, nameServer=name_server, delivery=delivery))

    assert bodies(messages_in(name_server, f"{topic}-a")) == ["1", "3"]
    assert bodies(messages_in(name_server, f"{topic}-b")) == ["2"]


def test_the_option_stands_above_the_column_of_topics(name_server: str, topic: str) -> None:
    rows = batch_of(body=["1", "2"], topic=["elsewhere", None])

    publish(name_server, write(rows, topic=topic, nameServer=name_server))

    assert bodies(messages_in(name_server, topic)) == ["1", "2"]


@DELIVERIES
def test_a_group_stays_in_one_queue_and_in_order(name_server: str, topic: str, delivery: str) -> None:
    make_topic(name_server, topic, 4)
    rows = [
        batch_of(
            body=[str(1_000 * part + number) for number in range(400)],
            message_group=[f"g{number % 5}-ü" if number % 2 else f"g{number % 5}" for number in range(400)],
        )
        for part in range(3)
    ]

    publish(name_server, write(rows, topic=topic, nameServer=name_server, delivery=delivery))

    found = messages_in(name_server, topic)
    assert len(found) == 1_200
    for group in {message.properties["__SHARDINGKEY"] for message in found}:
        its = [message for message in found if message.properties["__SHARDINGKEY"] == group]
        numbers = [int(message.body) for message in sorted(its, key=lambda message: message.queue_offset)]
        assert len({message.queue for message in its}) == 1
        assert numbers == sorted(numbers)


@DELIVERIES
def test_rows_go_to_the_queue_that_they_name(name_server: str, topic: str, delivery: str) -> None:
    make_topic(name_server, topic, 4)
    rows = batch_of(body=["a", "b", "c"], queue_id=pa.array([3, 1, None], pa.int64()))

    publish(name_server, write(rows, topic=topic, nameServer=name_server, delivery=delivery))

    places = {message.body: message.queue.queue_id for message in messages_in(name_server, topic)}
    assert places[b"a"] == 3
    assert places[b"b"] == 1
    assert b"c" in places


@DELIVERIES
def test_a_row_waits_for_its_time(name_server: str, topic: str, delivery: str) -> None:
    far = datetime(2090, 1, 1, tzinfo=UTC)
    soon = datetime.now(UTC)
    rows = batch_of(
        body=["now", "past", "level", "short"],
        deliver_at=pa.array([None, soon, None, None], pa.timestamp("us", "UTC")),
        delay_ms=pa.array([None, None, None, 3_600_000], pa.int64()),
        delay_level=pa.array([0, None, 18, None], pa.int32()),
    )

    publish(name_server, write(rows, topic=topic, nameServer=name_server, delivery=delivery))

    assert bodies(messages_in(name_server, topic)) == ["now", "past"]
    with pytest.raises(Refused, match="max delay"):
        write(
            batch_of(body=["x"], deliver_at=pa.array([far], pa.timestamp("us", "UTC"))),
            topic=topic,
            nameServer=name_server,
            delivery=delivery,
        )


def test_properties_as_they_were_read_can_be_written_again(name_server: str, topic: str) -> None:
    read = [
        ("TAGS", "old"),
        ("KEYS", "k1"),
        ("UNIQ_KEY", "X"),
        ("CLUSTER", "c"),
        ("WAIT", "true"),
        ("mine", "1"),
    ]
    rows = batch_of(
        body=["a", "b"],
        tags=["new", None],
        properties=pa.array(
            [read, [*read, ("empty", ""), ("none", None)]], pa.map_(pa.string(), pa.string())
        ),
    )

    publish(name_server, write(rows, topic=topic, nameServer=name_server))

    first, second = sorted(messages_in(name_server, topic), key=lambda message: message.body)
    assert (first.tags, first.keys, first.properties["mine"]) == ("new", ["k1"], "1")
    assert (second.tags, second.keys) == ("old", ["k1"])
    assert first.message_id != "X"
    assert not {"empty", "none"} & second.properties.keys()


@DELIVERIES
def test_a_body_larger_than_a_chunk_is_written(name_server: str, topic: str, delivery: str) -> None:
    rows = batch_of(body=[b"x" * 3_000_000, b"y", b"z" * 1_100_000])

    publish(name_server, write(rows, topic=topic, nameServer=name_server, delivery=delivery))

    assert sorted(len(message.body) for message in messages_in(name_server, topic)) == [
        1,
        1_100_000,
        3_000_000,
    ]


def test_an_id_is_the_same_whenever_a_row_is_written_again(name_server: str, topic: str) -> None:
    rows = [batch_of(body=["a", "b"]), batch_of(body=["c"])]
    for _ in range(2):
        write(
            rows, query=topic, batch=7, part=3, topic=topic, nameServer=name_server, delivery="at-least-once"
        )

    found = ids(messages_in(name_server, topic))

    assert len(found) == 6
    assert len(set(found)) == 3


# What is refused


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ({"body": ["a", None]}, r"row 1 .* body is null: leave such rows out"),
        ({"body": ["a", ""]}, r"row 1 .* body is empty"),
        ({"body": ["a"], "tags": ["x\x01y"]}, r"row 0 .* tags has the characters 1 or 2"),
        ({"body": ["a"], "keys": [["x y"]]}, r"key 'x y' has a space"),
        ({"body": ["a"], "queue_id": [99]}, r"queue_id is 99, and topic .* has queues 0 to"),
        ({"body": ["a"], "delay_ms": [5], "delay_level": [1]}, r"delay_ms and delay_level are both set"),
        ({"body": ["a"], "delay_ms": [-5]}, r"delay_ms is -5"),
        ({"body": ["a"], "msg_id": ["x" * 40_000]}, r"properties have 40009 bytes; 32767 are the limit"),
    ],
)
def test_a_row_that_cannot_be_a_message_is_named(
    name_server: str, topic: str, rows: dict[str, Any], words: str
) -> None:
    with pytest.raises(MessageIllegal, match=words):
        write(batch_of(**rows), topic=topic, nameServer=name_server)


def test_a_row_without_a_topic_is_named(name_server: str) -> None:
    with pytest.raises(MessageIllegal, match=r"row 1 .* has no topic"):
        write(batch_of(body=["a", "b"], topic=["t", None]), nameServer=name_server)


def fields(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            fields(body=StringType(), price=IntegerType()),
            "takes no column 'price'; it takes body string or binary",
        ),
        (
            fields(tags=StringType()),
            r"needs a column body \(or value\), string or binary; the DataFrame has tags",
        ),
        (fields(body=IntegerType()), "'body' is int; it must be string or binary: cast it"),
        (fields(body=StringType(), value=StringType()), "'body' and 'value' mean the same"),
        (
            fields(body=BinaryType(), keys=ArrayType(IntegerType())),
            "'keys' is array<int>; it must be string or array",
        ),
        (
            fields(body=BinaryType(), headers=MapType(StringType(), IntegerType())),
            "'headers' is map<string,int>; it must be map<string,string>",
        ),
        (
            fields(body=BinaryType(), deliver_at=TimestampNTZType()),
            "'deliver_at' is timestamp_ntz; .* timestamp",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_refused_with_what_does(schema: StructType, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        check_columns(schema, topic="orders")


def test_a_topic_is_needed() -> None:
    with pytest.raises(ConfigError, match=r"set \.option\('topic', …\), or select a column topic"):
        check_columns(fields(body=StringType()), topic=None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, r"needs \.option\('nameServer'"),
        ({"nameserver": "a:1", "topc": "t"}, "no option 'topc'; did you mean 'topic'"),
        (
            {"nameserver": "a:1", "delivery": "twice"},
            "delivery is 'twice'; it can be 'exactly-once', 'at-least-once'",
        ),
        ({"nameserver": "a:1", "topic": "not a topic"}, "topic is 'not a topic'"),
        ({"nameserver": "a:1", "subscribe": "t"}, "no option 'subscribe'"),
        ({"nameserver": "a:1", "sendtimeoutms": "soon"}, "sendTimeoutMs is 'soon'"),
    ],
)
def test_an_option_that_does_not_read_is_named(options: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        read_sink_options(options)


def test_nothing_is_overwritten() -> None:
    schema = fields(body=StringType())
    options = {"nameserver": "a:1", "topic": "t"}

    with pytest.raises(ConfigError, match=r"cannot be replaced: write with \.mode\('append'\)"):
        batch_writer(options, schema, overwrite=True)
    with pytest.raises(ConfigError, match=r"cannot be replaced: use \.outputMode\('append'\)"):
        stream_writer(options, schema, overwrite=True)


def test_what_a_task_tells_the_driver_is_small(name_server: str, topic: str) -> None:
    written = write(batch_of(body=["a"] * 5_000), topic=topic, nameServer=name_server)

    assert isinstance(written.staged, StagedPart)
    assert written.row_count == written.staged.message_count == 5_000
