import asyncio
from pathlib import Path

import pytest

from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import batch_body, heartbeat_body, held_pull_fields, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.heartbeat_bodies import MessageModel
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

SEND_V2 = RequestCode.SEND_MESSAGE_V2
PULL = RequestCode.PULL_MESSAGE
SUBSCRIBED_BY_HEARTBEAT = {"sysFlag": 0, "subscription": "", "subVersion": 1}


async def send(client: WireClient, *bodies: bytes, tag: str = "a", topic: str = "orders") -> None:
    for body in bodies:
        answer = await client.ask(SEND_V2, send_v2_fields(topic, {"TAGS": tag}), body)
        assert answer.code == ResponseCode.SUCCESS


async def pull(client: WireClient, **changes: object) -> Command:
    return await client.ask(PULL, pull_fields("orders", **changes))


def bodies(answer: Command) -> list[bytes]:
    return [record.body for record in iter_records(answer.body)]


def outcome(answer: Command) -> tuple[int, str | None, str]:
    """Return code, remark and the offset to go on from."""
    assert answer.ext is not None
    return answer.code, answer.remark, answer.ext["nextBeginOffset"]


# What a pull finds -----------------------------------------------------------------------------------------


async def test_messages_come_in_the_order_they_were_sent(client: WireClient) -> None:
    await send(client, b"one", b"two", b"three")
    answer = await pull(client)
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "3")
    assert bodies(answer) == [b"one", b"two", b"three"]


async def test_an_answer_has_at_most_what_was_asked_for(client: WireClient) -> None:
    await send(client, b"one", b"two", b"three")
    answer = await pull(client, maxMsgNums=2)
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "2")
    assert bodies(answer) == [b"one", b"two"]


@pytest.mark.parametrize("count", [0, -1])
async def test_whoever_asks_for_no_message_gets_one(client: WireClient, count: int) -> None:
    await send(client, b"one", b"two")
    answer = await pull(client, maxMsgNums=count)
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "1")


async def test_an_answer_has_at_most_32_messages(client: WireClient) -> None:
    await send(client, *[b"x"] * 40)
    assert len(bodies(await pull(client, maxMsgNums=1024))) == 32


async def test_whoever_says_that_it_takes_many_bytes_gets_many_messages(client: WireClient) -> None:
    await send(client, *(b"%d" % number for number in range(40)))
    # Java 5.x says 256 KiB in every pull, and gets 32 messages.
    usual = await pull(client, maxMsgNums=1000, maxMsgBytes=256 * 1024)
    # Twice: the kernel learns from the first.
    bulk = [await pull(client, maxMsgNums=1000, maxMsgBytes=1 << 20) for _ in range(2)]
    assert outcome(usual)[2] == "32"
    assert [outcome(answer) for answer in bulk] == [(ResponseCode.SUCCESS, "FOUND", "40")] * 2
    assert bodies(bulk[1]) == [b"%d" % number for number in range(40)]
    assert outcome(await pull(client, maxMsgNums=35, maxMsgBytes=1 << 20))[2] == "35"


