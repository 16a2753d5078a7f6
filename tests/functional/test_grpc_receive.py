"""Receives of gRPC clients, over grpcio: what a stream says, when it ends, and what it refuses."""

import asyncio
import importlib
import zlib
from collections.abc import AsyncIterator

import grpc
import pytest
from grpc_consumers import FOUND_ONE, NOT_FOUND, TOPIC, GrpcConsumer, consumer_of, received
from grpc_sdk import message, put_topic, sdk_of

from pyromq.broker.broker import Broker
from pyromq.codes import Perm, RequestCode, ResponseCode, SysFlag
from pyromq.net.http2.grpc_link import GrpcLink
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import BORN_AT_MS, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.grpc_times import ms_of
from pyromq.wire.receipt_handle import decode_receipt_handle


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(clock=clock, has_grpc=True, enable_property_filter=True) as cluster:
        put_topic(cluster, TOPIC)
        yield cluster


@pytest.fixture
async def consumer(cluster: Cluster) -> AsyncIterator[GrpcConsumer]:
    async with consumer_of(cluster) as consumer:
        yield consumer


@pytest.fixture
async def other(cluster: Cluster) -> AsyncIterator[GrpcConsumer]:
    async with consumer_of(cluster, "another") as other:
        yield other


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


async def send(
    client: WireClient, body: bytes, properties: dict[str, str] | None = None, **more: object
) -> None:
    fields = send_v2_fields(TOPIC, properties or {}, **more)
    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark


async def held(broker: Broker, consumer: GrpcConsumer) -> None:
    """Wait until a receive of the consumer's group waits for messages."""
    await aeventually(lambda: broker.pop.held_count(consumer.group, consumer.topic))


async def no_calls(broker: Broker) -> None:
    """Wait until no call of gRPC is under way."""
    door = broker.grpc.door
    assert door is not None
    links = [link for link in door._server.links if isinstance(link, GrpcLink)]
    await aeventually(lambda: not any(link.call_count for link in links))
    for _ in range(5):
        # Their tasks hear of it a turn later.
        await asyncio.sleep(0)


# What a stream says ----------------------------------------------------------------------------------------


@pytest.mark.row("GR-23")
async def test_a_stream_says_status_messages_and_time(
    client: WireClient, consumer: GrpcConsumer, clock: ManualClock
) -> None:
    await send(client, b"one")
    await send(client, b"two")
    found = await consumer.receive()

    assert found.contents == ["status", "message", "message", "delivery_timestamp"]
    assert (found.name, found.text) == ("OK", "OK")
    assert found.bodies == [b"one", b"two"]
    assert found.delivered_at_ms == clock.now_ms()


