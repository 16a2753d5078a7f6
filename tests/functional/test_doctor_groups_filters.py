"""What `pyromq doctor` finds of filters that let nothing through."""

from collections.abc import Iterator

import pytest
from doctor_group_stage import GroupStage, group_stage

from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster(enable_property_filter=True) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic) as stage:
        yield stage


def test_tags_that_no_message_has_are_told_with_those_that_are_there(stage: GroupStage) -> None:
    stage.send(9, tags="paid")
    stage.send(3)
    consumer = stage.member("one", tags="Paid || sent")
    stage.settled(4)

    found = stage.found("filters")

    assert found["severity"] == "warning"
    assert found["message"] == (
        f"none of the last 12 messages of {stage.topic} is for group {stage.group} (tags: Paid || sent); "
        "tags there: paid (9), no tag (3); is paid meant?"
    )
    assert found["facts"]["tags"] == {"paid": 9, "": 3}

    consumer.subscribe(stage.topic, "paid || sent")

    stage.is_cured("filters")


def test_one_message_in_the_tail_of_any_queue_is_enough(stage: GroupStage) -> None:
    stage.send(40, tags="paid")
    stage.send(1, tags="sent")
    stage.member("one", tags="sent")
    stage.settled(4)

    assert stage.ask("--only", "filters").findings == []


def test_a_tag_that_was_last_seen_long_ago_does_not_count(stage: GroupStage) -> None:
    stage.send(4, tags="sent")
    stage.send(4 * 32, tags="paid")
    stage.member("one", tags="sent")

    found = stage.found("filters")

    assert found["message"].startswith(f"none of the last 128 messages of {stage.topic} ")
    assert "meant?" not in found["message"]


def test_sql_that_no_message_matches_is_told_with_the_properties_that_are_there(stage: GroupStage) -> None:
    stage.send(12, properties={"amount": "7", "region": "north"})
    consumer = stage.member("one", sql="amount > 100")
    stage.settled(4)

    found = stage.found("filters")

    assert found["message"] == (
        f"none of the last 12 messages of {stage.topic} is for group {stage.group} (SQL: amount > 100); "
        "properties there: amount in 12, region in 12"
    )
    consumer.subscribe(stage.topic, sql="amount > 5")
    stage.is_cured("filters")


def test_a_few_messages_say_nothing_about_a_filter(stage: GroupStage) -> None:
    stage.send(9, tags="paid")
    stage.member("one", tags="sent")
    eventually(lambda: stage.admin.consumer_connections(stage.group).subscriptions[stage.topic])

    assert stage.ask("--only", "filters").findings == []
