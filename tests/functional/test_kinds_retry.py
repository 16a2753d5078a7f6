"""Messages that were not consumed: sent back, retried, given up."""

import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from kinds_stage import ManualStage, Peer, properties_of, running_stage, settle

from pyromq.codes import RequestCode, ResponseCode
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record

GROUP = "shop"
RETRY, DEAD = "%RETRY%shop", "%DLQ%shop"
LEVELS_MS = parse_delay_levels("1s 5s 10s 30s 1m 2m 3m 4m 5m 6m 7m 8m 9m 10m 20m 30m 1h 2h")


@pytest.fixture
async def stage(tmp_path: Path) -> AsyncIterator[ManualStage]:
    async with running_stage(tmp_path) as stage:
        yield stage


async def send_back(
    client: Peer, position: int, *, level: int = 0, version: int = 409, **more: object
) -> Command:
    fields: dict[str, object] = {
        "offset": position,
        "group": GROUP,
        "delayLevel": level,
        "originMsgId": "ID",
        "originTopic": "orders",
        "unitMode": False,
        "maxReconsumeTimes": 16,
    }
    return await client.request(RequestCode.CONSUMER_SEND_MSG_BACK, fields | more, version=version)


def position_of(sent: Command) -> int:
    return parse_offset_message_id((sent.ext or {})["msgId"]).position


@pytest.mark.row("RT-01", "RT-06", "RT-09", "RT-10")
async def test_a_message_sent_back_is_stored_again_in_the_retry_topic_after_ten_seconds(
    stage: ManualStage,
) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"x", properties={"TAGS": "paid", "KEYS": "k1"}, flag=5)

    answer = await send_back(client, position_of(sent))
    assert (answer.code, answer.remark, answer.ext, answer.body) == (0, None, None, b"")
    stage.clock.advance(9_999)
    await settle()
    assert await client.stored(RETRY) == []
    stage.clock.advance(1)

    (retried,) = await client.await_stored(RETRY)
    properties = properties_of(retried)
    assert (retried.body, retried.flag, retried.reconsume_times) == (b"x", 5, 1)
    assert properties["RETRY_TOPIC"] == "orders"
    assert properties["ORIGIN_MESSAGE_ID"] == (sent.ext or {})["msgId"]
    assert (properties["TAGS"], properties["KEYS"]) == ("paid", "k1")
    assert len(await client.stored("orders")) == 1


@pytest.mark.row("RT-03", "RT-06", "RT-12")
async def test_a_message_is_tried_sixteen_times_then_it_is_a_dead_letter(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"never")
    first_id = (sent.ext or {})["msgId"]
    position, waited_ms = position_of(sent), 0

    for times in range(1, 17):
        await send_back(client, position)
        delay_ms = LEVELS_MS[min(2 + times, 18)]
        waited_ms += delay_ms
        stage.clock.advance(delay_ms)
        retried = (await client.await_stored(RETRY, times))[-1]
        assert retried.reconsume_times == times
        position = retried.position
    answer = await send_back(client, position)

    assert answer.code == ResponseCode.SUCCESS
    (dead,) = await client.stored(DEAD)
    assert (dead.body, dead.reconsume_times) == (b"never", 17)
    assert properties_of(dead)["ORIGIN_MESSAGE_ID"] == first_id
    assert properties_of(dead)["RETRY_TOPIC"] == "orders"
    # 4 hours and 46 minutes, less twenty seconds.
    assert waited_ms == (4 * 3600 + 46 * 60 - 20) * 1000