@pytest.mark.row("GR-23")
async def test_nothing_found_is_said_when_the_polling_time_is_over(
    consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    waiting = asyncio.ensure_future(consumer.receive(polling_ms=6_000))
    await held(broker, consumer)
    clock.advance(5_999)
    await asyncio.sleep(0)
    assert not waiting.done()
    assert broker.pop.held_count(consumer.group, consumer.topic) == 1
    clock.advance(1)
    nothing = await waiting

    assert nothing.contents == NOT_FOUND
    assert (nothing.name, nothing.text) == ("MESSAGE_NOT_FOUND", "no new message")
    assert nothing.delivered_at_ms == clock.now_ms()


@pytest.mark.row("GR-24")
@pytest.mark.parametrize(
    ("polling_ms", "timeout_s", "waits_ms"),
    [(1_000, 30, 5_000), (40_000, 60, 20_000), (None, 9.5, 8_000), (15_000, 6, 5_800), (1_000, 4, 3_800)],
)
async def test_a_receive_waits_as_long_as_it_may(
    consumer: GrpcConsumer,
    broker: Broker,
    clock: ManualClock,
    polling_ms: int | None,
    timeout_s: float,
    waits_ms: int,
) -> None:
    waiting = asyncio.ensure_future(consumer.receive(polling_ms=polling_ms, timeout=timeout_s))
    await held(broker, consumer)
    # The client's deadline becomes a number of milliseconds on its way, less than was said on a busy machine.
    clock.advance(waits_ms - 1_500)
    await asyncio.sleep(0)
    assert broker.pop.held_count(consumer.group, consumer.topic) == 1
    clock.advance(1_500)
    assert (await waiting).name == "MESSAGE_NOT_FOUND"


@pytest.mark.row("GR-24")
@pytest.mark.parametrize(("version", "name"), [("5.1.0", "ILLEGAL_POLLING_TIME"), ("5.0.0", "BAD_REQUEST")])
async def test_a_strict_broker_refuses_a_deadline_that_is_too_short(version: str, name: str) -> None:
    async with (
        Cluster(has_grpc=True, grpc_strict_polling_time=True) as cluster,
        consumer_of(cluster, x_mq_client_version=version) as consumer,
    ):
        put_topic(cluster, TOPIC)
        refused = await consumer.receive(polling_ms=1_000, timeout=4)

    assert (refused.name, refused.contents) == (name, NOT_FOUND)
    assert "raise the request timeout" in refused.text


@pytest.mark.row("GR-25")
async def test_a_receive_brings_at_most_32_messages(client: WireClient, consumer: GrpcConsumer) -> None:
    for number in range(40):
        await send(client, b"%d" % number)

    assert len((await consumer.receive(batch=50)).messages) == 32
    assert len((await consumer.receive(batch=3)).messages) == 3
    assert len((await consumer.receive(batch=32)).messages) == 5


@pytest.mark.row("GR-25")
@pytest.mark.parametrize("invisible_ms", [None, 0, 9_999, 12 * 3_600_000 + 1, -1])
async def test_an_invisible_time_beyond_the_limits_is_refused(
    client: WireClient, consumer: GrpcConsumer, invisible_ms: int | None
) -> None:
    await send(client, b"one")
    refused = await consumer.receive(invisible_ms=invisible_ms)

    assert (refused.name, refused.contents) == ("ILLEGAL_INVISIBLE_TIME", NOT_FOUND)
    assert (await consumer.receive(invisible_ms=10_000)).bodies == [b"one"]


async def test_whoever_has_messages_renewed_names_no_time(client: WireClient, consumer: GrpcConsumer) -> None:
    await send(client, b"one")
    found = await consumer.receive(invisible_ms=None, renew=True)

    assert decode_receipt_handle(found.handle).invisible_ms == 60_000


async def test_all_queues_are_read_whatever_queue_is_named(
    client: WireClient, consumer: GrpcConsumer
) -> None:
    for queue_id in range(4):
        await send(client, b"%d" % queue_id, queueId=queue_id)

    assert sorted((await consumer.receive_all(4, queue_id=2)).bodies) == [b"0", b"1", b"2", b"3"]


# What is refused -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("topic", "group", "asked", "name"),
    [
        (" ", "readers", {}, "ILLEGAL_TOPIC"),
        ("a b", "readers", {}, "ILLEGAL_TOPIC"),
        ("t" * 128, "readers", {}, "ILLEGAL_TOPIC"),
        ("TBW102", "readers", {}, "ILLEGAL_TOPIC"),
        ("rmq_sys_anything", "readers", {}, "ILLEGAL_TOPIC"),
        (TOPIC, "", {}, "ILLEGAL_CONSUMER_GROUP"),
        (TOPIC, "g" * 121, {}, "ILLEGAL_CONSUMER_GROUP"),
        (TOPIC, "CID_RMQ_SYS_own", {}, "ILLEGAL_CONSUMER_GROUP"),
        ("Nowhere", "readers", {}, "TOPIC_NOT_FOUND"),
        ("Unreadable", "readers", {}, "FORBIDDEN"),
        (TOPIC, "readers", {"batch": 0}, "BAD_REQUEST"),
        (TOPIC, "readers", {"batch": -1}, "BAD_REQUEST"),
        (TOPIC, "readers", {"tags": "||"}, "ILLEGAL_FILTER_EXPRESSION"),
        (TOPIC, "readers", {"sql": ""}, "ILLEGAL_FILTER_EXPRESSION"),
        (TOPIC, "readers", {"sql": "size >"}, "ILLEGAL_FILTER_EXPRESSION"),
    ],
)
async def test_a_receive_that_may_not_be_is_refused_with_its_code(
    cluster: Cluster, consumer: GrpcConsumer, topic: str, group: str, asked: dict[str, object], name: str
) -> None:
    put_topic(cluster, "Unreadable", perm=Perm.WRITE)
    consumer.topic, consumer.group = topic, group
    refused = await consumer.receive(**asked)

    assert (refused.name, refused.contents) == (name, NOT_FOUND)
    assert refused.text


async def test_no_client_id_is_one_status(cluster: Cluster) -> None:
    async with consumer_of(cluster, None) as consumer:
        refused = await consumer.receive()

    assert (refused.name, refused.contents) == ("CLIENT_ID_REQUIRED", ["status"])


async def test_a_group_is_created_only_where_that_is_allowed(clock: ManualClock) -> None:
    async with (
        Cluster(clock=clock, has_grpc=True, auto_create_subscription_group=False) as cluster,
        consumer_of(cluster) as consumer,
    ):
        put_topic(cluster, TOPIC)
        refused = await consumer.receive()

    assert refused.name == "CONSUMER_GROUP_NOT_FOUND"
    assert "autoCreateSubscriptionGroup" in refused.text


