"""What goes in and out of a broker, who reads what, and how far everybody is."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.release import VERSION
from pyromq.testing.cluster import Cluster
from pyromq.testing.golden import read_answers
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import heartbeat_body, pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.operation_bodies import (
    Rates,
    decode_corrections,
    decode_group_names,
    decode_producers,
    decode_queue_rows,
    decode_rates,
    decode_time_spans,
)
from pyromq.wire.bodies.registration_bodies import decode_key_values
from pyromq.wire.java_json import loads

GOLDEN = Path(__file__).parents[1] / "conformance" / "golden"
OK = ResponseCode.SUCCESS


async def send(client: WireClient, topic: str = "orders", count: int = 1, body: bytes = b"x") -> None:
    for _ in range(count):
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields(topic), body)).code == OK


async def commit(client: WireClient, group: str, offset: int, topic: str = "orders", queue: int = 0) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": queue, "commitOffset": offset}
    await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)


async def runtime(client: WireClient) -> dict[str, str]:
    return decode_key_values((await client.ask(RequestCode.GET_BROKER_RUNTIME_INFO)).body).table


async def rates(client: WireClient, name: str, key: str) -> Rates:
    answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, {"statsName": name, "statsKey": key})
    assert answer.code == OK, answer.remark
    return decode_rates(answer.body)


# The broker


async def test_the_runtime_has_every_key_of_4_9_8(client: WireClient) -> None:
    recorded = read_answers(GOLDEN / "golden_4.9.8.txt")["runtime"]
    keys = {
        word.partition('"')[0]
        for word in recorded.body.decode().removeprefix('{"table":{"').split('","')
        if '":"' in word
    }

    table = await runtime(client)

    missing = {key for key in keys if key not in table and "/" not in key}
    assert len(keys) > 35
    assert not missing
    assert table["brokerVersionDesc"] == "V4_9_8"
    assert table["pyromqVersion"] == VERSION


async def test_rates_of_the_runtime_are_there_when_their_time_is_over(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, count=20)
    assert (await runtime(client))["putTps"].split() == []

    clock.advance(10_000)

    async def first_rate() -> list[str]:
        return (await runtime(client))["putTps"].split()

    rate = await aeventually(first_rate)
    assert float(rate[0]) == pytest.approx(2.0)
    assert (await runtime(client))["msgPutTotalTodayNow"] == "20"


async def test_what_came_in_is_told_by_topic(client: WireClient, clock: ManualClock) -> None:
    await send(client, count=3, body=b"y" * 100)
    clock.advance(2_000)

    told = await rates(client, "TOPIC_PUT_NUMS", "orders")
    sizes = await rates(client, "TOPIC_PUT_SIZE", "orders")

    assert told.stats_minute.sum == told.stats_hour.sum == told.stats_day.sum == 3
    assert told.stats_minute.tps > 0
    assert sizes.stats_minute.avgpt > 100


async def test_a_delayed_message_comes_in_where_it_waits(client: WireClient, clock: ManualClock) -> None:
    """The first sends take the long way, the next ones the kernel's."""
    for _ in range(5):
        fields = send_v2_fields("orders", {"DELAY": "18"})
        assert (await client.ask(RequestCode.SEND_MESSAGE_V2, fields, b"later")).code == ResponseCode.SUCCESS
    clock.advance(2_000)

    told = await rates(client, "TOPIC_PUT_NUMS", "SCHEDULE_TOPIC_XXXX")

    assert told.stats_minute.sum == 5


@pytest.mark.parametrize("pull_count", [1, 4])
async def test_what_went_out_is_told_by_group_however_it_went(
    client: WireClient, clock: ManualClock, pull_count: int
) -> None:
    """The first pull takes the long way, the next ones the kernel's."""
    await send(client, count=5)
    for _ in range(pull_count):
        await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
    clock.advance(2_000)

    told = await rates(client, "GROUP_GET_NUMS", "orders@readers")

    assert told.stats_minute.sum == 5 * pull_count
    assert told.stats_minute.avgpt == 5.0
    assert (await rates(client, "BROKER_GET_NUMS", "DefaultCluster")).stats_day.sum == 5 * pull_count


async def test_a_minute_is_over_after_seventy_seconds(client: WireClient, clock: ManualClock) -> None:
    await send(client, count=5)
    clock.advance(2_000)
    assert (await rates(client, "TOPIC_PUT_NUMS", "orders")).stats_minute.sum == 5

    async def is_over() -> bool:
        clock.advance(10_000)
        told = await rates(client, "TOPIC_PUT_NUMS", "orders")
        return told.stats_minute.sum == 0 and told.stats_day.sum == 5

    await aeventually(is_over)


async def test_what_never_was_has_no_rates(client: WireClient) -> None:
    fields = {"statsName": "TOPIC_PUT_NUMS", "statsKey": "nowhere"}
    answer = await client.ask(RequestCode.VIEW_BROKER_STATS_DATA, fields)
    assert (answer.code, answer.remark) == (
        ResponseCode.SYSTEM_ERROR,
        "The stats <TOPIC_PUT_NUMS> <nowhere> not exist",
    )


async def test_all_producers_are_told_by_group(client: WireClient) -> None:
    await client.ask(RequestCode.HEART_BEAT, None, heartbeat_body("c1", producer_group="senders"))

    answer = await client.ask(RequestCode.GET_ALL_PRODUCER_INFO)

    (member,) = decode_producers(answer.body)["senders"]
    assert (member.client_id, member.remote_ip) == ("c1", f"/{client.own_address}")


# How far groups are


