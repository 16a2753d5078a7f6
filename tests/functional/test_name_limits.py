"""Names have limits wherever they enter, and a table that was poisoned before is healthy after a start."""

import json
import logging
from pathlib import Path

import pytest
from kinds_stage import running_stage

import pyromq.broker.registration as registration
from pyromq.codes import RequestCode, ResponseCode
from pyromq.model import MessageQueue
from pyromq.namesrv.key_values import KeyValues
from pyromq.testing.cluster import Cluster
from pyromq.testing.requests import heartbeat_body, send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, ProducerPart, encode_heartbeat
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.java_json import dumps

HUGE = "g" * (9 << 20)
LONGEST = "g" * 255
TOPICS, GROUPS = RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG


async def tables(client: WireClient) -> tuple[set[str], set[str]]:
    topics = decode_topic_table((await client.ask(TOPICS)).body)
    groups = decode_group_table((await client.ask(GROUPS)).body)
    return set(topics.topic_config_table), set(groups.subscription_group_table)


def heartbeat(**parts) -> bytes:
    return encode_heartbeat(Heartbeat(**({"client_id": "c"} | parts)))


@pytest.mark.row("NS-08")
@pytest.mark.parametrize(
    "body",
    [
        heartbeat_body("c", HUGE, {"orders": "*"}),
        heartbeat_body("c", LONGEST + "g", {"orders": "*"}),
        heartbeat_body("c", "readers", {"t" * 263: "*"}),
        heartbeat_body("c", "readers", {"orders": "a" * 32_769}),
        heartbeat_body("c" * 1_025, "readers", {"orders": "*"}),
        heartbeat_body("c", "../../readers", {"orders": "*"}),
        heartbeat(producers=[ProducerPart(group_name=LONGEST + "g")]),
        heartbeat(consumers=[ConsumerPart(group_name="")]),
    ],
    ids=["huge", "group", "topic", "expression", "client", "characters", "producer", "blank"],
)
async def test_a_heartbeat_with_an_illegal_name_is_refused_and_leaves_nothing(
    cluster: Cluster, client: WireClient, body: bytes
) -> None:
    before = await tables(client)

    answer = await client.ask(RequestCode.HEART_BEAT, None, body)

    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert len(answer.remark) < 500
    assert await tables(client) == before


async def test_the_longest_group_has_its_retry_topic(cluster: Cluster, client: WireClient) -> None:
    answer = await client.ask(RequestCode.HEART_BEAT, None, heartbeat_body("c", LONGEST, {"orders": "*"}))

    assert answer.code == ResponseCode.SUCCESS
    topics, groups = await tables(client)
    assert f"%RETRY%{LONGEST}" in topics
    assert LONGEST in groups


LONG_GROUP, LONG_TOPIC = "g" * 256, "t" * 263
PULL = {
    "queueId": "0",
    "queueOffset": "0",
    "maxMsgNums": "1",
    "sysFlag": "4",
    "commitOffset": "0",
    "suspendTimeoutMillis": "0",
    "subVersion": "0",
    "subscription": "*",
}
#: Requests that bring a name which is too long, by what they are called in the report of this test.
ENTRIES = {
    "pull group": (RequestCode.PULL_MESSAGE, PULL | {"consumerGroup": LONG_GROUP, "topic": "orders"}),
    "pull topic": (RequestCode.PULL_MESSAGE, PULL | {"consumerGroup": "readers", "topic": LONG_TOPIC}),
    "pull tags": (
        RequestCode.PULL_MESSAGE,
        PULL | {"consumerGroup": "readers", "topic": "orders", "subscription": "a" * 40_000},
    ),
    "commit group": (
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": LONG_GROUP, "topic": "orders", "queueId": "0", "commitOffset": "0"},
    ),
    "commit topic": (
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": "readers", "topic": LONG_TOPIC, "queueId": "0", "commitOffset": "0"},
    ),
    "commit queue": (
        RequestCode.UPDATE_CONSUMER_OFFSET,
        {"consumerGroup": "readers", "topic": "orders", "queueId": "70000", "commitOffset": "0"},
    ),
    "query offset": (
        RequestCode.QUERY_CONSUMER_OFFSET,
        {"consumerGroup": LONG_GROUP, "topic": "orders", "queueId": "0"},
    ),
    "clone": (
        RequestCode.CLONE_GROUP_OFFSET,
        {"srcGroup": "readers", "destGroup": LONG_GROUP, "topic": "orders"},
    ),
    "reset": (
        RequestCode.INVOKE_BROKER_TO_RESET_OFFSET,
        {"topic": "orders", "group": LONG_GROUP, "timestamp": "0", "isForce": "true"},
    ),
    "send": (RequestCode.SEND_MESSAGE_V2, send_v2_fields("t" * 128)),
    "send huge": (RequestCode.SEND_MESSAGE_V2, send_v2_fields("t" * 100_000)),
    "update topic": (
        RequestCode.UPDATE_AND_CREATE_TOPIC,
        {
            "topic": "t" * 128,
            "defaultTopic": "TBW102",
            "readQueueNums": "1",
            "writeQueueNums": "1",
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
        },
    ),
    "forbid": (
        RequestCode.UPDATE_AND_GET_GROUP_FORBIDDEN,
        {"group": LONG_GROUP, "topic": "orders", "readable": "false"},
    ),
}


