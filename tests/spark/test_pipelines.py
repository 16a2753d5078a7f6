"""Pipelines of one file, run by a real Spark: topics in, SQL, topics and tables out."""

import json
import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from pyromq import Admin, Message, Producer
from pyromq.testing.waiting import eventually
from pyspark_rocketmq.pipelines.document import Findings
from pyspark_rocketmq.pipelines.pipeline_topics import check_topics, create_topics
from pyspark_rocketmq.pipelines.query_progress import BatchDone
from pyspark_rocketmq.pipelines.running import RunningPipeline, start_pipeline
from pyspark_rocketmq.pipelines.spark_views import PipelineFailed, check_views
from pyspark_rocketmq.pipelines.spec import Pipeline, read_pipeline

FILE = """\
name: doubled
source: {{nameServer: "{name_server}", subscribe: {topic}, startingOffsets: earliest}}
steps:
  numbers: |
    SELECT CAST(CAST(body AS STRING) AS INT) AS number, keys
    FROM source
  answers: |
    SELECT CAST(number * 2 AS STRING) AS body, keys
    FROM numbers
sinks:
"""
TO_TOPIC = "  answers: {{topic: {topic}-answers}}\n"
TO_PARQUET = "  table: {{from: numbers, parquet: out}}\n"


class File:
    """A pipeline's file in a folder, for the test's topic."""

    def __init__(self, path: Path, name_server: str, topic: str) -> None:
        self._path = path
        self.name_server = name_server
        self.topic = topic

    def read(self, text: str) -> Pipeline:
        """Write the file and return what it says."""
        self._path.write_text(text.format(name_server=self.name_server, topic=self.topic))
        findings = Findings()
        pipeline = read_pipeline(self._path, {}, findings)
        assert pipeline is not None, findings.all
        return pipeline

    def send(self, first: int, count: int) -> None:
        """Send numbers."""
        with Producer("pipelines", self.name_server) as producer:
            for number in range(first, first + count):
                producer.send(Message(self.topic, b"%d" % number, keys=[f"n{number}"]))

    def create(self, *topics: str) -> None:
        """Create topics."""
        with Admin(self.name_server) as admin:
            for topic in topics:
                admin.create_topic(topic, 2)


@pytest.fixture
def file(tmp_path: Path, name_server: str, topic: str) -> File:
    """The test's pipeline."""
    return File(tmp_path / "pipeline.yml", name_server, topic)


def bodies(spark: SparkSession, file: File, topic: str) -> list[str]:
    read = spark.read.format("rocketmq").option("nameServer", file.name_server).option("subscribe", topic)
    return sorted(row.body for row in read.load().selectExpr("CAST(body AS STRING) AS body").collect())


def run_once(spark: SparkSession, pipeline: Pipeline) -> list[BatchDone]:
    return list(start_pipeline(spark, pipeline, is_once=True).watch())


def problems(spark: SparkSession, pipeline: Pipeline) -> list[str]:
    findings = Findings()
    check_views(spark, pipeline, findings)
    return [f"{one.spot.line}:{one.spot.column}: {one.of}: {one.text}" for one in findings.all]


def test_each_run_takes_what_is_new_to_every_sink_once_and_tells_rows_and_lag(
    spark: SparkSession, file: File, tmp_path: Path
) -> None:
    pipeline = file.read(FILE + TO_TOPIC + TO_PARQUET)
    file.create(file.topic, f"{file.topic}-answers")
    file.send(0, 20)

    first = run_once(spark, pipeline)
    file.send(20, 5)
    second = run_once(spark, pipeline)

    sums = {
        sink: [sum(done.rows for done in run if done.sink == sink) for run in (first, second)]
        for sink in ("answers", "table")
    }
    assert sums == {"answers": [20, 5], "table": [20, 5]}
    assert second[-1].lag == 0
    assert bodies(spark, file, f"{file.topic}-answers") == sorted(str(number * 2) for number in range(25))
    table = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.number for row in table) == list(range(25))


def test_a_pipeline_that_runs_on_is_stopped_after_a_batch_and_has_done_what_it_told(
    spark: SparkSession, file: File, tmp_path: Path
) -> None:
    pipeline = file.read(FILE + TO_PARQUET + "trigger: 100 ms\n")
    file.create(file.topic)
    file.send(0, 10)
    running = start_pipeline(spark, pipeline, is_once=False)
    told: list[BatchDone] = []
    watching = threading.Thread(target=lambda: told.extend(running.watch()))
    watching.start()

    eventually(lambda: running.sinks[0].rows >= 10, 120, what="the first numbers")
    file.send(10, 10)
    eventually(lambda: running.sinks[0].rows >= 20, 120, what="the numbers that came later")
    running.finish()
    watching.join(120)

    assert not watching.is_alive()
    assert sum(done.rows for done in told) == 20
    table = spark.read.parquet(str(tmp_path / "out")).collect()
    assert sorted(row.number for row in table) == list(range(20))


