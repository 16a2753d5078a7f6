"""Attributes of topics and the fields of groups that RocketMQ 5 has, over the wire and on disk."""

import json
from pathlib import Path
from typing import Any

import pytest

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import Cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig, decode_group_table
from pyromq.wire.bodies.operation_bodies import encode_topic_configs
from pyromq.wire.bodies.retry_policy import DEFAULT_DELAYS_MS
from pyromq.wire.bodies.topic_bodies import TopicConfig, decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.java_json import dumps, loads

OK, FAILED = ResponseCode.SUCCESS, ResponseCode.SYSTEM_ERROR
CREATE = {
    "defaultTopic": "TBW102",
    "readQueueNums": "4",
    "writeQueueNums": "4",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
}


async def update(client: WireClient, topic: str, attributes: str | None = None) -> Command:
    fields = {"topic": topic, **CREATE, **({} if attributes is None else {"attributes": attributes})}
    return await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, fields)


async def attributes_of(client: WireClient, topic: str) -> dict[str, str] | None:
    answer = await client.ask(RequestCode.GET_ALL_TOPIC_CONFIG)
    return decode_topic_table(answer.body).topic_config_table[topic].attributes


async def put_group(client: WireClient, **fields: object) -> Command:
    body = dumps({"groupName": "readers", **fields})
    return await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)


async def group_of(client: WireClient) -> SubscriptionGroupConfig:
    answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)
    return decode_group_table(answer.body).subscription_group_table["readers"]


# Topics


async def test_a_topic_has_the_type_that_an_operator_gives_it(client: WireClient) -> None:
    made = await update(client, "orders", "+message.type=FIFO")
    first = await attributes_of(client, "orders")
    # A client of 4.9 changes the topic, and says nothing of attributes.
    await update(client, "orders")
    kept = await attributes_of(client, "orders")
    await update(client, "orders", "+message.type=DELAY")
    changed = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "orders"})
    await update(client, "orders", "-message.type")

    assert made.code == OK, made.remark
    assert first == kept == {"message.type": "FIFO"}
    assert loads(changed.body)["attributes"] == {"message.type": "DELAY"}
    assert await attributes_of(client, "orders") is None


async def test_a_change_that_is_refused_changes_nothing(client: WireClient) -> None:
    await update(client, "orders", "+message.type=FIFO")

    answers = [
        await update(client, "orders", text) for text in ("+message.type=X", "+x=y", "message.type=NORMAL")
    ]
    new = await update(client, "unborn", "-message.type")

    assert {answer.code for answer in (*answers, new)} == {FAILED}
    assert all(answer.remark for answer in (*answers, new))
    assert await attributes_of(client, "orders") == {"message.type": "FIFO"}
    assert (await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "unborn"})).code != OK


async def test_a_topic_is_mixed_once_the_setting_allows_it(client: WireClient) -> None:
    refused = await update(client, "orders", "+message.type=MIXED")
    await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, b"enableMixedMessageType=true")
    taken = await update(client, "orders", "+message.type=MIXED")

    assert refused.code == ResponseCode.INVALID_PARAMETER
    assert "MIXED message type is not supported" in (refused.remark or "")
    assert taken.code == OK
    assert await attributes_of(client, "orders") == {"message.type": "MIXED"}


async def test_of_many_topics_none_is_made_when_the_type_of_one_is_unknown(client: WireClient) -> None:
    wanted = [
        TopicConfig(topic_name="fine", attributes={"+message.type": "FIFO"}),
        TopicConfig(topic_name="wrong", attributes={"+message.type": "X"}),
    ]
    refused = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, encode_topic_configs(wanted))
    there = await client.ask(RequestCode.GET_TOPIC_CONFIG, {"topic": "fine"})
    taken = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, encode_topic_configs(wanted[:1]))

    assert (refused.code, there.code, taken.code) == (FAILED, ResponseCode.TOPIC_NOT_EXIST, OK)
    assert await attributes_of(client, "fine") == {"message.type": "FIFO"}


async def test_sends_of_other_clients_are_not_looked_at(client: WireClient) -> None:
    await update(client, "orders", "+message.type=TRANSACTION")

    assert (await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")).code == OK


# Groups


async def test_a_group_has_the_fields_that_an_operator_gives_it(client: WireClient) -> None:
    policy = {"type": "CUSTOMIZED", "customizedRetryPolicy": {"next": [1000, 5000]}}
    made = await put_group(
        client,
        consumeMessageOrderly=True,
        groupRetryPolicy=policy,
        groupSysFlag=1,
        consumeTimeoutMinute=5,
        subscriptionDataSet=[{"topic": "orders", "expressionType": "TAG", "expression": "*", "version": 0}],
        attributes={"+priority.factor": "50"},
    )
    group = await group_of(client)

    assert made.code == OK, made.remark
    assert group.is_fifo
    assert group.retry_policy.delays_ms == (1000, 5000)
    assert (group.group_sys_flag, group.consume_timeout_minute) == (1, 5)
    assert group.attributes == {"priority.factor": "50"}
    assert [one.topic for one in group.subscription_data_set or ()] == ["orders"]


async def test_a_group_of_4_9_is_told_as_4_9_tells_it(client: WireClient) -> None:
    await put_group(client)
    answer = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)

    (told,) = [
        group for name, group in loads(answer.body)["subscriptionGroupTable"].items() if name == "readers"
    ]
    assert not {"consumeMessageOrderly", "groupRetryPolicy", "attributes", "groupSysFlag"} & told.keys()


@pytest.mark.parametrize(
    "fields",
    [
        {"attributes": {"priority.factor": "50"}},
        {"attributes": {"+colour": "red"}},
        {"attributes": {"+priority.factor": "1000"}},
        {"groupRetryPolicy": {"type": "NEVER"}},
        {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [1] * 1000}}},
        {"groupRetryPolicy": {"customizedRetryPolicy": {"next": [-1]}}},
        {"subscriptionDataSet": [{"topic": f"topic-{number}"} for number in range(1000)]},
    ],
    ids=str,
)
async def test_a_group_that_does_not_read_or_is_too_large_is_refused(
    client: WireClient, fields: dict[str, object]
) -> None:
    answer = await put_group(client, **fields)
    groups = await client.ask(RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG)

    assert answer.code == FAILED
    assert answer.remark
    assert b'"readers"' not in groups.body


def on_disk(folder: Path, topic: str) -> Any:
    (file,) = folder.rglob("topics.json")
    return json.loads(file.read_text())["topicConfigTable"][topic]


async def test_types_and_fields_are_there_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        await update(client, "orders", "+message.type=FIFO")
        await put_group(client, consumeMessageOrderly=True)
    async with (
        Cluster(data_dir=tmp_path, clock=clock) as cluster,
        WireClient(cluster.broker_addresses[0]) as client,
    ):
        assert await attributes_of(client, "orders") == {"message.type": "FIFO"}
        assert (await group_of(client)).is_fifo
    assert on_disk(tmp_path, "orders")["attributes"] == {"message.type": "FIFO"}


def test_a_group_without_a_policy_waits_as_rocketmq_does() -> None:
    config = SubscriptionGroupConfig(group_name="readers")

    assert len(DEFAULT_DELAYS_MS) == 18
    assert config.retry_policy.delays_ms == DEFAULT_DELAYS_MS
    assert [config.retry_policy.delay_ms(times) for times in (-1, 0, 1, 15, 99)] == [
        10_000,
        10_000,
        30_000,
        7_200_000,
        7_200_000,
    ]
