import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import Language, RequestCode, ResponseCode
from pyromq.model import MessageQueue
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.lock_bodies import (
    LockBatch,
    decode_consumer_ids,
    decode_locked_queues,
    encode_lock_batch,
)
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.java_json import loads

HEART_BEAT = RequestCode.HEART_BEAT
QUEUES = [MessageQueue("orders", "broker-a", queue_id) for queue_id in range(2)]


@pytest.fixture
async def first(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client


@pytest.fixture
async def second(cluster: Cluster) -> AsyncIterator[WireClient]:
    async with WireClient(cluster.broker_addresses[0]) as client:
        yield client


async def join(
    client: WireClient, client_id: str, topics: dict[str, str] | None = None, version: int = 1
) -> None:
    body = heartbeat_body(client_id, "readers", topics or {"orders": "*"}, version=version)
    assert (await client.ask(HEART_BEAT, None, body)).code == ResponseCode.SUCCESS


async def members(client: WireClient) -> list[str]:
    answer = await client.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "readers"})
    return decode_consumer_ids(answer.body) if answer.code == ResponseCode.SUCCESS else []


def notified(client: WireClient) -> list[Command]:
    return [push for push in client.pushed if push.code == RequestCode.NOTIFY_CONSUMER_IDS_CHANGED]


async def test_a_heartbeat_makes_its_sender_a_member(first: WireClient, second: WireClient) -> None:
    await join(first, "c1")
    await join(second, "c2")
    assert await members(first) == ["c1", "c2"]


async def test_a_group_without_members_is_refused_by_name(first: WireClient) -> None:
    answer = await first.ask(RequestCode.GET_CONSUMER_LIST_BY_GROUP, {"consumerGroup": "readers"})
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "no consumer for this group, readers",
    )


@pytest.mark.row("RB-03")
async def test_a_new_member_is_told_to_all_members(first: WireClient, second: WireClient) -> None:
    await join(first, "c1")
    await aeventually(lambda: len(notified(first)) == 1)

    await join(second, "c2")

    await aeventually(lambda: len(notified(first)) == 2)
    await aeventually(lambda: len(notified(second)) == 1)
    push = notified(second)[0]
    assert push.is_oneway
    assert push.ext == {"consumerGroup": "readers"}


async def test_a_heartbeat_that_changes_nothing_is_told_to_nobody(first: WireClient) -> None:
    await join(first, "c1")
    await join(first, "c1")
    assert len(notified(first)) == 1


async def test_a_member_that_subscribes_to_another_topic_is_told(first: WireClient) -> None:
    await join(first, "c1")
    await join(first, "c1", {"orders": "*", "payments": "*"})
    await aeventually(lambda: len(notified(first)) == 2)


async def test_nobody_is_told_where_the_settings_forbid_it(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, notify_consumer_ids_changed_enable=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await join(client, "c1")
        await members(client)
        assert notified(client) == []


@pytest.mark.row("RB-02", "RB-03")
async def test_a_member_that_leaves_is_told_to_those_who_stay(first: WireClient, second: WireClient) -> None:
    await join(first, "c1")
    await join(second, "c2")
    await aeventually(lambda: len(notified(first)) == 2)

    fields = {"clientID": "c2", "consumerGroup": "readers", "producerGroup": ""}
    answer = await second.ask(RequestCode.UNREGISTER_CLIENT, fields)

    assert answer.code == ResponseCode.SUCCESS
    await aeventually(lambda: len(notified(first)) == 3)
    assert await members(first) == ["c1"]


@pytest.mark.row("RB-02", "RB-03")
async def test_a_connection_that_breaks_is_told_to_those_who_stay(
    cluster: Cluster, first: WireClient
) -> None:
    await join(first, "c1")
    async with WireClient(cluster.broker_addresses[0]) as passer_by:
        await join(passer_by, "c2")
        await aeventually(lambda: len(notified(first)) == 2)

    await aeventually(lambda: len(notified(first)) == 3)
    assert await members(first) == ["c1"]


async def test_a_client_that_sends_no_heartbeat_for_two_minutes_is_dropped(
    first: WireClient, second: WireClient, clock: ManualClock
) -> None:
    await join(first, "c1")
    await join(second, "c2")
    for _ in range(12):
        clock.advance(10_000)
        await join(second, "c2")
        await members(first)
    assert not first.is_hung_up

    clock.advance(10_000)
    await aeventually(lambda: first.is_hung_up)
    assert await members(second) == ["c2"]


@pytest.mark.row("RT-08")
async def test_a_heartbeat_creates_the_groups_retry_topic(first: WireClient) -> None:
    await join(first, "c1")
    answer = await first.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    created = decode_topic_table(answer.body).topic_config_table["%RETRY%readers"]
    assert created == TopicConfig(topic_name="%RETRY%readers", read_queue_nums=1, write_queue_nums=1, perm=6)


@pytest.mark.row("MM-10")
async def test_one_group_may_subscribe_to_many_topics(first: WireClient) -> None:
    await join(first, "c1", {"orders": "*", "payments": "paid || refunded"})
    answer = await first.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "readers"})
    table = loads(answer.body)["subscriptionTable"]
    assert {topic: one["subString"] for topic, one in table.items()} == {
        "orders": "*",
        "payments": "paid || refunded",
    }


