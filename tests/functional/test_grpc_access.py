"""Accounts and permissions of gRPC clients: each RPC without an account, with too little, and with enough."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from grpc_sdk import (
    CALL_S,
    STREAMED,
    UNARY,
    Sdk,
    consumer_settings,
    door_of,
    endpoints,
    message,
    producer_settings,
    put_topic,
    resource,
    signed,
)

from pyromq.broker.access.account_files import AccountChange
from pyromq.kernel import IS_COMPILED
from pyromq.testing.cluster import Cluster
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode

if TYPE_CHECKING:
    pass

ACCOUNTS = """
accounts:
- accessKey: admin-key
  secretKey: admin-secret
  admin: true
- accessKey: writer-key
  secretKey: writer-secret
  topicPerms: [Orders=PUB]
- accessKey: reader-key
  secretKey: reader-secret
  topicPerms: [Orders=SUB]
  groupPerms: [readers=SUB]
- accessKey: topic-reader-key
  secretKey: topic-reader-secret
  topicPerms: [Orders=SUB]
- accessKey: group-reader-key
  secretKey: group-reader-secret
  groupPerms: [readers=SUB]
- accessKey: nobody-key
  secretKey: nobody-secret
"""
DATE_TIME = "20240102T030405Z"
#: The accounts that may make each call; the administrator may make all.
MAY: dict[str, set[str]] = {
    "QueryRoute": {"writer", "reader", "topic-reader"},
    "Heartbeat": {"reader", "group-reader"},
    "SendMessage": {"writer"},
    "QueryAssignment": {"reader"},
    "ReceiveMessage": {"reader"},
    "AckMessage": {"reader"},
    "ChangeInvisibleDuration": {"reader", "group-reader"},
    "ForwardMessageToDeadLetterQueue": {"reader"},
    "EndTransaction": {"writer"},
    "NotifyClientTermination": {"reader", "group-reader"},
    "RecallMessage": {"writer"},
    "PullMessage": {"reader"},
    "UpdateOffset": {"reader"},
    "GetOffset": {"reader"},
    "QueryOffset": {"reader", "topic-reader"},
    "SyncLiteSubscription": {"reader"},
}
NAMES = ("admin", "writer", "reader", "topic-reader", "group-reader", "nobody")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    folder = tmp_path / "accounts"
    folder.mkdir()
    (folder / "plain_acl.yml").write_text(ACCOUNTS)
    settings: dict[str, Any] = {
        "acl_enable": True,
        "acl_folder": str(folder),
        "inner_client_authentication_credentials": '{"accessKey":"admin-key","secretKey":"admin-secret"}',
    }
    async with Cluster(data_dir=tmp_path / "data", has_grpc=True, **settings) as cluster:
        put_topic(cluster, "Orders")
        yield cluster


def account(name: str) -> dict[str, str]:
    return signed(f"{name}-key", f"{name}-secret", DATE_TIME)


def client(cluster: Cluster, headers: dict[str, str] | None = None, client_id: str | None = "client") -> Sdk:
    sdk = Sdk(cluster.grpc_addresses[0], client_id)
    sdk.headers |= headers or {}
    return sdk


def requests() -> dict[str, Any]:
    topic, group = resource("Orders"), resource("readers")
    queue = pb.MessageQueue(topic=topic)
    entry = pb.AckMessageEntry(message_id="ID", receipt_handle="no handle")
    return {
        "QueryRoute": pb.QueryRouteRequest(topic=topic, endpoints=endpoints()),
        "Heartbeat": pb.HeartbeatRequest(group=group, client_type=3),
        "SendMessage": pb.SendMessageRequest(messages=[message("Orders")]),
        "QueryAssignment": pb.QueryAssignmentRequest(topic=topic, group=group, endpoints=endpoints()),
        "ReceiveMessage": pb.ReceiveMessageRequest(group=group, message_queue=queue, batch_size=0),
        "AckMessage": pb.AckMessageRequest(group=group, topic=topic, entries=[entry]),
        "ChangeInvisibleDuration": pb.ChangeInvisibleDurationRequest(
            group=group, topic=topic, receipt_handle="no handle"
        ),
        "ForwardMessageToDeadLetterQueue": pb.ForwardMessageToDeadLetterQueueRequest(
            group=group, topic=topic, receipt_handle="no handle"
        ),
        "EndTransaction": pb.EndTransactionRequest(topic=topic, transaction_id="none", resolution=1),
        "NotifyClientTermination": pb.NotifyClientTerminationRequest(group=group),
        "RecallMessage": pb.RecallMessageRequest(topic=topic, recall_handle="no handle"),
        "PullMessage": pb.PullMessageRequest(group=group, message_queue=queue),
        "UpdateOffset": pb.UpdateOffsetRequest(group=group, message_queue=queue),
        "GetOffset": pb.GetOffsetRequest(group=group, message_queue=queue),
        "QueryOffset": pb.QueryOffsetRequest(message_queue=queue),
        "SyncLiteSubscription": pb.SyncLiteSubscriptionRequest(topic=topic, group=group),
    }


async def served(cluster: Cluster) -> list[str]:
    """Return the names of all RPCs that the broker answers, but for Telemetry."""
    [broker] = cluster.brokers.values()
    door = await door_of(broker)
    assert {path.rpartition("/")[2] for path in door.table.methods} == {*door.table.rpcs, "Telemetry"}
    return list(door.table.rpcs)


async def code_of(sdk: Sdk, name: str) -> int:
    request = requests()[name]
    if name in UNARY:
        return int((await sdk.call(name, request)).status.code)
    assert name in STREAMED
    stream = sdk.receive(name, request, timeout=CALL_S)
    answers = [answer async for answer in stream]
    assert answers[0].WhichOneof("content") == "status"
    code = int(answers[0].status.code)
    if code in (GrpcCode.UNAUTHORIZED, GrpcCode.CLIENT_ID_REQUIRED):
        # Whoever is not let in is told nothing more.
        assert len(answers) == 1
    return code


@pytest.mark.row("GR-02")
async def test_every_call_needs_a_client_id(cluster: Cluster) -> None:
    for client_id in (None, "", "i" * 2000):
        async with client(cluster, account("admin"), client_id) as sdk:
            for name in await served(cluster):
                assert await code_of(sdk, name) == GrpcCode.CLIENT_ID_REQUIRED, name


@pytest.mark.row("GR-05")
@pytest.mark.parametrize("name", NAMES)
async def test_an_account_makes_the_calls_that_it_may(cluster: Cluster, name: str) -> None:
    async with client(cluster, account(name)) as sdk:
        for rpc in await served(cluster):
            is_let_in = await code_of(sdk, rpc) != GrpcCode.UNAUTHORIZED
            assert is_let_in == (name == "admin" or name in MAY[rpc]), rpc


@pytest.mark.row("GR-03")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": ""},
        {"authorization": "Basic abc"},
        {"authorization": "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature="},
        {"authorization": "MQv2-HMAC-SHA1 Credential=admin-key, SignedHeaders=x-mq-date-time, Signature=zz"},
        {"authorization": "MQv2-HMAC-SHA1 " + "a" * 5000},
        signed("admin-key", "wrong", DATE_TIME),
        signed("unknown-key", "admin-secret", DATE_TIME),
        signed("admin-key", "admin-secret", DATE_TIME) | {"x-mq-date-time": "20240102T030406Z"},
    ],
)
async def test_a_call_without_a_right_signature_is_refused(cluster: Cluster, headers: dict[str, str]) -> None:
    async with client(cluster, headers) as sdk:
        for name in await served(cluster):
            assert await code_of(sdk, name) == GrpcCode.UNAUTHORIZED, name
        stream = sdk.telemetry()
        command = await stream.settings(producer_settings("Orders"))
        assert command.status.code == GrpcCode.UNAUTHORIZED
        assert command.WhichOneof("command") is None
        assert await stream.code() == "OK"


@pytest.mark.row("GR-03")
@pytest.mark.parametrize(
    "headers",
    [
        signed("admin-key", "admin-secret", DATE_TIME),
        signed("admin-key", "admin-secret", DATE_TIME, is_upper=True),
        signed("admin-key/region/RocketMQ", "admin-secret", DATE_TIME),
        signed("admin-key//Rocketmq", "admin-secret", DATE_TIME),
        signed("admin-key", "admin-secret", "2024-01-02T03:04:05.123+08:00"),
    ],
)
async def test_a_right_signature_passes_however_it_is_written(
    cluster: Cluster, headers: dict[str, str]
) -> None:
    async with client(cluster, headers) as sdk:
        assert await code_of(sdk, "SendMessage") == GrpcCode.OK
        answer = await sdk.telemetry().settings(producer_settings("Orders"))
        assert answer.status.code == GrpcCode.OK


@pytest.mark.row("GR-03")
def test_a_signature_is_the_one_that_the_specification_has() -> None:
    headers = signed("AK", "rocketmq2secret", DATE_TIME)
    assert headers["authorization"].endswith("Signature=3d534c159794ec0f335f0dc2b9ae4bc4dcde566a")


@pytest.mark.row("GR-04")
@pytest.mark.parametrize(
    "headers",
    [
        {"authorization": "MQv2-HMAC-SHA1 Credential=, SignedHeaders=x-mq-date-time, Signature=00"},
        {"authorization": "nonsense"},
        signed("unknown", "wrong", DATE_TIME),
    ],
)
async def test_without_access_control_nobody_looks_at_signatures(headers: dict[str, str]) -> None:
    async with Cluster(has_grpc=True) as cluster, client(cluster, headers) as sdk:
        put_topic(cluster, "Orders")
        assert await code_of(sdk, "SendMessage") == GrpcCode.OK
        assert (await sdk.telemetry().settings(producer_settings("Orders"))).status.code == GrpcCode.OK


@pytest.mark.row("GR-05")
@pytest.mark.parametrize(
    ("name", "settings", "code"),
    [
        ("writer", producer_settings("Orders"), GrpcCode.OK),
        ("writer", producer_settings("Orders", "Secrets"), GrpcCode.UNAUTHORIZED),
        ("reader", producer_settings("Orders"), GrpcCode.UNAUTHORIZED),
        ("nobody", producer_settings(), GrpcCode.OK),
        ("reader", consumer_settings("readers", {"Orders": "*"}), GrpcCode.OK),
        ("reader", consumer_settings("readers", {"Secrets": "*"}), GrpcCode.UNAUTHORIZED),
        ("topic-reader", consumer_settings("readers", {"Orders": "*"}), GrpcCode.UNAUTHORIZED),
        ("group-reader", consumer_settings("readers", {"Orders": "*"}), GrpcCode.UNAUTHORIZED),
        ("group-reader", consumer_settings("readers"), GrpcCode.OK),
    ],
)
async def test_settings_need_what_they_name(
    cluster: Cluster, name: str, settings: pb.Settings, code: int
) -> None:
    async with client(cluster, account(name)) as sdk:
        assert (await sdk.telemetry().settings(settings)).status.code == code


@pytest.mark.row("GR-05")
async def test_a_producers_heartbeat_needs_a_signature_only(cluster: Cluster) -> None:
    async with client(cluster, account("nobody")) as sdk:
        response = await sdk.call("Heartbeat", pb.HeartbeatRequest(client_type=1))
        assert response.status.code == GrpcCode.OK
        response = await sdk.call("NotifyClientTermination", pb.NotifyClientTerminationRequest())
        assert response.status.code == GrpcCode.OK


@pytest.mark.row("GR-05")
async def test_a_refusal_comes_before_what_is_not_there(cluster: Cluster) -> None:
    async with client(cluster, account("writer")) as sdk:
        assert (await sdk.send(message("Nowhere"))).status.code == GrpcCode.UNAUTHORIZED


# Calls that the kernel lets in ------------------------------------------------------------------------------


async def received(sdk: Sdk, count: int) -> list[pb.Message]:
    """Receive so many messages of `Orders` for the readers."""
    found: list[pb.Message] = []
    while len(found) < count:
        request = pb.ReceiveMessageRequest(
            group=resource("readers"),
            message_queue=pb.MessageQueue(topic=resource("Orders")),
            batch_size=32,
        )
        request.invisible_duration.seconds = 60
        request.long_polling_timeout.seconds = 5
        async for answer in sdk.receive("ReceiveMessage", request, timeout=CALL_S):
            if answer.WhichOneof("content") == "message":
                found.append(answer.message)
    return found


def ack_of(one: pb.Message) -> pb.AckMessageRequest:
    handle = one.system_properties.receipt_handle
    entry = pb.AckMessageEntry(message_id=one.system_properties.message_id, receipt_handle=handle)
    return pb.AckMessageRequest(group=resource("readers"), topic=resource("Orders"), entries=[entry])


def change_of(one: pb.Message) -> pb.ChangeInvisibleDurationRequest:
    request = pb.ChangeInvisibleDurationRequest(
        group=resource("readers"),
        topic=resource("Orders"),
        receipt_handle=one.system_properties.receipt_handle,
    )
    request.invisible_duration.seconds = 30
    return request


@pytest.mark.row("GR-03")
@pytest.mark.skipif(not IS_COMPILED, reason="the kernel is not compiled")
async def test_the_kernel_answers_signed_calls_and_refuses_none_that_python_would_let_in(
    cluster: Cluster,
) -> None:
    [broker] = cluster.brokers.values()
    door = await door_of(broker)
    assert door.plain_sends is not None
    assert door.plain_acks is not None
    async with client(cluster, account("writer")) as writer, client(cluster, account("reader")) as reader:
        # The group begins with what comes now.
        await code_of(reader, "ReceiveMessage")
        for number in range(24):
            answer = await writer.send(message("Orders", message_id=f"ID-{number}"))
            assert answer.status.code == GrpcCode.OK
        assert door.plain_sends.kernel.count >= 10
        messages = await received(reader, 20)
        for one in messages[:16]:
            assert (await reader.call("AckMessage", ack_of(one))).status.code == GrpcCode.OK
        for one in messages[16:]:
            changed = await reader.call("ChangeInvisibleDuration", change_of(one))
            assert changed.status.code == GrpcCode.OK
            one.system_properties.receipt_handle = changed.receipt_handle
            assert (await reader.call("AckMessage", ack_of(one))).status.code == GrpcCode.OK
        kernel = door.plain_acks.kernel
        assert kernel.answered >= 5
        assert door.calls["AckMessage", GrpcCode.OK] == len(messages)
        assert door.calls["ChangeInvisibleDuration", GrpcCode.OK] == len(messages) - 16


@pytest.mark.row("GR-03")
@pytest.mark.parametrize(
    "headers",
    [
        {},
        signed("writer-key", "wrong", DATE_TIME),
        signed("reader-key", "reader-secret", DATE_TIME),
        signed("writer-key", "writer-secret", DATE_TIME) | {"x-mq-date-time": "20240102T030406Z"},
    ],
)
async def test_a_call_like_one_that_was_let_in_needs_its_own_signature(
    cluster: Cluster, headers: dict[str, str]
) -> None:
    async with client(cluster, account("writer")) as sdk:
        for _ in range(12):
            assert (await sdk.send(message("Orders"))).status.code == GrpcCode.OK
        [broker] = cluster.brokers.values()
        stored = broker.store.max_position
        sdk.headers = {name: text for name, text in sdk.headers.items() if name not in account("writer")}
        sdk.headers |= headers
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED
        assert broker.store.max_position == stored


@pytest.mark.row("GR-05")
async def test_an_account_that_is_taken_away_is_refused_at_once(cluster: Cluster) -> None:
    [broker] = cluster.brokers.values()
    assert broker._access is not None
    async with client(cluster, account("writer")) as sdk:
        for _ in range(12):
            assert (await sdk.send(message("Orders"))).status.code == GrpcCode.OK
        await broker._access.change_account(
            AccountChange(access_key="writer-key", secret_key="writer-secret", topic_perms=["Orders=SUB"])
        )
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED
        await broker._access.change_account(
            AccountChange(access_key="writer-key", secret_key="another-secret", topic_perms=["Orders=PUB"])
        )
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED
        sdk.headers |= signed("writer-key", "another-secret", DATE_TIME)
        for _ in range(12):
            assert (await sdk.send(message("Orders"))).status.code == GrpcCode.OK
        assert await broker._access.delete_account("writer-key")
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED


@pytest.mark.row("GR-05")
async def test_a_host_on_the_white_list_is_let_in_until_it_is_taken_off(cluster: Cluster) -> None:
    [broker] = cluster.brokers.values()
    assert broker._access is not None
    async with client(cluster) as sdk:
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED
        await broker._access.change_white(["127.0.0.1"], None)
        for _ in range(12):
            assert (await sdk.send(message("Orders"))).status.code == GrpcCode.OK
        await broker._access.change_white([], None)
        assert (await sdk.send(message("Orders"))).status.code == GrpcCode.UNAUTHORIZED
