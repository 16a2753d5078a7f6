"""What `pyromq doctor` finds in a group: subscriptions, client ids, members and queues."""

from collections.abc import Iterator

import pytest
from doctor_group_stage import GroupStage, group_stage
from late_clock import long_running_cluster
from push_stage import own

import pyromq
from pyromq import ConsumeFrom
from pyromq.client.consumer.allocation import by_config
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import ClientSettings, NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.command import Command


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with long_running_cluster(subscription_conflict_grace=0) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def strict() -> Iterator[ThreadCluster]:
    with running_cluster(reject_inconsistent_subscription=True) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic) as stage:
        yield stage


@pytest.fixture
def strict_stage(strict: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(strict.namesrv_address, topic) as stage:
        yield stage


def test_a_group_that_is_well_has_no_finding(stage: GroupStage) -> None:
    stage.member("one")
    stage.member("other")
    stage.settled(4)
    stage.send(12)
    stage.has_read(12)

    # This machine's disk is as full as it is.
    said = stage.ask("--skip", "disks")

    assert (said.status, said.findings, said.could_not) == (0, [], [])


# Subscriptions ----------------------------------------------------------------------------------------


def test_members_that_subscribe_differently_are_named_with_what_they_want(stage: GroupStage) -> None:
    one = stage.member("one")
    other = stage.member("other", tags="paid")
    stage.settled(4)

    found = stage.found("subscriptions")

    assert (found["severity"], found["subject"]) == ("problem", f"group {stage.group}")
    assert found["message"] == (
        f"members of group {stage.group} subscribe differently: client {other.client_id}: {stage.topic} tags "
        f"paid; client {one.client_id}: {stage.topic} *"
    )
    assert f"pyromq admin consumerStatus -g {stage.group} -n {stage.name_server}" in found["do"].splitlines()
    assert f"{stage.topic} tags paid" in found["facts"]["members"][other.client_id]

    other.subscribe(stage.topic, "*")

    stage.is_cured("subscriptions")


def test_members_that_a_broker_does_not_let_in_are_named(strict_stage: GroupStage) -> None:
    stage = strict_stage
    stage.member("one")
    stage.settled(4)
    odd = stage.member("odd", tags="paid")
    eventually(lambda: odd.subscription_conflict)

    found = stage.found("subscriptions")

    assert found["severity"] == "problem"
    assert f"not let into the group: {odd.client_id} at 127.0.0.1:" in found["message"]
    assert found["why"].startswith("those who are refused get no messages")
    assert f"{stage.topic} tags paid" in found["facts"]["refused"][odd.client_id]

    odd.subscribe(stage.topic, "*")

    stage.is_cured("subscriptions")


def test_members_by_different_models_are_a_problem(stage: GroupStage, tmp_path) -> None:
    stage.member("one")
    stage.member("other", model="broadcasting", local_offset_store_dir=str(tmp_path))

    found = stage.found("subscriptions")

    assert "BROADCASTING" in found["message"]
    assert "CLUSTERING" in found["message"]


def test_a_pull_consumer_among_push_consumers_is_found(stage: GroupStage) -> None:
    stage.member("one")
    settings = ClientSettings(instance_name="puller")
    puller = pyromq.PullConsumer(stage.group, stage.name_server, settings)
    stage.closing.enter_context(puller)
    puller.subscribe(stage.topic)

    def both() -> list[dict[str, object]] | None:
        findings = stage.ask("--only", "subscriptions").of("subscriptions")
        return findings if len(findings) == 2 else None

    # A puller does not subscribe to the retry topic, so it also wants something else.
    problem, warning = eventually(both, 20)

    assert f"%RETRY%{stage.group}" in str(problem["message"])
    assert warning["severity"] == "warning"
    assert f"push and pull consumers are in group {stage.group}: CONSUME_ACTIVELY: " in str(
        warning["message"]
    )


def test_members_of_which_only_some_consume_in_order_are_found(stage: GroupStage) -> None:
    stage.member("one")
    other = stage.member("other", order="orderly")

    found = stage.found("subscriptions")

    assert found["severity"] == "warning"
    assert f"true: {other.client_id}" in found["message"]
    other.close()
    stage.is_cured("subscriptions")


def test_a_group_that_wants_a_topic_that_is_not_there_is_noted(stage: GroupStage) -> None:
    consumer = stage.member("one")
    consumer.subscribe(f"{stage.topic}-misspelt")

    found = stage.found("subscriptions")

    assert found["severity"] == "note"
    assert found["message"].endswith(f"subscribes to topic {stage.topic}-misspelt, which no broker has")

    stage.obey(found)

    stage.is_cured("subscriptions")


def test_a_group_that_no_broker_knows_is_a_problem(stage: GroupStage) -> None:
    found = stage.found("subscriptions")

    assert (found["severity"], found["message"]) == ("problem", f"no broker knows a group {stage.group}")
    stage.obey(found)
    stage.member("one")
    stage.is_cured("subscriptions")


# Client ids -------------------------------------------------------------------------------------------


def heartbeat(stage: GroupStage, client_id: str) -> bytes:
    wanted = [
        Subscription(topic=name, sub_string="*", sub_version=1)
        for name in (stage.topic, f"%RETRY%{stage.group}")
    ]
    part = ConsumerPart(group_name=stage.group, subscriptions=wanted)
    return encode_heartbeat(Heartbeat(client_id=client_id, consumers=[part]))


def test_two_clients_with_one_id_are_found_and_the_queues_that_they_leave_out(
    cluster: ThreadCluster, stage: GroupStage
) -> None:
    consumer = stage.member("one")
    stage.settled(4)
    second = BlockingLinks(NetSettings())
    try:
        beat = Command(RequestCode.HEART_BEAT, body=heartbeat(stage, consumer.client_id))
        assert second.request(cluster.broker_addresses[0], beat, 10).code == ResponseCode.SUCCESS
        eventually(lambda: len(own(consumer, stage.topic)) == 2)

        found = stage.found("client-ids")

        assert found["severity"] == "problem"
        assert found["message"].startswith(
            f"2 clients of group {stage.group} have the same id {consumer.client_id}: they are connected "
            "from 127.0.0.1:"
        )
        assert "instance_name" in found["do"]
        assert len(found["facts"]["addresses"]["broker-a"]) == 2
        assert found["message"].endswith(f". 2 queues of {stage.topic} are read by nobody")
        assert found["facts"]["queues"] == ["broker-a:2", "broker-a:3"]
        assert stage.ask("--only", "members").findings == []
    finally:
        second.close()

    stage.is_cured("client-ids")
    stage.is_cured("members")


# Members and queues -----------------------------------------------------------------------------------


def test_members_without_a_queue_are_found_and_more_queues_help(stage: GroupStage) -> None:
    for number in range(5):
        stage.member(f"m{number}")
    stage.settled(4)

    found = stage.found("members")

    assert found["severity"] == "warning"
    assert found["message"].startswith(
        f"1 of the 5 members of group {stage.group} has no queue: {stage.topic} has 4 queues"
    )
    assert f"pyromq topic create {stage.topic} --queues 5 -n {stage.name_server}" in found["do"]
    assert found["facts"]["idle"] == [one.client_id for one in stage.consumers if not own(one, stage.topic)]

    stage.obey(found)

    stage.is_cured("members")


def test_a_member_without_a_queue_is_found_though_there_are_enough(stage: GroupStage) -> None:
    idle = stage.member("idle", allocate=by_config([]))
    stage.member("busy")

    def findings() -> list[dict[str, object]] | None:
        found = stage.ask("--only", "members").of("members")
        return found if len(found) == 2 else None

    without, left = eventually(findings, 20)

    assert str(without["message"]).startswith(
        f"{idle.client_id} of group {stage.group} has no queue of {stage.topic}, though there are 4 queues"
    )
    assert left["facts"]["queues"] == ["broker-a:2", "broker-a:3"]  # type: ignore[index]


def test_queues_that_no_member_has_are_a_problem_once_they_have_messages(stage: GroupStage) -> None:
    (first, *_) = stage.producer.queues(stage.topic)
    consumer = stage.member("one", allocate=by_config([first]))
    stage.settled(1)

    assert stage.found("members")["severity"] == "warning"

    stage.send(8)
    found = stage.found("members")

    assert found["severity"] == "problem"
    assert found["message"] == (
        f"nobody of group {stage.group} reads 3 queues of {stage.topic}: broker-a:1, broker-a:2, broker-a:3, "
        "with 6 messages"
    )
    stage.obey(found)
    consumer.close()
    stage.member("two")
    stage.is_cured("members")


def test_a_broker_that_began_just_now_does_not_know_yet_who_has_the_other_queues(
    strict_stage: GroupStage,
) -> None:
    stage = strict_stage
    (first, *_) = stage.producer.queues(stage.topic)
    stage.member("one", allocate=by_config([first]))
    stage.settled(1)
    stage.send(8)

    assert stage.ask("--only", "members").findings == []


def test_queues_are_counted_over_all_brokers_and_advised_for_each(topic: str) -> None:
    with running_cluster(brokers=2) as cluster, group_stage(cluster.namesrv_address, topic, 2) as stage:
        for number in range(5):
            stage.member(f"m{number}")
        stage.settled(4)

        found = stage.found("members")

        assert f"{topic} has 4 queues" in found["message"]
        assert f"pyromq topic create {topic} --queues 3 -n {stage.name_server}" in found["do"].splitlines()
        stage.obey(found)
        stage.is_cured("members")


def test_groups_are_found_by_a_topic_that_they_read(stage: GroupStage) -> None:
    stage.member("one")
    stage.member("other", tags="paid")
    stage.settled(4)
    words = ("doctor", "--only", "subscriptions", "--json", "--topic")

    assert f"members of group {stage.group} subscribe differently" in stage.typed(*words, stage.topic).output
    assert stage.typed(*words, "elsewhere").exit_code == 0


def test_members_that_begin_at_different_places_are_only_noted(stage: GroupStage) -> None:
    stage.member("one")
    stage.member("other", consume_from=ConsumeFrom.LAST_OFFSET)
    stage.settled(4)

    said = stage.ask("--only", "subscriptions")

    (found,) = said.findings
    assert (said.status, found["severity"]) == (0, "note")
    assert "CONSUME_FROM_LAST_OFFSET: " in found["message"]


def test_queues_are_not_called_left_at_one_look_while_members_come(stage: GroupStage) -> None:
    (first, *_) = stage.producer.queues(stage.topic)
    stage.member("one", allocate=by_config([first]))
    stage.settled(1)

    assert stage.ask("--only", "members", watch_s=0).findings == []