def test_rows_go_into_a_database(spark: SparkSession, file: File) -> None:
    address = f"jdbc:derby:memory:{file.topic};create=true"
    driver = "org.apache.derby.iapi.jdbc.AutoloadedDriver"
    pipeline = file.read(
        f"{FILE}  rows:\n    from: numbers\n    jdbc: '{address}'\n    table: NUMBERS\n"
        f"    options: {{{{driver: {driver}}}}}\n"
    )
    file.create(file.topic)
    file.send(0, 7)

    run_once(spark, pipeline)

    read = spark.read.format("jdbc").options(url=address, dbtable="NUMBERS", driver=driver).load()
    assert sorted(row[0] for row in read.select("number").collect()) == list(range(7))


def test_a_step_that_spark_does_not_understand_is_told_with_its_place_in_the_file(
    spark: SparkSession, file: File
) -> None:
    column = problems(spark, file.read(FILE.replace("number * 2", "numbr * 2") + TO_TOPIC))
    syntax = problems(spark, file.read(FILE.replace("FROM numbers", "FORM numbers WHERE") + TO_TOPIC))
    view = problems(spark, file.read(FILE.replace("FROM numbers", "FROM numbrs") + TO_TOPIC))

    assert column[0].startswith(
        "8:17: steps.answers: A column, variable, or function parameter with name `numbr`"
    )
    assert syntax[0].startswith("9:10: steps.answers: Syntax error at or near 'numbers'")
    assert view[0].startswith("9:10: steps.answers: The table or view `numbrs` cannot be found")


def test_a_sink_that_its_rows_do_not_fit_is_told_so(spark: SparkSession, file: File) -> None:
    counted = FILE.replace(
        "SELECT CAST(number * 2 AS STRING) AS body, keys", "SELECT CAST(count(*) AS STRING) AS body"
    )
    no_body = problems(spark, file.read(FILE + "  answers: {{from: numbers, topic: {topic}-answers}}\n"))
    no_watermark = problems(spark, file.read(counted + TO_TOPIC))
    no_delta = problems(spark, file.read(FILE + "  lake: {{delta: lake}}\n"))
    no_column = problems(spark, file.read(FILE + "  table: {{parquet: out, partitionBy: day}}\n"))
    no_stream = problems(
        spark, file.read(FILE.replace("FROM numbers", "FROM (SELECT 1 AS number, '' AS keys)") + TO_TOPIC)
    )

    assert "'numbers' does not fit a topic: a topic takes no column 'number'" in no_body[0]
    assert "WATERMARK" in no_watermark[0]
    assert f"this Spark ({spark.version}) has no delta" in no_delta[0]
    assert "'answers' has no column 'day'; it has body, keys" in no_column[0]
    assert "'answers' does not read 'source'" in no_stream[0]


def test_topics_that_do_not_exist_are_told_and_those_of_sinks_can_be_made(file: File) -> None:
    pipeline = file.read(FILE + TO_TOPIC)
    findings, later = Findings(), Findings()

    missing = check_topics(pipeline, findings)
    create_topics(missing)
    file.create(file.topic)

    assert [sink.target for sink in missing] == [f"{file.topic}-answers"]
    assert f"topic '{file.topic}' does not exist" in findings.all[0].text
    assert (check_topics(pipeline, later), later.all) == ([], [])


def test_a_name_server_that_does_not_answer_is_told_once(file: File) -> None:
    file.name_server = "127.0.0.1:1"
    findings = Findings()

    missing = check_topics(file.read(FILE + TO_TOPIC), findings)

    assert missing == []
    assert ["cannot be asked" in one.text and "pyromq up" in one.text for one in findings.all] == [True]


def test_a_topic_that_vanishes_is_an_error_that_names_the_sink(spark: SparkSession, file: File) -> None:
    pipeline = file.read(FILE + TO_PARQUET)

    with pytest.raises(PipelineFailed, match=rf"sink table: .*topic '{file.topic}' does not exist"):
        run_once(spark, pipeline)


def test_a_minute_goes_out_once_it_is_over(spark: SparkSession, file: File) -> None:
    summed = FILE.partition("steps:")[0] + (
        "steps:\n"
        "  told: SELECT CAST(CAST(body AS STRING) AS TIMESTAMP) AS at FROM source\n"
        "  sums: |\n"
        "    SELECT to_json(struct(window.start AS minute, count(*) AS orders)) AS body\n"
        "    FROM told WATERMARK at DELAY OF INTERVAL 5 SECONDS\n"
        "    GROUP BY window(at, '1 minute')\n"
        "sinks:\n"
    )
    pipeline = file.read(summed + TO_TOPIC)
    file.create(file.topic, f"{file.topic}-answers")
    with Producer("pipelines", file.name_server) as producer:
        for at in ("10:00:01", "10:00:59", "10:01:30", "10:02:10"):
            producer.send(Message(file.topic, f"2026-11-16T{at}Z".encode()))

    assert problems(spark, pipeline) == []
    run_once(spark, pipeline)

    told = [json.loads(body) for body in bodies(spark, file, f"{file.topic}-answers")]
    assert [one["orders"] for one in told] == [2, 1]


def test_a_pipeline_without_sinks_has_nothing_to_watch() -> None:
    assert list(RunningPipeline().watch()) == []
