"""What ends deliveries to gRPC clients or delays them: acknowledgements, changes, dead letters, farewells."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from grpc_consumers import TOPIC, GrpcConsumer, Received, consumer_of, name_of
from grpc_sdk import put_topic

from pyromq.broker.broker import Broker
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.receipt_handle import decode_receipt_handle
from pyromq.wire.record import Record, decode_record

MINUTE_MS, HOURS_12 = 60_000, 12 * 3_600_000
DEAD = "%DLQ%readers"


@pytest.fixture
async def cluster(clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(clock=clock, has_grpc=True) as cluster:
        put_topic(cluster, TOPIC)
        yield cluster


@pytest.fixture
def broker(cluster: Cluster) -> Broker:
    [broker] = cluster.brokers.values()
    return broker


@pytest.fixture
async def consumer(cluster: Cluster) -> AsyncIterator[GrpcConsumer]:
    async with consumer_of(cluster) as consumer:
        yield consumer


@pytest.fixture
async def other(cluster: Cluster) -> AsyncIterator[GrpcConsumer]:
    async with consumer_of(cluster, "another") as other:
        yield other


async def send(client: WireClient, *bodies: bytes, queue_id: int = 0, **properties: str) -> None:
    for body in bodies:
        fields = send_v2_fields(TOPIC, properties, queueId=queue_id)
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert answer.code == ResponseCode.SUCCESS, answer.remark


async def holding(consumer: GrpcConsumer, broker: Broker, **asked: Any) -> "asyncio.Future[Received]":
    """Begin a receive that is held, for 20 seconds at most."""
    waiting = asyncio.ensure_future(consumer.receive(**({"polling_ms": 20_000} | asked)))
    await aeventually(lambda: broker.pop.held_count(consumer.group, consumer.topic) or waiting.done())
    return waiting


async def after(
    clock: ManualClock, ms: int, consumer: GrpcConsumer, broker: Broker, **asked: Any
) -> Received:
    """Return what a receive brings that waits while the time passes."""
    waiting = await holding(consumer, broker, **asked)
    assert not waiting.done(), waiting.result().bodies
    clock.advance(ms)
    return await waiting


async def nothing_comes(clock: ManualClock, ms: int, consumer: GrpcConsumer, broker: Broker) -> None:
    """See that a receive stays held while the time passes, in steps that are shorter than its wait."""
    while ms > 0:
        step = min(ms, 19_000)
        waiting = await holding(consumer, broker)
        clock.advance(step)
        for _ in range(20):
            await asyncio.sleep(0)
        assert broker.pop.held_count(consumer.group, consumer.topic) == 1
        waiting.cancel()
        await aeventually(lambda: not broker.pop.held_count(consumer.group, consumer.topic))
        ms -= step


def records_of(broker: Broker, topic: str, queue_id: int = 0) -> list[Record]:
    count = broker.store.max_offset(topic, queue_id)
    return [
        decode_record(broker.store.get(topic, queue_id, offset, count_max=1).body) for offset in range(count)
    ]


# Acknowledgements ------------------------------------------------------------------------------------------


@pytest.mark.row("GR-29")
async def test_what_is_acknowledged_never_comes_again(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", b"two")
    found = await consumer.receive()
    response = await consumer.ack(*found.handles)

    assert (name_of(response.status), response.status.message) == ("OK", "OK")
    assert [name_of(entry.status) for entry in response.entries] == ["OK", "OK"]
    assert [entry.message_id for entry in response.entries] == ["id-0", "id-1"]
    assert [entry.receipt_handle for entry in response.entries] == found.handles
    await nothing_comes(clock, 2 * MINUTE_MS, consumer, broker)


@pytest.mark.row("GR-29")
async def test_each_entry_has_its_own_status_in_the_order_of_the_request(
    client: WireClient, consumer: GrpcConsumer, clock: ManualClock
) -> None:
    await send(client, b"one", b"two", b"three")
    early = await consumer.receive(batch=1, invisible_ms=10_000)
    clock.advance(10_001)
    found = await consumer.receive(batch=2)
    elsewhere = found.handles[0].replace("broker-a", "broker-z")
    beyond = found.handles[0].rpartition(" ")[0].rpartition(" ")[0] + " 999 5"
    response = await consumer.ack(
        found.handles[0], early.handle, "no handle", elsewhere, beyond, found.handles[1]
    )

    assert name_of(response.status) == "MULTIPLE_RESULTS"
    assert response.status.message == "MULTIPLE_RESULTS"
    assert [name_of(entry.status) for entry in response.entries] == [
        "OK",
        "INVALID_RECEIPT_HANDLE",
        "INVALID_RECEIPT_HANDLE",
        "INVALID_RECEIPT_HANDLE",
        "INTERNAL_SERVER_ERROR",
        "OK",
    ]
    assert all(entry.status.message for entry in response.entries)


@pytest.mark.row("GR-29")
async def test_an_expired_handle_is_told_by_the_code_s_name(
    client: WireClient, consumer: GrpcConsumer, clock: ManualClock
) -> None:
    await send(client, b"one")
    found = await consumer.receive(invisible_ms=10_000)
    clock.advance(10_001)
    response = await consumer.ack(found.handle)

    assert (name_of(response.status), response.status.message) == ("INVALID_RECEIPT_HANDLE",) * 2
    assert [name_of(entry.status) for entry in response.entries] == ["INVALID_RECEIPT_HANDLE"]


@pytest.mark.row("GR-29")
async def test_a_second_acknowledgement_in_time_is_fine(client: WireClient, consumer: GrpcConsumer) -> None:
    await send(client, b"one")
    handle = (await consumer.receive()).handle

    assert [name_of((await consumer.ack(each)).status) for each in (handle, handle)] == ["OK", "OK"]
    twice = await consumer.ack(handle, handle)
    assert [name_of(entry.status) for entry in twice.entries] == ["OK", "OK"]


async def test_eight_words_are_enough(client: WireClient, consumer: GrpcConsumer, broker: Broker) -> None:
    await send(client, b"one")
    handle = (await consumer.receive()).handle

    assert name_of((await consumer.ack(handle.rpartition(" ")[0])).status) == "OK"
    assert broker.pop.in_flight("readers", TOPIC, 0) == 0


@pytest.mark.parametrize(
    "handle",
    [
        "",
        " ",
        "x",
        "1 2 3 4 5 6 7",
        "a b c d e broker-a g h i",
        "0 1 2 3 9 broker-a 0 0 0",
        "9" * 5_000,
        "0 " * 900,
    ],
)
async def test_what_is_no_handle_is_invalid(consumer: GrpcConsumer, handle: str) -> None:
    answers = [
        name_of((await consumer.ack(handle)).status),
        name_of((await consumer.change(handle, MINUTE_MS)).status),
        name_of(await consumer.forward(handle)),
    ]
    assert answers == ["INVALID_RECEIPT_HANDLE"] * 3


async def test_no_entries_are_no_request(consumer: GrpcConsumer) -> None:
    assert name_of((await consumer.ack()).status) == "INTERNAL_SERVER_ERROR"


async def test_entries_without_end_are_refused(client: WireClient, consumer: GrpcConsumer) -> None:
    await send(client, b"one")
    handle = (await consumer.receive()).handle
    refused = await consumer.ack(*[handle] * 4_097)

    assert (name_of(refused.status), list(refused.entries)) == ("BAD_REQUEST", [])
    assert len((await consumer.ack(*[handle] * 4_096)).entries) == 4_096


Operation = Callable[[GrpcConsumer, str], Any]
OPERATIONS: list[Operation] = [
    lambda consumer, handle: consumer.ack(handle),
    lambda consumer, handle: consumer.change(handle, MINUTE_MS),
    lambda consumer, handle: consumer.forward(handle),
]


@pytest.mark.parametrize("operation", OPERATIONS, ids=["ack", "change", "forward"])
@pytest.mark.parametrize(
    ("topic", "group", "name"),
    [
        ("Nowhere", "readers", "TOPIC_NOT_FOUND"),
        ("a b", "readers", "ILLEGAL_TOPIC"),
        ("RMQ_SYS_TRANS_HALF_TOPIC", "readers", "ILLEGAL_TOPIC"),
        (TOPIC, "", "ILLEGAL_CONSUMER_GROUP"),
        (TOPIC, "CID_RMQ_SYS_own", "ILLEGAL_CONSUMER_GROUP"),
    ],
)
async def test_names_that_may_not_be_have_their_codes(
    consumer: GrpcConsumer, operation: Operation, topic: str, group: str, name: str
) -> None:
    consumer.topic, consumer.group = topic, group
    answer = await operation(consumer, "0 1 60000 0 0 broker-a 0 0 0")
    status = answer if hasattr(answer, "code") else answer.status

    assert name_of(status) == name


# Changes ---------------------------------------------------------------------------------------------------


@pytest.mark.row("GR-30")
async def test_a_changed_message_has_a_new_handle_and_the_old_one_is_refused(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", b"two")
    found = await consumer.receive()
    clock.advance(1_000)
    changed = await consumer.change(found.handles[1], 2 * MINUTE_MS)

    assert (name_of(changed.status), changed.status.message) == ("OK", "OK")
    handle = decode_receipt_handle(changed.receipt_handle)
    assert changed.receipt_handle.count(" ") == 8
    assert (handle.start_offset, handle.offset, handle.invisible_ms) == (1, 1, 2 * MINUTE_MS)
    assert handle.popped_at_ms == clock.now_ms()
    assert name_of((await consumer.ack(found.handles[1])).status) == "INVALID_RECEIPT_HANDLE"
    assert name_of((await consumer.change(found.handles[1], MINUTE_MS)).status) == "INVALID_RECEIPT_HANDLE"
    assert broker.pop.in_flight("readers", TOPIC, 0) == 2
    assert name_of((await consumer.ack(changed.receipt_handle)).status) == "OK"
    assert broker.pop.in_flight("readers", TOPIC, 0) == 1


@pytest.mark.row("GR-30")
@pytest.mark.parametrize("invisible_ms", [0, None, 1, 1_000])
async def test_a_message_that_is_wanted_at_once_comes_after_a_second(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock, invisible_ms: int | None
) -> None:
    await send(client, b"one", UNIQ_KEY="U1")
    found = await consumer.receive()
    assert name_of((await consumer.change(found.handle, invisible_ms)).status) == "OK"
    await nothing_comes(clock, 999, consumer, broker)
    again = await after(clock, 1, consumer, broker)

    assert (again.bodies, again.attempts) == ([b"one"], [2])
    assert again.messages[0].system_properties.message_id == found.messages[0].system_properties.message_id
    assert again.messages[0].topic.name == TOPIC


@pytest.mark.row("GR-30")
@pytest.mark.parametrize("invisible_ms", [-1, HOURS_12 + 1])
async def test_a_change_beyond_the_limits_is_refused_and_nothing_is_changed(
    client: WireClient, consumer: GrpcConsumer, invisible_ms: int
) -> None:
    await send(client, b"one")
    handle = (await consumer.receive()).handle

    assert name_of((await consumer.change(handle, invisible_ms)).status) == "ILLEGAL_INVISIBLE_TIME"
    assert name_of((await consumer.ack(handle)).status) == "OK"


@pytest.mark.row("GR-30")
async def test_a_push_consumer_s_nack_ends_the_renewal(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one")
    found = await consumer.receive(renew=True)
    assert name_of((await consumer.change(found.handle, 5_000)).status) == "OK"
    assert name_of(await consumer.heartbeat(2)) == "OK"

    assert (await after(clock, 5_000, other, broker)).bodies == [b"one"]


async def test_a_change_of_an_expired_message_is_refused(
    client: WireClient, consumer: GrpcConsumer, clock: ManualClock
) -> None:
    await send(client, b"one")
    found = await consumer.receive(invisible_ms=10_000)
    clock.advance(10_001)

    assert name_of((await consumer.change(found.handle, MINUTE_MS)).status) == "INVALID_RECEIPT_HANDLE"


# Attempts and dead letters ---------------------------------------------------------------------------------


async def test_a_message_that_is_not_acknowledged_comes_again_after_its_time(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", TAGS="blue", colour="dark", UNIQ_KEY="U1")
    first = await consumer.receive(invisible_ms=10_000)
    await nothing_comes(clock, 9_999, consumer, broker)
    again = await after(clock, 1, consumer, broker, tags="blue")
    [shown] = again.messages

    assert (first.attempts, again.attempts) == ([1], [2])
    assert (shown.topic.name, shown.system_properties.message_id, shown.system_properties.tag) == (
        TOPIC,
        "U1",
        "blue",
    )
    assert dict(shown.user_properties) == {"colour": "dark"}


@pytest.mark.row("GR-31")
async def test_a_forwarded_message_is_in_the_dead_letters_once(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", UNIQ_KEY="U1")
    handle = (await consumer.receive()).handle
    answers = [name_of(await consumer.forward(handle)) for _ in range(3)]

    assert answers == ["OK", "OK", "OK"]
    [dead] = records_of(broker, DEAD)
    assert (dead.body, names.find_text(dead.properties, "RETRY_TOPIC")) == (b"one", TOPIC)
    assert names.find_text(dead.properties, "DLQ_ORIGIN_TOPIC") == TOPIC
    assert names.find_text(dead.properties, "DLQ_ORIGIN_MESSAGE_ID") == "U1"
    assert name_of((await consumer.ack(handle)).status) == "OK"
    await nothing_comes(clock, 2 * MINUTE_MS, consumer, broker)
    consumer.topic = DEAD
    [shown] = (await consumer.receive()).messages
    assert shown.system_properties.dead_letter_queue.topic == TOPIC
    assert shown.system_properties.dead_letter_queue.message_id == "U1"


@pytest.mark.row("GR-31")
async def test_a_forward_needs_a_handle_that_says_where_the_message_is(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", b"two")
    short = (await consumer.receive(batch=1)).handle.rpartition(" ")[0]
    late = (await consumer.receive(batch=1, invisible_ms=10_000)).handle
    clock.advance(10_001)

    assert [name_of(await consumer.forward(each)) for each in (short, late)] == ["INVALID_RECEIPT_HANDLE"] * 2
    assert records_of(broker, DEAD) == []


async def test_what_was_tried_too_often_goes_to_the_dead_letters(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    broker.groups.table.put(SubscriptionGroupConfig(group_name="readers", retry_max_times=1))
    await send(client, b"one")
    assert (await consumer.receive(invisible_ms=10_000)).attempts == [1]
    assert (await after(clock, 10_000, consumer, broker, invisible_ms=10_000)).attempts == [2]
    buried = await after(clock, 10_000, consumer, broker)
    assert (buried.name, buried.text, buried.bodies) == ("MESSAGE_NOT_FOUND", "no match message", [])
    await aeventually(lambda: [record.body for record in records_of(broker, DEAD)] == [b"one"])
    await nothing_comes(clock, MINUTE_MS, consumer, broker)


# Renewal and farewells -------------------------------------------------------------------------------------


async def test_a_listener_of_five_minutes_is_not_disturbed(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one")
    found = await consumer.receive(renew=True)
    for _ in range(15):
        assert name_of(await consumer.heartbeat(2)) == "OK"
        await nothing_comes(clock, 20_000, other, broker)

    assert name_of((await consumer.ack(found.handle)).status) == "OK"
    assert broker.pop.in_flight("readers", TOPIC, 0) == 0


async def test_messages_of_a_client_that_fell_silent_come_to_others(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one")
    assert name_of(await consumer.heartbeat(2)) == "OK"
    assert (await consumer.receive(renew=True)).bodies == [b"one"]
    await nothing_comes(clock, 120_000, other, broker)
    waiting = await holding(other, broker)
    clock.advance(1)
    # It is looked every five seconds, by the machine's clock.
    assert broker.grpc.door is not None
    broker.grpc.door.members.drop_silent()
    clock.advance(1_000)
    found = await waiting

    assert (found.bodies, found.attempts) == ([b"one"], [2])


@pytest.mark.row("GR-32")
async def test_messages_of_a_client_that_leaves_come_to_others_in_a_second(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", b"two")
    assert name_of(await consumer.heartbeat(2)) == "OK"
    assert (await consumer.receive(renew=True)).bodies == [b"one", b"two"]
    members = broker.groups.consumers.get("readers")
    assert members is not None
    assert members.client_ids == ["consumer"]
    assert name_of(await consumer.leave()) == "OK"
    assert broker.groups.consumers.get("readers") is None
    waiting = asyncio.ensure_future(other.receive_all(2))
    await aeventually(lambda: broker.pop.held_count("readers", TOPIC))
    clock.advance(1_000)

    assert sorted((await waiting).bodies) == [b"one", b"two"]


# Order -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def ordered(broker: Broker) -> None:
    broker.groups.table.put(SubscriptionGroupConfig(group_name="readers", consume_message_orderly=True))


@pytest.mark.usefixtures("ordered")
async def test_a_queue_is_blocked_until_its_batch_is_acknowledged(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker
) -> None:
    await send(client, b"one", b"two", b"three")
    found = await consumer.receive(batch=2)
    waiting = asyncio.ensure_future(other.receive())
    await aeventually(lambda: broker.pop.held_count("readers", TOPIC))
    assert name_of((await consumer.ack(found.handles[0])).status) == "OK"
    assert not waiting.done()
    assert name_of((await consumer.ack(found.handles[1])).status) == "OK"

    assert (found.bodies, (await waiting).bodies) == ([b"one", b"two"], [b"three"])
    assert decode_receipt_handle(found.handles[0]).is_fifo


@pytest.mark.usefixtures("ordered")
async def test_the_same_attempt_gets_the_same_batch_and_counts_no_delivery(
    client: WireClient, consumer: GrpcConsumer, other: GrpcConsumer, broker: Broker
) -> None:
    await send(client, b"one", b"two")
    first = await consumer.receive(attempt_id="a")
    again = await consumer.receive(attempt_id="a")
    waiting = asyncio.ensure_future(other.receive(attempt_id="b"))
    await aeventually(lambda: broker.pop.held_count("readers", TOPIC))

    assert (first.bodies, again.bodies) == ([b"one", b"two"],) * 2
    assert (first.attempts, again.attempts) == ([1, 1], [1, 1])
    waiting.cancel()


@pytest.mark.usefixtures("ordered")
async def test_an_unacknowledged_batch_comes_again_from_its_first_message(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one", b"two", b"three")
    found = await consumer.receive(invisible_ms=10_000)
    assert name_of((await consumer.ack(found.handles[1])).status) == "OK"
    again = await after(clock, 10_000, consumer, broker)

    assert (again.bodies, again.attempts) == ([b"one", b"two", b"three"], [2, 2, 2])
    assert name_of((await consumer.ack(found.handles[0])).status) == "INVALID_RECEIPT_HANDLE"


@pytest.mark.usefixtures("ordered")
async def test_a_delayed_message_delays_its_queue(
    client: WireClient, consumer: GrpcConsumer, broker: Broker, clock: ManualClock
) -> None:
    await send(client, b"one")
    found = await consumer.receive()
    changed = await consumer.change(found.handle, 3_000)
    assert name_of(changed.status) == "OK"
    await nothing_comes(clock, 2_999, consumer, broker)

    assert (await after(clock, 1, consumer, broker)).bodies == [b"one"]


@pytest.mark.usefixtures("ordered")
async def test_an_ordered_message_is_forwarded_and_its_queue_goes_on(
    client: WireClient, consumer: GrpcConsumer, broker: Broker
) -> None:
    await send(client, b"one", b"two")
    found = await consumer.receive(batch=1)
    assert name_of(await consumer.forward(found.handle)) == "OK"

    assert (await consumer.receive(batch=1)).bodies == [b"two"]
    assert [record.body for record in records_of(broker, DEAD)] == [b"one"]
