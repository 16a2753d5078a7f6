"""Topics and groups that operators make, change and delete, and what is cleaned up."""

import asyncio
import os
from pathlib import Path

import pytest
from kinds_stage import copy_as_it_is

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import pull_fields, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, decode_group_table, encode_group
from pyromq.wire.bodies.offset_bodies import decode_group_offsets
from pyromq.wire.bodies.operation_bodies import encode_group_configs, encode_topic_configs
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.java_json import loads

SEND, PULL = RequestCode.SEND_MESSAGE_V2, RequestCode.PULL_MESSAGE
OK = ResponseCode.SUCCESS


async def send(client: WireClient, topic: str, body: bytes = b"x") -> None:
    assert (await client.ask(SEND, send_v2_fields(topic), body)).code == OK


async def commit(client: WireClient, group: str, topic: str, offset: int) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": 0, "commitOffset": offset}
    assert (await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)).code == OK


async def topics(client: WireClient) -> set[str]:
    answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    return set(decode_topic_table(answer.body).topic_config_table)


async def groups(client: WireClient) -> dict[str, SubscriptionGroupConfig]:
    answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return decode_group_table(answer.body).subscription_group_table


async def progress(client: WireClient) -> dict[str, dict[int, int]]:
    answer = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    return decode_group_offsets(answer.body)


async def end_of(client: WireClient, topic: str) -> str:
    answer = await client.ask(RequestCode.GET_MAX_OFFSET, {"topic": topic, "queueId": 0})
    return (answer.ext or {})["offset"]


# Topics


async def test_a_deleted_topic_is_gone_with_its_queues_and_the_progress_in_it(client: WireClient) -> None:
    await send(client, "orders")
    await send(client, "kept")
    await commit(client, "readers", "orders", 1)
    await commit(client, "readers", "kept", 1)

    answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})

    assert (answer.code, answer.ext) == (OK, None)
    assert {"orders", "kept"} & await topics(client) == {"kept"}
    assert await progress(client) == {"kept@readers": {0: 1}}
    assert await end_of(client, "orders") == "0"
    pulled = await client.ask(PULL, pull_fields("orders"))
    assert pulled.code == ResponseCode.TOPIC_NOT_EXIST


async def test_a_topic_that_comes_again_begins_at_0(client: WireClient) -> None:
    await send(client, "orders", b"old")
    await client.ask(PULL, pull_fields("orders"))
    await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})

    await send(client, "orders", b"new")

    pulled = await client.ask(PULL, pull_fields("orders"))
    assert b"new" in pulled.body
    assert b"old" not in pulled.body
    assert await end_of(client, "orders") == "1"


async def test_a_deleted_topic_stays_away_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, "orders")
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        assert "orders" not in await topics(client)


async def test_a_deleted_topic_stays_away_after_a_crash(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path / "one", clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await send(client, "orders")
        await send(client, "kept")
        clock.advance(1)
        await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "orders"})
        # What a killed broker leaves behind.
        await asyncio.to_thread(copy_as_it_is, tmp_path / "one", tmp_path / "other")
    async with (
        Cluster(data_dir=tmp_path / "other", clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        assert "orders" not in await topics(client)
        assert await end_of(client, "orders") == "0"


async def test_a_topic_of_the_broker_s_own_is_not_deleted(client: WireClient) -> None:
    answer = await client.ask(RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "SCHEDULE_TOPIC_XXXX"})
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "conflict with system topic" in (answer.remark or "")


async def test_many_topics_are_made_with_one_request(client: WireClient) -> None:
    wanted = [TopicConfig(topic_name=f"t{number}", write_queue_nums=2) for number in range(3)]

    await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, encode_topic_configs(wanted))

    shown = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "t1"})
    assert {"t0", "t1", "t2"} <= await topics(client)
    assert loads(shown.body)["writeQueueNums"] == 2


async def test_of_many_topics_none_is_made_when_one_may_not_be(client: WireClient) -> None:
    wanted = [TopicConfig(topic_name="fine"), TopicConfig(topic_name="not fine")]

    answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, encode_topic_configs(wanted))

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert "fine" not in await topics(client)


async def test_a_topic_that_is_not_here_has_no_configuration(client: WireClient) -> None:
    answer = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "nowhere"})
    assert (answer.code, answer.remark) == (
        ResponseCode.TOPIC_NOT_EXIST,
        "No topic in this broker. topic: nowhere",
    )


async def test_queues_of_topics_in_no_table_are_cleaned_up(client: WireClient) -> None:
    await send(client, "orders")
    await send(client, "kept")

    assert (await client.ask(RequestCode.CLEAN_UNUSED_TOPIC)).code == OK

    assert [await end_of(client, topic) for topic in ("orders", "kept")] == ["1", "1"]


async def test_old_files_go_at_any_hour_when_an_operator_says_so(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        Cluster(data_dir=tmp_path, clock=clock, mapped_file_size_commit_log=4096) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        for _ in range(6):
            await send(client, "orders", b"x" * 2000)
        broker = cluster.brokers["broker-a"]
        clock.advance(100 * 3_600_000)
        await send(client, "orders", b"x" * 2000)
        log = tmp_path / "broker-a" / "commitlog"
        before = len(os.listdir(log))

        assert (await client.ask(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == OK
        assert (await client.ask(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == OK

        await aeventually(lambda: len(os.listdir(log)) < before, what="files of the log go")
        assert broker.max_position > 0


# Groups


async def test_a_group_is_made_changed_and_deleted(client: WireClient) -> None:
    made = SubscriptionGroupConfig(group_name="readers", retry_max_times=3)
    await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, encode_group(made))
    shown = await client.ask(RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG, {"group": "readers"})
    assert shown.body == encode_group(made)

    answer = await client.ask(RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers"})

    assert answer.code == OK
    assert "readers" not in await groups(client)


@pytest.mark.parametrize(("remove_offset", "left"), [("true", {}), ("false", {"orders@readers": {0: 1}})])
async def test_progress_goes_with_its_group_only_if_that_is_wanted(
    client: WireClient, remove_offset: str, left: dict[str, dict[int, int]]
) -> None:
    await send(client, "orders")
    await commit(client, "readers", "orders", 1)

    await client.ask(
        RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "readers", "removeOffset": remove_offset}
    )

    assert await progress(client) == left


async def test_many_groups_are_made_with_one_request(client: WireClient) -> None:
    body = encode_group_configs([SubscriptionGroupConfig(group_name=name) for name in ("one", "two")])
    await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST, None, body)
    assert {"one", "two"} <= set(await groups(client))


async def test_a_group_that_is_forbidden_a_topic_cannot_read_it_until_it_is_allowed(
    client: WireClient,
) -> None:
    await send(client, "orders")
    who = {"group": "readers", "topic": "orders"}
    assert (await client.ask(PULL, pull_fields("orders"))).code == OK

    said = await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {**who, "readable": "false"})
    refused = await client.ask(PULL, pull_fields("orders"))
    other = await client.ask(PULL, pull_fields("orders", group="others"))
    await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {**who, "readable": "true"})
    allowed = await client.ask(PULL, pull_fields("orders"))

    assert loads(said.body) == {**who, "readable": False}
    assert (refused.code, refused.remark) == (
        ResponseCode.NO_PERMISSION,
        "the consumer group[readers] is forbidden for topic[orders]",
    )
    assert (other.code, allowed.code) == (OK, OK)


async def test_what_is_forbidden_is_so_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    who = {"group": "readers", "topic": "orders"}
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, {**who, "readable": "false"})
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        said = await client.ask(RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN, who)
        assert loads(said.body)["readable"] is False
