"""Requests of gRPC clients that name a queue: PullMessage, UpdateOffset, GetOffset, QueryOffset."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from grpc_consumers import TOPIC, consumer_of, name_of
from grpc_sdk import Sdk, put_topic, resource

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_times import duration_of, timestamp_of

BEGINNING, END, TIMESTAMP = range(3)


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(clock=clock, has_grpc=True) as cluster:
        put_topic(cluster, TOPIC, queues=2)
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with consumer_of(cluster) as consumer:
        yield consumer.sdk


async def send(client: WireClient, *bodies: bytes, **properties: str) -> None:
    for body in bodies:
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields(TOPIC, properties), body)
        assert answer.code == ResponseCode.SUCCESS


def queue(queue_id: int = 0, topic: str = TOPIC) -> pb.MessageQueue:
    return pb.MessageQueue(topic=resource(topic), id=queue_id)


async def pull(
    sdk: Sdk, offset: int = 0, *, of: pb.MessageQueue | None = None, batch: int = 32, tags: str = "*"
) -> tuple[str, list[bytes], int | None]:
    """Return the name of the status, the bodies, and the next offset."""
    request = pb.PullMessageRequest(
        group=resource("readers"),
        message_queue=of or queue(),
        offset=offset,
        batch_size=batch,
        filter_expression=pb.FilterExpression(type=1, expression=tags),
        long_polling_timeout=duration_of(5_000),
    )
    contents = [each async for each in sdk.receive("PullMessage", request)]
    assert contents[0].HasField("status")
    nexts = [each.next_offset for each in contents if each.WhichOneof("content") == "next_offset"]
    return (
        name_of(contents[0].status),
        [each.message.body for each in contents if each.HasField("message")],
        nexts[0] if nexts else None,
    )


async def test_a_pull_brings_messages_and_the_next_offset(client: WireClient, sdk: Sdk) -> None:
    await send(client, b"one", b"two", b"three")

    assert await pull(sdk, batch=2) == ("OK", [b"one", b"two"], 2)
    assert await pull(sdk, 2) == ("OK", [b"three"], 3)


async def test_a_pull_waits_for_the_next_message_that_it_wants(
    client: WireClient, sdk: Sdk, broker: Broker
) -> None:
    waiting = asyncio.ensure_future(pull(sdk, tags="blue"))
    await aeventually(lambda: broker.delivery.arrivals.held_count)
    await send(client, b"red", TAGS="red")
    await send(client, b"blue", TAGS="blue")

    assert await waiting == ("OK", [b"blue"], 2)
    assert broker.delivery.arrivals.held_count == 0


async def test_a_pull_that_found_nothing_in_its_time_says_so(
    sdk: Sdk, broker: Broker, clock: ManualClock
) -> None:
    waiting = asyncio.ensure_future(pull(sdk))
    await aeventually(lambda: broker.delivery.arrivals.held_count)
    clock.advance(5_000)
    broker.delivery.arrivals.sweep()

    assert await waiting == ("MESSAGE_NOT_FOUND", [], 0)


async def test_a_pull_passes_over_what_it_does_not_want(client: WireClient, sdk: Sdk) -> None:
    await send(client, b"red", TAGS="red")

    assert await pull(sdk, tags="blue") == ("MESSAGE_NOT_FOUND", [], 1)


@pytest.mark.parametrize("offset", [4, 1 << 40])
async def test_an_offset_beyond_the_end_is_told_the_end(client: WireClient, sdk: Sdk, offset: int) -> None:
    await send(client, b"one")

    assert await pull(sdk, offset) == ("ILLEGAL_OFFSET", [], 1)


async def test_a_pull_that_may_not_be_is_refused(sdk: Sdk) -> None:
    assert (await pull(sdk, -1))[0] == "ILLEGAL_OFFSET"
    assert (await pull(sdk, batch=0))[0] == "BAD_REQUEST"
    assert (await pull(sdk, tags="||"))[0] == "ILLEGAL_FILTER_EXPRESSION"
    assert (await pull(sdk, of=queue(2)))[0] == "BAD_REQUEST"
    assert (await pull(sdk, of=queue(-1)))[0] == "BAD_REQUEST"
    assert (await pull(sdk, of=queue(topic="Nowhere")))[0] == "TOPIC_NOT_FOUND"
    assert (await pull(sdk, of=queue(topic="a b")))[0] == "ILLEGAL_TOPIC"


async def test_progress_is_set_and_asked_for(sdk: Sdk, broker: Broker) -> None:
    asked = pb.GetOffsetRequest(group=resource("readers"), message_queue=queue(1))
    unknown = await sdk.call("GetOffset", asked)
    update = pb.UpdateOffsetRequest(group=resource("readers"), message_queue=queue(1), offset=7)
    updated = await sdk.call("UpdateOffset", update)
    known = await sdk.call("GetOffset", asked)
    update.offset = -1
    refused = await sdk.call("UpdateOffset", update)

    assert name_of(unknown.status) == "OFFSET_NOT_FOUND"
    assert name_of(updated.status) == "OK"
    assert (name_of(known.status), known.offset) == ("OK", 7)
    assert name_of(refused.status) == "ILLEGAL_OFFSET"
    assert broker.groups.offsets.progress("readers", TOPIC, 1) == 7


async def test_a_queue_says_where_it_begins_and_ends_and_what_was_when(
    client: WireClient, sdk: Sdk, clock: ManualClock
) -> None:
    await send(client, b"one")
    clock.advance(10_000)
    await send(client, b"two", b"three")

    async def offset(policy: int, at_ms: int | None = None) -> tuple[str, int]:
        request = pb.QueryOffsetRequest(message_queue=queue(), query_offset_policy=policy)
        if at_ms is not None:
            request.timestamp.CopyFrom(timestamp_of(at_ms))
        answer = await sdk.call("QueryOffset", request)
        return name_of(answer.status), answer.offset

    assert await offset(BEGINNING) == ("OK", 0)
    assert await offset(END) == ("OK", 3)
    assert await offset(TIMESTAMP, clock.now_ms()) == ("OK", 1)
    assert (await offset(TIMESTAMP))[0] == "BAD_REQUEST"
    assert (await offset(7))[0] == "BAD_REQUEST"