@pytest.mark.parametrize(
    ("offset", "expected"),
    [
        (2, (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", "2")),
        (3, (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_OVERFLOW_BADLY", "2")),
        (-1, (ResponseCode.PULL_OFFSET_MOVED, "OFFSET_TOO_SMALL", "0")),
    ],
)
async def test_an_offset_that_is_not_there_is_answered_with_where_to_go_on(
    client: WireClient, offset: int, expected: tuple[int, str, str]
) -> None:
    await send(client, b"one", b"two")
    assert outcome(await pull(client, queueOffset=offset)) == expected


@pytest.mark.parametrize(
    ("offset", "code"), [(0, ResponseCode.PULL_NOT_FOUND), (7, ResponseCode.PULL_OFFSET_MOVED)]
)
async def test_an_empty_queue_begins_at_zero(client: WireClient, offset: int, code: ResponseCode) -> None:
    await send(client, b"creates the topic")
    answer = await pull(client, queueId=1, queueOffset=offset)
    assert outcome(answer) == (code, "NO_MESSAGE_IN_QUEUE", "0")


async def test_a_moved_offset_leaves_an_event(client: WireClient) -> None:
    await send(client, b"one")
    await pull(client, queueOffset=100)
    events = await client.ask(PULL, pull_fields("OFFSET_MOVED_EVENT"))
    assert bodies(events) == [
        b'{"consumerGroup":"readers","messageQueue":{"brokerName":"broker-a","queueId":0,"topic":"orders"},'
        b'"offsetNew":1,"offsetRequest":100}'
    ]


@pytest.mark.row("FI-01")
async def test_only_messages_with_a_wanted_tag_are_answered(client: WireClient) -> None:
    for tag in ("a", "b", "c", "a"):
        await send(client, tag.encode(), tag=tag)
    answer = await pull(client, subscription="a || c")
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "4")
    assert bodies(answer) == [b"a", b"c", b"a"]


async def test_messages_without_a_wanted_tag_are_passed(client: WireClient) -> None:
    await send(client, b"one", b"two", tag="a")
    answer = await pull(client, subscription="b")
    assert outcome(answer) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", "2")


async def test_the_lite_pull_of_newer_clients_does_the_same(client: WireClient) -> None:
    await send(client, b"one")
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.LITE_PULL)
    answer = await client.ask(RequestCode.LITE_PULL_MESSAGE, pull_fields("orders", sysFlag=flags))
    assert bodies(answer) == [b"one"]


# Refusals --------------------------------------------------------------------------------------------------


def refusal(answer: Command) -> tuple[int, str]:
    assert answer.ext == {}
    assert answer.remark is not None
    return answer.code, answer.remark


async def test_a_topic_that_is_not_here_is_refused(client: WireClient) -> None:
    code, remark = refusal(await pull(client))
    assert code == ResponseCode.TOPIC_NOT_EXIST
    assert remark.startswith("topic[orders] not exist, apply first please! ")


async def test_a_topic_that_may_not_be_read_is_refused(client: WireClient) -> None:
    await send(client, b"one")
    fields = {
        "topic": "orders",
        "defaultTopic": "TBW102",
        "readQueueNums": 4,
        "writeQueueNums": 4,
        "perm": 2,
        "topicFilterType": "SINGLE_TAG",
        "order": False,
    }
    await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)

    code, remark = refusal(await pull(client))

    assert (code, remark) == (ResponseCode.NO_PERMISSION, "the topic[orders] pulling message is forbidden")


async def test_a_broker_that_may_not_be_read_refuses_all_pulls(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, broker_permission=2) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, b"one")
        code, remark = refusal(await pull(client))
    assert (code, remark) == (
        ResponseCode.NO_PERMISSION,
        "the broker[127.0.0.1] pulling message is forbidden",
    )


async def test_an_unknown_group_is_refused_where_groups_are_not_created(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, auto_create_subscription_group=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, b"one")
        code, remark = refusal(await pull(client))
    assert code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
    assert remark.startswith("subscription group [readers] does not exist, ")


@pytest.mark.row("FI-03")
async def test_sql_filters_are_refused_by_name(client: WireClient) -> None:
    await send(client, b"one")
    answer = await pull(client, subscription="a > 1", expressionType="SQL92")
    assert refusal(answer) == (
        ResponseCode.SYSTEM_ERROR,
        "The broker does not support consumer to filter message by SQL92",
    )


async def test_without_a_heartbeat_a_pull_must_bring_its_subscription(client: WireClient) -> None:
    await send(client, b"one")
    code, remark = refusal(await pull(client, **SUBSCRIBED_BY_HEARTBEAT))
    assert code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert remark.startswith("the consumer's group info not exist")


