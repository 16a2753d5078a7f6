"""The Spark sink on real brokers of Apache, 4.9 and 5.x: written as a task writes, without Spark."""

from collections.abc import Callable
from uuid import uuid4

import pytest
from harness.observer import Observer
from harness.servers import OURS_AND_APACHES, Cluster

pytest.importorskip("pyspark")

import pyarrow as pa
from sink_stage import batch_of, bodies, ids, messages_in, new_query, write
from spark_stage import make_topic

from pyromq.errors import StagedSendsUnsupported
from pyromq.model import ReceivedMessage
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(900)]

APACHES = [kind for kind in OURS_AND_APACHES if kind.startswith("apache")]


@pytest.fixture(params=APACHES)
def servers(request: pytest.FixtureRequest, running: Callable[[str], Cluster]) -> Cluster:
    """Real servers, started from their Maven artifacts."""
    return running(request.param)


@pytest.fixture
def options(servers: Cluster) -> dict[str, str]:
    topic = f"spark-{uuid4().hex[:10]}"
    make_topic(servers.name_server, topic, queue_count=4)
    eventually(lambda: Observer(servers.name_server).queues(topic), what=f"{topic} has a route")
    return {"nameServer": servers.name_server, "topic": topic, "delivery": "at-least-once"}


def readable(options: dict[str, str], at_least: int) -> list[ReceivedMessage]:
    """Return what can be read once it is so many: Apache's consumers see messages a little later."""

    def look() -> list[ReceivedMessage] | None:
        found = messages_in(options["nameServer"], options["topic"])
        return found if len(found) >= at_least else None

    return eventually(look, 60.0, what=f"{at_least} rows are there") or []


def test_rows_of_every_kind_are_there_when_the_task_ends(options: dict[str, str]) -> None:
    count = 3_000
    rows = batch_of(
        body=[f"{number}" for number in range(count)],
        tags=["even" if number % 2 == 0 else "odd" for number in range(count)],
        keys=[[f"k{number}", "all"] for number in range(count)],
        message_group=[f"customer-{number % 7}" if number % 3 == 0 else None for number in range(count)],
        properties=pa.array([[("area", "größer")]] * count, pa.map_(pa.string(), pa.string())),
        # Delivered ten seconds later, so sent by itself.
        delay_level=pa.array([3 if number == 17 else None for number in range(count)], pa.int32()),
    )

    written = write(rows, **options)

    assert written.row_count == count
    found = [one for one in readable(options, at_least=count - 1) if one.body != b"17"]
    assert bodies(found) == sorted(str(number) for number in range(count) if number != 17)
    assert len(set(ids(found))) == count - 1
    assert all(message.properties["area"] == "größer" for message in found)
    for customer in range(7):
        its = [one for one in found if one.properties.get("__SHARDINGKEY") == f"customer-{customer}"]
        numbers = [int(one.body) for one in sorted(its, key=lambda one: one.queue_offset)]
        assert len({one.queue for one in its}) == 1
        assert numbers == sorted(numbers)
    (late,) = [one for one in readable(options, at_least=count) if one.body == b"17"]
    assert late.stored_at_ms - late.born_at_ms >= 9_000


def test_a_task_that_is_run_again_sends_the_same_ids(options: dict[str, str]) -> None:
    query = new_query() + uuid4().hex
    for attempt in range(2):
        write(batch_of(body=["a", "b", "c"]), query=query, attempt=attempt, **options)

    found = ids(readable(options, at_least=6))

    assert len(found) == 6
    assert len(set(found)) == 3


def test_exactly_once_is_refused_with_what_can_be_done(options: dict[str, str]) -> None:
    with pytest.raises(StagedSendsUnsupported, match="write with delivery=at-least-once"):
        write(batch_of(body=["a"]), **(options | {"delivery": "exactly-once"}))

    assert messages_in(options["nameServer"], options["topic"]) == []
