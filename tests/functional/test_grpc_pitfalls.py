"""Fields without which an SDK of RocketMQ 5 hangs or crashes: each is there, on the wire."""

import asyncio
import hashlib
from collections.abc import AsyncIterator

import pytest
from grpc_sdk import (
    Sdk,
    consumer_settings,
    endpoints,
    message,
    producer_settings,
    put_topic,
    resource,
    sdk_of,
)

from pyromq.testing.cluster import Cluster
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import duration_of, ms_of

pytestmark = pytest.mark.row("GR-33")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        put_topic(cluster, "Orders", queues=2)
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster) as sdk:
        yield sdk


async def received(sdk: Sdk) -> list[pb.ReceiveMessageResponse]:
    request = pb.ReceiveMessageRequest(
        group=resource("readers"),
        message_queue=pb.MessageQueue(topic=resource("Orders")),
        filter_expression=pb.FilterExpression(type=1, expression="*"),
        batch_size=8,
        invisible_duration=duration_of(30_000),
        long_polling_timeout=duration_of(5_000),
    )
    return [answer async for answer in sdk.receive("ReceiveMessage", request, timeout=6)]


async def test_settings_of_producers_have_all_that_they_rely_on(sdk: Sdk) -> None:
    command = await sdk.telemetry().settings(producer_settings("Orders"))
    settings = command.settings
    # Python hangs without the first, Java and Node without the second; all refuse to send without the third.
    assert command.HasField("status")
    assert command.status.code == GrpcCode.OK
    assert settings.backoff_policy.WhichOneof("strategy") == "exponential_backoff"
    assert settings.publishing.max_body_size > 0
    assert settings.HasField("metric")
    assert not settings.metric.on


async def test_settings_of_consumers_have_all_that_they_rely_on(sdk: Sdk) -> None:
    settings = (await sdk.telemetry().settings(consumer_settings("readers", {"Orders": "*"}))).settings
    assert settings.backoff_policy.WhichOneof("strategy") is not None
    assert settings.backoff_policy.max_attempts > 0
    assert ms_of(settings.subscription.long_polling_timeout) > 0
    assert settings.subscription.receive_batch_size > 0
    assert settings.HasField("metric")


async def test_a_stream_stays_open_behind_its_settings(sdk: Sdk) -> None:
    # Java, Node and C++ would connect again each second.
    stream = sdk.telemetry()
    for _ in range(2):
        await stream.settings(producer_settings("Orders"))
    waiting = asyncio.ensure_future(stream.next())
    await sdk.call("Heartbeat", pb.HeartbeatRequest(client_type=1))
    assert not waiting.done()
    waiting.cancel()


async def test_a_route_has_what_clients_connect_to_and_what_they_may_send(sdk: Sdk) -> None:
    request = pb.QueryRouteRequest(topic=resource("Orders"), endpoints=endpoints())
    queues = (await sdk.call("QueryRoute", request)).message_queues
    assert queues
    for queue in queues:
        assert queue.broker.endpoints.scheme
        assert len(queue.broker.endpoints.addresses) == 1
        assert queue.accept_message_types
    assert [queue.permission for queue in queues if queue.broker.id == 0] == [4, 4]


async def test_a_route_that_is_empty_is_no_success(sdk: Sdk) -> None:
    request = pb.QueryRouteRequest(topic=resource("Nowhere"), endpoints=endpoints())
    answer = await sdk.call("QueryRoute", request)
    assert not answer.message_queues
    assert answer.status.code == GrpcCode.TOPIC_NOT_FOUND


async def test_a_send_has_as_many_entries_as_messages(sdk: Sdk) -> None:
    for count in (1, 3):
        sent = [message("Orders", str(number).encode(), f"ID{number}") for number in range(count)]
        answer = await sdk.send(*sent)
        assert len(answer.entries) == count
        assert all(entry.status.code == GrpcCode.OK for entry in answer.entries)
        # A code of 0 makes Python raise.
        assert answer.status.code == GrpcCode.OK


async def test_a_received_message_has_what_clients_read_without_looking(sdk: Sdk) -> None:
    sent = message("Orders", b"hello")
    sent.system_properties.ClearField("born_timestamp")
    await sdk.stored(sent)
    answers = await received(sdk)
    assert [answer.WhichOneof("content") for answer in answers] == ["status", "message", "delivery_timestamp"]
    assert answers[0].status.code == GrpcCode.OK
    system = answers[1].message.system_properties
    # C++ crashes on a wrong digest; Node and C# without one, C# without a time; Python without an encoding.
    assert system.body_digest.type == 2
    digest = hashlib.md5(b"hello", usedforsecurity=False).hexdigest().upper()
    assert system.body_digest.checksum == digest
    assert system.body_encoding == 1
    assert system.HasField("born_timestamp")
    changed = await sdk.call(
        "ChangeInvisibleDuration",
        pb.ChangeInvisibleDurationRequest(
            group=resource("readers"),
            topic=resource("Orders"),
            receipt_handle=system.receipt_handle,
            invisible_duration=duration_of(20_000),
        ),
    )
    assert changed.status.code == GrpcCode.OK
    assert changed.receipt_handle


async def test_nothing_found_is_said_first_and_once(sdk: Sdk) -> None:
    answers = await received(sdk)
    assert [answer.WhichOneof("content") for answer in answers] == ["status", "delivery_timestamp"]
    assert answers[0].status.code == GrpcCode.MESSAGE_NOT_FOUND
