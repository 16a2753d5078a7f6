from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.metrics_lag import Lags
from pyromq.broker.parts import Parts, make_parts
from pyromq.config.settings import BrokerProcess, StoreSettings
from pyromq.store.store import Draft
from pyromq.testing.clock import ManualClock
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_ms=1_000_000)


@pytest.fixture
async def parts(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Parts]:
    process = BrokerProcess(
        store=StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    )
    parts = make_parts(process, clock=clock, files=None, use_kernel=False)
    parts.store.open()
    yield parts
    await parts.topics.save()
    parts.store.close()


def put(parts: Parts, topic: str, queue_id: int) -> None:
    parts.topics.ensure(topic, queue_count=2)
    parts.store.put(
        Draft(
            topic=topic,
            queue_id=queue_id,
            body=b"x",
            properties="",
            flag=0,
            sys_flag=0,
            born_at_ms=0,
            born_host=HOST,
            store_host=HOST,
        )
    )


def looked(parts: Parts) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float], int]:
    lags = Lags(parts.offsets, parts.topics, parts.store, parts.clock)
    steps = sum(1 for _ in lags.look())
    seen = {figure.name: dict(figure.read()) for figure in lags.figures()}
    return seen["rocketmq_consumer_lag_messages"], seen["rocketmq_consumer_lag_latency"], steps


def parts_of_the_lag(parts: Parts) -> tuple[float, float, float]:
    """What is in flight, what is ready, and how long the oldest of that waits, of one group in one topic."""
    lags = Lags(parts.offsets, parts.topics, parts.store, parts.clock)
    for _ in lags.look():
        pass
    lag, _, *others = (next(iter(figure.read().values())) for figure in lags.figures())
    in_flight, ready, waits_ms = others
    assert in_flight + ready == lag
    return in_flight, ready, waits_ms


async def test_a_lag_is_the_sum_of_the_queues_and_as_old_as_the_oldest_message(
    parts: Parts, clock: ManualClock
) -> None:
    for queue_id in (0, 0, 1):
        put(parts, "orders", queue_id)
        clock.advance(100)
    parts.offsets.commit("readers", "orders", 0, 1)

    messages, latency, _ = looked(parts)

    # Queue 1 was never committed: all of it is behind.
    assert messages == {("readers", "orders", "false"): 2}
    assert latency == {("readers", "orders", "false"): 200}


async def test_a_group_that_has_all_is_not_behind(parts: Parts) -> None:
    put(parts, "orders", 0)
    parts.offsets.commit("readers", "orders", 0, 1)

    messages, latency, _ = looked(parts)

    assert (list(messages.values()), list(latency.values())) == ([0], [0])


async def test_retries_are_told_apart_and_topics_that_are_gone_are_not_shown(parts: Parts) -> None:
    put(parts, "%RETRY%readers", 0)
    parts.offsets.commit("readers", "%RETRY%readers", 0, 0)
    parts.offsets.commit("readers", "gone", 0, 0)

    messages, _, _ = looked(parts)

    assert messages == {("readers", "%RETRY%readers", "true"): 1}


async def test_many_groups_are_looked_at_in_as_many_steps_as_there_are_queues(parts: Parts) -> None:
    topics, groups = 1_000, 2_000
    for number in range(topics):
        parts.topics.ensure(f"topic-{number}", queue_count=1)
    for number in range(groups):
        parts.offsets.commit(f"group-{number}", f"topic-{number % topics}", 0, 0)
        parts.offsets.commit(f"group-{number}", f"topic-{(number + 1) % topics}", 0, 0)

    messages, _, steps = looked(parts)

    assert len(messages) == 2 * groups
    assert steps == 2 * groups


async def test_what_was_pulled_is_in_flight_until_it_is_committed(parts: Parts, clock: ManualClock) -> None:
    for _ in range(5):
        put(parts, "orders", 0)
        clock.advance(100)
    parts.offsets.commit("readers", "orders", 0, 1)
    assert parts_of_the_lag(parts) == (0, 4, 400)

    parts.offsets.pulled.note("readers", "orders", 0, 3)
    assert parts_of_the_lag(parts) == (2, 2, 200)

    parts.offsets.pulled.note("readers", "orders", 0, 5)
    assert parts_of_the_lag(parts) == (4, 0, 0)

    parts.offsets.commit("readers", "orders", 0, 5)
    assert parts_of_the_lag(parts) == (0, 0, 0)


async def test_a_group_that_goes_back_has_nothing_in_flight_behind_that(parts: Parts) -> None:
    for _ in range(3):
        put(parts, "orders", 0)
    parts.offsets.pulled.note("readers", "orders", 0, 3)
    parts.offsets.commit("readers", "orders", 0, 3)

    parts.offsets.commit("readers", "orders", 0, 1)

    assert parts_of_the_lag(parts)[:2] == (0, 2)


async def test_a_group_that_was_set_forward_has_nothing_in_flight(parts: Parts) -> None:
    for _ in range(3):
        put(parts, "orders", 0)
    parts.offsets.pulled.note("readers", "orders", 0, 1)

    parts.offsets.commit("readers", "orders", 0, 2)

    assert parts_of_the_lag(parts)[:2] == (0, 1)


@pytest.mark.parametrize("gone", ["topic", "group"])
async def test_what_was_pulled_goes_with_its_topic_and_its_group(parts: Parts, gone: str) -> None:
    pulled = parts.offsets.pulled
    pulled.note("readers", "orders", 0, 3)
    pulled.note("others", "payments", 0, 4)

    if gone == "topic":
        parts.offsets.remove_topic("orders")
    else:
        parts.offsets.remove_group("readers")

    assert pulled.reached("readers", "orders", 0) is None
    assert pulled.reached("others", "payments", 0) == 4
