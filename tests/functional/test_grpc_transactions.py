"""Transactions of gRPC producers: their ends, whenever they come, and questions about those without one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from grpc_sdk import Sdk, SdkStream, message, producer_settings, put_topic, resource, sdk_of

from pyromq.aio import PullConsumer
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire import properties as names
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import duration_of, timestamp_of
from pyromq.wire.grpc.transaction_ids import HalfPlace
from pyromq.wire.record import Record, iter_records

TOPIC = "Paid"
COMMIT, ROLLBACK, UNKNOWN = 1, 2, 0
LONG_S = 10_000_000


@pytest.fixture
async def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(
        has_grpc=True,
        data_dir=tmp_path,
        clock=clock,
        server_channel_max_idle_time_seconds=LONG_S,
        channel_expired_timeout=LONG_S * 1000,
    ) as cluster:
        put_topic(cluster, TOPIC, queues=1, kind="TRANSACTION")
        yield cluster


@pytest.fixture
async def sdk(cluster: Cluster) -> AsyncIterator[Sdk]:
    async with sdk_of(cluster, "producer") as sdk:
        yield sdk


def half(body: bytes = b"half", message_id: str = "HALF-ID", **fields: object) -> pb.Message:
    return message(TOPIC, body, message_id, message_type=4, **fields)


async def end(sdk: Sdk, transaction_id: str, resolution: int, topic: str = TOPIC) -> int:
    request = pb.EndTransactionRequest(
        topic=resource(topic), message_id="HALF-ID", transaction_id=transaction_id, resolution=resolution
    )
    return int((await sdk.call("EndTransaction", request)).status.code)


def visible(cluster: Cluster) -> list[Record]:
    [broker] = cluster.brokers.values()
    return list(iter_records(broker.store.get(TOPIC, 0, 0, count_max=32).body))


async def asked(
    cluster: Cluster, clock: ManualClock, stream: SdkStream
) -> pb.RecoverOrphanedTransactionCommand:
    """Let halves grow old, and return the question about one."""
    [broker] = cluster.brokers.values()
    clock.advance(60_000)
    command = await stream.next()
    assert command.WhichOneof("command") == "recover_orphaned_transaction_command"
    assert not command.HasField("status")
    assert broker.store.ailment is None
    return command.recover_orphaned_transaction_command


@pytest.mark.row("GR-21")
async def test_a_half_is_seen_when_it_is_committed(cluster: Cluster, sdk: Sdk) -> None:
    receipt = await sdk.stored(half())
    assert receipt.transaction_id
    assert receipt.message_id == "HALF-ID"
    assert visible(cluster) == []
    assert await end(sdk, receipt.transaction_id, COMMIT) == GrpcCode.OK
    [record] = visible(cluster)
    assert record.body == b"half"
    assert names.find_text(record.properties, names.UNIQ_KEY) == "HALF-ID"
    assert names.find_text(record.properties, names.TRANSACTION_PREPARED) == "true"


@pytest.mark.row("GR-21")
async def test_a_half_that_is_rolled_back_is_never_seen(cluster: Cluster, sdk: Sdk) -> None:
    receipt = await sdk.stored(half())
    assert await end(sdk, receipt.transaction_id, ROLLBACK) == GrpcCode.OK
    assert visible(cluster) == []


@pytest.mark.row("GR-21")
async def test_a_transaction_is_decided_once(cluster: Cluster, sdk: Sdk) -> None:
    receipt = await sdk.stored(half())
    assert await end(sdk, receipt.transaction_id, UNKNOWN) == GrpcCode.OK
    assert await end(sdk, receipt.transaction_id, COMMIT) == GrpcCode.OK
    assert await end(sdk, receipt.transaction_id, COMMIT) == GrpcCode.OK
    assert await end(sdk, receipt.transaction_id, ROLLBACK) == GrpcCode.INTERNAL_SERVER_ERROR
    assert len(visible(cluster)) == 1


@pytest.mark.row("GR-21")
async def test_an_end_finds_its_half_after_a_restart(cluster: Cluster, clock: ManualClock) -> None:
    async with sdk_of(cluster) as first:
        receipt = await first.stored(half())
    await cluster.stop_broker("broker-a")
    clock.advance(3_600_000)
    await cluster.start_broker("broker-a")
    async with sdk_of(cluster) as second:
        assert await end(second, receipt.transaction_id, COMMIT) == GrpcCode.OK
    assert len(visible(cluster)) == 1


async def test_a_message_id_ends_a_transaction_too(cluster: Cluster, sdk: Sdk) -> None:
    await sdk.stored(half(message_id="0156F7E71C361B21BC024CCDBE00000007"))
    assert await end(sdk, "0156F7E71C361B21BC024CCDBE00000007", COMMIT) == GrpcCode.OK
    assert len(visible(cluster)) == 1


@pytest.mark.parametrize(
    ("transaction_id", "topic", "code"),
    [
        ("", TOPIC, GrpcCode.INVALID_TRANSACTION_ID),
        ("   ", TOPIC, GrpcCode.INVALID_TRANSACTION_ID),
        ("no id", TOPIC, GrpcCode.INVALID_TRANSACTION_ID),
        ("A" * 29, TOPIC, GrpcCode.INVALID_TRANSACTION_ID),
        ("half", "Other", GrpcCode.INTERNAL_SERVER_ERROR),
        ("half", "a.b", GrpcCode.ILLEGAL_TOPIC),
    ],
)
async def test_an_end_that_cannot_be_has_its_code(
    cluster: Cluster, sdk: Sdk, transaction_id: str, topic: str, code: int
) -> None:
    if transaction_id == "half":
        transaction_id = (await sdk.stored(half())).transaction_id
    assert await end(sdk, transaction_id, COMMIT, topic) == code
    assert visible(cluster) == []


async def test_the_place_of_another_message_is_no_transaction(cluster: Cluster, sdk: Sdk) -> None:
    put_topic(cluster, "Orders", queues=1)
    await sdk.stored(message("Orders"))
    assert await end(sdk, HalfPlace(0, 0).encode(), COMMIT, "Orders") == GrpcCode.INVALID_TRANSACTION_ID


@pytest.mark.row("GR-21")
@pytest.mark.row("GR-22")
async def test_a_producer_is_asked_that_never_named_its_topic(
    cluster: Cluster, clock: ManualClock, sdk: Sdk
) -> None:
    stream = sdk.telemetry()
    await stream.settings(producer_settings())
    sent = half(tag="A", keys=["k"])
    sent.user_properties["colour"] = "red"
    receipt = await sdk.stored(sent)
    question = await asked(cluster, clock, stream)
    system = question.message.system_properties
    assert (question.message.topic.name, question.message.body) == (TOPIC, b"half")
    assert dict(question.message.user_properties) == {"colour": "red"}
    assert (system.message_id, system.tag, list(system.keys)) == ("HALF-ID", "A", ["k"])
    assert (system.message_type, system.delivery_attempt) == (4, 1)
    assert not system.HasField("receipt_handle")
    assert question.transaction_id
    # It was stored again to be asked about; the first id still ends it.
    assert question.transaction_id != receipt.transaction_id
    assert await end(sdk, receipt.transaction_id, COMMIT) == GrpcCode.OK
    assert await end(sdk, question.transaction_id, COMMIT) == GrpcCode.OK
    assert len(visible(cluster)) == 1


@pytest.mark.row("GR-21")
async def test_an_answer_to_the_question_ends_the_transaction(
    cluster: Cluster, clock: ManualClock, sdk: Sdk
) -> None:
    async with sdk_of(cluster, "another") as another:
        # Any producer of the topic is asked, also one that did not send the half.
        stream = another.telemetry()
        await stream.settings(producer_settings(TOPIC))
        await sdk.stored(half())
        question = await asked(cluster, clock, stream)
        # Nothing is said the first time; it is asked again.
        question = await asked(cluster, clock, stream)
        assert await end(another, question.transaction_id, ROLLBACK) == GrpcCode.OK
    assert visible(cluster) == []


async def test_a_half_is_left_alone_for_as_long_as_it_says(
    cluster: Cluster, clock: ManualClock, sdk: Sdk
) -> None:
    stream = sdk.telemetry()
    await stream.settings(producer_settings(TOPIC))
    patient = half(message_id="PATIENT", orphaned_transaction_recovery_duration=duration_of(3_600_000))
    patient.system_properties.born_timestamp.CopyFrom(timestamp_of(clock.now_ms()))
    soon = half(message_id="SOON")
    soon.system_properties.born_timestamp.CopyFrom(timestamp_of(clock.now_ms()))
    await sdk.stored(patient)
    await sdk.stored(soon)
    question = await asked(cluster, clock, stream)
    assert question.message.system_properties.message_id == "SOON"


async def test_a_client_without_a_stream_is_not_asked(cluster: Cluster, clock: ManualClock, sdk: Sdk) -> None:
    stream = sdk.telemetry()
    await stream.settings(producer_settings(TOPIC))
    await stream.half_close()
    assert await stream.code() == "OK"
    await sdk.stored(half())
    [broker] = cluster.brokers.values()
    [member] = broker.groups.producers.groups[TOPIC]
    await aeventually(lambda: member.closed)
    again = sdk.telemetry()
    await again.settings(producer_settings())
    question = await asked(cluster, clock, again)
    assert question.message.system_properties.message_id == "HALF-ID"


async def test_a_committed_message_is_like_any_other(cluster: Cluster, sdk: Sdk) -> None:
    receipt = await sdk.stored(half())
    await end(sdk, receipt.transaction_id, COMMIT)
    async with PullConsumer("readers", name_server=cluster.namesrv_address) as consumer:
        [queue] = await aeventually(lambda: consumer.fetch_message_queues(TOPIC))
        [read] = (await consumer.pull(queue, 0)).messages
    assert (read.body, read.message_id, read.properties["TRAN_MSG"]) == (b"half", "HALF-ID", "true")
