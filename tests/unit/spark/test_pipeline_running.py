"""A pipeline at work, told by queries that are played by hand: what is shown, and when it stops."""

from dataclasses import dataclass, field
from typing import Any, cast

import pytest
from pyspark.sql.streaming.query import StreamingQuery

from pyspark_rocketmq.pipelines.query_progress import read_progress
from pyspark_rocketmq.pipelines.running import RunningPipeline, RunningSink
from pyspark_rocketmq.pipelines.spark_views import PipelineFailed, what_spark_says
from pyspark_rocketmq.pipelines.spec import Sink


def report(batch: int, rows: int | None = 10, **durations: int) -> dict[str, Any]:
    return {
        "batchId": batch,
        "numInputRows": rows,
        "batchDuration": 500,
        "durationMs": durations or {"addBatch": 400},
        "sources": [
            {
                "startOffset": '{"v": 1, "q": {"orders/a/0": 5}}',
                "endOffset": '{"v": 1, "q": {"orders/a/0": 9, "orders/a/1": 6}}',
                "latestOffset": '{"v": 1, "q": {"orders/a/0": 12, "orders/a/1": 6}}',
            }
        ],
    }


@dataclass
class PlayedQuery:
    """Spark's query, as far as it is looked at."""

    isActive: bool = True  # noqa: N815  Spark's name
    recentProgress: list[dict[str, Any]] = field(default_factory=list)  # noqa: N815
    status: dict[str, Any] = field(default_factory=lambda: {"isTriggerActive": True, "isDataAvailable": True})
    error: Exception | None = None

    def stop(self) -> None:
        self.isActive = False

    def exception(self) -> Exception | None:
        return self.error


def pipeline_of(*queries: PlayedQuery) -> RunningPipeline:
    names = ("answers", "table")
    return RunningPipeline(
        [
            RunningSink(Sink(name, *[cast("Any", None)] * 5), cast("StreamingQuery", query))
            for name, query in zip(names, queries, strict=False)
        ]
    )


def test_a_batch_is_shown_with_its_rows_rate_and_lag() -> None:
    done = read_progress("answers", report(3))

    assert (done.batch, done.rows, done.rate, done.lag) == (3, 10, 20.0, 3)


def test_where_spark_counts_no_rows_the_offsets_do() -> None:
    assert read_progress("answers", report(3, None)).rows == 10


def test_a_source_without_offsets_has_no_lag() -> None:
    assert read_progress("answers", {**report(3), "sources": []}).lag is None


def test_each_batch_is_told_once_and_waiting_is_none() -> None:
    query = PlayedQuery()
    steps = iter([[report(0)], [report(0), report(1)], [report(0), report(1), report(2, 0, latestOffset=3)]])

    def poll(_seconds: float) -> None:
        query.recentProgress = next(steps, query.recentProgress)
        query.isActive = len(query.recentProgress) < 3

    batches = [done.batch for done in pipeline_of(query).watch(poll)]

    assert batches == [0, 1]


def test_a_wish_to_end_waits_for_the_batch_under_way_and_not_for_the_next() -> None:
    query = PlayedQuery(recentProgress=[report(0)])
    pipeline = pipeline_of(query)
    told: list[int] = []
    polls = iter(range(10))

    def poll(_seconds: float) -> None:
        at = next(polls)
        if at == 0:
            pipeline.finish()
        if at == 3:
            assert query.isActive, "stopped in the middle of a batch"
            query.recentProgress = [report(0), report(1)]

    told = [done.batch for done in pipeline.watch(poll)]

    assert (told, query.isActive) == ([0, 1], False)


def test_a_query_that_waits_for_messages_is_stopped_at_once() -> None:
    query = PlayedQuery(status={"isTriggerActive": True, "isDataAvailable": False})
    pipeline = pipeline_of(query)

    list(pipeline.watch(lambda _: pipeline.finish()))

    assert not query.isActive


def test_a_second_wish_to_end_stops_in_the_middle_of_a_batch() -> None:
    pipeline = pipeline_of(PlayedQuery())
    polls: list[float] = []

    def poll(seconds: float) -> None:
        polls.append(seconds)
        if len(polls) <= 2:
            pipeline.finish()

    list(pipeline.watch(poll))

    assert len(polls) == 3


def test_one_sink_that_fails_stops_the_others_and_is_named() -> None:
    failing, other = PlayedQuery(isActive=False, error=ValueError("boom")), PlayedQuery()

    with pytest.raises(PipelineFailed, match="sink answers: boom"):
        list(pipeline_of(failing, other).watch(lambda _: None))

    assert not other.isActive


def test_a_query_whose_worker_came_too_late_is_started_again_and_not_forever() -> None:
    late = ValueError("[STREAM_FAILED] Python worker failed to connect back.")
    pipeline = pipeline_of(PlayedQuery(isActive=False, error=late))
    started: list[PlayedQuery] = []

    def start() -> StreamingQuery:
        started.append(PlayedQuery(isActive=False, error=late))
        return cast("StreamingQuery", started[-1])

    pipeline.sinks[0].start = start
    with pytest.raises(PipelineFailed, match="failed to connect back"):
        list(pipeline.watch(lambda _: None))

    assert len(started) == 3


def test_of_what_spark_says_the_sentence_that_matters_is_left() -> None:
    ours = "[STREAM_FAILED] Query x\n  File a\npyspark_rocketmq.failures.ReadFailed: topic 'a' is gone\n more"
    unresolved = (
        "[UNRESOLVED_COLUMN] A column `x` cannot be resolved. SQLSTATE: 42703; line 1 pos 7;\n'Project"
    )
    syntax = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 1, pos 0)\n\n== SQL =="
    )

    assert what_spark_says(ours) == "topic 'a' is gone"
    assert what_spark_says(unresolved) == "A column `x` cannot be resolved"
    assert what_spark_says(syntax) == "Syntax error at or near 'SELEC'"
