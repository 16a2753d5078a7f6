"""What `pyromq doctor` finds of groups that clients use, and that brokers do not have."""

from collections.abc import Iterator

import pytest
from doctor_group_stage import GroupStage, group_stage
from late_clock import long_running_cluster
from push_stage import Handler

from pyromq import PullConsumer
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with long_running_cluster(auto_create_subscription_group=False) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic) as stage:
        yield stage


def test_a_group_that_was_never_created_is_found_by_its_members_and_created(stage: GroupStage) -> None:
    handler = Handler()
    member = stage.member("one", handler)
    stage.send(4)

    found = stage.found("groups")

    assert (found["severity"], found["subject"]) == ("problem", f"group {stage.group}")
    assert found["message"] == (
        f"broker-a does not have group {stage.group}, and refuses the pulls of its 1 member: "
        f"{member.client_id}"
    )
    assert "autoCreateSubscriptionGroup=false" in found["why"]
    assert f"pyromq group create {stage.group} -n {stage.name_server}" in found["do"].splitlines()

    # Not only when it is asked for by name.
    ended = stage.typed("doctor", "--only", "groups", "--json", "--watch", "0")
    assert (ended.exit_code, stage.group in ended.stdout) == (1, True)

    stage.obey(found)

    eventually(lambda: len(handler.got) == 4)
    stage.is_cured("groups")


def test_a_group_that_is_deleted_while_it_consumes_is_found_and_all_else_of_it_is_examined(
    stage: GroupStage,
) -> None:
    stage.typed("group", "create", stage.group)
    stage.member("one")
    stage.settled(4)
    stage.send(4)
    stage.has_read(4)
    assert stage.typed("group", "delete", stage.group, "--keep-offsets", "--yes").exit_code == 0
    stage.member("other", tags="paid")

    def both() -> list[str] | None:
        said = [one["check"] for one in stage.ask("--skip", "disks").findings if one["severity"] == "problem"]
        return said if len(said) == 2 else None

    assert eventually(both, 20) == ["groups", "subscriptions"]


def test_a_group_that_only_one_of_two_brokers_has_is_created_on_the_other_as_it_is(topic: str) -> None:
    with (
        running_cluster(2, auto_create_subscription_group=False) as cluster,
        group_stage(cluster.namesrv_address, topic, 2) as stage,
    ):
        first, second = cluster.broker_addresses
        stage.typed("admin", "updateSubGroup", "-g", stage.group, "-b", first, "-r", "3")
        handler = Handler()
        stage.member("one", handler)
        stage.send(8)

        found = stage.found("groups")

        assert found["facts"]["brokers"] == ["broker-b"]
        assert found["do"].splitlines()[1:] == [
            f"pyromq admin updateSubGroup -g {stage.group} -b {second} -d true -r 3 -n {stage.name_server}"
        ]
        stage.obey(found)
        eventually(lambda: len(handler.got) == 8)
        stage.is_cured("groups")


def test_progress_that_a_deleted_group_left_is_noted_once_and_is_no_lag(stage: GroupStage) -> None:
    stage.send(8)
    with PullConsumer(stage.group, stage.name_server) as consumer:
        for queue in consumer.queues(stage.topic):
            consumer.commit(queue, 1)

    with stage.sending(stage.producer.queues(stage.topic)[0]):
        said = stage.ask("--skip", "disks")

    (found,) = said.findings
    assert (said.status, found["check"], found["severity"]) == (0, "groups", "note")
    assert found["message"] == (
        f"brokers do not have 1 group whose progress they keep: {stage.group} (in {stage.topic})"
    )
    remove, create = [line for line in found["do"].splitlines() if line.startswith("pyromq ")]
    assert create == f"pyromq group create {stage.group} -n {stage.name_server}"
    stage.obey({"do": remove})
    stage.found("subscriptions")
    assert stage.ask("--only", "groups").findings == []
