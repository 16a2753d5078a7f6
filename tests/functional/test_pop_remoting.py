"""POP over the remoting protocol, by hand: codes, fields and bodies of RocketMQ 5."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import pytest
from access_stage import OPERATOR, OPERATOR_SECRET, SHOP, SHOP_SECRET, ask_as, is_denied, write_accounts
from pop_wire import (
    GROUP,
    OK,
    RETRY,
    TOPIC,
    WirePopped,
    ack,
    as_handle,
    change,
    changed,
    entries_of,
    handle_of,
    pop,
    pop_answer,
    pop_fields,
    popped_of,
)

from pyromq.aio import Admin
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.pop_bodies import BatchAckPart, encode_batch_ack, pack_bits
from pyromq.wire.command import Command

POP = RequestCode.POP_MESSAGE
QUEUES = 4


@pytest.fixture
async def cluster(tmp_path: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(data_dir=tmp_path, clock=clock, enable_property_filter=True) as cluster:
        async with Admin(cluster.namesrv_address) as admin:
            await admin.create_topic(TOPIC, QUEUES)
        yield cluster


async def send(client: WireClient, *bodies: bytes, queue_id: int = 0, properties: str = "") -> None:
    for body in bodies:
        fields = send_v2_fields(TOPIC) | {"e": str(queue_id), "i": properties}
        answer = await client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)
        assert answer.code == OK, answer.remark


def bodies_of(messages: Sequence[WirePopped]) -> list[bytes]:
    return [message.record.body for message in messages]


async def retried(client: WireClient, clock: ManualClock, seconds: int = 60) -> list[WirePopped]:
    """Let messages be visible again, and return them as they come out of the retry topic."""
    clock.advance(seconds * 1_000)
    found: list[WirePopped] = []

    async def is_there() -> bool:
        found.extend(await pop(client))
        return bool(found)

    await aeventually(is_there)
    return found


def part_of(message: WirePopped, places: Sequence[int]) -> BatchAckPart:
    handle = as_handle(message)
    return BatchAckPart(
        group=GROUP,
        topic=TOPIC,
        mark=str(handle.mark),
        start_offset=handle.start_offset,
        queue_id=handle.queue_id,
        revive_queue_id=handle.revive_queue_id,
        popped_at_ms=handle.popped_at_ms,
        invisible_ms=handle.invisible_ms,
        packed_bits=pack_bits(sum(1 << place for place in places)),
    )


async def batch_ack(client: WireClient, *parts: BatchAckPart) -> Command:
    return await client.ask(RequestCode.BATCH_ACK_MESSAGE, None, encode_batch_ack("broker-a", parts))


# What an answer has


@pytest.mark.row("PO-21")
async def test_the_fields_of_an_answer(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one", b"two", b"three")
    clock.advance(1_000)
    now_ms = clock.now_ms()

    answer = await pop_answer(client, queueId=0, maxMsgNums=2, invisibleTime=30_000)

    assert (answer.code, answer.remark) == (OK, "FOUND")
    assert list((answer.ext or {}).items()) == [
        ("invisibleTime", "30000"),
        ("startOffsetInfo", "0 0 0"),
        ("restNum", "1"),
        ("popTime", str(now_ms)),
        ("reviveQid", "0"),
        ("msgOffsetInfo", "0 0 0,1"),
    ]
    assert bodies_of(popped_of(answer)) == [b"one", b"two"]


@pytest.mark.row("PO-21")
async def test_nothing_found_is_told_with_empty_texts(client: WireClient, clock: ManualClock) -> None:
    answer = await pop_answer(client)
    ordered = await pop_answer(client, order="true")

    assert (answer.code, answer.remark) == (ResponseCode.POLLING_TIMEOUT, "NO_MESSAGE_IN_QUEUE")
    assert {name: (answer.ext or {})[name] for name in ("restNum", "startOffsetInfo", "msgOffsetInfo")} == {
        "restNum": "0",
        "startOffsetInfo": "",
        "msgOffsetInfo": "",
    }
    assert (answer.ext or {})["popTime"] == str(clock.now_ms())
    assert "orderCountInfo" not in (answer.ext or {})
    assert (ordered.ext or {})["orderCountInfo"] == ""
    assert (ordered.ext or {})["reviveQid"] == "999"


@pytest.mark.row("PO-21")
async def test_the_revive_queue_counts_up_from_pop_to_pop(client: WireClient) -> None:
    await send(client, *[b"x"] * 10)

    answers = [await pop_answer(client, maxMsgNums=1) for _ in range(10)]

    first = int((answers[0].ext or {})["reviveQid"])
    assert [int((answer.ext or {})["reviveQid"]) for answer in answers] == [
        (first + count) % 8 for count in range(10)
    ]


@pytest.mark.row("PO-21")
async def test_all_queues_have_an_entry_each(client: WireClient) -> None:
    for queue_id in range(QUEUES):
        await send(client, b"%d" % queue_id, queue_id=queue_id)

    answer = await pop_answer(client)

    starts = entries_of(answer.ext or {}, "startOffsetInfo")
    assert sorted(starts) == [("0", str(queue_id), "0") for queue_id in range(QUEUES)]
    assert [queue for _, queue, _ in starts] == [message.handle.split()[6] for message in popped_of(answer)]


@pytest.mark.row("PO-21")
async def test_a_retry_names_the_topic_and_its_handle(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one", properties="TAGS\x01red\x02UNIQ_KEY\x01U1")
    first = (await pop(client))[0]

    (again,) = await retried(client, clock)

    assert again.mark == 1
    assert again.record.topic == TOPIC
    assert again.record.body == b"one"
    assert again.record.reconsume_times == 1
    assert again.properties["POP_CK"] == again.handle
    assert again.properties["1ST_POP_TIME"] == first.handle.split()[1]
    assert {name: again.properties[name] for name in ("TAGS", "UNIQ_KEY")} == {
        "TAGS": "red",
        "UNIQ_KEY": "U1",
    }


@pytest.mark.row("PO-21")
async def test_counts_of_messages_in_order(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one", b"two")
    order = {"order": "true", "queueId": 0, "invisibleTime": 10_000}

    first = await pop_answer(client, **order)
    clock.advance(11_000)
    await send(client, b"three")
    second = await pop_answer(client, **order)

    assert (first.ext or {})["orderCountInfo"] == "0 0 0"
    assert (second.ext or {})["orderCountInfo"] == "0 qo0%0 1;0 qo0%1 1;0 0 0"
    assert (second.ext or {})["msgOffsetInfo"] == "0 0 0,1,2"
    assert bodies_of(popped_of(second)) == [b"one", b"two", b"three"]


# Waiting


async def test_a_held_pop_is_answered_by_a_message(client: WireClient) -> None:
    held = client.begin(POP, pop_fields(pollTime=15_000))
    await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)
    polling = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1}
    waiting = await client.ask(RequestCode.POLLING_INFO, polling)

    await send(client, b"one")

    assert (waiting.ext, waiting.remark) == ({"pollingNum": "1"}, "not set any response code")
    assert bodies_of(popped_of(await held)) == [b"one"]
    assert (await client.ask(RequestCode.POLLING_INFO, polling)).ext == {"pollingNum": "0"}


async def test_a_held_pop_ends_with_its_time(client: WireClient, clock: ManualClock) -> None:
    held = client.begin(POP, pop_fields(pollTime=15_000))
    await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)

    clock.advance(15_000)

    assert (await held).code == ResponseCode.POLLING_TIMEOUT


async def test_a_pop_that_comes_too_late_is_not_tried(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one")

    late = await pop_answer(client, bornTime=clock.now_ms() - 1_000, pollTime=100)
    in_time = await pop_answer(client, bornTime=clock.now_ms() - 500, pollTime=100)

    assert late.code == ResponseCode.POLLING_TIMEOUT
    assert late.ext == dict.fromkeys(("restNum", "reviveQid", "invisibleTime", "popTime"), "0")
    assert "timeout too much" in (late.remark or "")
    assert bodies_of(popped_of(in_time)) == [b"one"]


async def test_a_notification_says_that_there_is_something(client: WireClient) -> None:
    fields = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "pollTime": 15_000, "bornTime": 0}
    nothing = await client.ask(RequestCode.NOTIFICATION, fields | {"pollTime": 0})
    held = client.begin(RequestCode.NOTIFICATION, fields)
    await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)

    await send(client, b"one")

    assert nothing.ext == {"hasMsg": "false", "pollingFull": "false"}
    assert (await held).ext == {"hasMsg": "true", "pollingFull": "false"}
    assert bodies_of(await pop(client)) == [b"one"]


async def test_a_peek_changes_nothing(client: WireClient, clock: ManualClock) -> None:
    peek = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "maxMsgNums": 2}
    empty = await client.ask(RequestCode.PEEK_MESSAGE, peek)
    await send(client, b"one", b"two", b"three")

    first = await client.ask(RequestCode.PEEK_MESSAGE, peek)
    again = await client.ask(RequestCode.PEEK_MESSAGE, peek)
    popped = await pop(client, maxMsgNums=1)
    behind = await client.ask(RequestCode.PEEK_MESSAGE, peek)

    assert (empty.code, empty.remark) == (ResponseCode.PULL_NOT_FOUND, "NO_MESSAGE_IN_QUEUE")
    assert (first.code, first.remark) == (OK, "FOUND")
    assert first.ext == {"restNum": "3", "reviveQid": "0", "invisibleTime": "0", "popTime": "0"}
    assert first.body == again.body
    assert b"one" in first.body
    assert b"two" in first.body
    assert bodies_of(popped) == [b"one"]
    assert b"one" not in behind.body
    assert b"three" in behind.body


# Acknowledgements and changes


@pytest.mark.row("PO-21")
async def test_what_is_acknowledged_does_not_come_again(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one", b"two")
    one, two = await pop(client)

    answer = await ack(client, one)
    twice = await ack(client, one)
    (again,) = await retried(client, clock)
    retry_acked = await ack(client, again)
    clock.advance(120_000)

    assert (answer.code, answer.remark, answer.ext) == (OK, None, None)
    assert twice.code == OK
    assert again.record.body == b"two"
    assert retry_acked.code == OK
    assert await pop(client) == []
    assert two.topic == TOPIC
    assert again.topic == RETRY


@pytest.mark.row("PO-05")
async def test_who_acknowledges_too_late_is_not_told(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one")
    (one,) = await pop(client)
    (again,) = await retried(client, clock)

    late = await ack(client, one)

    assert late.code == OK
    assert bodies_of(await retried(client, clock)) == [b"one"]
    assert again.record.reconsume_times == 1


@pytest.mark.row("PO-21")
async def test_many_are_acknowledged_at_once(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one", b"two", b"three")
    await send(client, b"four", queue_id=1)
    messages = {message.record.body: message for message in await pop(client)}

    answer = await batch_ack(client, part_of(messages[b"one"], [0, 2]), part_of(messages[b"four"], [0, 7]))

    assert (answer.code, answer.ext) == (OK, None)
    (two,) = await retried(client, clock)
    assert two.record.body == b"two"
    assert (await batch_ack(client, part_of(two, [0]))).code == OK
    clock.advance(120_000)
    assert await pop(client) == []


@pytest.mark.row("PO-21")
async def test_long_names_are_understood_in_an_acknowledgement_of_many(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, b"one")
    (one,) = await pop(client)
    handle = as_handle(one)
    body = (
        f'{{"brokerName":"broker-a","acks":[{{"consumerGroup":"{GROUP}","topic":"{TOPIC}","retry":"0",'
        f'"startOffset":{handle.start_offset},"queueId":0,"reviveQueueId":{handle.revive_queue_id},'
        f'"popTime":{handle.popped_at_ms},"invisibleTime":{handle.invisible_ms},"bitSet":"AQ=="}}]}}'
    )

    assert (await client.ask(RequestCode.BATCH_ACK_MESSAGE, None, body.encode())).code == OK
    clock.advance(120_000)
    assert await pop(client) == []


@pytest.mark.row("PO-21")
async def test_a_change_moves_the_time_and_gives_a_new_handle(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one")
    (one,) = await pop(client)
    clock.advance(5_000)

    answer = await change(client, one, 10_000)
    other = changed(one, answer)
    stale = await change(client, one, 20_000)
    (again,) = await retried(client, clock, 10)

    assert answer.remark == "not set any response code"
    assert answer.ext is not None
    assert list(answer.ext) == ["invisibleTime", "popTime", "reviveQid"]
    assert answer.ext["invisibleTime"] == "10000"
    assert answer.ext["popTime"] == str(clock.now_ms() - 10_000)
    assert answer.ext["reviveQid"] == one.handle.split()[3]
    assert stale.code == ResponseCode.NO_MESSAGE
    assert stale.ext == dict.fromkeys(("reviveQid", "invisibleTime", "popTime"), "0")
    assert again.record.body == b"one"
    assert (await ack(client, other)).code == OK


async def test_a_message_is_acknowledged_by_the_handle_of_its_change(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, b"one")
    (one,) = await pop(client)
    other = changed(one, await change(client, one, 30_000))

    assert (await ack(client, other)).code == OK
    clock.advance(120_000)
    assert await pop(client) == []


async def test_a_queue_in_order_is_blocked_until_its_batch_is_acknowledged(
    client: WireClient, clock: ManualClock
) -> None:
    order = {"order": "true", "queueId": 0}
    await send(client, b"one", b"two")
    one, two = popped_of(await pop_answer(client, **order))
    await send(client, b"three")

    blocked = await pop_answer(client, **order)
    await ack(client, one)
    beyond = await ack(client, two, offset=2, extraInfo=handle_of(two, offset=2))
    await ack(client, two)
    free = await pop_answer(client, **order)

    assert blocked.code == ResponseCode.POLLING_TIMEOUT
    assert (beyond.code, "offset is illegal" in (beyond.remark or "")) == (ResponseCode.MESSAGE_ILLEGAL, True)
    assert bodies_of(popped_of(free)) == [b"three"]
    assert one.handle.split()[3] == "999"


async def test_acknowledgements_after_the_first_are_answered_alike(
    client: WireClient, clock: ManualClock
) -> None:
    """The kernel has them from then on, where there is one."""
    await send(client, b"one", b"two", b"three", b"four")
    messages = await pop(client)
    answers = [
        client.begin(RequestCode.ACK_MESSAGE, message.fields(), opaque=1_000 + number)
        for number, message in enumerate(messages)
    ]
    codes = [(answer.code, answer.remark, answer.ext) for answer in await asyncio.gather(*answers)]
    again = await ack(client, messages[1])
    headers = [client.raw_headers[1_000 + number] for number in range(4)]

    assert codes == [(OK, None, None)] * 4
    assert len({header.replace(b"100%d" % number, b"") for number, header in enumerate(headers)}) == 1
    assert again.code == OK
    clock.advance(120_000)
    assert await pop(client) == []


async def test_nothing_is_acknowledged_in_a_topic_that_is_gone(client: WireClient) -> None:
    await send(client, b"one", b"two", b"three")
    one, two, three = await pop(client)
    await ack(client, one)
    await ack(client, two)

    await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": TOPIC})

    assert (await ack(client, three)).code == ResponseCode.TOPIC_NOT_EXIST


# Filters


async def test_a_filter_by_tag_or_by_sql_lets_only_wanted_messages_through(client: WireClient) -> None:
    await send(client, b"red", properties="TAGS\x01red\x02price\x0110")
    await send(client, b"blue", properties="TAGS\x01blue\x02price\x0120")
    await send(client, b"green", properties="TAGS\x01green\x02price\x0130")

    by_tag = await pop(client, exp="red || green", expType="TAG")
    by_sql = await pop(client, exp="price BETWEEN 15 AND 25", expType="SQL92", consumerGroup="others")

    assert bodies_of(by_tag) == [b"red", b"green"]
    assert bodies_of(by_sql) == [b"blue"]
    assert await pop(client) == []


@pytest.mark.parametrize(
    ("expression", "kind"), [("||", "TAG"), ("price >", "SQL92"), ("price BETWEEN", "SQL92")]
)
async def test_a_filter_that_does_not_read_is_refused(client: WireClient, expression: str, kind: str) -> None:
    answer = await pop_answer(client, exp=expression, expType=kind)

    assert answer.code == ResponseCode.SUBSCRIPTION_PARSE_FAILED
    assert (answer.remark or "").startswith("parse the consumer's subscription failed")
    assert answer.ext == dict.fromkeys(("restNum", "reviveQid", "invisibleTime", "popTime"), "0")


# Limits, and what is refused


@pytest.mark.row("PO-25")
async def test_no_more_than_32_messages_are_popped_at_once(client: WireClient) -> None:
    await send(client, *[b"x"] * 40)

    refused = await pop_answer(client, maxMsgNums=33)

    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "num is greater than 32" in (refused.remark or "")
    assert len(await pop(client, maxMsgNums=32)) == 32


@pytest.mark.row("PO-25")
async def test_so_many_pops_wait_and_no_more(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"popPollingSize=2")
        await send(client, b"one")
        assert bodies_of(await pop(client)) == [b"one"]
        held = [client.begin(POP, pop_fields(pollTime=15_000)) for _ in range(2)]
        full = await pop_answer(client, pollTime=15_000)
        notified = await client.ask(
            RequestCode.NOTIFICATION,
            {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1, "pollTime": 15_000, "bornTime": 0},
        )
        clock.advance(15_000)
        codes = [answer.code for answer in await asyncio.gather(*held)]

    assert full.code == ResponseCode.POLLING_FULL
    assert notified.ext == {"hasMsg": "false", "pollingFull": "true"}
    assert codes == [ResponseCode.POLLING_TIMEOUT] * 2


async def test_what_may_not_be_popped_is_refused(client: WireClient) -> None:
    unknown = await pop_answer(client, topic="nowhere")
    queue = await pop_answer(client, queueId=QUEUES)
    await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"autoCreateSubscriptionGroup=false")
    group = await pop_answer(client, consumerGroup="strangers")
    await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"brokerPermission=2")
    broker = await pop_answer(client)

    assert (unknown.code, queue.code, group.code, broker.code) == (
        ResponseCode.TOPIC_NOT_EXIST,
        ResponseCode.INVALID_PARAMETER,
        ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
        ResponseCode.NO_PERMISSION,
    )
    assert "topic[nowhere] not exist, apply first please!" in (unknown.remark or "")
    assert f"queueId[{QUEUES}] is illegal, topic:[{TOPIC}]" in (queue.remark or "")
    assert "pop message is forbidden" in (broker.remark or "")
    for answer in (unknown, queue, group, broker):
        assert answer.ext == dict.fromkeys(("restNum", "reviveQid", "invisibleTime", "popTime"), "0")


@pytest.mark.parametrize("invisible_ms", [-1, 12 * 3_600_000 + 1, 2**63 - 1])
async def test_no_message_is_invisible_for_ever(client: WireClient, invisible_ms: int) -> None:
    await send(client, b"one", b"two")
    refused = await pop_answer(client, invisibleTime=invisible_ms)
    one, _ = await pop(client)
    unchanged = await change(client, one, invisible_ms)

    assert (refused.code, unchanged.code) == (ResponseCode.INVALID_PARAMETER,) * 2
    assert "invisibleTime" in (unchanged.remark or "")
    assert (await ack(client, one)).code == OK


@pytest.mark.parametrize("handle", ["", "1 2 3", "a b c d e f g h", "0 1 60000 0 7 broker-a 0 0", "9" * 500])
async def test_a_handle_that_is_none_is_refused(client: WireClient, handle: str) -> None:
    await send(client, b"one")
    (one,) = await pop(client)

    refused = await ack(client, one, extraInfo=handle)
    unchanged = await change(client, one, 1_000, extraInfo=handle)

    assert (refused.code, unchanged.code) == (ResponseCode.SYSTEM_ERROR,) * 2
    assert "no receipt handle" in (refused.remark or "")
    assert len(refused.remark or "") < 300


async def test_a_message_that_is_not_there_is_refused(client: WireClient) -> None:
    await send(client, b"one")
    (one,) = await pop(client)

    nowhere = await ack(client, one, topic="nowhere")
    queue = await ack(client, one, queueId=QUEUES)
    below = await ack(client, one, queueId=-1)
    behind = await ack(client, one, offset=2)
    unchanged = await change(client, one, 1_000, offset=1)

    assert nowhere.code == ResponseCode.TOPIC_NOT_EXIST
    assert (queue.code, below.code) == (ResponseCode.MESSAGE_ILLEGAL,) * 2
    assert f"queueId[{QUEUES}] is illegal" in (queue.remark or "")
    assert (behind.code, behind.remark) == (
        ResponseCode.NO_MESSAGE,
        f"offset is illegal, key:{TOPIC}@0, commit:2, store:0~1",
    )
    assert unchanged.code == ResponseCode.NO_MESSAGE


@pytest.mark.parametrize(
    ("body", "code", "cause"),
    [
        (b"", ResponseCode.NO_MESSAGE, "acks is empty"),
        (b'{"brokerName":"broker-a","acks":[]}', ResponseCode.NO_MESSAGE, "acks is empty"),
        (b'{"acks":[1]}', ResponseCode.SYSTEM_ERROR, "BatchAck"),
        (b'{"acks":{}}', ResponseCode.SYSTEM_ERROR, "acks"),
    ],
)
async def test_an_acknowledgement_of_nothing_is_refused(
    client: WireClient, body: bytes, code: int, cause: str
) -> None:
    answer = await client.ask(RequestCode.BATCH_ACK_MESSAGE, None, body)

    assert answer.code == code
    assert cause in (answer.remark or "")


async def test_an_acknowledgement_of_too_many_is_refused(client: WireClient) -> None:
    await send(client, b"one")
    (one,) = await pop(client)

    many = await batch_ack(client, part_of(one, range(70_000)))
    elsewhere = await batch_ack(client, part_of(one, [60_000]))

    assert many.code == ResponseCode.SYSTEM_ERROR
    assert "at most 65536 messages" in (many.remark or "")
    assert elsewhere.code == OK
    assert (await ack(client, one)).code == OK


# Permissions


async def test_a_group_pops_and_acknowledges_what_its_account_may_read(tmp_path: Path) -> None:
    folder = write_accounts(tmp_path / "conf")
    async with (
        Cluster(data_dir=tmp_path / "data", acl_enable=True, acl_folder=str(folder)) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        fields = send_v2_fields(TOPIC) | {"e": "0"}
        for body in (b"one", b"two", b"three"):
            sent = await ask_as(client, (OPERATOR, OPERATOR_SECRET), 310, fields, body)
        popped = await ask_as(client, (SHOP, SHOP_SECRET), POP, texts(pop_fields(consumerGroup="billing")))
        messages = popped_of(popped)
        handle = messages[0].handle
        own = [texts(message.fields(consumerGroup="billing")) for message in messages]
        taken = [
            await ask_as(client, (SHOP, SHOP_SECRET), RequestCode.ACK_MESSAGE, own[number])
            for number in (0, 1)
        ]
        unsigned = await client.ask(RequestCode.ACK_MESSAGE, own[2])
        guessed = await ask_as(client, (SHOP, "guessed"), RequestCode.ACK_MESSAGE, own[2])
        retry = {"consumerGroup": "billing", "topic": "%RETRY%billing_orders", "queueId": "0", "offset": "0"}
        acked = await ask_as(
            client, (SHOP, SHOP_SECRET), RequestCode.ACK_MESSAGE, retry | {"extraInfo": handle}
        )
        others = await ask_as(client, (SHOP, SHOP_SECRET), POP, texts(pop_fields(consumerGroup="others")))
        elsewhere = retry | {"topic": "%RETRY%billing_secrets", "extraInfo": handle}
        secret = await ask_as(client, (SHOP, SHOP_SECRET), RequestCode.ACK_MESSAGE, elsewhere)

    assert sent.code == OK, sent.remark
    assert popped.code == OK, popped.remark
    assert [answer.code for answer in taken] == [OK, OK]
    assert is_denied(unsigned)
    assert is_denied(guessed)
    # It is allowed; the retry topic does not exist yet.
    assert acked.code == ResponseCode.TOPIC_NOT_EXIST
    assert is_denied(others)
    assert is_denied(secret)


def texts(fields: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in fields.items()}
