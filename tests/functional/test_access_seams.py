"""Where access control meets other features: replies, keys, transactions, staged sends, white lists."""

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from access_stage import (
    ACCOUNTS,
    NOBODY,
    NOBODY_SECRET,
    OPERATOR,
    OPERATOR_SECRET,
    SHOP,
    SHOP_SECRET,
    ask_as,
    is_denied,
    write_accounts,
)
from key_collision import key_with_hash

from pyromq.broker.kinds.staging.ops import decode_op
from pyromq.codes import CommandFlag, ResponseCode
from pyromq.codes import RequestCode as Code
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.bodies.heartbeat_bodies import (
    ConsumerPart,
    Heartbeat,
    ProducerPart,
    Subscription,
    encode_heartbeat,
)
from pyromq.wire.bodies.staging_bodies import PartChunks, StagedBody, encode_staged
from pyromq.wire.command import Command
from pyromq.wire.java_hash import java_hash
from pyromq.wire.message_id import parse_offset_message_id

Signer = tuple[str, str]
THE_OPERATOR, THE_SHOP, THE_NOBODY = (OPERATOR, OPERATOR_SECRET), (SHOP, SHOP_SECRET), (NOBODY, NOBODY_SECRET)
#: May send to a topic of its own, and read all topics but "secrets".
RIVAL = THE_RIVAL = ("the-rival", "the-rivals-secret-4")
MORE = f"""\
- accessKey: {RIVAL[0]}
  secretKey: {RIVAL[1]}
  defaultTopicPerm: SUB
  defaultGroupPerm: SUB
  topicPerms:
  - rivals=PUB|SUB
  - secrets=DENY
  - orders=SUB
"""
UNIQUE_ID = "7F0000011B3C18B4AAC21C2F9F8D0001"
MINUTE_MS, EVER_MS = 60_000, 1 << 50


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_accounts(tmp_path / "conf", ACCOUNTS + MORE)


@pytest.fixture
async def cluster(tmp_path: Path, folder: Path, clock: ManualClock) -> AsyncIterator[Cluster]:
    async with Cluster(
        data_dir=tmp_path / "data", clock=clock, acl_enable=True, acl_folder=str(folder)
    ) as cluster:
        yield cluster


@pytest.fixture
async def clients(cluster: Cluster) -> AsyncIterator[list[WireClient]]:
    async with AsyncExitStack() as closing:
        clients = [WireClient(cluster.broker_addresses[0]) for _ in range(3)]
        yield [await closing.enter_async_context(client) for client in clients]


def sent_fields(topic: str, properties: str = "", *, sys_flag: int = 0) -> dict[str, object]:
    return {
        "a": "payers",
        "b": topic,
        "c": "TBW102",
        "d": 4,
        "e": 0,
        "f": sys_flag,
        "g": 0,
        "h": 0,
        **({"i": properties} if properties else {}),
    }


async def send(
    client: WireClient, account: Signer, topic: str, properties: str = "", *, body: bytes = b"body"
) -> Command:
    answer = await ask_as(client, account, Code.SEND_MESSAGE_V2, sent_fields(topic, properties), body)
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return answer


async def heartbeat(client: WireClient, account: Signer, client_id: str, group: str) -> Command:
    beat = Heartbeat(client_id=client_id, producers=[ProducerPart(group_name=group)])
    return await ask_as(client, account, Code.HEART_BEAT, None, encode_heartbeat(beat))


def pushed(client: WireClient, code: int) -> list[Command]:
    return [command for command in client.pushed if command.code == code]


# Replies ----------------------------------------------------------------------------------------------------

#: Of 324, and the short names of 325 in the same order.
REPLY_FIELDS = (
    "producerGroup topic defaultTopic defaultTopicQueueNums queueId sysFlag bornTimestamp flag properties"
)


async def reply(client: WireClient, account: Signer, topic: str, *, to: str, code: int) -> Command:
    properties = names.encode({names.REPLY_TO_CLIENT: to, names.CORRELATION_ID: "c-1"})
    values = ["repliers", topic, "TBW102", 4, 0, 0, 0, 0, properties]
    fields = "abcdefghi" if code == Code.SEND_REPLY_MESSAGE_V2 else REPLY_FIELDS.split()
    return await ask_as(client, account, code, dict(zip(fields, values, strict=True)), b"42")


