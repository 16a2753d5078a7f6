"""A streaming query that fails at any step of a batch and is started again writes each row exactly once."""

import json
from pathlib import Path

import faulty_sink
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from sink_stage import batch_of, bodies, ids, messages_in, new_query, write
from spark_stage import make_topic

from pyromq.testing.cluster import running_cluster
from pyspark_rocketmq.failures import WriteFailed
from pyspark_rocketmq.sink import outlets
from pyspark_rocketmq.sink.sink_options import read_sink_options

FILES, LINES = 3, 40
STEPS = ("before write", "in write", "after write", "before commit", "after commit")


@pytest.fixture
def lines(tmp_path: Path) -> list[str]:
    """All rows: FILES batches of LINES."""
    folder = tmp_path / "source"
    folder.mkdir()
    for file in range(FILES):
        text = "".join(f"{file}-{line}\n" for line in range(LINES))
        (folder / f"{file}.txt").write_text(text)
    return sorted(f"{file}-{line}" for file in range(FILES) for line in range(LINES))


@pytest.mark.parametrize("step", STEPS)
def test_a_batch_that_fails_once_is_written_once(
    spark: SparkSession,
    name_server: str,
    topic: str,
    checkpoint: str,
    lines: list[str],
    tmp_path: Path,
    step: str,
) -> None:
    faulty_sink.register(spark)
    make_topic(name_server, topic, 2)
    options = {
        "nameServer": name_server,
        "topic": topic,
        "faults": json.dumps([["raise", step, 1]]),
        "faultsFolder": str(tmp_path),
    }
    source = str(tmp_path / "source")

    with pytest.raises(StreamingQueryException, match="Injected"):
        faulty_sink.start_query(spark, source, checkpoint, **options).awaitTermination()
    before = messages_in(name_server, topic)
    faulty_sink.start_query(spark, source, checkpoint, **options).awaitTermination()

    found = messages_in(name_server, topic)
    assert len(before) == (2 * LINES if step == "after commit" else LINES)
    assert bodies(found) == lines
    assert len(set(ids(found))) == len(lines)


# Without Spark: what it may do with parts, in orders that it rarely takes


def sink(name_server: str) -> outlets.SinkOptions:
    return read_sink_options({"nameserver": name_server})


def test_only_the_attempt_that_was_committed_is_published(name_server: str, topic: str) -> None:
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    write(batch_of(body=["a", "b"]), query=query, attempt=0, **options)
    second = write(batch_of(body=["a", "b"]), query=query, attempt=1, **options)
    write(batch_of(body=["a", "b"]), query=query, attempt=2, **options)

    outlets.publish(sink(name_server), [second])

    assert bodies(messages_in(name_server, topic)) == ["a", "b"]


def test_nothing_can_be_read_before_the_driver_commits(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, 2)

    write(batch_of(body=["a"]), topic=topic, nameServer=name_server)

    assert messages_in(name_server, topic) == []


def test_a_commit_that_is_repeated_writes_nothing_more(name_server: str, topic: str) -> None:
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    parts = [write(batch_of(body=[str(part)]), query=query, part=part, **options) for part in range(3)]

    for _ in range(2):
        outlets.publish(sink(name_server), list(parts))

    assert bodies(messages_in(name_server, topic)) == ["0", "1", "2"]


def test_an_abort_after_a_commit_that_succeeded_undoes_nothing(name_server: str, topic: str) -> None:
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    part = write(batch_of(body=["a"]), query=query, **options)
    outlets.publish(sink(name_server), [part])

    outlets.abort(sink(name_server), [part, None])

    again = write(batch_of(body=["a"]), query=query, attempt=1, **options)
    outlets.publish(sink(name_server), [again])
    assert bodies(messages_in(name_server, topic)) == ["a"]


def test_an_aborted_batch_can_be_written_again(name_server: str, topic: str) -> None:
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    outlets.abort(sink(name_server), [write(batch_of(body=["a"]), query=query, **options), None])

    outlets.publish(sink(name_server), [write(batch_of(body=["a"]), query=query, **options)])

    assert bodies(messages_in(name_server, topic)) == ["a"]


def test_a_batch_that_is_out_takes_its_rows_and_writes_none(name_server: str, topic: str) -> None:
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    outlets.publish(sink(name_server), [write(batch_of(body=["a"]), query=query, batch=4, **options)])

    late = write([batch_of(body=["a"]), batch_of(body=["b"])], query=query, batch=4, **options)
    outlets.publish(sink(name_server), [late])

    assert late.row_count == 2
    assert bodies(messages_in(name_server, topic)) == ["a"]


def test_an_abort_that_reaches_nobody_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlets, "ABORT_TIMEOUT_MS", 300)
    part = outlets.WrittenPart(1, outlets.StagedPart("q", 0, "broker-a", 0, "0-1", {"broker-a": 1}, 1))
    nobody = read_sink_options({"nameserver": "127.0.0.1:1"})

    outlets.abort(nobody, [part])


def test_a_broker_that_stays_away_is_named_with_the_option_that_matters(tmp_path: Path) -> None:
    with running_cluster(data_dir=tmp_path) as cluster:
        options = {
            "nameServer": cluster.namesrv_address,
            "topic": "orders",
            "sendTimeoutMs": "500",
            "createTopics": "true",
        }
        written = write(batch_of(body=["a"]), **options)
        read = read_sink_options({name.lower(): value for name, value in options.items()})
        cluster.stop_broker("broker-a")

        with pytest.raises(WriteFailed, match=r"^batch 0 of query .*sendTimeoutMs"):
            outlets.publish(read, [written])
        with pytest.raises(WriteFailed, match=r"^topic orders: .*sendTimeoutMs"):
            write(batch_of(body=["b"]), **options)
        with pytest.raises(WriteFailed, match=r"^topic 'orders': .*sendTimeoutMs"):
            write(batch_of(body=["b"]), **options, delivery="at-least-once")


def test_parts_without_rows_are_published_too(name_server: str, topic: str) -> None:
    make_topic(name_server, topic, 2)
    query, options = new_query(), {"nameServer": name_server, "topic": topic}
    empty = batch_of(body=["x"])[:0]

    outlets.publish(sink(name_server), [write(empty, query=query, part=part, **options) for part in range(2)])

    assert messages_in(name_server, topic) == []
