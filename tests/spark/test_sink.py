"""DataFrames and streaming queries written to topics, by a real Spark."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from sink_stage import bodies, ids, messages_in
from spark_stage import make_topic


def test_a_dataframe_is_appended_with_all_its_columns(
    spark: SparkSession, name_server: str, topic: str
) -> None:
    rows = spark.range(0, 3_000, 1, 3).selectExpr(
        "concat('row ', id) AS body",
        "if(id % 2 = 0, 'even', null) AS tags",
        "array(concat('k', id), 'all') AS keys",
        "map('square', cast(id * id AS string)) AS properties",
        "concat('g', id % 10) AS message_group",
        "cast(null AS timestamp) AS deliver_at",
    )

    rows.write.format("rocketmq").option("createTopics", "true").option("nameServer", name_server).option(
        "topic", topic
    ).mode("append").save()

    found = messages_in(name_server, topic)
    assert bodies(found) == sorted(f"row {number}" for number in range(3_000))
    assert len(set(ids(found))) == 3_000
    for message in found:
        number = int(message.body.split()[1])
        assert message.tags == ("even" if number % 2 == 0 else None)
        assert message.keys == [f"k{number}", "all"]
        assert message.properties["square"] == str(number * number)
        assert message.properties["__SHARDINGKEY"] == f"g{number % 10}"


def test_two_writes_of_one_dataframe_are_two(spark: SparkSession, name_server: str, topic: str) -> None:
    rows = spark.createDataFrame([("a",), ("b",)], "value string")
    writing = (
        rows.write.format("rocketmq")
        .option("createTopics", "true")
        .option("nameServer", name_server)
        .option("topic", topic)
        .mode("append")
    )

    writing.save()
    writing.option("delivery", "at-least-once").save()

    found = messages_in(name_server, topic)
    assert bodies(found) == ["a", "a", "b", "b"]
    assert len(set(ids(found))) == 4


def test_a_topic_is_streamed_into_another(
    spark: SparkSession, name_server: str, topic: str, checkpoint: str
) -> None:
    first, second = f"{topic}-first", f"{topic}-second"
    numbers = spark.range(500).selectExpr("cast(id AS string) AS body", "concat('k', id) AS keys")
    numbers.write.format("rocketmq").option("createTopics", "true").option("nameServer", name_server).option(
        "topic", first
    ).mode("append").save()
    make_topic(name_server, second, 2)

    for _ in range(2):
        read = (
            spark.readStream.format("rocketmq").option("nameServer", name_server).option("subscribe", first)
        )
        rows = read.option("startingOffsets", "earliest").option("maxMessagesPerTrigger", "200").load()
        writing = (
            rows.where("cast(body AS string) != '7'")
            .select("body", "keys", "properties", "msg_id")
            .writeStream
        )
        writing = writing.format("rocketmq").option("nameServer", name_server).option("topic", second)
        writing.option("checkpointLocation", checkpoint).trigger(availableNow=True).start().awaitTermination()

    before, after = messages_in(name_server, first), messages_in(name_server, second)
    assert bodies(after) == sorted(str(number) for number in range(500) if number != 7)
    assert set(ids(after)) == {message.message_id for message in before if message.body != b"7"}
    assert all(message.keys == [f"k{message.body.decode()}"] for message in after)


def test_what_cannot_be_written_is_said_before_anything_is(
    spark: SparkSession, name_server: str, topic: str, checkpoint: str
) -> None:
    make_topic(name_server, topic, 2)
    rows = spark.createDataFrame([("a", 1)], "body string, price int")
    writing = (
        rows.write.format("rocketmq")
        .option("createTopics", "true")
        .option("nameServer", name_server)
        .option("topic", topic)
    )
    counts = (
        spark.readStream.format("rate")
        .load()
        .groupBy("value")
        .count()
        .selectExpr("cast(count AS string) body")
    )

    with pytest.raises(
        PySparkException, match="a topic takes no column 'price'; it takes body string or binary"
    ):
        writing.mode("append").save()
    with pytest.raises(PySparkException, match=r"cannot be replaced: write with \.mode\('append'\)"):
        writing.mode("overwrite").save()
    with pytest.raises(PySparkException, match="no option 'tpic'; did you mean 'topic'"):
        writing.option("tpic", topic).mode("append").save()
    with pytest.raises(PySparkException, match=r"cannot be replaced: use \.outputMode\('append'\)"):
        counts.writeStream.format("rocketmq").option("createTopics", "true").option(
            "nameServer", name_server
        ).option("topic", topic).option("checkpointLocation", checkpoint).outputMode("complete").trigger(
            availableNow=True
        ).start().awaitTermination()
    assert messages_in(name_server, topic) == []


def test_a_row_that_cannot_be_a_message_lets_nothing_out(
    spark: SparkSession, name_server: str, topic: str
) -> None:
    make_topic(name_server, topic, 2)
    rows = spark.range(0, 100, 1, 2).selectExpr("if(id = 77, null, cast(id AS string)) AS body")
    writing = (
        rows.write.format("rocketmq")
        .option("createTopics", "true")
        .option("nameServer", name_server)
        .option("topic", topic)
    )

    with pytest.raises(
        PySparkException, match=r"row 27 of its partition .* the body is null: leave such rows out"
    ):
        writing.mode("append").save()

    assert messages_in(name_server, topic) == []