@pytest.mark.row("MM-11")
async def test_the_last_heartbeat_of_a_group_says_what_it_subscribes_to(
    first: WireClient, second: WireClient
) -> None:
    await join(first, "c1", {"orders": "red"}, version=1)
    await join(second, "c2", {"payments": "blue"}, version=2)
    answer = await first.ask(RequestCode.GET_CONSUMER_CONNECTION_LIST, {"consumerGroup": "readers"})
    assert list(loads(answer.body)["subscriptionTable"]) == ["payments"]


async def test_connections_are_shown_with_language_and_version(cluster: Cluster) -> None:
    async with WireClient(cluster.broker_addresses[0], language=Language.CPP, version=63) as client:
        body = heartbeat_body("c1", "readers", {"orders": "*"}, producer_group="writers")
        await client.ask(HEART_BEAT, None, body)
        answer = await client.ask(RequestCode.GET_PRODUCER_CONNECTION_LIST, {"producerGroup": "writers"})
        assert loads(answer.body) == {
            "connectionSet": [
                {"clientAddr": client.own_address, "clientId": "c1", "language": "CPP", "version": 63}
            ]
        }


async def test_a_heartbeat_that_is_no_json_is_refused_and_the_connection_stays(first: WireClient) -> None:
    answer = await first.ask(HEART_BEAT, None, b"not json")
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert await members(first) == []


async def test_a_group_cannot_name_a_path(tmp_path: Path, first: WireClient) -> None:
    body = heartbeat_body("c1", "../../../escaped", {"orders": "*"})
    answer = await first.ask(HEART_BEAT, None, body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    topics = decode_topic_table((await first.ask(RequestCode.GET_ALL_TOPIC_CONFIG)).body)
    assert not [name for name in topics.topic_config_table if ".." in name]


# Filters ---------------------------------------------------------------------------------------------------


async def check_config(client: WireClient, expression_type: str) -> Command:
    body = (
        b'{"clientId":"c1","group":"readers","subscriptionData":{"topic":"orders","subString":"x",'
        b'"expressionType":"%b"}}' % expression_type.encode()
    )
    return await client.ask(RequestCode.CHECK_CLIENT_CONFIG, None, body)


async def test_tags_may_be_filtered_by(first: WireClient) -> None:
    assert (await check_config(first, "TAG")).code == ResponseCode.SUCCESS


@pytest.mark.row("FI-03")
async def test_sql_may_not_be_filtered_by_unless_it_is_enabled(first: WireClient) -> None:
    answer = await check_config(first, "SQL92")
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The broker does not support consumer to filter message by SQL92",
    )


# Topics that come later ------------------------------------------------------------------------------------


