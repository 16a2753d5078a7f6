"""What the kernel is taught by the first message to a topic."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from pyromq.broker.broker import Broker
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.requests.send_shortcut import FastSends
from pyromq.config.settings import BrokerProcess, StoreSettings
from pyromq.store.queue_tail import QueueTail
from pyromq.store.store import Draft
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


class Learning:
    """Stands for the kernel: what it was taught since it last forgot."""

    def __init__(self) -> None:
        self.queues: list[tuple[bytes, int]] = []
        self.queue_counts: dict[bytes, int] = {}

    def learn(self, topic: bytes, queue_id: int, queue: QueueTail, sys_flag: int) -> None:
        self.queues.append((topic, queue_id))

    def learn_topic(self, topic: bytes, sys_flag: int, queue_count: int) -> None:
        self.queue_counts[topic] = queue_count

    def forget_all(self) -> None:
        self.queues = []


@pytest.fixture
async def broker(tmp_path: Path) -> AsyncIterator[Broker]:
    process = BrokerProcess(
        store=StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    )
    broker = Broker(process, clock=ManualClock(), use_kernel=False)
    broker.store.open()
    yield broker
    await broker.topics.save()
    broker.store.close()


def taught_by(broker: Broker, kernel: Learning) -> FastSends:
    return FastSends(
        kernel,  # type: ignore[arg-type]
        store=broker.store,
        topics=broker.topics,
        delivery=broker.delivery,
        durability=cast("Durability", None),
        live=broker.live,
        queue=broker.busy.sends,
        clock=broker._clock,
    )


async def put(broker: Broker, *queue_ids: int) -> None:
    broker.topics.ensure("orders", queue_count=4)
    await broker.topics.save()
    for queue_id in queue_ids:
        broker.store.put(
            Draft(
                topic="orders", queue_id=queue_id, body=b"x", properties="", flag=0, sys_flag=0, born_at_ms=0,
                born_host=HOST, store_host=HOST,
            )
        )  # fmt: skip


async def test_with_one_queue_of_a_topic_all_that_have_messages_are_learnt(broker: Broker) -> None:
    kernel = Learning()
    fast = taught_by(broker, kernel)
    await put(broker, 0, 2, 3)
    config = broker.topics.get("orders")
    assert config is not None

    fast.learn(config, 2)
    assert sorted(kernel.queues) == [(b"orders", 0), (b"orders", 2), (b"orders", 3)]

    await put(broker, 1)
    fast.learn(config, 1)
    assert kernel.queues[3:] == [(b"orders", 1)]


async def test_a_topic_that_changes_is_learnt_anew(broker: Broker) -> None:
    kernel = Learning()
    fast = taught_by(broker, kernel)
    await put(broker, 0, 1)
    config = broker.topics.get("orders")
    assert config is not None
    fast.learn(config, 0)

    broker.topics.ensure("other", queue_count=1)
    await broker.topics.save()
    fast.learn(config, 0)

    assert sorted(kernel.queues) == [(b"orders", 0), (b"orders", 1)]