async def test_sql_is_refused_where_it_is_switched_off(clock: ManualClock) -> None:
    async with Cluster(clock=clock, has_grpc=True) as cluster, consumer_of(cluster) as consumer:
        put_topic(cluster, TOPIC)
        refused = await consumer.receive(sql="a = 1")

    assert refused.name == "INTERNAL_SERVER_ERROR"
    assert "does not support consumer to filter message by SQL92" in refused.text


@pytest.mark.row("GR-12")
async def test_a_receive_on_an_unknown_topic_says_so(consumer: GrpcConsumer) -> None:
    consumer.topic = "Nowhere"
    assert (await consumer.receive()).name == "TOPIC_NOT_FOUND"


@pytest.mark.row("GR-09")
async def test_a_client_that_never_sent_settings_receives(client: WireClient, consumer: GrpcConsumer) -> None:
    await send(client, b"one")
    assert (await consumer.receive()).bodies == [b"one"]


# Held receives ---------------------------------------------------------------------------------------------


@pytest.mark.row("GR-26")
async def test_a_held_receive_wakes_for_what_its_tags_want(
    client: WireClient, consumer: GrpcConsumer, broker: Broker
) -> None:
    waiting = asyncio.ensure_future(consumer.receive(tags="blue || green"))
    await held(broker, consumer)
    await send(client, b"red", {"TAGS": "red"})
    await send(client, b"none")
    assert broker.pop.held_count(consumer.group, consumer.topic) == 1
    assert not waiting.done()
    await send(client, b"green", {"TAGS": "green"})
    found = await waiting

    assert (found.contents, found.bodies) == (FOUND_ONE, [b"green"])
    assert found.messages[0].system_properties.tag == "green"


@pytest.mark.row("GR-26")
async def test_a_held_receive_wakes_for_what_its_sql_wants(
    client: WireClient, consumer: GrpcConsumer, broker: Broker
) -> None:
    waiting = asyncio.ensure_future(consumer.receive(sql="size > 3"))
    await held(broker, consumer)
    await send(client, b"small", {"size": "3"})
    assert broker.pop.held_count(consumer.group, consumer.topic) == 1
    await send(client, b"large", {"size": "4"})

    assert (await waiting).bodies == [b"large"]


async def test_one_message_wakes_one_receive(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker
) -> None:
    both = [asyncio.ensure_future(each.receive()) for each in (consumer, other)]
    await aeventually(lambda: broker.pop.held_count(consumer.group, consumer.topic) == 2)
    await send(client, b"one")
    done, waiting = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)

    assert [each.result().bodies for each in done] == [[b"one"]]
    assert broker.pop.held_count(consumer.group, consumer.topic) == 1
    for each in waiting:
        each.cancel()


@pytest.mark.row("GR-27")
async def test_a_held_receive_that_is_cancelled_pops_nothing(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker
) -> None:
    call = consumer.begin()
    await held(broker, consumer)
    call.cancel()
    await aeventually(lambda: not broker.pop.held_count(consumer.group, consumer.topic))
    await send(client, b"one")
    found = await other.receive()

    assert (found.bodies, found.attempts) == ([b"one"], [1])


