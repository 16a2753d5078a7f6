"""A thousand Telemetry streams that end in every way: nothing stays of them, and clients go by silence."""

import asyncio
import gc
from collections.abc import Iterable

from grpc_sdk import Sdk, SdkStream, consumer_settings, door_of, producer_settings, sdk_of

from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually

COUNT = 1_000
WAIT_S = 60


async def begun(sdk: Sdk, numbers: Iterable[int]) -> list[SdkStream]:
    """Open a stream for each of these clients, and have its settings answered."""
    streams = []
    for number in numbers:
        sdk.headers["x-mq-client-id"] = f"client-{number}"
        sdk.headers["x-mq-language"] = ("JAVA", "HTTP")[number % 2]
        streams.append(sdk.telemetry())
    mine = [producer_settings("Orders"), consumer_settings("readers", {"Orders": "*"})]
    for number, stream in enumerate(streams):
        await stream.settings(mine[number // 2 % 2])
    return streams


async def test_streams_that_end_leave_nothing_and_clients_go_when_they_are_silent() -> None:
    clock = ManualClock()
    async with Cluster(has_grpc=True, clock=clock, server_channel_max_idle_time_seconds=100_000) as cluster:
        [broker] = cluster.brokers.values()
        door = await door_of(broker)
        # What a first client brings along, such as the loop's own tasks, is there already.
        async with sdk_of(cluster) as sdk:
            await begun(sdk, [COUNT])
        await aeventually(lambda: not door.links, WAIT_S, what="the first connection ends")
        gc.collect()
        tasks_before = len(asyncio.all_tasks())

        async with sdk_of(cluster) as sdk, sdk_of(cluster) as lost:
            streams = await begun(sdk, range(COUNT))
            await begun(lost, range(COUNT, COUNT + 100))
            assert len(door.members) == COUNT + 100
            assert sum(link.call_count for link in door.links) == COUNT + 100
            for number, stream in enumerate(streams):
                if number % 2:
                    await stream.half_close()
                else:
                    stream.cancel()
            assert [await stream.code() for stream in streams[:4]] == ["CANCELLED", "OK"] * 2
            for link in door.links:
                if link.call_count == 100:
                    link.abort()
            await aeventually(
                lambda: not any(link.call_count or link.under_way for link in door.links), WAIT_S
            )
            assert all(member.stream is None for member in door.members)
            del streams, stream
        await aeventually(lambda: not door.links, WAIT_S, what="the connections end")
        gc.collect()
        await aeventually(lambda: len(asyncio.all_tasks()) <= tasks_before, WAIT_S, what="no task stays")

        # Their settings stay, as a stream that ends is no end of a client; and go with them.
        assert len(door.members) == COUNT + 100
        assert broker.groups.consumers.get("readers") is not None
        clock.advance(125_000)
        await aeventually(lambda: len(door.members) == 0, WAIT_S, what="silent clients are forgotten")
        assert door.members._settings_bytes == 0
        assert broker.groups.consumers.get("readers") is None
