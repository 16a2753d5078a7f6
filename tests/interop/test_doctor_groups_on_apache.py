"""`pyromq doctor` and groups on one of Apache's brokers, with members in Java and of ours.

A Java machine takes its time on a busy machine: everything that waits does so for minutes before it fails.
"""

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from doctor_group_stage import GroupStage, group_stage
from harness.clients import CLIENTS
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable

from pyromq import Message, PullConsumer
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.command import Command

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1_200)]

PATIENCE_S = 180
_numbers = itertools.count(1)


@pytest.fixture
def servers(running: Callable[[str], Cluster]) -> Cluster:
    return running("apache-4.9")


@pytest.fixture
def stage(servers: Cluster) -> Iterator[GroupStage]:
    topic = f"examined-group-{os.getpid()}-{next(_numbers)}"
    with group_stage(servers.name_server, topic) as stage:
        stage.patience_s = PATIENCE_S
        yield stage


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """The driver of the 4.9.8 client."""
    try:
        program = CLIENTS["java-4.9.8"].start(tmp_path, servers.name_server)
    except Unavailable as error:
        unavailable(error)
    yield program
    program.close()


def test_a_group_of_java_and_our_members_that_is_well_has_no_finding(
    stage: GroupStage, java: Program
) -> None:
    java.do("join", "sister", stage.group, stage.topic, "false", "*")
    stage.member("brother")
    stage.settled(2)
    stage.send(8)
    stage.has_read(8, PATIENCE_S)

    said = stage.ask("--skip", "disks", "--skip", "clocks", watch_s=1)

    # The two languages have their own ways to begin.
    assert ([one for one in said.findings if one["severity"] != "note"], said.could_not) == ([], [])


def test_a_java_listener_that_hangs_is_shown_with_its_stack(stage: GroupStage, java: Program) -> None:
    java.do("join", "sister", stage.group, stage.topic, "false", "*")
    stage.producer.send(Message(stage.topic, b"stuck", properties={"hang": "true"}))
    eventually(lambda: java.of("consumed"), PATIENCE_S)

    found = stage.found("listeners", watch_s=1)

    thread = found["facts"]["thread"]
    assert thread["name"].startswith(f"ConsumeMessageThread_{stage.group}")
    assert any(call.startswith("Interop.waitForTheDatabase(Interop.java:") for call in thread["calls"])
    assert thread["calls"][-1].startswith("java.lang.Thread.sleep(")
    assert not any("org.apache.rocketmq.client" in call for call in thread["calls"])


def test_members_that_subscribe_differently_and_a_filter_that_matches_nothing_are_found(
    stage: GroupStage, java: Program
) -> None:
    stage.send(12, tags="paid")
    java.do("join", "sister", stage.group, stage.topic, "false", "Paid")
    assert "is paid meant?" in stage.found("filters")["message"]

    brother = stage.member("brother")

    found = stage.found("subscriptions")
    assert f"{stage.topic} tags Paid" in found["message"]
    assert f"client {brother.client_id}: {stage.topic} *" in found["message"]


def test_two_clients_with_one_id_are_found(servers: Cluster, stage: GroupStage) -> None:
    consumer = stage.member("one")
    stage.settled(4)
    second = BlockingLinks(NetSettings())
    wanted = [
        Subscription(topic=name, sub_string="*", sub_version=1)
        for name in (stage.topic, f"%RETRY%{stage.group}")
    ]
    part = ConsumerPart(group_name=stage.group, subscriptions=wanted)
    beat = encode_heartbeat(Heartbeat(client_id=consumer.client_id, consumers=[part]))
    try:
        (place,) = stage.admin.brokers()
        answer = second.request(place.address, Command(RequestCode.HEART_BEAT, body=beat), 30)
        assert answer.code == ResponseCode.SUCCESS

        assert stage.found("client-ids")["severity"] == "problem"
        # Which queues are left is not known while the broker may not have heard of all clients.
        left = ["broker-a:2", "broker-a:3"]
        eventually(lambda: stage.found("client-ids")["facts"]["queues"] == left, PATIENCE_S)
    finally:
        second.close()
    stage.is_cured("client-ids")


def test_a_group_that_nobody_reads_for_is_found_while_messages_come(stage: GroupStage) -> None:
    stage.send(8)
    stage.typed("group", "create", stage.group)
    with PullConsumer(stage.group, stage.name_server) as consumer:
        for queue in consumer.queues(stage.topic):
            consumer.commit(queue, 1)
    with stage.sending(stage.producer.queues(stage.topic)[0]):
        # A broker that began just now does not know yet whether somebody reads.
        found = stage.found("lag", watch_s=1, severity="warning")

    assert found["message"].startswith(f"nobody reads for group {stage.group}: it has no member, ")
    assert found["facts"]["in_a_second"] > 0


def test_a_group_that_a_broker_does_not_have_is_found_by_its_members_and_created(stage: GroupStage) -> None:
    makes_groups = "autoCreateSubscriptionGroup"
    assert stage.typed("cluster", "set", makes_groups, "false").exit_code == 0
    try:
        stage.member("one")
        stage.send(4)

        found = stage.found("groups")

        assert found["message"].startswith(
            f"broker-a does not have group {stage.group}, and refuses the pulls"
        )
        stage.obey(found)
        stage.has_read(4, PATIENCE_S)
        stage.is_cured("groups")
    finally:
        assert stage.typed("cluster", "set", makes_groups, "true").exit_code == 0


def test_a_member_of_a_broadcasting_group_that_falls_behind_is_named(
    stage: GroupStage, tmp_path: Path
) -> None:
    is_open = threading.Event()
    slow = stage.member(
        "slow",
        lambda _message: is_open.wait(0.1) and None,
        consume_thread_min=1,
        model="broadcasting",
        local_offset_store_dir=str(tmp_path),
    )
    stage.settled(4)
    with stage.sending(stage.producer.queues(stage.topic)[0]):
        found = stage.found("lag", watch_s=2, severity="warning")
    is_open.set()

    assert found["message"].startswith(f"member {slow.client_id} of broadcasting group {stage.group} is ")
    assert "and falls back further: " in found["message"]