@pytest.mark.row("GR-27")
async def test_what_a_client_did_not_take_comes_to_others_a_second_later(
    cluster: Cluster, client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"x" * (3 << 20))
    async with consumer_of(cluster, "slow") as slow:
        # It takes no more than it is asked for.
        options = [("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 16)]
        slow.sdk._channel = grpc.aio.insecure_channel(cluster.grpc_addresses[0], options=options)
        call = slow.begin()
        assert (await call.read()).HasField("status")
        assert broker.pop.in_flight(slow.group, TOPIC, 0) == 1
        call.cancel()
        await no_calls(broker)
    clock.advance(999)
    waiting = asyncio.ensure_future(consumer.receive())
    await held(broker, consumer)
    clock.advance(1)
    found = await waiting

    assert (len(found.body), found.attempts) == (3 << 20, [2])


async def test_a_broker_that_stops_ends_held_receives(clock: ManualClock) -> None:
    async with Cluster(clock=clock, has_grpc=True) as cluster, consumer_of(cluster) as consumer:
        put_topic(cluster, TOPIC)
        [broker] = cluster.brokers.values()
        waiting = asyncio.ensure_future(consumer.receive())
        await held(broker, consumer)
        await cluster.stop_broker("broker-a")
        ended = await waiting

    assert ended.name in ("MESSAGE_NOT_FOUND", "INTERNAL_SERVER_ERROR")


async def test_more_receives_than_may_wait_are_told_so(cluster: Cluster, consumer: GrpcConsumer) -> None:
    [broker] = cluster.brokers.values()
    calls = [consumer.begin() for _ in range(1_024)]
    await aeventually(lambda: broker.pop.held_count(consumer.group, consumer.topic) == 1_024)
    refused = await consumer.receive()
    for call in calls:
        call.cancel()

    assert refused.name == "TOO_MANY_REQUESTS"
    await aeventually(lambda: not broker.pop.held_count(consumer.group, consumer.topic))


# The messages ----------------------------------------------------------------------------------------------


@pytest.mark.row("GR-28")
async def test_a_message_of_remoting_is_shown_whole(
    client: WireClient, consumer: GrpcConsumer, cluster: Cluster, clock: ManualClock
) -> None:
    properties = {
        "UNIQ_KEY": "7F000001000118B4AAC2123456780000",
        "TAGS": "blue",
        "KEYS": "k1 k2",
        "__SHARDINGKEY": "group",
        "WAIT": "true",
        "colour": "grün",
    }
    await send(client, b"hello", properties, queueId=2)
    [shown] = (await consumer.receive()).messages
    system = shown.system_properties

    assert (shown.topic.name, shown.body, dict(shown.user_properties)) == (
        TOPIC,
        b"hello",
        {"colour": "grün"},
    )
    assert (system.tag, list(system.keys), system.message_group) == ("blue", ["k1", "k2"], "group")
    assert system.message_id == "7F000001000118B4AAC2123456780000"
    assert system.body_digest.checksum == "5D41402ABC4B2A76B9719D911017C592"
    assert (system.message_type, system.body_encoding) == (2, 1)
    assert (ms_of(system.born_timestamp), system.born_host) == (BORN_AT_MS, "127.0.0.1")
    assert ms_of(system.store_timestamp) == clock.now_ms()
    assert system.store_host == cluster.broker_addresses[0]
    assert (system.queue_id, system.queue_offset, system.delivery_attempt) == (2, 0, 1)
    handle = decode_receipt_handle(system.receipt_handle)
    assert (handle.broker_name, handle.queue_id, handle.offset) == ("broker-a", 2, 0)


@pytest.mark.row("GR-28")
@pytest.mark.parametrize("kind", ["zlib", "lz4", "zstd"])
async def test_a_compressed_body_of_remoting_arrives_plain(
    client: WireClient, consumer: GrpcConsumer, kind: str
) -> None:
    body = b"the same again and " * 500
    flag = {
        "zlib": SysFlag.COMPRESSION_ZLIB,
        "lz4": SysFlag.COMPRESSION_LZ4,
        "zstd": SysFlag.COMPRESSION_ZSTD,
    }
    packed = (
        zlib.compress(body)
        if kind == "zlib"
        else importlib.import_module("lz4.frame").compress(body)
        if kind == "lz4"
        else importlib.import_module("zstandard").ZstdCompressor().compress(body)
    )
    await send(client, packed, sysFlag=int(SysFlag.COMPRESSED | flag[kind]))
    [shown] = (await consumer.receive()).messages

    assert shown.body == body
    assert shown.system_properties.body_encoding == 1


async def test_a_message_of_grpc_comes_back_as_it_was_sent(cluster: Cluster, consumer: GrpcConsumer) -> None:
    sent = message(TOPIC, b"hello", "0156F7E71C361B21BC024CCDBE00000000", tag="A", keys=["k1"])
    sent.user_properties["colour"] = "red"
    async with sdk_of(cluster, "sender") as sdk:
        await sdk.stored(sent)
    [shown] = (await consumer.receive()).messages
    system = shown.system_properties

    assert (shown.body, dict(shown.user_properties), system.tag) == (b"hello", {"colour": "red"}, "A")
    assert system.message_id == "0156F7E71C361B21BC024CCDBE00000000"
    assert ms_of(system.born_timestamp) == ms_of(sent.system_properties.born_timestamp)


async def test_large_messages_arrive_whole(client: WireClient, consumer: GrpcConsumer) -> None:
    bodies = [bytes([number]) * (4 << 20) for number in range(3)]
    for body in bodies:
        await send(client, body)
    found = await consumer.receive_all(3)

    assert found.bodies == bodies


async def test_a_request_that_is_no_protobuf_ends_the_call(consumer: GrpcConsumer) -> None:
    call = consumer.sdk._channel.unary_stream("/apache.rocketmq.v2.MessagingService/ReceiveMessage")(
        b"\xff\xff", metadata=(("x-mq-client-id", "c"),)
    )
    assert (await call.code()).name == "INTERNAL"


def test_codes_have_the_names_that_tests_say() -> None:
    assert GrpcCode.MESSAGE_NOT_FOUND == 40401
    assert received([pb.ReceiveMessageResponse()]).contents == ["nothing"]
