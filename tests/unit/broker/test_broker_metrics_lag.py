from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.metrics.metrics_lag import Lags
from pyromq.config.settings import BrokerProcess, StoreSettings
from pyromq.store.store import Draft
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(now_ms=1_000_000)


@pytest.fixture
async def broker(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Broker]:
    process = BrokerProcess(
        store=StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    )
    broker = Broker(process, clock=clock, use_kernel=False)
    broker.store.open()
    yield broker
    await broker.topics.save()
    broker.store.close()


def put(broker: Broker, topic: str, queue_id: int) -> None:
    broker.topics.ensure(topic, queue_count=2)
    broker.store.put(
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


def looked(broker: Broker) -> tuple[dict[tuple[str, ...], float], dict[tuple[str, ...], float], int]:
    lags = Lags(broker.groups.offsets, broker.topics, broker.store, broker._clock)
    steps = sum(1 for _ in lags.look())
    seen = {figure.name: dict(figure.read()) for figure in lags.figures()}
    return seen["rocketmq_consumer_lag_messages"], seen["rocketmq_consumer_lag_latency"], steps


def parts_of_the_lag(broker: Broker) -> tuple[float, float, float]:
    """What is in flight, what is ready, and how long the oldest of that waits, of one group in one topic."""
    lags = Lags(broker.groups.offsets, broker.topics, broker.store, broker._clock)
    for _ in lags.look():
        pass
    lag, _, *others = (next(iter(figure.read().values())) for figure in lags.figures())
    in_flight, ready, waits_ms = others
    assert in_flight + ready == lag
    return in_flight, ready, waits_ms


async def test_a_lag_is_the_sum_of_the_queues_and_as_old_as_the_oldest_message(
    broker: Broker, clock: ManualClock
) -> None:
    for queue_id in (0, 0, 1):
        put(broker, "orders", queue_id)
        clock.advance(100)
    broker.groups.offsets.commit("readers", "orders", 0, 1)

    messages, latency, _ = looked(broker)

    # Queue 1 was never committed: all of it is behind.
    assert messages == {("readers", "orders", "false"): 2}
    assert latency == {("readers", "orders", "false"): 200}


async def test_a_group_that_has_all_is_not_behind(broker: Broker) -> None:
    put(broker, "orders", 0)
    broker.groups.offsets.commit("readers", "orders", 0, 1)

    messages, latency, _ = looked(broker)

    assert (list(messages.values()), list(latency.values())) == ([0], [0])


async def test_retries_are_told_apart_and_topics_that_are_gone_are_not_shown(broker: Broker) -> None:
    put(broker, "%RETRY%readers", 0)
    broker.groups.offsets.commit("readers", "%RETRY%readers", 0, 0)
    broker.groups.offsets.commit("readers", "gone", 0, 0)

    messages, _, _ = looked(broker)

    assert messages == {("readers", "%RETRY%readers", "true"): 1}


async def test_many_groups_are_looked_at_in_as_many_steps_as_there_are_queues(broker: Broker) -> None:
    topics, groups = 1_000, 2_000
    for number in range(topics):
        broker.topics.ensure(f"topic-{number}", queue_count=1)
    for number in range(groups):
        broker.groups.offsets.commit(f"group-{number}", f"topic-{number % topics}", 0, 0)
        broker.groups.offsets.commit(f"group-{number}", f"topic-{(number + 1) % topics}", 0, 0)

    messages, _, steps = looked(broker)

    assert len(messages) == 2 * groups
    assert steps == 2 * groups


async def test_what_was_pulled_is_in_flight_until_it_is_committed(broker: Broker, clock: ManualClock) -> None:
    for _ in range(5):
        put(broker, "orders", 0)
        clock.advance(100)
    broker.groups.offsets.commit("readers", "orders", 0, 1)
    assert parts_of_the_lag(broker) == (0, 4, 400)

    broker.groups.offsets.pulled.note("readers", "orders", 0, 3)
    assert parts_of_the_lag(broker) == (2, 2, 200)

    broker.groups.offsets.pulled.note("readers", "orders", 0, 5)
    assert parts_of_the_lag(broker) == (4, 0, 0)

    broker.groups.offsets.commit("readers", "orders", 0, 5)
    assert parts_of_the_lag(broker) == (0, 0, 0)


async def test_a_group_that_goes_back_has_nothing_in_flight_behind_that(broker: Broker) -> None:
    for _ in range(3):
        put(broker, "orders", 0)
    broker.groups.offsets.pulled.note("readers", "orders", 0, 3)
    broker.groups.offsets.commit("readers", "orders", 0, 3)

    broker.groups.offsets.commit("readers", "orders", 0, 1)

    assert parts_of_the_lag(broker)[:2] == (0, 2)


async def test_a_group_that_was_set_forward_has_nothing_in_flight(broker: Broker) -> None:
    for _ in range(3):
        put(broker, "orders", 0)
    broker.groups.offsets.pulled.note("readers", "orders", 0, 1)

    broker.groups.offsets.commit("readers", "orders", 0, 2)

    assert parts_of_the_lag(broker)[:2] == (0, 1)


@pytest.mark.parametrize("gone", ["topic", "group"])
async def test_what_was_pulled_goes_with_its_topic_and_its_group(broker: Broker, gone: str) -> None:
    pulled = broker.groups.offsets.pulled
    pulled.note("readers", "orders", 0, 3)
    pulled.note("others", "payments", 0, 4)

    if gone == "topic":
        broker.groups.offsets.remove_topic("orders")
    else:
        broker.groups.offsets.remove_group("readers")

    assert pulled.reached("readers", "orders", 0) is None
    assert pulled.reached("others", "payments", 0) == 4