@pytest.mark.parametrize("code", [Code.SEND_REPLY_MESSAGE, Code.SEND_REPLY_MESSAGE_V2])
async def test_a_reply_needs_pub_for_its_topic_and_makes_none_without(
    clients: list[WireClient], code: int
) -> None:
    client = clients[0]

    for account in (THE_SHOP, THE_NOBODY):
        assert is_denied(await reply(client, account, "made-by-a-reply", to="x@1", code=code))

    listed = await ask_as(client, THE_OPERATOR, Code.GET_ALL_TOPIC_CONFIG)
    assert b"made-by-a-reply" not in listed.body
    assert not is_denied(await reply(client, THE_SHOP, "clicks", to="x@1", code=code))


async def test_a_reply_goes_to_the_account_that_had_the_client_id_first(clients: list[WireClient]) -> None:
    asker, thief, replier = clients
    for client in (asker, thief):
        client.on_push = lambda command: Command(
            ResponseCode.SUCCESS, opaque=command.opaque, flag=CommandFlag.RESPONSE
        )
    await heartbeat(asker, THE_SHOP, "asker@1", "askers")

    told = await heartbeat(thief, THE_RIVAL, "asker@1", "askers")
    answer = await reply(replier, THE_SHOP, "clicks", to="asker@1", code=Code.SEND_REPLY_MESSAGE_V2)

    # It is a member like any other, only not the one with that id.
    assert told.code == ResponseCode.SUCCESS
    assert "in use by another account" in (told.remark or "")
    assert answer.code == ResponseCode.SUCCESS
    assert len(pushed(asker, Code.PUSH_REPLY_MESSAGE_TO_CLIENT)) == 1
    assert pushed(thief, Code.PUSH_REPLY_MESSAGE_TO_CLIENT) == []


async def test_a_client_that_connects_again_gets_its_replies_on_its_new_connection(
    clients: list[WireClient],
) -> None:
    before, after, replier = clients
    after.on_push = lambda command: Command(
        ResponseCode.SUCCESS, opaque=command.opaque, flag=CommandFlag.RESPONSE
    )
    await heartbeat(before, THE_SHOP, "asker@1", "askers")
    await heartbeat(after, THE_SHOP, "asker@1", "askers")

    await reply(replier, THE_SHOP, "clicks", to="asker@1", code=Code.SEND_REPLY_MESSAGE_V2)

    assert len(pushed(after, Code.PUSH_REPLY_MESSAGE_TO_CLIENT)) == 1


async def test_an_id_is_free_when_the_connection_that_had_it_has_ended(clients: list[WireClient]) -> None:
    first, second, _ = clients
    await heartbeat(first, THE_SHOP, "asker@1", "askers")
    await first.close()

    async def is_its_own() -> bool:
        return (await heartbeat(second, THE_RIVAL, "asker@1", "askers")).remark is None

    await aeventually(is_its_own)


# Transactions -----------------------------------------------------------------------------------------------


async def test_only_who_may_send_to_its_topic_is_asked_about_a_half_message(
    clients: list[WireClient], clock: ManualClock
) -> None:
    owner, curious, rival = clients
    # They say that they are in the group; RocketMQ's clients say no more than that either.
    for client, account, name in (
        (owner, THE_SHOP, "o@1"),
        (curious, THE_NOBODY, "c@1"),
        (rival, THE_RIVAL, "r@1"),
    ):
        assert (await heartbeat(client, account, name, "payers")).code == ResponseCode.SUCCESS
    for number in range(6):
        properties = f"TRAN_MSG\x01true\x02PGROUP\x01payers\x02UNIQ_KEY\x01id-{number}"
        half = sent_fields("orders", properties, sys_flag=4) | {"g": clock.now_ms()}
        answer = await ask_as(owner, THE_SHOP, Code.SEND_MESSAGE_V2, half, b"pay 7")
        assert answer.code == ResponseCode.SUCCESS, answer.remark

    clock.advance(MINUTE_MS)

    await aeventually(lambda: len(pushed(owner, Code.CHECK_TRANSACTION_STATE)) == 6)

    assert pushed(curious, Code.CHECK_TRANSACTION_STATE) == []
    assert pushed(rival, Code.CHECK_TRANSACTION_STATE) == []