async def test_a_topic_that_the_heartbeat_did_not_name_is_refused(client: WireClient) -> None:
    await send(client, b"one")
    await client.ask(RequestCode.HEART_BEAT, None, heartbeat_body("c1", "readers", {"other": "*"}))
    code, remark = refusal(await pull(client, **SUBSCRIBED_BY_HEARTBEAT))
    assert code == ResponseCode.SUBSCRIPTION_NOT_EXIST
    assert remark.startswith("the consumer's subscription not exist")


async def test_a_subscription_newer_than_the_heartbeat_is_refused(client: WireClient) -> None:
    await send(client, b"one")
    await client.ask(RequestCode.HEART_BEAT, None, heartbeat_body("c1", "readers", {"orders": "*"}))
    answer = await pull(client, **SUBSCRIBED_BY_HEARTBEAT | {"subVersion": 2})
    assert refusal(answer) == (
        ResponseCode.SUBSCRIPTION_NOT_LATEST,
        "the consumer's subscription not latest",
    )


async def test_the_heartbeats_tags_filter_a_pull_that_brings_none(client: WireClient) -> None:
    await send(client, b"red", tag="red")
    await send(client, b"blue", tag="blue")
    await client.ask(RequestCode.HEART_BEAT, None, heartbeat_body("c1", "readers", {"orders": "blue"}))
    answer = await pull(client, **SUBSCRIBED_BY_HEARTBEAT)
    assert bodies(answer) == [b"blue"]


@pytest.mark.row("CO-04")
async def test_a_broadcasting_group_pulls_as_any_other(client: WireClient) -> None:
    await send(client, b"one")
    body = heartbeat_body("c1", "readers", {"orders": "*"}, model=MessageModel.BROADCASTING)
    await client.ask(RequestCode.HEART_BEAT, None, body)
    assert bodies(await pull(client, **SUBSCRIBED_BY_HEARTBEAT)) == [b"one"]


# Waiting ---------------------------------------------------------------------------------------------------


async def hold(client: WireClient, **changes: object) -> "asyncio.Future[Command]":
    """Begin a pull that is held, and return when the broker has it."""
    held = client.begin(PULL, held_pull_fields("orders", **changes))
    # The connection's requests are handled in order: when this one is answered, the pull is held.
    await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
    assert not held.done()
    return held


@pytest.mark.row("CO-02", "CO-11")
async def test_a_new_message_wakes_a_held_pull(cluster: Cluster, client: WireClient) -> None:
    await send(client, b"one")
    held = await hold(client, queueOffset=1)

    async with WireClient(cluster.broker_addresses[0]) as producer:
        await send(producer, b"two")

    answer = await held
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "2")
    assert bodies(answer) == [b"two"]


@pytest.mark.row("CO-11")
async def test_a_pull_of_an_empty_queue_is_woken_by_its_first_message(client: WireClient) -> None:
    await client.ask(SEND_V2, send_v2_fields("orders", queueId=1), b"creates the topic")
    held = await hold(client, queueId=0)

    await send(client, b"first")

    assert bodies(await held) == [b"first"]


async def test_a_batch_wakes_a_held_pull_once_and_whole(client: WireClient) -> None:
    await send(client, b"zero")
    held = await hold(client, queueOffset=1)

    fields = send_v2_fields("orders", batch=True)
    await client.ask(RequestCode.SEND_BATCH_MESSAGE, fields, batch_body([b"one", b"two", b"three"]))

    assert bodies(await held) == [b"one", b"two", b"three"]


async def test_a_message_with_another_tag_does_not_wake_a_held_pull(client: WireClient) -> None:
    await send(client, b"red", tag="red")
    held = await hold(client, queueOffset=1, subscription="blue")

    await send(client, b"also red", tag="red")
    assert not held.done()
    await send(client, b"blue", tag="blue")

    answer = await held
    assert outcome(answer) == (ResponseCode.SUCCESS, "FOUND", "3")
    assert bodies(answer) == [b"blue"]