@pytest.mark.row("RT-11", "RT-12")
async def test_the_dead_letter_topic_is_made_on_demand_with_one_readable_queue(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders")
    assert b"%DLQ%" not in (await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body

    await send_back(client, position_of(sent), level=-1)

    topics = (await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    config = topics[topics.index(b'"%DLQ%shop":{') :].split(b"}")[0]
    assert b'"perm":6' in config
    assert b'"readQueueNums":1' in config
    assert b'"writeQueueNums":1' in config


@pytest.mark.row("RT-04")
async def test_a_consumer_may_ask_for_fewer_tries(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders")

    await send_back(client, position_of(sent), maxReconsumeTimes=0)

    assert await client.stored(DEAD)


@pytest.mark.row("RT-04")
@pytest.mark.parametrize(
    ("tried", "wait_ms"), [(15, 7_200_000), (16, 7_200_000), (40, 7_200_000), (14, 3_600_000)]
)
async def test_tries_beyond_the_last_level_wait_two_hours_each(
    stage: ManualStage, tried: int, wait_ms: int
) -> None:
    client = stage.connect()
    await client.heartbeat(consumer=GROUP)
    await fall_back(client, times=tried, limit=100)
    stage.clock.advance(1_000)
    (retried,) = await client.await_stored(RETRY)

    await send_back(client, retried.position, maxReconsumeTimes=100)
    stage.clock.advance(wait_ms - 1)
    await settle()
    assert len(await client.stored(RETRY)) == 1
    stage.clock.advance(1)

    assert (await client.await_stored(RETRY, 2))[-1].reconsume_times == tried + 1


async def test_the_limit_of_a_client_before_version_3_4_9_is_not_meant(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders")

    await send_back(client, position_of(sent), version=120, maxReconsumeTimes=0)

    assert await client.stored(DEAD) == []


async def test_a_consumer_may_choose_the_level(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders")

    await send_back(client, position_of(sent), level=1)
    stage.clock.advance(1_000)

    assert await client.await_stored(RETRY)


@pytest.mark.row("RT-07", "RT-08")
async def test_the_retry_topic_exists_from_the_first_heartbeat_on(stage: ManualStage) -> None:
    client = stage.connect()

    await client.heartbeat(consumer=GROUP)

    topics = (await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body
    assert b'"%RETRY%shop":{' in topics


async def test_a_group_that_does_not_exist_is_named(tmp_path: Path) -> None:
    async with running_stage(tmp_path, auto_create_subscription_group=False) as stage:
        client = stage.connect()
        sent = await client.send("orders")

        answer = await send_back(client, position_of(sent))

        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        assert (answer.remark or "").startswith("subscription group not exist, shop ")


async def test_a_position_without_a_message_is_named(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders")

    answer = await send_back(client, position_of(sent) + 1)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"look message by offset failed, {position_of(sent) + 1}"


async def test_a_broker_that_may_not_be_written_to_takes_nothing_back(tmp_path: Path) -> None:
    async with running_stage(tmp_path) as stage:
        sent = await stage.connect().send("orders")
    async with running_stage(tmp_path, broker_permission=4) as stage:
        answer = await send_back(stage.connect(), position_of(sent))

        assert answer.code == ResponseCode.NO_PERMISSION
        assert answer.remark == "the broker[127.0.0.1] sending message is forbidden"


async def test_a_group_without_retry_queues_wants_no_retries(tmp_path: Path) -> None:
    table = {"subscriptionGroupTable": {GROUP: {"groupName": GROUP, "retryQueueNums": 0}}}
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "subscriptionGroup.json").write_text(json.dumps(table))
    async with running_stage(tmp_path) as stage:
        client = stage.connect()
        sent = await client.send("orders")

        answer = await send_back(client, position_of(sent))

        assert answer.code == ResponseCode.SUCCESS
        assert await client.stored("SCHEDULE_TOPIC_XXXX", queue_id=2) == []


async def test_what_was_sent_back_before_a_restart_comes_after_it(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders", b"x")
    await send_back(client, position_of(sent))

    await stage.restart()
    stage.clock.advance(10_000)

    (retried,) = await stage.connect().await_stored(RETRY)
    assert retried.body == b"x"


# What a client sends to a retry topic itself, because sending back failed.


async def fall_back(client: Peer, *, times: int, limit: int | None = 16, **properties: str) -> Command:
    return await client.send(
        RETRY,
        b"again",
        properties={"DELAY": "1", "RETRY_TOPIC": "orders", **properties},
        reconsumeTimes=times,
        maxReconsumeTimes=limit,
    )


@pytest.mark.row("SC-06")
async def test_a_fallback_within_the_limit_is_retried(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(consumer=GROUP)

    await fall_back(client, times=15)
    stage.clock.advance(1_000)

    (retried,) = await client.await_stored(RETRY)
    assert retried.reconsume_times == 15


@pytest.mark.row("SC-06", "RT-11")
@pytest.mark.parametrize(("times", "limit"), [(16, 16), (17, 16), (3, 3), (16, None)])
async def test_a_fallback_over_the_limit_is_a_dead_letter_at_once(
    stage: ManualStage, times: int, limit: int | None
) -> None:
    client = stage.connect()
    await client.heartbeat(consumer=GROUP)

    answer = await fall_back(client, times=times, limit=limit)

    assert answer.code == ResponseCode.SUCCESS
    (dead,) = await client.stored(DEAD)
    assert (dead.body, dead.reconsume_times) == (b"again", times)
    assert await client.stored(RETRY) == []


@pytest.mark.row("SC-06")
async def test_a_fallback_of_an_unknown_group_is_refused(tmp_path: Path) -> None:
    async with running_stage(tmp_path, auto_create_subscription_group=False) as stage:
        answer = await fall_back(stage.connect(), times=1)

        assert answer.code == ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST


@pytest.mark.row("SC-03")
async def test_a_fallback_creates_its_retry_topic_even_where_topics_are_not_created(tmp_path: Path) -> None:
    async with running_stage(tmp_path, auto_create_topic_enable=False) as stage:
        client = stage.connect()

        answer = await fall_back(client, times=1)

        assert answer.code == ResponseCode.SUCCESS
        topics = (await client.request(RequestCode.GET_ALL_TOPIC_CONFIG)).body
        assert b'"%RETRY%shop":{' in topics


async def test_an_old_clients_fallback_of_a_transaction_message_is_no_half(stage: ManualStage) -> None:
    client = stage.connect()
    await client.heartbeat(consumer=GROUP)

    await fall_back(client, times=1, TRAN_MSG="true")
    stage.clock.advance(1_000)

    assert await client.await_stored(RETRY)


def properties_in_order(record: Record) -> list[str]:
    return [pair.partition("\x01")[0] for pair in record.properties.split("\x02")]


@pytest.mark.row("RT-09")
async def test_the_retried_messages_properties_stand_in_javas_order(stage: ManualStage) -> None:
    client = stage.connect()
    sent = await client.send("orders", properties={"TAGS": "paid", "WAIT": "true"})
    await send_back(client, position_of(sent))
    stage.clock.advance(10_000)

    (retried,) = await client.await_stored(RETRY)

    assert properties_in_order(retried) == [
        "REAL_TOPIC",
        "ORIGIN_MESSAGE_ID",
        "RETRY_TOPIC",
        "UNIQ_KEY",
        "CLUSTER",
        "WAIT",
        "DELAY",
        "TAGS",
        "REAL_QID",
    ]
    assert properties_of(retried)["WAIT"] == "false"