@pytest.mark.row("SC-09")
@pytest.mark.parametrize("entry", ENTRIES)
async def test_a_name_that_is_too_long_is_refused_wherever_it_enters(
    cluster: Cluster, client: WireClient, entry: str
) -> None:
    code, fields = ENTRIES[entry]
    before = await tables(client)

    answer = await client.ask(code, fields)

    assert answer.code in (ResponseCode.SYSTEM_ERROR, ResponseCode.MESSAGE_ILLEGAL), answer
    assert await tables(client) == before
    offsets = await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)
    assert b"@" not in offsets.body


@pytest.mark.parametrize(
    "batch",
    [
        LockBatch(consumer_group=LONG_GROUP, client_id="c", queues=[]),
        LockBatch(consumer_group="readers", client_id="c" * 1_025, queues=[]),
        LockBatch(consumer_group="readers", client_id="c", queues=[MessageQueue(LONG_TOPIC, "b", 0)]),
    ],
)
async def test_locks_too(cluster: Cluster, client: WireClient, batch: LockBatch) -> None:
    answer = await client.ask(RequestCode.LOCK_BATCH_MQ, None, encode_lock_batch(batch))

    assert answer.code == ResponseCode.SYSTEM_ERROR


async def test_a_group_that_an_operator_creates_too(cluster: Cluster, client: WireClient) -> None:
    for name in (LONG_GROUP, "a b", " "):
        body = dumps({"groupName": name})
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, None, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "group" in (answer.remark or "")


async def test_other_texts_of_topics_and_settings_too(cluster: Cluster, client: WireClient) -> None:
    large = topic_entry("large")
    for config in (
        large | {"topicFilterType": HUGE},
        large | {"attributes": {"+a": HUGE}},
        large | {"topicName": LONG_TOPIC},
    ):
        body = dumps({"topicConfigList": [config]})
        answer = await client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC_LIST, None, body)
        assert answer.code == ResponseCode.SYSTEM_ERROR
    settings = f"namesrvAddr={HUGE}".encode()
    answer = await client.ask(RequestCode.UPDATE_BROKER_CONFIG, None, settings)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert len(answer.remark or "") < 500

    assert "large" not in (await tables(client))[0]


async def test_commits_for_ever_other_groups_end_somewhere(
    cluster: Cluster, client: WireClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyromq.broker.groups.offsets.KEYS_CHARACTERS_MAX", 1_000)
    fields = {"topic": "orders", "queueId": "0", "commitOffset": "0"}
    codes = [
        (
            await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | {"consumerGroup": f"group-{one}"})
        ).code
        for one in range(100)
    ]

    assert codes[0] == ResponseCode.SUCCESS
    assert codes[-1] == ResponseCode.SYSTEM_ERROR
    known = await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields | {"consumerGroup": "group-0"})
    assert known.code == ResponseCode.SUCCESS
    assert len((await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).body) < 5_000


# Tables that were poisoned -------------------------------------------------------------------------------