async def test_consumers_of_java_are_members_of_a_producer_group_and_need_no_pub_for_it(
    clients: list[WireClient],
) -> None:
    beat = Heartbeat(
        client_id="10.0.0.1@7",
        producers=[ProducerPart(group_name="CLIENT_INNER_PRODUCER")],
        consumers=[ConsumerPart(group_name="billing", subscriptions=[Subscription(topic="prices")])],
    )

    answer = await ask_as(clients[0], THE_SHOP, Code.HEART_BEAT, None, encode_heartbeat(beat))

    assert (answer.code, answer.remark) == (ResponseCode.SUCCESS, None)


# Keys -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("their_key", ["order-7", UNIQUE_ID])
async def test_a_key_that_was_made_to_collide_shows_no_message_of_another_topic(
    clients: list[WireClient], their_key: str
) -> None:
    client = clients[0]
    await send(
        client, THE_OPERATOR, "secrets", "KEYS\x01order-7\x02UNIQ_KEY\x017F0000011B3C18B4AAC21C2F9F8D0001"
    )
    crafted = key_with_hash("orders", java_hash(f"secrets#{their_key}"))

    for unique in (False, True):
        fields = {
            "topic": "orders",
            "key": crafted,
            "maxNum": 32,
            "beginTimestamp": 0,
            "endTimestamp": EVER_MS,
        }
        if unique:
            fields["_UNIQUE_KEY_QUERY"] = True
        answer = await ask_as(client, THE_SHOP, Code.QUERY_MESSAGE, fields)

        assert (answer.code, answer.body) == (ResponseCode.QUERY_NOT_FOUND, b"")


# Topics of the broker itself --------------------------------------------------------------------------------


async def test_a_default_permission_is_none_for_where_messages_of_all_topics_wait(
    clients: list[WireClient],
) -> None:
    client = clients[0]
    await send(client, THE_OPERATOR, "secrets", "DELAY\x0118\x02KEYS\x01order-7")
    query = {
        "topic": "SCHEDULE_TOPIC_XXXX",
        "key": "order-7",
        "maxNum": 32,
        "beginTimestamp": 0,
        "endTimestamp": EVER_MS,
    }
    pull = {
        "consumerGroup": "billing",
        "topic": "SCHEDULE_TOPIC_XXXX",
        "queueId": 17,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": 4,
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
    }

    assert is_denied(await ask_as(client, THE_RIVAL, Code.QUERY_MESSAGE, query))
    assert is_denied(await ask_as(client, THE_RIVAL, Code.PULL_MESSAGE, pull))
    assert not is_denied(await ask_as(client, THE_RIVAL, Code.PULL_MESSAGE, {**pull, "topic": "prices"}))
    found = await ask_as(client, THE_OPERATOR, Code.QUERY_MESSAGE, query)
    assert found.code == ResponseCode.SUCCESS


# White lists ------------------------------------------------------------------------------------------------


async def test_an_accounts_white_list_saves_the_signature_and_no_permission(
    clients: list[WireClient], folder: Path, clock: ManualClock
) -> None:
    client = clients[0]
    text = ACCOUNTS.replace(
        f"- accessKey: {SHOP}\n", f"- accessKey: {SHOP}\n  whiteRemoteAddress: 127.0.0.1\n"
    )
    write_accounts(folder, text + MORE)
    clock.advance(2_000)
    unsigned = {"AccessKey": SHOP}

    async def needs_no_signature() -> bool:
        answer = await client.ask(Code.SEND_MESSAGE_V2, sent_fields("orders") | unsigned, b"body")
        return answer.code == ResponseCode.SUCCESS

    await aeventually(needs_no_signature)

    refused = await client.ask(Code.SEND_MESSAGE_V2, sent_fields("secrets") | unsigned, b"body")
    assert "No default permission for topic:secrets" in (refused.remark or "")
    ordered = await client.ask(Code.CLEAN_UNUSED_TOPIC, unsigned)
    assert "Need admin permission" in (ordered.remark or "")
    assert is_denied(await client.ask(Code.GET_BROKER_CONFIG, {"AccessKey": NOBODY}))


# Staged sends -----------------------------------------------------------------------------------------------

QUERY = {"query": "q-1", "home": "broker-a"}


async def open_batch(client: WireClient, account: Signer, batch: int, query: str = "q-1") -> Command:
    body = encode_staged(StagedBody(layout={"orders": {"broker-a": 4}}))
    fields = {**QUERY, "query": query, "batch": batch}
    return await ask_as(client, account, Code.OPEN_STAGED_BATCH, fields, body)