@pytest.mark.row("RB-04")
async def test_members_are_told_when_a_topic_of_theirs_is_created(
    first: WireClient, second: WireClient, cluster: Cluster
) -> None:
    """Java's client finds the route at the first look, and takes the queues at the next."""
    await join(first, "c1", {"later": "*"})
    body = heartbeat_body("c2", "others", {"orders": "*"})
    assert (await second.ask(HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
    await aeventually(lambda: len(notified(first)) == len(notified(second)) == 1)

    answer = await second.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("later"), b"first")
    assert answer.code == ResponseCode.SUCCESS

    async with WireClient(cluster.namesrv_address) as names:
        await aeventually(lambda: len(notified(first)) >= 2)
        route = await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "later"})
        assert route.code == ResponseCode.SUCCESS
    await aeventually(lambda: len(notified(first)) >= 3)
    assert len(notified(second)) == 1
    # And again for the next one, while the last notifications are still to be sent.
    await join(first, "c1", {"later": "*", "last": "*"}, version=2)
    told = len(notified(first))
    await second.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("last"), b"first")
    await aeventually(lambda: len(notified(first)) >= told + 3)


# Locks -----------------------------------------------------------------------------------------------------


async def lock(client: WireClient, client_id: str) -> list[MessageQueue]:
    body = encode_lock_batch(LockBatch(consumer_group="readers", client_id=client_id, queues=QUEUES))
    return decode_locked_queues((await client.ask(RequestCode.LOCK_BATCH_MQ, None, body)).body)


@pytest.mark.row("OR-03")
async def test_a_locked_queue_is_nobody_elses_until_it_is_unlocked(
    first: WireClient, second: WireClient
) -> None:
    assert await lock(first, "c1") == QUEUES
    assert await lock(second, "c2") == []

    body = encode_lock_batch(LockBatch(consumer_group="readers", client_id="c1", queues=QUEUES[:1]))
    await first.ask(RequestCode.UNLOCK_BATCH_MQ, None, body)

    assert await lock(second, "c2") == QUEUES[:1]


@pytest.mark.row("OR-03")
async def test_a_lock_that_is_not_renewed_for_a_minute_is_lost(
    first: WireClient, second: WireClient, clock: ManualClock
) -> None:
    await lock(first, "c1")
    clock.advance(60_001)
    assert await lock(second, "c2") == QUEUES


async def leave(client: WireClient, client_id: str) -> None:
    fields = {"clientID": client_id, "consumerGroup": "readers"}
    assert (await client.ask(RequestCode.UNREGISTER_CLIENT, fields)).code == ResponseCode.SUCCESS


@pytest.mark.row("OR-03")
async def test_a_member_that_leaves_has_its_queues_unlocked(first: WireClient, second: WireClient) -> None:
    await join(first, "c1")
    await join(second, "c2")
    assert await lock(first, "c1") == QUEUES

    await leave(first, "c1")

    assert await lock(second, "c2") == QUEUES


@pytest.mark.row("OR-03")
async def test_a_lock_that_is_asked_for_behind_a_goodbye_is_not_granted(
    first: WireClient, second: WireClient
) -> None:
    await join(first, "c1")
    await join(second, "c2")
    await leave(first, "c1")

    assert await lock(first, "c1") == []

    assert await lock(second, "c2") == QUEUES
    await leave(second, "c2")
    await join(first, "c1")
    assert await lock(first, "c1") == QUEUES


async def test_a_member_whose_connection_ends_keeps_its_locks(first: WireClient, second: WireClient) -> None:
    """It may be back in a second, and its listeners are busy with what it locked."""
    await join(first, "c1")
    await join(second, "c2")
    assert await lock(first, "c1") == QUEUES

    await first.close()
    await aeventually(lambda: len(notified(second)) >= 2)

    assert await lock(second, "c2") == []


async def test_a_member_that_never_said_that_it_is_one_may_lock(first: WireClient) -> None:
    """A broker that was restarted hears of locks before it hears of members."""
    assert await lock(first, "c1") == QUEUES


async def test_one_of_two_members_with_the_same_id_leaves_the_other_its_locks(
    first: WireClient, second: WireClient
) -> None:
    await join(first, "c1")
    await join(second, "c1")
    assert await lock(first, "c1") == QUEUES

    await leave(first, "c1")

    assert await lock(second, "c2") == []


# Relays ----------------------------------------------------------------------------------------------------


