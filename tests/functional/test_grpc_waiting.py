"""What a broker keeps of calls that wait for the disk: little of each, and so many bytes of all."""

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from grpc_consumers import TOPIC, consumer_of, name_of
from grpc_sdk import door_of, message, put_topic, sdk_of
from staged_files import StagedFiles

from pyromq.broker.broker import Broker
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually

BODY = bytes(256 * 1024)
SENDS = 40


@asynccontextmanager
async def cluster_of(folder: Path, files: StagedFiles) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=folder, has_grpc=True, files=files, flush_disk_type="SYNC_FLUSH") as cluster:
        put_topic(cluster, TOPIC, queues=2)
        yield cluster


def broker_of(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


async def until_stored(cluster: Cluster, offset: int) -> None:
    store = broker_of(cluster).store
    await aeventually(lambda: sum(store.max_offset(TOPIC, queue) for queue in (0, 1)) == offset)


def bytes_of_bodies() -> int:
    """Return what is kept that is as large as a body, but by the client."""
    mine = tracemalloc.Filter(inclusive=False, filename_pattern="*/grpc_sdk.py")
    snapshot = tracemalloc.take_snapshot().filter_traces([mine])
    return sum(trace.size for trace in snapshot.traces if trace.size >= len(BODY))


@pytest.mark.parametrize("is_batch", [False, True], ids=["plain", "batch"])
async def test_the_bodies_of_sends_that_wait_are_not_kept(tmp_path: Path, *, is_batch: bool) -> None:
    files = StagedFiles()
    async with cluster_of(tmp_path, files) as cluster, sdk_of(cluster) as sdk:
        for number in range(2):
            await sdk.stored(message(TOPIC, message_id=f"WARM-{number}"))
        more = [message(TOPIC, message_id="second")] if is_batch else []
        with files.held_syncs():
            tracemalloc.start()
            try:
                sends = [asyncio.ensure_future(sdk.send(message(TOPIC, BODY), *more)) for _ in range(SENDS)]
                await until_stored(cluster, 2 + SENDS * (1 + len(more)))
                kept = bytes_of_bodies()
            finally:
                tracemalloc.stop()
        answers = await asyncio.gather(*sends)
    assert {name_of(answer.status) for answer in answers} == {"OK"}
    assert {entry.message_id for answer in answers for entry in answer.entries} == {"ID", "second"} - (
        set() if is_batch else {"second"}
    )
    # A connection may have one in hand.
    assert kept <= 2 * len(BODY)


async def test_calls_that_wait_have_a_limit_in_bytes_and_give_them_back(tmp_path: Path) -> None:
    files = StagedFiles()
    async with cluster_of(tmp_path, files) as cluster, consumer_of(cluster) as consumer:
        door = await door_of(broker_of(cluster))
        waiting = door.table.waiting
        for number in range(3):
            await consumer.sdk.stored(message(TOPIC, b"x", f"ID-{number}"))
        handles = (await consumer.receive_all(3)).handles
        assert waiting.count == 0
        with files.held_syncs():
            first = asyncio.ensure_future(consumer.ack(handles[0]))
            await aeventually(lambda: waiting.count)
            waiting.count_max = waiting.count
            # Neither the kernel's way, nor Python's, nor that of streams takes one more.
            assert name_of((await consumer.ack(handles[1])).status) == "TOO_MANY_REQUESTS"
            assert name_of((await consumer.change(handles[1], 60_000)).status) == "TOO_MANY_REQUESTS"
            refused = await consumer.receive()
            assert refused.name == "TOO_MANY_REQUESTS"
            waiting.count_max += 1
            gone = asyncio.ensure_future(consumer.ack(handles[1]))
            await aeventually(lambda: waiting.count >= waiting.count_max)
            gone.cancel()
            await aeventually(
                lambda: waiting.count < waiting.count_max, what="a cancelled call keeps nothing"
            )
        assert name_of((await first).status) == "OK"
        assert waiting.count == 0
        assert name_of((await consumer.ack(handles[2])).status) == "OK"