async def stage(client: WireClient, account: Signer, batch: int, topic: str = "orders") -> Command:
    message = struct.pack(">iiiii", 0, 0, 0, 0, 3) + b"row" + struct.pack(">h", 0)
    body = struct.pack(">i", len(message)) + message[4:]
    fields = {
        **QUERY,
        "batch": batch,
        "part": 0,
        "attempt": "a-1",
        "sequence": 0,
        "topic": topic,
        "queueId": 0,
        "bornTimestamp": 0,
    }
    return await ask_as(client, account, Code.STAGE_MESSAGES, fields, body)


async def publish(client: WireClient, account: Signer, batch: int, *parts: PartChunks) -> Command:
    fields = {**QUERY, "batch": batch}
    return await ask_as(
        client, account, Code.PUBLISH_STAGED, fields, encode_staged(StagedBody(parts=list(parts)))
    )


ONE_CHUNK = PartChunks(part=0, attempt="a-1", chunks={"broker-a": 1})


async def refusals_of(client: WireClient, account: Signer) -> list[Command]:
    """Return what an account is answered that tries everything with the query."""
    abort = encode_staged(StagedBody(parts=[ONE_CHUNK]))
    return [
        await open_batch(client, account, 1),
        await open_batch(client, account, 1 << 40),
        await stage(client, account, 1, "rivals"),
        await publish(client, account, 1),
        await publish(client, account, 1 << 40),
        await ask_as(client, account, Code.PUBLISH_STAGED, {**QUERY, "batch": 1, "step": "prepare"}),
        await ask_as(client, account, Code.PUBLISH_STAGED, {**QUERY, "batch": 1, "step": "complete"}),
        await ask_as(client, account, Code.ABORT_STAGED, {**QUERY, "batch": 1}, abort),
        await ask_as(client, account, Code.STAGED_STATUS, {"query": "q-1", "batch": 1}),
        await ask_as(client, account, Code.STAGED_STATUS, {"query": "q-1"}),
    ]


async def test_a_staged_query_belongs_to_the_account_that_opened_it(clients: list[WireClient]) -> None:
    client = clients[0]
    await send(client, THE_SHOP, "orders")
    assert (await open_batch(client, THE_SHOP, 1)).code == ResponseCode.SUCCESS
    assert (await stage(client, THE_SHOP, 1)).code == ResponseCode.SUCCESS

    answers = await refusals_of(clients[1], THE_RIVAL)

    assert {answer.code for answer in answers} == {ResponseCode.NO_PERMISSION}
    assert all("belongs to another account" in (answer.remark or "") for answer in answers)
    published = await publish(client, THE_SHOP, 1, ONE_CHUNK)
    assert published.code == ResponseCode.SUCCESS, published.remark
    assert (published.ext or {})["state"] == "published"


async def test_whose_a_staged_query_is_is_known_after_a_restart(
    cluster: Cluster, clients: list[WireClient]
) -> None:
    client = clients[0]
    await send(client, THE_SHOP, "orders")
    await open_batch(client, THE_SHOP, 1)
    await cluster.stop_broker("broker-a")
    await cluster.start_broker("broker-a")

    async with WireClient(cluster.broker_addresses[0]) as again:
        answers = await refusals_of(again, THE_RIVAL)
        assert {answer.code for answer in answers} == {ResponseCode.NO_PERMISSION}
        assert (await open_batch(again, THE_SHOP, 1)).code == ResponseCode.SUCCESS


async def test_the_log_alone_says_whose_a_staged_query_is(
    cluster: Cluster, clients: list[WireClient], tmp_path: Path
) -> None:
    await send(clients[0], THE_SHOP, "orders")
    await open_batch(clients[0], THE_SHOP, 1)
    await cluster.stop_broker("broker-a")
    # A slave that becomes master has the log, and not this table.
    for table in (tmp_path / "data" / "broker-a" / "config").glob("stagedBatches.json*"):
        table.unlink()
    await cluster.start_broker("broker-a")

    async with WireClient(cluster.broker_addresses[0]) as again:
        assert (await publish(again, THE_RIVAL, 1 << 40)).code == ResponseCode.NO_PERMISSION
        assert (await open_batch(again, THE_SHOP, 2)).code == ResponseCode.SUCCESS


