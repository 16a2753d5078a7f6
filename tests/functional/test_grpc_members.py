"""gRPC clients as members of groups: operators see them, and ask them, as they do others."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from grpc_sdk import Sdk, SdkStream, consumer_settings, door_of, message, producer_settings, put_topic, sdk_of

from pyromq.broker.grpc import grpc_members
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.running_info import DirectResult, decode_direct_consumption, decode_running_state
from pyromq.wire.command import Command
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import decode_record


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        put_topic(cluster, "Orders", queues=1)
        yield cluster


@pytest.fixture
async def operator(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as operator:
        yield operator


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster, "worker", x_mq_language="PYTHON") as sdk:
        yield sdk


@pytest.fixture
async def stream(sdk: Sdk) -> SdkStream:
    stream = sdk.telemetry()
    await stream.settings(consumer_settings("readers", {"Orders": "a || b"}, client_type=2))
    return stream


async def test_operators_see_a_consumer(operator: WireClient, stream: SdkStream) -> None:
    answer = await operator.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "readers"})
    connections = json.loads(answer.body)
    [one] = connections["connectionSet"]
    assert (one["clientId"], one["language"]) == ("worker", "PYTHON")
    assert one["clientAddr"].startswith("127.0.0.1:")
    assert connections["subscriptionTable"]["Orders"]["subString"] == "a || b"
    assert connections["consumeType"] == "CONSUME_PASSIVELY"


async def test_operators_see_a_producer(operator: WireClient, sdk: Sdk) -> None:
    await sdk.telemetry().settings(producer_settings("Orders"))
    answer = await operator.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "Orders"})
    [one] = json.loads(answer.body)["connectionSet"]
    assert (one["clientId"], one["language"]) == ("worker", "PYTHON")


def running_info(operator: WireClient) -> "asyncio.Task[Command]":
    fields = {"consumerGroup": "readers", "clientId": "worker", "jstackEnable": "true"}
    return asyncio.ensure_future(operator.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields))


async def test_a_consumer_says_what_its_threads_do(operator: WireClient, stream: SdkStream) -> None:
    asked = running_info(operator)
    command = (await stream.next()).print_thread_stack_trace_command
    trace = pb.ThreadStackTrace(nonce=command.nonce, thread_stack_trace="main: at rest")
    await stream.say(pb.TelemetryCommand(status=pb.Status(code=GrpcCode.OK), thread_stack_trace=trace))
    state = decode_running_state((await asked).body)
    assert state.stacks == "main: at rest"
    assert [each.topic for each in state.subscriptions] == ["Orders"]


async def test_an_answer_with_another_nonce_is_nobodys(operator: WireClient, stream: SdkStream) -> None:
    asked = running_info(operator)
    command = (await stream.next()).print_thread_stack_trace_command
    for nonce in ("77", command.nonce):
        trace = pb.ThreadStackTrace(nonce=nonce, thread_stack_trace=f"of {nonce}")
        await stream.say(pb.TelemetryCommand(thread_stack_trace=trace))
    assert decode_running_state((await asked).body).stacks == f"of {command.nonce}"


@pytest.mark.parametrize(
    ("code", "result"),
    [
        (GrpcCode.OK, DirectResult.SUCCESS),
        (GrpcCode.FAILED_TO_CONSUME_MESSAGE, DirectResult.LATER),
        (GrpcCode.MESSAGE_CORRUPTED, DirectResult.RETURN_NULL),
    ],
)
async def test_a_consumer_consumes_a_message_when_an_operator_says_so(
    cluster: Cluster, operator: WireClient, sdk: Sdk, stream: SdkStream, code: int, result: DirectResult
) -> None:
    await sdk.stored(message("Orders", b"look at this"))
    [broker] = cluster.brokers.values()
    record = decode_record(broker.store.get("Orders", 0, 0, count_max=1).body)
    fields = {
        "consumerGroup": "readers",
        "clientId": "worker",
        "msgId": offset_message_id(record.store_host, record.position),
    }
    asked = asyncio.ensure_future(operator.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields))
    command = (await stream.next()).verify_message_command
    assert (command.message.topic.name, command.message.body) == ("Orders", b"look at this")
    answer = pb.VerifyMessageResult(nonce=command.nonce)
    await stream.say(pb.TelemetryCommand(status=pb.Status(code=code), verify_message_result=answer))
    consumed = decode_direct_consumption((await asked).body)
    assert (consumed.consume_result, consumed.remark) == (result, "from gRPC client")


async def test_a_client_that_cannot_do_it_says_so(
    cluster: Cluster, operator: WireClient, sdk: Sdk, stream: SdkStream
) -> None:
    asked = running_info(operator)
    command = (await stream.next()).print_thread_stack_trace_command
    assert command.nonce
    await stream.half_close()
    with pytest.raises(EOFError):
        await stream.next()
    [broker] = cluster.brokers.values()
    group = broker.groups.consumers.get("readers")
    assert group is not None
    [member] = group.members
    await aeventually(lambda: member.closed)
    refused = await running_info(operator)
    assert refused.code == ResponseCode.SYSTEM_ERROR
    assert "no Telemetry stream" in (refused.remark or "")
    asked.cancel()


async def test_what_clients_say_of_themselves_is_bounded(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_members, "ALL_SETTINGS_BYTES_MAX", 40_000)
    [broker] = cluster.brokers.values()
    door = await door_of(broker)
    topics = [f"{'t' * 100}-{number}" for number in range(100)]
    for number in range(8):
        async with sdk_of(cluster, f"client-{number}") as sdk:
            await sdk.telemetry().settings(producer_settings(*topics))
            await sdk.telemetry().settings(producer_settings(*topics))
    known = [member.client_id for member in door.members]
    assert known[-1] == "client-7"
    assert 1 < len(known) < 5
    # Whoever was forgotten comes again with its next heartbeat.
    async with sdk_of(cluster, "client-0") as sdk:
        request = pb.HeartbeatRequest(client_type=1)
        assert (await sdk.call("Heartbeat", request)).status.code == GrpcCode.OK