def topic_entry(name: str) -> dict[str, object]:
    return {
        "order": False,
        "perm": 6,
        "readQueueNums": 2,
        "topicFilterType": "SINGLE_TAG",
        "topicName": name,
        "topicSysFlag": 0,
        "writeQueueNums": 2,
    }


def poison(config: Path) -> None:
    config.mkdir(parents=True)
    version = {"counter": 3, "timestamp": 1}
    retry = f"%RETRY%{HUGE}"
    written = {
        "topics.json": {
            "dataVersion": version,
            "topicConfigTable": {name: topic_entry(name) for name in ("kept", retry, "../out")},
        },
        "subscriptionGroup.json": {
            "dataVersion": version,
            "subscriptionGroupTable": {name: {"groupName": name} for name in ("kept", HUGE)},
        },
        "consumerOffset.json": {"offsetTable": {"kept@kept": {"0": 0}, f"kept@{HUGE}": {"0": 0}}},
    }
    for name, table in written.items():
        (config / name).write_text(json.dumps(table))


@pytest.mark.row("NS-08", "ST-25")
async def test_a_poisoned_store_is_healthy_after_a_start_and_nothing_of_it_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = tmp_path / "config"
    poison(config)

    with caplog.at_level(logging.ERROR):
        async with running_stage(tmp_path) as stage, WireClient(stage.address) as client:
            topics, groups = await tables(client)
            assert "kept" in topics & groups
            assert max(map(len, topics | groups)) < 300
            assert (await client.ask(RequestCode.GET_ALL_CONSUMER_OFFSET)).code == ResponseCode.SUCCESS
    for name in ("topics.json", "subscriptionGroup.json", "consumerOffset.json"):
        assert (config / name).stat().st_size < 100_000, f"{name} is saved without it"
        assert HUGE in (config / f"{name}.illegal").read_text()
        assert f"kept in {name}.illegal" in caplog.text
    assert len(caplog.text) < 100_000
    assert not (tmp_path / "out").exists()

    caplog.clear()
    async with running_stage(tmp_path) as stage, WireClient(stage.address) as client:
        assert "kept" in (await tables(client))[0]
    assert "illegal" not in caplog.text


async def test_a_poisoned_kv_table_is_healthy_after_a_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "kvConfig.json"
    path.write_text(json.dumps({"configTable": {"N": {"k": "v", HUGE: "v", "l": HUGE}}}))

    key_values = KeyValues(path)
    key_values.load()

    assert key_values.namespace("N") == {"k": "v"}
    assert "kvConfig.json.illegal" in caplog.text
    assert HUGE in (tmp_path / "kvConfig.json.illegal").read_text()


# Tables that are too large -------------------------------------------------------------------------------


async def test_topics_too_many_for_a_frame_are_registered_compressed(
    cluster: Cluster, client: WireClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(registration, "PLAIN_BYTES_MAX", 1_000)

    answer = await client.ask(RequestCode.SEND_MESSAGE_V2, send_v2_fields("orders"), b"x")

    assert answer.code == ResponseCode.SUCCESS
    async with WireClient(cluster.namesrv_address) as names:

        async def is_known() -> bool:
            found = await names.ask(RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "orders"})
            return found.code == ResponseCode.SUCCESS

        await aeventually(is_known)
    assert "registered compressed" in caplog.text


@pytest.mark.parametrize("code", [TOPICS, GROUPS, RequestCode.GET_ALL_CONSUMER_OFFSET], ids=str)
async def test_a_table_that_does_not_fit_a_frame_is_refused_and_the_connection_stays(
    cluster: Cluster, client: WireClient, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    for number in range(20):
        body = heartbeat_body("c", f"group-{number}", {"orders": "*"})
        assert (await client.ask(RequestCode.HEART_BEAT, None, body)).code == ResponseCode.SUCCESS
        fields = {"consumerGroup": f"group-{number}", "topic": "orders", "queueId": "0", "commitOffset": "0"}
        await client.ask(RequestCode.UPDATE_CONSUMER_OFFSET, fields)
    with monkeypatch.context() as small:
        small.setattr("pyromq.wire.command.FRAME_BYTES_MAX", 500)
        answer = await client.ask(code)
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "does not fit" in (answer.remark or "")

    assert (await client.ask(code)).code == ResponseCode.SUCCESS
