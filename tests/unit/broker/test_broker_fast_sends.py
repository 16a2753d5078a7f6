"""What the kernel is taught by the first message to a topic."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import cast

import pytest

from pyromq.broker.announcements import Announcements
from pyromq.broker.durability import Durability
from pyromq.broker.fast_sends import FastSends
from pyromq.broker.parts import Parts, make_parts
from pyromq.config.settings import BrokerProcess, StoreSettings
from pyromq.store.queue_tail import QueueTail
from pyromq.store.store import Draft
from pyromq.testing.clock import ManualClock
from pyromq.wire.record import encode_host

HOST = encode_host("127.0.0.1", 10911)


class Learning:
    """Stands for the kernel: what it was taught since it last forgot."""

    def __init__(self) -> None:
        self.queues: list[tuple[bytes, int]] = []

    def learn(self, topic: bytes, queue_id: int, queue: QueueTail, sys_flag: int) -> None:
        self.queues.append((topic, queue_id))

    def forget_all(self) -> None:
        self.queues = []


@pytest.fixture
async def parts(tmp_path: Path) -> AsyncIterator[Parts]:
    process = BrokerProcess(
        store=StoreSettings(store_path_root_dir=str(tmp_path), mapped_file_size_commit_log=1 << 20)
    )
    parts = make_parts(process, clock=ManualClock(), files=None, use_kernel=False)
    parts.store.open()
    yield parts
    await parts.topics.save()
    parts.store.close()


def taught_by(parts: Parts, kernel: Learning) -> FastSends:
    return FastSends(
        kernel,  # type: ignore[arg-type]
        store=parts.store,
        topics=parts.topics,
        arrivals=parts.arrivals,
        announcements=Announcements(parts.store, parts.arrivals),
        log_grew=lambda: None,
        durability=cast("Durability", None),
        common_ext={},
        requests_under_way_max=1,
        live=parts.live,
        busy=parts.busy,
        clock=parts.clock,
    )


async def put(parts: Parts, *queue_ids: int) -> None:
    parts.topics.ensure("orders", queue_count=4)
    await parts.topics.save()
    for queue_id in queue_ids:
        parts.store.put(
            Draft(
                topic="orders", queue_id=queue_id, body=b"x", properties="", flag=0, sys_flag=0, born_at_ms=0,
                born_host=HOST, store_host=HOST,
            )
        )  # fmt: skip


async def test_with_one_queue_of_a_topic_all_that_have_messages_are_learnt(parts: Parts) -> None:
    kernel = Learning()
    fast = taught_by(parts, kernel)
    await put(parts, 0, 2, 3)
    config = parts.topics.get("orders")
    assert config is not None

    fast.learn(config, 2)
    assert sorted(kernel.queues) == [(b"orders", 0), (b"orders", 2), (b"orders", 3)]

    await put(parts, 1)
    fast.learn(config, 1)
    assert kernel.queues[3:] == [(b"orders", 1)]


async def test_a_topic_that_changes_is_learnt_anew(parts: Parts) -> None:
    kernel = Learning()
    fast = taught_by(parts, kernel)
    await put(parts, 0, 1)
    config = parts.topics.get("orders")
    assert config is not None
    fast.learn(config, 0)

    parts.topics.ensure("other", queue_count=1)
    await parts.topics.save()
    fast.learn(config, 0)

    assert sorted(kernel.queues) == [(b"orders", 0), (b"orders", 1)]