async def test_an_administrator_may_help_with_a_staged_query_which_stays_its_owners(
    clients: list[WireClient],
) -> None:
    client = clients[0]
    await open_batch(client, THE_SHOP, 1)

    assert (await open_batch(client, THE_OPERATOR, 2)).code == ResponseCode.SUCCESS

    assert (await open_batch(client, THE_SHOP, 3)).code == ResponseCode.SUCCESS
    assert (await open_batch(client, THE_RIVAL, 4)).code == ResponseCode.NO_PERMISSION


async def test_of_two_accounts_that_open_a_query_at_once_one_is_refused(
    clients: list[WireClient],
) -> None:
    first, second, _ = clients
    answers = await asyncio.gather(
        open_batch(first, THE_SHOP, 0, "q-2"), open_batch(second, THE_RIVAL, 0, "q-2")
    )

    assert {answer.code for answer in answers} == {ResponseCode.SUCCESS, ResponseCode.NO_PERMISSION}


async def test_a_query_from_before_there_were_accounts_belongs_to_the_first_that_opens_a_batch(
    tmp_path: Path, folder: Path
) -> None:
    async with AsyncExitStack() as closing:
        cluster = await closing.enter_async_context(Cluster(data_dir=tmp_path / "data"))
        client = await closing.enter_async_context(WireClient(cluster.broker_addresses[0]))
        answer = await client.ask(Code.OPEN_STAGED_BATCH, {**QUERY, "batch": 1})
        assert answer.code == ResponseCode.SUCCESS
    async with AsyncExitStack() as closing:
        guarded = Cluster(data_dir=tmp_path / "data", acl_enable=True, acl_folder=str(folder))
        cluster = await closing.enter_async_context(guarded)
        client = await closing.enter_async_context(WireClient(cluster.broker_addresses[0]))
        assert (await open_batch(client, THE_SHOP, 2)).code == ResponseCode.SUCCESS
        assert (await open_batch(client, THE_RIVAL, 3)).code == ResponseCode.NO_PERMISSION


def test_ops_of_before_there_were_owners_read() -> None:
    op = decode_op(b'{"op":"open","query":"q","batch":1,"home":"broker-a","layout":{}}')

    assert getattr(op, "owner", "?") is None


# Properties that the broker keeps for itself ---------------------------------------------------------------


@pytest.mark.parametrize("waits", ["DELAY\x011", "TIMER_DELAY_MS\x011000"])
@pytest.mark.parametrize("order", ["before", "behind"])
async def test_a_message_that_waits_goes_to_the_topic_that_it_was_sent_to_whatever_its_properties_say(
    clients: list[WireClient], clock: ManualClock, waits: str, order: str
) -> None:
    client = clients[0]
    await send(client, THE_OPERATOR, "secrets")
    forged = "REAL_TOPIC\x01secrets\x02REAL_QID\x010"
    properties = f"{forged}\x02{waits}" if order == "before" else f"{waits}\x02{forged}"
    await send(client, THE_SHOP, "clicks", f"UNIQ_KEY\x01id-1\x02{properties}")

    async def is_delivered() -> bool:
        clock.advance(1_000)
        return await end_of(client, "clicks") == 1

    await aeventually(is_delivered)

    assert await end_of(client, "secrets") == 1


async def end_of(client: WireClient, topic: str) -> int:
    answer = await ask_as(client, THE_OPERATOR, Code.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    return int((answer.ext or {})["offset"])


async def test_a_half_message_goes_to_the_topic_that_it_was_sent_to_whatever_its_properties_say(
    clients: list[WireClient],
) -> None:
    client = clients[0]
    await send(client, THE_OPERATOR, "secrets")
    forged = (
        "TRAN_MSG\x01true\x02PGROUP\x01payers\x02REAL_TOPIC\x01secrets\x02REAL_QID\x010\x02UNIQ_KEY\x01id-1"
    )
    half = await ask_as(
        client, THE_SHOP, Code.SEND_MESSAGE_V2, sent_fields("clicks", forged, sys_flag=4), b"body"
    )
    position = parse_offset_message_id((half.ext or {})["msgId"]).position
    fields = {"producerGroup": "payers", "tranStateTableOffset": 0, "commitLogOffset": position}
    fields |= {"commitOrRollback": 8, "msgId": "id-1"}

    ended = await ask_as(client, THE_SHOP, Code.END_TRANSACTION, fields)

    assert ended.code == ResponseCode.SUCCESS, ended.remark
    assert (await end_of(client, "clicks"), await end_of(client, "secrets")) == (1, 1)