async def test_a_question_for_a_consumer_is_passed_on_with_its_answer(
    first: WireClient, second: WireClient
) -> None:
    await join(first, "c1")
    first.on_push = lambda push: (
        Command(ResponseCode.SUCCESS, body=b'{"properties":{}}')
        if push.code == RequestCode.GET_CONSUMER_RUNNING_INFO
        else None
    )
    fields = {"consumerGroup": "readers", "clientId": "c1", "jstackEnable": True}

    answer = await second.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)

    assert (answer.code, answer.body) == (ResponseCode.SUCCESS, b'{"properties":{}}')
    push = next(push for push in first.pushed if push.code == RequestCode.GET_CONSUMER_RUNNING_INFO)
    assert push.ext == {"consumerGroup": "readers", "clientId": "c1", "jstackEnable": "true"}


async def test_a_question_for_a_consumer_that_is_not_here_is_refused(first: WireClient) -> None:
    fields = {"consumerGroup": "readers", "clientId": "c1"}
    answer = await first.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The Consumer <readers> <c1> not online",
    )


async def test_a_consumer_that_hangs_up_over_a_question_is_said(
    first: WireClient, second: WireClient
) -> None:
    await join(first, "c1")
    hang_up: list[asyncio.Task[None]] = []

    def on_push(push: Command) -> None:
        if push.code == RequestCode.GET_CONSUMER_RUNNING_INFO:
            hang_up.append(asyncio.get_running_loop().create_task(first.close()))

    first.on_push = on_push
    fields = {"consumerGroup": "readers", "clientId": "c1"}

    answer = await second.ask(RequestCode.GET_CONSUMER_RUNNING_INFO, fields)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert answer.remark.startswith("invoke consumer <readers> <c1> Exception: ")
    await asyncio.gather(*hang_up)


async def test_a_message_is_handed_to_a_consumer_directly(first: WireClient, second: WireClient) -> None:
    sent = await second.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"look at this")
    assert sent.ext is not None
    await join(first, "c1")
    first.on_push = lambda push: (
        Command(ResponseCode.SUCCESS, body=b'{"consumeResult":"CR_SUCCESS"}')
        if push.code == RequestCode.CONSUME_MESSAGE_DIRECTLY
        else None
    )
    fields = {"consumerGroup": "readers", "clientId": "c1", "msgId": sent.ext["msgId"]}

    answer = await second.ask(RequestCode.CONSUME_MESSAGE_DIRECTLY, fields)

    assert answer.body == b'{"consumeResult":"CR_SUCCESS"}'
    push = next(push for push in first.pushed if push.code == RequestCode.CONSUME_MESSAGE_DIRECTLY)
    assert push.ext == fields | {"brokerName": "broker-a"}
    assert b"look at this" in push.body


async def commit(client: WireClient, queue_id: int, offset: int) -> None:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": queue_id, "commitOffset": offset}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


async def test_a_reset_tells_every_member_where_to_go_on(first: WireClient, second: WireClient) -> None:
    for queue_id in range(4):
        await second.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders", queueId=queue_id), b"x")
        await commit(second, queue_id, 0)
    await join(first, "c1")
    fields = {"topic": "orders", "group": "readers", "timestamp": -1, "isForce": True}

    answer = await second.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)

    assert answer.code == ResponseCode.SUCCESS
    (push,) = await aeventually(
        lambda: [push for push in first.pushed if push.code == RequestCode.RESET_CONSUMER_CLIENT_OFFSET]
    )
    assert push.is_oneway
    assert push.body == answer.body
    assert answer.body.count(b"}:1") == 4


async def test_a_reset_of_a_group_that_nobody_is_in_is_refused(first: WireClient) -> None:
    await first.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")
    for queue_id in range(4):
        await commit(first, queue_id, 0)
    fields = {"topic": "orders", "group": "readers", "timestamp": -1, "isForce": True}
    answer = await first.ask(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, fields)
    assert answer.code == ResponseCode.CONSUMER_NOT_ONLINE


async def test_members_are_asked_how_far_they_are(first: WireClient, second: WireClient) -> None:
    status = b'{"messageQueueTable":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5}}'
    await join(first, "c1")
    first.on_push = lambda push: (
        Command(ResponseCode.SUCCESS, body=status)
        if push.code == RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT
        else None
    )
    fields = {"topic": "orders", "group": "readers"}

    answer = await second.ask(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, fields)

    assert b'"consumerTable":{"c1":{{"brokerName":"broker-a","queueId":0,"topic":"orders"}:5}}' in answer.body