async def test_all_groups_and_how_far_they_are_behind(client: WireClient) -> None:
    await send(client, count=4)
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders"))
    await commit(client, "readers", 1)

    answer = await client.ask(RequestCode.GET_BROKER_CONSUME_STATS, {"isOrder": "false"})

    body = loads(answer.body)
    (lags,) = [row["readers"] for row in body["consumeStatsList"] if "readers" in row]
    assert body["totalDiff"] == 3
    assert [sum(each["brokerOffset"] for each in lag["offsetTable"].values()) for lag in lags] == [4]


async def test_how_old_what_a_group_reads_is(client: WireClient, clock: ManualClock) -> None:
    begin_ms = clock.now_ms()
    await send(client)
    clock.advance(5_000)
    await send(client)
    clock.advance(1_000)
    await commit(client, "readers", 1)

    answer = await client.ask(RequestCode.QUERY_CONSUME_TIME_SPAN, {"topic": "orders", "group": "readers"})

    span = decode_time_spans(answer.body)[0]
    assert (span.min_time_stamp, span.max_time_stamp) == (begin_ms, begin_ms + 5_000)
    assert (span.consume_time_stamp, span.delay_time) == (begin_ms, 1_000)


async def test_the_slowest_group_of_each_queue_without_those_left_out(client: WireClient) -> None:
    await send(client, count=9)
    for group, offset in (("fast", 8), ("slow", 5), ("slowest", 2), ("own", 7)):
        await commit(client, group, offset)
    fields = {"topic": "orders", "compareGroup": "own"}

    all_groups = await client.ask(RequestCode.QUERY_CORRECTION_OFFSET, fields)
    some = await client.ask(
        RequestCode.QUERY_CORRECTION_OFFSET, {**fields, "filterGroups": "slowest,slow,own"}
    )

    assert decode_corrections(all_groups.body) == {0: 2}
    assert decode_corrections(some.body) == {0: 2**63 - 1}
    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, _of("slowest"))).ext == {"offset": "2"}


async def test_a_group_goes_on_where_another_is(client: WireClient) -> None:
    await send(client, count=3)
    await commit(client, "readers", 2)

    await client.ask(
        RequestCode.CLONE_GROUP_OFFSET,
        {"srcGroup": "readers", "destGroup": "copies", "topic": "orders", "offline": "true"},
    )

    assert (await client.ask(RequestCode.QUERY_CONSUMER_OFFSET, _of("copies"))).ext == {"offset": "2"}


def _of(group: str) -> dict[str, object]:
    return {"consumerGroup": group, "topic": "orders", "queueId": 0}


# Who reads what


@pytest.fixture
async def member(client: WireClient, cluster: Cluster) -> AsyncIterator[WireClient]:
    await send(client, count=2)
    async with WireClient(cluster.broker_addresses[0]) as member:
        body = heartbeat_body("m1", "online", {"orders": "paid"})
        assert (await member.ask(RequestCode.HEART_BEAT, None, body)).code == OK
        yield member


async def test_who_reads_a_topic_online_or_not(client: WireClient, member: WireClient) -> None:
    await commit(client, "offline", 1)
    answer = await client.ask(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, {"topic": "orders"})
    assert sorted(decode_group_names(answer.body)) == ["offline", "online"]


async def test_what_a_group_reads(client: WireClient, member: WireClient) -> None:
    await commit(client, "online", 1)
    topics = await client.ask(RequestCode.QUERY_TOPICS_BY_CONSUMER, {"group": "online"})
    wanted = await client.ask(
        RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER, {"group": "online", "topic": "orders"}
    )
    assert loads(topics.body)["topicList"] == ["orders"]
    assert loads(wanted.body)["subscriptionData"]["subString"] == "paid"


async def test_entries_of_a_queue_as_4_9_8_tells_them(client: WireClient, member: WireClient) -> None:
    fields = {"topic": "orders", "queueId": 0, "index": 0, "count": 1}
    answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, {**fields, "consumerGroup": "cg1"})
    rows = decode_queue_rows(answer.body)
    assert (rows.min_queue_index, rows.max_queue_index, rows.filter_data) == (
        0,
        2,
        "cg1@orders is not online!",
    )
    assert [(row.physic_offset, row.eval) for row in rows.queue_data] == [(0, False)]
    online = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, {**fields, "consumerGroup": "online"})
    assert decode_queue_rows(online.body).subscription_data is not None


@pytest.mark.parametrize(
    ("queue_id", "index", "code", "remark"),
    [
        (9, 0, ResponseCode.SYSTEM_ERROR, "9@orders is not exist!"),
        (0, 99, ResponseCode.SUCCESS, "Index 99 of 0@orders is not exist!"),
    ],
)
async def test_entries_that_are_not_there(
    client: WireClient, queue_id: int, index: int, code: int, remark: str
) -> None:
    await send(client)
    fields = {"topic": "orders", "queueId": queue_id, "index": index, "count": 1}
    answer = await client.ask(RequestCode.QUERY_CONSUME_QUEUE, fields)
    assert (answer.code, answer.remark, answer.body) == (code, remark, b"")


async def test_the_progress_of_a_pull_counts_for_the_rate_of_its_group(
    client: WireClient, clock: ManualClock
) -> None:
    await send(client, count=6)
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.COMMIT_OFFSET)
    await client.ask(RequestCode.PULL_MESSAGE, pull_fields("orders", sysFlag=flags, commitOffset=0))
    clock.advance(2_000)
    answer = await client.ask(RequestCode.GET_CONSUME_STATS, {"consumerGroup": "readers"})
    assert loads(answer.body)["consumeTps"] == pytest.approx(0.5)
