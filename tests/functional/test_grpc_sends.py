"""Messages of gRPC clients: where they go, what remoting clients read of them, and which are refused."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from grpc_sdk import Sdk, message, put_topic, resource, sdk_of

from pyromq.aio import Producer, PullConsumer
from pyromq.codes import Perm
from pyromq.model import Message
from pyromq.testing.cluster import Cluster
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import timestamp_of
from pyromq.wire.grpc.message_groups import queue_of_group
from pyromq.wire.record import Record, decode_record

KINDS = ("NORMAL", "FIFO", "DELAY", "TRANSACTION", "MIXED")


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with Cluster(has_grpc=True) as cluster:
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster) as sdk:
        yield sdk


def stored(cluster: Cluster, topic: str, queue_id: int, offset: int = 0) -> Record:
    [broker] = cluster.brokers.values()
    return decode_record(broker.store.get(topic, queue_id, offset, count_max=1).body)


async def stored_somewhere(cluster: Cluster, topic: str) -> Record:
    [broker] = cluster.brokers.values()
    config = broker.topics.get(topic)
    assert config is not None
    [queue_id] = [each for each in range(config.write_queue_nums) if broker.store.max_offset(topic, each)]
    return stored(cluster, topic, queue_id)


@pytest.mark.row("GR-15")
async def test_a_message_is_stored_as_remoting_clients_read_it(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    sent = message("Orders", tag="A", keys=["k1", "k2"], message_id="0156F7E71C361B21BC024CCDBE00000000")
    sent.user_properties["colour"] = "red"
    receipt = await sdk.stored(sent)
    assert (receipt.status.code, receipt.status.message) == (GrpcCode.OK, "OK")
    assert receipt.message_id == "0156F7E71C361B21BC024CCDBE00000000"
    assert receipt.offset == 0
    record = await stored_somewhere(cluster, "Orders")
    properties = names.decode(record.properties)
    assert record.born_at_ms == 1_700_000_000_000
    assert record.body == b"hello"
    assert properties == {
        "colour": "red",
        "TAGS": "A",
        "KEYS": "k1 k2",
        "UNIQ_KEY": "0156F7E71C361B21BC024CCDBE00000000",
        "PGROUP": "Orders",
        "CLUSTER": "DefaultCluster",
        "BORN_TIMESTAMP": "1700000000000",
        "__BORNHOST": properties["__BORNHOST"],
    }
    assert properties["__BORNHOST"].startswith("127.0.0.1:")


@pytest.mark.row("GR-15")
async def test_a_remoting_consumer_reads_it(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=1)
    sent = message("Orders", tag="A", keys=["k1", "k2"], message_id="THE-ID")
    sent.user_properties["colour"] = "red"
    await sdk.stored(sent)
    async with PullConsumer("readers", name_server=cluster.namesrv_address) as consumer:
        [queue] = await aeventually(lambda: consumer.fetch_message_queues("Orders"))
        [read] = (await consumer.pull(queue, 0)).messages
    assert read.body == b"hello"
    assert (read.tags, read.keys, read.message_id) == ("A", ["k1", "k2"], "THE-ID")
    assert read.properties["colour"] == "red"


@pytest.mark.row("GR-18")
async def test_a_message_group_always_has_its_queue(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Ordered", queues=8, kind="FIFO")
    for group in ("a", "order-1", "order-2", "group-42", "消息组"):
        queue_id = queue_of_group(group, 8)
        [broker] = cluster.brokers.values()
        before = broker.store.max_offset("Ordered", queue_id)
        for number in range(3):
            receipt = await sdk.stored(message("Ordered", str(number).encode(), message_group=group))
            assert receipt.offset == before + number
        assert broker.store.max_offset("Ordered", queue_id) == before + 3
        properties = names.decode(stored(cluster, "Ordered", queue_id, before).properties)
        assert properties["__SHARDINGKEY"] == group


async def test_messages_without_a_group_use_all_queues(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=4)
    for _ in range(8):
        await sdk.stored(message("Orders"))
    [broker] = cluster.brokers.values()
    assert [broker.store.max_offset("Orders", queue_id) for queue_id in range(4)] == [2, 2, 2, 2]


async def test_the_messages_of_one_request_lie_together(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    sent = [message("Orders", str(number).encode(), f"ID{number}") for number in range(5)]
    response = await sdk.send(*sent)
    assert response.status.code == GrpcCode.OK
    assert [(entry.message_id, entry.offset) for entry in response.entries] == [
        (f"ID{number}", number) for number in range(5)
    ]
    [broker] = cluster.brokers.values()
    [queue_id] = [each for each in range(4) if broker.store.max_offset("Orders", each)]
    for number in range(5):
        record = stored(cluster, "Orders", queue_id, number)
        assert record.body == str(number).encode()
        assert names.find_text(record.properties, names.UNIQ_KEY) == f"ID{number}"


def of_kind(topic: str, kind: str) -> pb.Message:
    fields: dict[str, Any] = {
        "NORMAL": {},
        "FIFO": {"message_group": "g"},
        "DELAY": {"delivery_timestamp": timestamp_of(1)},
        "TRANSACTION": {"message_type": 4},
    }[kind]
    return message(topic, **fields)


@pytest.mark.row("GR-17")
async def test_a_topic_takes_messages_of_its_type_only(cluster: Cluster, sdk: Sdk) -> None:
    [broker] = cluster.brokers.values()
    for topic in KINDS:
        put_topic(cluster, topic, kind=topic)
    put_topic(cluster, "Untyped")
    accepted = {
        topic: [
            kind for kind in KINDS[:4] if (await sdk.send(of_kind(topic, kind))).status.code == GrpcCode.OK
        ]
        for topic in (*KINDS, "Untyped")
    }
    assert accepted == {kind: [kind] for kind in KINDS[:4]} | {
        "MIXED": list(KINDS[:4]),
        "Untyped": ["NORMAL"],
    }
    refused = (await sdk.send(of_kind("NORMAL", "FIFO"))).status
    assert refused.code == GrpcCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    assert "message.type" in refused.message
    object.__setattr__(broker.settings.grpc, "enable_topic_message_type_check", False)
    assert (await sdk.send(of_kind("NORMAL", "FIFO"))).status.code == GrpcCode.OK


@pytest.mark.row("GR-16")
async def test_a_refused_message_has_no_receipt(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    response = await sdk.send(message("Orders"), message("Orders", b""))
    assert response.status.code == GrpcCode.MESSAGE_BODY_EMPTY
    assert not response.entries
    [broker] = cluster.brokers.values()
    assert broker.store.max_position == 0


@pytest.mark.row("GR-16")
async def test_a_body_of_four_mebibytes_is_taken_and_a_byte_more_is_not(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    assert (await sdk.send(message("Orders", bytes(4 << 20)))).status.code == GrpcCode.OK
    refused = await sdk.send(message("Orders", bytes((4 << 20) + 1)))
    assert refused.status.code == GrpcCode.MESSAGE_BODY_TOO_LARGE


@pytest.mark.row("GR-16")
async def test_properties_that_do_not_fit_a_record_are_refused(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders")
    refused = await sdk.send(message("Orders", message_id="I" * 33_000))
    assert refused.status.code == GrpcCode.MESSAGE_PROPERTIES_TOO_LARGE


@pytest.mark.row("GR-12")
async def test_a_send_to_no_topic_is_told_so(cluster: Cluster, sdk: Sdk) -> None:
    assert (await sdk.send(message("Nowhere"))).status.code == GrpcCode.TOPIC_NOT_FOUND
    assert (await sdk.send(message("%RETRY%nobody"))).status.code == GrpcCode.TOPIC_NOT_FOUND


async def test_a_topic_without_a_writable_queue_takes_nothing(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Shut", perm=int(Perm.READ))
    assert (await sdk.send(message("Shut"))).status.code == GrpcCode.FORBIDDEN


@pytest.mark.row("GR-19")
async def test_a_delayed_message_waits_for_its_time(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Later", queues=1, kind="DELAY")
    [broker] = cluster.brokers.values()
    due_ms = broker._clock.now_ms() + 1_500
    waiting = await sdk.stored(message("Later", b"waits", delivery_timestamp=timestamp_of(due_ms)))
    assert waiting.recall_handle
    past = await sdk.stored(message("Later", b"past", delivery_timestamp=timestamp_of(due_ms - 10_000)))
    assert not past.recall_handle
    assert stored(cluster, "Later", 0).body == b"past"
    async with PullConsumer("readers", name_server=cluster.namesrv_address) as consumer:
        [queue] = await aeventually(lambda: consumer.fetch_message_queues("Later"))
        await aeventually(lambda: broker.store.max_offset("Later", 0) == 2)
        [read] = (await consumer.pull(queue, 1)).messages
    assert read.body == b"waits"
    record = stored(cluster, "Later", 0, 1)
    assert names.find_text(record.properties, names.TIMER_DELIVER_MS) == str(due_ms)
    assert record.stored_at_ms >= due_ms


async def recalled(sdk: Sdk, topic: str, handle: str) -> int:
    request = pb.RecallMessageRequest(topic=resource(topic), recall_handle=handle)
    response = await sdk.call("RecallMessage", request)
    return int(response.status.code)


@pytest.mark.row("GR-20")
async def test_a_message_that_waits_is_taken_back(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Later", kind="DELAY")
    put_topic(cluster, "Other", kind="DELAY")
    put_topic(cluster, "Normal")
    [broker] = cluster.brokers.values()
    due = timestamp_of(broker._clock.now_ms() + 60_000)
    waiting = await sdk.stored(message("Later", message_id="RECALLED", delivery_timestamp=due))
    assert (
        await recalled(sdk, "Normal", waiting.recall_handle) == GrpcCode.MESSAGE_PROPERTY_CONFLICT_WITH_TYPE
    )
    assert await recalled(sdk, "Other", waiting.recall_handle) == GrpcCode.BAD_REQUEST
    assert await recalled(sdk, "Later", "no handle") == GrpcCode.BAD_REQUEST
    response = await sdk.call(
        "RecallMessage",
        pb.RecallMessageRequest(topic=resource("Later"), recall_handle=waiting.recall_handle),
    )
    assert (response.status.code, response.message_id) == (GrpcCode.OK, "RECALLED")
    # It does not wait any more.
    assert await recalled(sdk, "Later", waiting.recall_handle) == GrpcCode.MESSAGE_NOT_FOUND


@pytest.mark.row("GR-20")
async def test_any_broker_takes_a_message_back() -> None:
    async with Cluster(brokers=2, has_grpc=True) as cluster:
        put_topic(cluster, "Later", kind="DELAY")
        for broker in cluster.brokers.values():
            await broker._surroundings.registration.register()  # type: ignore[union-attr]
        storing, asked = cluster.grpc_addresses
        due = timestamp_of(cluster.brokers["broker-a"]._clock.now_ms() + 60_000)
        async with Sdk(storing) as first, Sdk(asked) as second:
            waiting = await first.stored(message("Later", message_id="RECALLED", delivery_timestamp=due))
            assert await recalled(second, "Later", waiting.recall_handle) == GrpcCode.OK
            assert await recalled(first, "Later", waiting.recall_handle) == GrpcCode.MESSAGE_NOT_FOUND


async def test_a_send_of_remoting_has_the_same_place(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=1)
    await sdk.stored(message("Orders", b"by gRPC"))
    async with Producer("writers", name_server=cluster.namesrv_address) as producer:
        sent = await producer.send(Message("Orders", b"by remoting"))
    assert sent.queue_offset == 1
    assert (await sdk.stored(message("Orders", b"by gRPC again"))).offset == 2


async def test_sends_beside_each_other_are_all_stored(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=1)
    receipts = await asyncio.gather(*(sdk.stored(message("Orders", str(n).encode())) for n in range(50)))
    assert sorted(receipt.offset for receipt in receipts) == list(range(50))
