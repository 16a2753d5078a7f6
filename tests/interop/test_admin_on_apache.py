"""The commands of `pyromq admin` that only look, and offsets, on one of Apache's clusters."""

import itertools
import json
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from admin_stage import AdminStage
from harness.servers import Cluster

from pyromq import Admin, ConsumeFrom, Message, Producer, PushConsumer
from pyromq.client.plans.ops_offsets import GroupOnline, Target, To
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

_numbers = itertools.count(1)
PATIENCE_S = 90


@pytest.fixture
def apache(running: Callable[[str], Cluster]) -> Cluster:
    return running("apache-4.9")


@pytest.fixture
def stage(apache: Cluster) -> AdminStage:
    return AdminStage(apache.name_server)


@pytest.fixture
def topic() -> str:
    return f"administered-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def group() -> str:
    return f"readers-{os.getpid()}-{next(_numbers)}"


@pytest.fixture
def member(apache: Cluster, stage: AdminStage, topic: str, group: str) -> Iterator[list[str]]:
    """A member of the group that has read 8 messages of the topic; what it reads."""
    stage.fill(topic, 8)
    seen: list[str] = []
    lock = threading.Lock()

    def take(message: object) -> None:
        with lock:
            seen.append(message.body.decode())  # type: ignore[attr-defined]

    with PushConsumer(
        group,
        apache.name_server,
        listener=take,
        consume_from=ConsumeFrom.FIRST_OFFSET,
        persist_consumer_offset_interval=500,
    ) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(seen) == 8, PATIENCE_S)
        eventually(lambda: set(stage.progress(topic, group).values()) == {4}, PATIENCE_S)
        yield seen


@pytest.mark.usefixtures("member")
def test_every_command_that_looks_at_topics_groups_and_brokers(
    apache: Cluster, stage: AdminStage, topic: str, group: str, tmp_path: Path
) -> None:
    """A cluster, a topic, a group with a member: all that there is to see."""
    ((name, address),) = apache.brokers.items()
    cluster = stage.records("admin", "clusterList")[0]["cluster"]
    looks = {
        "clusterList": (),
        "topicList": ("-c",),
        "topicRoute": ("-t", topic, "-l"),
        "topicStatus": ("-t", topic),
        "topicClusterList": ("-t", topic),
        "allocateMQ": ("-t", topic, "-i", "10.0.0.1,10.0.0.2"),
        "statsAll": ("-t", topic),
        "consumerProgress": ("-g", group, "-s", "true"),
        "consumerConnection": ("-g", group),
        "consumerStatus": ("-g", group),
        "getConsumerStatus": ("-g", group, "-t", topic),
        "getConsumerConfig": ("-g", group),
        "brokerStatus": ("-b", address),
        "brokerConsumeStats": ("-b", address),
        "getBrokerConfig": ("-c", cluster),
        "getNamesrvConfig": (),
        "producer": ("-b", address),
        "queryCq": ("-t", topic, "-q", "0", "-i", "0"),
        "printMsg": ("-t", topic),
        "printMsgByQueue": ("-t", topic, "-a", name, "-i", "0", "-p", "true"),
        "consumeMessage": ("-t", topic, "-c", "2"),
        "queryMsgByOffset": ("-t", topic, "-b", name, "-i", "0", "-o", "0"),
        "queryMsgByKey": ("-t", topic, "-k", "k1"),
        "exportMetadata": ("-c", cluster),
        "exportConfigs": ("-c", cluster),
        "exportMetrics": ("-c", cluster),
    }

    shown = {command: stage.records("admin", command, *words) for command, words in looks.items()}

    assert [command for command, rows in shown.items() if not rows] in ([], ["producer"])
    assert sum(row["max_offset"] for row in shown["topicStatus"]) == 8
    assert [row["lag"] for row in shown["consumerProgress"] if row["topic"] == topic] == [0, 0]
    assert {row["group"] for row in shown["statsAll"]} == {group}
    assert [row["count"] for row in shown["allocateMQ"]] == [1, 1]
    assert "putTps" in shown["brokerStatus"][0]["values"]
    assert shown["getBrokerConfig"][0]["values"]["brokerName"] == name
    assert shown["queryMsgByKey"][0]["body"] == "body 1"
    assert len(shown["printMsg"]) == 8
    assert topic in shown["exportMetadata"][0]["topicConfigTable"]
    for command, words in looks.items():
        folder = ("-f", str(tmp_path)) if command.startswith("export") else ()
        assert stage.admin(command, *words, *folder).exit_code == 0, command


def test_messages_are_found_by_their_ids_and_producers_are_seen(
    apache: Cluster, stage: AdminStage, topic: str
) -> None:
    sent = stage.fill(topic, 4)[0]

    assert stage.records("admin", "queryMsgById", "-i", sent.offset_message_id)[0]["body"] == "body 0"
    by_unique = ("queryMsgByUniqueKey", "-t", topic, "-i", sent.message_id, "-a")
    assert stage.records("admin", *by_unique)[0]["offset_message_id"] == sent.offset_message_id
    with Producer("shop", apache.name_server) as producer:
        producer.send(Message(topic, b"x"))
        eventually(
            lambda: stage.admin("producerConnection", "-g", "shop", "-t", topic).exit_code == 0, PATIENCE_S
        )


def test_what_is_not_there_ends_with_3(stage: AdminStage) -> None:
    for words in (
        ("topicStatus", "-t", "nowhere"),
        ("consumerConnection", "-g", "nobody"),
        ("getConsumerConfig", "-g", "nobody"),
        ("updateOrderConf", "-t", "nowhere", "-m", "get"),
        ("queryMsgTraceById", "-i", "7F00000100010CA5D2F80000002A0001"),
    ):
        assert stage.admin(*words).exit_code == 3, words


def test_topics_and_groups_are_made_and_deleted(stage: AdminStage, topic: str, group: str) -> None:
    assert stage.run("topic", "create", topic, "--queues", "2").exit_code == 0
    assert stage.run("topic", "allow", topic, "read").exit_code == 0
    assert stage.run("group", "create", group).exit_code == 0
    assert stage.run("group", "show", group).exit_code == 0
    assert stage.run("group", "delete", group, "--yes").exit_code == 0
    assert stage.run("topic", "delete", topic, "--yes").exit_code == 0
    assert stage.run("topic", "show", topic).exit_code == 3


def test_a_group_without_members_is_reset(stage: AdminStage, topic: str, group: str) -> None:
    stage.fill(topic, 8)
    stage.commit(topic, group, 1)

    for words, after in (
        (("--to", "last"), 4),
        (("--to", "2"), 2),
        (("--time", "1h"), 0),
        (("--time", "+1h"), 4),
        (("--to", "first"), 0),
    ):
        rows = stage.records("group", "reset", group, "-t", topic, *words)

        assert {row["now"] for row in rows} == {after}, words
    assert stage.admin("cloneGroupOffset", "-s", group, "-d", f"{group}-2", "-t", topic).exit_code == 0


def test_members_are_told_a_time_and_nothing_else(
    apache: Cluster, stage: AdminStage, member: list[str], topic: str, group: str
) -> None:
    with Admin(apache.name_server) as admin, pytest.raises(GroupOnline, match="stop them"):
        admin.reset_offsets(group, topic, Target(To.OFFSET, 2))
    member.clear()

    done = [
        json.loads(line)
        for line in stage.run(
            "group", "reset", group, "-t", topic, "--to", "first", "--json"
        ).stdout.splitlines()
    ]

    assert {row["after"] for row in done} == {0}
    eventually(lambda: len(member) == 8, PATIENCE_S)
