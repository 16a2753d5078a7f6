"""A topic read as a Spark table, by a real Spark in local mode."""

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import pyspark_rocketmq
from pyromq import Message, Producer


@pytest.fixture(scope="module", autouse=True)
def numbers(name_server: str) -> None:
    with Producer("spark-test", name_server) as producer:
        for number in range(100):
            tags = "even" if number % 2 == 0 else "odd"
            message = Message("numbers", str(number).encode(), tags=tags, keys=[f"n{number}"])
            message.properties["square"] = str(number * number)
            producer.send(message)


def test_a_topic_is_a_table_with_every_message_once(spark: SparkSession, name_server: str) -> None:
    numbers = (
        spark.read.format("rocketmq").option("nameServer", name_server).option("subscribe", "numbers").load()
    )

    rows = numbers.collect()

    assert sorted(int(row.body) for row in rows) == list(range(100))
    assert all(row.keys == f"n{int(row.body)}" for row in rows)
    assert all(row.properties["square"] == str(int(row.body) ** 2) for row in rows)
    assert all(row.tags == ("even" if int(row.body) % 2 == 0 else "odd") for row in rows)
    assert {row.broker for row in rows} == {"broker-a"}
    assert all(row.store_timestamp >= row.born_timestamp for row in rows)


def test_tags_are_filtered_before_spark_sees_them(spark: SparkSession, name_server: str) -> None:
    read = spark.read.format("rocketmq").option("nameServer", name_server).option("tags", "odd")

    odd = read.option("subscribe", "numbers").load()

    assert odd.count() == 50


def test_a_schema_is_a_projection(spark: SparkSession, name_server: str) -> None:
    read = spark.read.format("rocketmq").option("nameServer", name_server).option("subscribe", "numbers")

    narrow = read.schema("keys string, queue_offset bigint").load()

    assert narrow.columns == ["keys", "queue_offset"]
    assert {row.keys for row in narrow.collect()} == {f"n{number}" for number in range(100)}


def test_an_option_that_does_not_exist_is_named_with_the_nearest(
    spark: SparkSession, name_server: str
) -> None:
    read = spark.read.format("rocketmq").option("nameServr", name_server).option("subscribe", "numbers")

    with pytest.raises(PySparkException, match=r"no option 'nameservr'.*did you mean 'nameServer'"):
        read.load().count()


def test_sql_reads_a_topic_with_kafka_s_columns(spark: SparkSession, name_server: str) -> None:
    spark.sql(
        f"CREATE OR REPLACE TEMPORARY VIEW kafka_numbers USING rocketmq OPTIONS (nameServer '{name_server}', "
        "subscribe 'numbers', schema 'kafka', minPartitions '3')"
    )

    rows = spark.sql(
        "SELECT sum(cast(cast(value AS string) AS int)) AS total, count(DISTINCT key) AS keys, "
        "max(timestampType) AS type, sum(size(filter(headers, h -> h.key = 'square'))) AS squares "
        "FROM kafka_numbers"
    ).collect()

    assert rows[0].asDict() == {"total": 4950, "keys": 100, "type": 1, "squares": 100}


def test_a_column_of_another_type_is_refused_with_the_cast(spark: SparkSession, name_server: str) -> None:
    read = spark.read.format("rocketmq").option("nameServer", name_server).option("subscribe", "numbers")

    with pytest.raises(PySparkException, match=r"column body is binary, not string.*cast\(body as string\)"):
        read.schema("body string").load().count()


def test_a_source_that_brings_its_code_along_reads_batches_and_streams(
    spark: SparkSession, name_server: str, checkpoint: str
) -> None:
    session = spark.newSession()
    pyspark_rocketmq.register(session)
    options = {"nameServer": name_server, "subscribe": "numbers", "startingOffsets": "earliest"}

    batch = session.read.format("rocketmq").options(**options).load()
    stream = session.readStream.format("rocketmq").options(**options).load()
    query = (
        stream.writeStream.format("memory")
        .queryName("shipped_numbers")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()

    assert batch.count() == 100
    assert session.table("shipped_numbers").count() == 100
