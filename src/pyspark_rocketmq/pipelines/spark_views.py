"""A pipeline's source and steps as views of a Spark session, and what Spark says of them, with its place."""

import logging
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, TypeVar

import pyspark
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyromq.errors import ConfigError, PyroError
from pyspark_rocketmq.pipelines.document import Findings, Spot
from pyspark_rocketmq.pipelines.lakes import NO_FORMAT, how_to_add, misfit
from pyspark_rocketmq.pipelines.spec import SOURCE_VIEW, Pipeline, Sink, SinkKind, SqlStep
from pyspark_rocketmq.sink.rows import check_columns

T = TypeVar("T")

_PLACE: Final = re.compile(r"line (\d+),? pos(?:ition)? (\d+)")
_CODE: Final = re.compile(r"^\[([\w.]+)\]\s*|\s*SQLSTATE: \w+")


class PipelineFailed(PyroError):
    """A pipeline that ran does not any more; the first line says why."""


def define_views(spark: SparkSession, pipeline: Pipeline, sink: Sink, findings: Findings) -> DataFrame | None:
    """Make the views for a sink's query and return the rows that go into it; None with findings."""
    reader = spark.readStream.format("rocketmq").options(**pipeline.source_options(sink))
    frame = _attempt(lambda: reader.load(), lambda text, _: findings.add(pipeline.source_part, text))
    if frame is None:
        return None
    frame.createOrReplaceTempView(SOURCE_VIEW)
    if sink.view == SOURCE_VIEW:
        return frame
    for step in pipeline.steps:
        frame = _define(spark, step, findings)
        if frame is None or step.name == sink.view:
            return frame
    return None


def check_views(spark: SparkSession, pipeline: Pipeline, findings: Findings) -> None:
    """Note what Spark would refuse of the steps and of the sinks. Nothing is read and nothing written."""
    # Spark's own log of what is noted here.
    logging.getLogger("SQLQueryContextLogger").disabled = True
    before = len(findings.all)
    last = (
        Sink("", SinkKind.PARQUET, "", pipeline.steps[-1].name, pipeline.sinks[0].mode, pipeline.source_part)
        if pipeline.steps
        else pipeline.sinks[0]
    )
    if define_views(spark, pipeline, last, findings) is None or len(findings.all) > before:
        return
    for sink in pipeline.sinks:
        frame = define_views(spark, pipeline, sink, findings)
        if frame is not None:
            _check_sink(spark, sink, frame, findings)


def _define(spark: SparkSession, step: SqlStep, findings: Findings) -> DataFrame | None:
    frame = _attempt(
        lambda: spark.sql(step.sql), lambda text, place: findings.add(step.part, text, _spot(step, place))
    )
    if frame is not None:
        # Behind Spark Connect a query is looked at only when its columns are asked for.
        columns = _attempt(
            lambda: frame.columns, lambda text, place: findings.add(step.part, text, _spot(step, place))
        )
        if columns is None:
            return None
        frame.createOrReplaceTempView(step.name)
    return frame


def _check_sink(spark: SparkSession, sink: Sink, frame: DataFrame, findings: Findings) -> None:
    if not frame.isStreaming:
        findings.add(
            sink.part, f"{sink.view!r} does not read {SOURCE_VIEW!r}, so there would be no stream to write"
        )
        return
    if sink.kind is SinkKind.TOPIC:
        try:
            check_columns(frame.schema, topic=sink.target)
        except ConfigError as error:
            findings.add(sink.part, f"{sink.view!r} does not fit a topic: {error}")
    for column in sink.partition_by:
        if column not in frame.columns:
            findings.add(
                sink.part,
                f"partitionBy: {sink.view!r} has no column {column!r}; it has {', '.join(frame.columns)}",
            )
    _check_mode(spark, sink, frame, findings)
    advice = how_to_add(sink.kind, spark.version)
    if advice is not None:
        problem = _format_problem(spark, sink.kind)
        if problem is not None:
            findings.add(sink.part, misfit(problem, spark.version) or advice)


def _check_mode(spark: SparkSession, sink: Sink, frame: DataFrame, findings: Findings) -> None:
    """Let Spark say whether the rows can go out in that mode; only a session of this process can be asked."""
    jvm: Any = getattr(spark, "_jvm", None)
    if jvm is None:
        return
    mode = getattr(jvm.org.apache.spark.sql.streaming.OutputMode, sink.mode.capitalize())()
    checker = jvm.org.apache.spark.sql.catalyst.analysis.UnsupportedOperationChecker
    plan = getattr(frame, "_jdf").queryExecution().analyzed()  # noqa: B009  the JVM's own plan
    _attempt(
        lambda: checker.checkForStreaming(plan, mode) or True,
        lambda text, _: findings.add(
            sink.part,
            f"{sink.view!r} cannot go out in mode {sink.mode}: {text}. For sums by time write "
            "FROM … WATERMARK column DELAY OF INTERVAL 1 MINUTE … GROUP BY window(column, '1 minute')",
        ),
    )


def _format_problem(spark: SparkSession, kind: SinkKind) -> str | None:
    """Return what Spark says of a format that it cannot use; that a table is not there is no problem."""
    try:
        spark.read.format(str(kind)).load("/no/such/table").schema  # noqa: B018  Connect looks only now
    except Exception as error:  # noqa: BLE001  one of py4j's, of gRPC's or of pyspark's
        text = str(error)
        return text if NO_FORMAT in text or misfit(text, "") else None
    return None


def _attempt(work: Callable[[], T], note: Callable[[str, tuple[int, int] | None], None]) -> T | None:
    """Return what Spark does, or None when its objection was noted, with line and position in the SQL."""
    try:
        return work()
    except PySparkException as error:
        place = _PLACE.search(str(error))
        note(what_spark_says(str(error)), (int(place[1]), int(place[2])) if place else None)
        return None


def _spot(step: SqlStep, place: tuple[int, int] | None) -> Spot | None:
    return step.part.spot_inside(*place) if place else None


def what_spark_says(text: str) -> str:
    """Return the sentence that matters of what Spark raised: ours, if we raised it in one of its workers."""
    ours = re.findall(r"^(?:pyromq|pyspark_rocketmq)\.[\w.]+: (.+)$", text, re.MULTILINE)
    if ours:
        return str(ours[-1])
    unfit = misfit(text, pyspark.__version__)
    if unfit is not None:
        return unfit
    lines = [line for line in text.strip().splitlines() if line.strip()]
    first = lines[0] if lines else text
    with suppress(ValueError):
        first = first[: first.index("; line ")]
    return _CODE.sub("", re.sub(r"\s*\(line \d+, pos \d+\)", "", first)).rstrip(";. ")