@pytest.mark.row("CO-02")
async def test_a_pull_held_past_its_wait_is_answered_empty(client: WireClient, clock: ManualClock) -> None:
    await send(client, b"one")
    held = await hold(client, queueOffset=1)

    clock.advance(15_000)

    answer = await held
    assert outcome(answer) == (ResponseCode.PULL_NOT_FOUND, "OFFSET_OVERFLOW_ONE", "1")


async def test_a_sweep_moves_a_held_pull_past_what_it_does_not_want(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, b"red", tag="red")
    held = await hold(client, queueOffset=1, subscription="blue")
    await send(client, b"also red", tag="red")

    clock.advance(5_000)

    answer = await held
    assert outcome(answer) == (ResponseCode.PULL_RETRY_IMMEDIATELY, "NO_MATCHED_MESSAGE", "2")


async def test_where_long_polling_is_off_a_pull_is_held_a_second(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path, clock=clock, long_polling_enable=False) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, b"one")
        held = await hold(client, queueOffset=1)
        clock.advance(1_000)
        assert outcome(await held)[0] == ResponseCode.PULL_NOT_FOUND


async def test_when_too_many_pulls_are_held_the_next_is_answered_at_once(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, held_pulls_max=1) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, b"one")
        await hold(client, queueOffset=1)
        answer = await client.ask(PULL, held_pull_fields("orders", queueOffset=1))
    assert outcome(answer)[0] == ResponseCode.PULL_NOT_FOUND


async def test_a_held_pull_of_a_client_that_has_gone_is_forgotten(tmp_path: Path) -> None:
    async with (
        Cluster(data_dir=tmp_path, held_pulls_max=1) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, b"one")
        async with WireClient(cluster.broker_addresses[0]) as passer_by:
            await hold(passer_by, queueOffset=1)

        # There is room for one held pull, so this one is held only if the other is gone.
        async def is_held() -> bool:
            held = client.begin(PULL, held_pull_fields("orders", queueOffset=1))
            await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": "orders", "queueId": 0})
            return not held.done()

        await aeventually(is_held)


async def test_a_stopping_broker_refuses_the_pulls_it_holds(tmp_path: Path) -> None:
    async with Cluster(data_dir=tmp_path) as cluster, WireClient(cluster.broker_addresses[0]) as client:
        await send(client, b"one")
        held = await hold(client, queueOffset=1)
        await cluster.stop_broker("broker-a")
        # Told that there is nothing, a client would pull again at once, and never hear of it.
        assert (await held).code == ResponseCode.SERVICE_NOT_AVAILABLE


# Progress with the pull ------------------------------------------------------------------------------------


async def progress(client: WireClient) -> Command:
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0}
    return await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, fields)


@pytest.mark.row("OF-07")
async def test_a_pull_may_bring_the_groups_progress(client: WireClient) -> None:
    await send(client, b"one", b"two")
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    await pull(client, sysFlag=flags, commitOffset=1)
    assert (await progress(client)).ext == {"offset": "1"}


@pytest.mark.row("OF-06")
async def test_the_answer_of_a_pull_says_where_the_queue_begins_and_ends(client: WireClient) -> None:
    await send(client, b"one", b"two", b"three")
    answer = await pull(client, maxMsgNums=1)
    assert answer.ext == {
        "suggestWhichBrokerId": "0",
        "nextBeginOffset": "1",
        "minOffset": "0",
        "maxOffset": "3",
    }


async def test_a_woken_pull_does_not_commit_again(client: WireClient) -> None:
    await send(client, b"one")
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET | PullFlag.SUSPEND)
    held = await hold(client, queueOffset=1, sysFlag=flags, commitOffset=1)
    fields = {"consumerGroup": "readers", "topic": "orders", "queueId": 0, "commitOffset": 7}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)

    await send(client, b"two")
    await held

    assert (await progress(client)).ext == {"offset": "7"}
