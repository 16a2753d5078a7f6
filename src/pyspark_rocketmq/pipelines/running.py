"""A pipeline at work: a streaming query for each sink, watched until they end or are asked to.

    start()     all of them, on their checkpoints
    watch()     yields each batch as it is done, until all queries have ended
    finish()    asks for the end: each query is stopped when the batch that it is at is done

A query that is stopped in the middle of a batch does that batch again when it is started again, and neither a
topic nor files get its rows twice. So waiting for a batch costs less work later, and no more than that.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from pyspark_rocketmq.pipelines.document import Findings
from pyspark_rocketmq.pipelines.query_progress import BatchDone, read_progress
from pyspark_rocketmq.pipelines.spark_views import PipelineFailed, define_views, what_spark_says
from pyspark_rocketmq.pipelines.spec import Mode, Pipeline, Sink, SinkKind

POLL_S: Final = 0.2
#: A batch that takes longer than this is not waited for.
FINISH_S_MAX: Final = 120.0
#: Spark gives a new worker ten seconds to report, which is not enough on a machine that is very busy.
_PASSING: Final = "Python worker failed to connect back"
#: So often such a query is started again, from its checkpoint.
_RESTARTS_MAX: Final = 3


@dataclass(slots=True)
class RunningSink:
    """A sink with its query; `batch_next` is the first batch that was not told of yet."""

    sink: Sink
    query: StreamingQuery
    start: Callable[[], StreamingQuery] | None = None
    restarts: int = 0
    batch_next: int = -1
    rows: int = 0
    finish_after: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether the query runs."""
        return bool(self.query.isActive)

    def news(self) -> Iterator[BatchDone]:
        """Yield the batches that were done since the last time."""
        for report in self.query.recentProgress:
            done = read_progress(self.sink.name, _as_mapping(report))
            # A query that waits reports now and then, under the number of the batch that is to come.
            if done.batch >= self.batch_next and (done.rows or "addBatch" in _durations(report)):
                self.batch_next = done.batch + 1
                self.rows += done.rows
                yield done

    def restart(self, error: Exception) -> bool:
        """Start the query again, if what ended it may pass by itself; return whether it was."""
        if self.start is None or _PASSING not in str(error) or self.restarts == _RESTARTS_MAX:
            return False
        self.restarts += 1
        self.query = self.start()
        return True

    def is_between_batches(self) -> bool:
        """Whether a stop would interrupt nothing."""
        status = self.query.status
        return not (status.get("isTriggerActive") and status.get("isDataAvailable"))


@dataclass(slots=True)
class RunningPipeline:
    """All queries of a pipeline."""

    sinks: list[RunningSink] = field(default_factory=list)
    _ends_at: float | None = None

    def finish(self) -> None:
        """Ask for the end, after the batches that are under way; asked again, at once."""
        if self._ends_at is not None:
            self._ends_at = 0.0
            return
        self._ends_at = time.monotonic() + FINISH_S_MAX
        for running in self.sinks:
            running.finish_after = running.batch_next

    def watch(self, poll: Callable[[float], object] = time.sleep) -> Iterator[BatchDone]:
        """Yield each batch when it is done, until all queries have ended; raise PipelineFailed if one failed.

        The others are stopped then, so that no sink runs ahead of the rest for days.
        """
        try:
            while self._goes_on():
                yield from self._news()
                if self._ends_at is not None:
                    self._stop_idle()
                poll(POLL_S if self._ends_at is None else POLL_S / 10)
            yield from self._news()
        finally:
            for running in self.sinks:
                if running.is_active:
                    running.query.stop()

    def _news(self) -> Iterator[BatchDone]:
        for running in self.sinks:
            yield from running.news()

    def _stop_idle(self) -> None:
        assert self._ends_at is not None
        is_late = time.monotonic() > self._ends_at
        for running in self.sinks:
            has_finished = running.finish_after is not None and running.batch_next > running.finish_after
            if running.is_active and (is_late or has_finished or running.is_between_batches()):
                running.query.stop()

    def _goes_on(self) -> bool:
        """Return whether a query runs; raise PipelineFailed for one that failed and was not started again."""
        is_active = False
        for running in self.sinks:
            error = running.query.exception()
            is_active |= error is not None or running.is_active
            if error is not None and (self._ends_at is not None or not running.restart(error)):
                raise PipelineFailed(f"sink {running.sink.name}: {what_spark_says(str(error))}") from error
        return is_active


def start_pipeline(spark: SparkSession, pipeline: Pipeline, *, is_once: bool) -> RunningPipeline:
    """Start all queries. With `is_once` they end when they have read what is there now."""
    running = RunningPipeline()
    for sink in pipeline.sinks:
        findings = Findings()
        frame = define_views(spark, pipeline, sink, findings)
        if frame is None:
            raise PipelineFailed("\n".join(map(str, findings.all)))
        writer = _writer(frame, sink)
        writer = writer.option("checkpointLocation", pipeline.checkpoint_of(sink))
        writer = writer.queryName(f"{pipeline.name}-{sink.name}")
        if is_once:
            writer = writer.trigger(availableNow=True)
        elif pipeline.trigger is not None:
            writer = writer.trigger(processingTime=pipeline.trigger)
        start = partial(writer.toTable, sink.target) if sink.kind is SinkKind.ICEBERG else writer.start
        running.sinks.append(RunningSink(sink, start(), start))
    return running


def _writer(frame: DataFrame, sink: Sink) -> DataStreamWriter:
    writer = frame.writeStream.outputMode(str(sink.mode))
    if sink.kind is SinkKind.JDBC:
        return writer.foreachBatch(_jdbc_writer(sink))
    writer = writer.format("rocketmq" if sink.kind is SinkKind.TOPIC else str(sink.kind)).options(
        **sink.options
    )
    if sink.kind in (SinkKind.PARQUET, SinkKind.DELTA):
        writer = writer.option("path", sink.target)
    return writer.partitionBy(*sink.partition_by) if sink.partition_by else writer


def _jdbc_writer(sink: Sink) -> Callable[[DataFrame, int], None]:
    """Return who writes a batch to a database; one that is repeated after a crash may be there twice."""
    options = dict(sink.options)
    mode = "overwrite" if sink.mode is Mode.COMPLETE else "append"
    if mode == "overwrite":
        # Keeps the table's own columns and grants.
        options.setdefault("truncate", "true")

    def write(batch: DataFrame, _number: int) -> None:
        batch.write.format("jdbc").options(**options).mode(mode).save()

    return write


def _as_mapping(report: Any) -> dict[str, Any]:
    return dict(report) if isinstance(report, dict) else dict(report.__dict__)


def _durations(report: Any) -> dict[str, Any]:
    return dict(_as_mapping(report).get("durationMs") or {})
