"""`pyromq doctor --topic`: of a group that reads several topics only what concerns the one."""

import threading
from collections.abc import Iterator

import pytest
from dead_letter_stage import undertaker
from doctor_group_stage import GroupStage, group_stage
from late_clock import long_running_cluster
from push_stage import own

from pyromq import Message, PullConsumer, ReceivedMessage
from pyromq.client.consumer.allocation import by_config
from pyromq.testing.cluster import ThreadCluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with long_running_cluster(subscription_conflict_grace=0) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic, queues=2) as stage:
        stage.admin.create_topic(other(stage), queue_count=2)
        yield stage


def other(stage: GroupStage) -> str:
    """The group's other topic, which is ill."""
    return f"{stage.topic}-other"


def is_of_the_other_only(stage: GroupStage, *checks: str, watch_s: float = 0.2) -> None:
    """Wait until checks find something in the other topic, and see that they find nothing in the first."""
    only = [word for check in checks for word in ("--only", check)]

    def found() -> bool:
        said = stage.ask("--topic", other(stage), *only, watch_s=watch_s)
        return {one["check"] for one in said.findings} == set(checks)

    eventually(found, 20, what=f"findings of {checks} in the other topic")
    assert stage.ask("--topic", stage.topic, *only, watch_s=watch_s).findings == []


def test_members_may_differ_in_another_topic(stage: GroupStage) -> None:
    stage.member("one").subscribe(other(stage), "paid")
    stage.member("two").subscribe(other(stage), "sent")
    stage.settled(2)

    is_of_the_other_only(stage, "subscriptions")


def test_another_topic_may_be_missing(stage: GroupStage) -> None:
    consumer = stage.member("one")
    consumer.subscribe(f"{stage.topic}-misspelt")

    eventually(lambda: stage.ask("--only", "subscriptions").findings, 20)

    assert stage.ask("--only", "subscriptions", "--topic", stage.topic).findings == []


def test_queues_of_another_topic_may_be_left_and_its_filter_match_nothing(stage: GroupStage) -> None:
    first = stage.producer.queues(stage.topic)
    left = stage.producer.queues(other(stage))
    for queue in left:
        for _ in range(6):
            stage.producer.send(Message(other(stage), b"sent", tags="sent"), queue=queue)
    consumer = stage.member("one", allocate=by_config([*first, left[0]]))
    consumer.subscribe(other(stage), "paid")

    is_of_the_other_only(stage, "members", "filters")


def test_a_listener_may_hang_in_another_topic(stage: GroupStage) -> None:
    is_open = threading.Event()

    def listen(message: ReceivedMessage) -> None:
        if message.topic == other(stage):
            is_open.wait(30)

    consumer = stage.member("one", listen)
    consumer.subscribe(other(stage))
    eventually(lambda: len(own(consumer, other(stage))) == 2)
    stage.producer.send(Message(other(stage), b"stuck"))
    try:
        is_of_the_other_only(stage, "listeners")
    finally:
        is_open.set()


def test_a_group_may_be_behind_in_another_topic_and_have_dead_letters_of_it(
    cluster: ThreadCluster, stage: GroupStage
) -> None:
    stage.typed("group", "create", stage.group)
    stage.send(1)
    stage.producer.send(Message(other(stage), b"unread"))
    with PullConsumer(stage.group, stage.name_server) as consumer:
        for queue in (*consumer.queues(stage.topic), *consumer.queues(other(stage))):
            consumer.commit(queue, 0 if queue.topic == other(stage) else consumer.max_offset(queue))
    with undertaker(cluster.namesrv_address, cluster.broker_addresses) as grave:
        grave.bury(stage.group, other(stage), b"bad")

    is_of_the_other_only(stage, "lag", "retries")
