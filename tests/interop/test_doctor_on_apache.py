"""`pyromq doctor` on one of Apache's clusters: what is well, and faults of topics that its advice mends.

A Java machine takes its time on a busy machine: everything that waits does so for minutes before it fails.
"""

import itertools
import os
from collections.abc import Callable

import pytest
from admin_looks import PATIENCE_S
from doctor_stage import DoctorStage
from harness.servers import Cluster

from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(1_200)]

_numbers = itertools.count(1)

#: This machine's disk is as full as it is.
WITHOUT_DISKS = ("--skip", "disks")


@pytest.fixture
def stage(running: Callable[[str], Cluster]) -> DoctorStage:
    return DoctorStage(running("apache-4.9").name_server)


@pytest.fixture
def topic() -> str:
    return f"examined-{os.getpid()}-{next(_numbers)}"


def test_a_healthy_cluster_of_apaches_is_well(stage: DoctorStage, topic: str) -> None:
    stage.typed("topic", "create", topic)

    examined = stage.examine("--topic", topic, "--watch", "0.5", *WITHOUT_DISKS)

    assert (examined.status, examined.found, examined.report["could_not"]) == (0, [], [])
    assert examined.report["checked"]["brokers"] == 1


def test_its_disk_and_its_clock_are_read(stage: DoctorStage) -> None:
    """A mark of one percent is passed by every disk, and this machine has the same clock."""
    stage.typed("cluster", "set", "diskMaxUsedSpaceRatio", "10")
    try:
        (finding,) = stage.examine("--only", "disks", "--only", "clocks").found
    finally:
        stage.typed("cluster", "set", "diskMaxUsedSpaceRatio", "75")

    assert finding["check"] == "disks"
    assert finding["facts"]["percent"] > 0
    assert finding["facts"]["marks"]["diskMaxUsedSpaceRatio"] == 10


def test_faults_of_a_topic_are_found_and_the_advice_mends_them(stage: DoctorStage, topic: str) -> None:
    unread = f"{topic}-unread"
    stage.typed("topic", "create", topic)
    stage.typed("topic", "allow", topic, "read")
    stage.typed("admin", "updateTopic", "-t", unread, "-c", "DefaultCluster", "-r", "2", "-w", "4")
    asked = ("--topic", topic, "--topic", unread, *WITHOUT_DISKS)

    examined = stage.examine(*asked)

    assert examined.status == 1
    assert examined.one(f"topic {topic}")["check"] == "permissions"
    assert examined.one(f"topic {unread}")["check"] == "queues"
    for finding in examined.found:
        stage.follow(finding)
    assert stage.examine(*asked).found == []


def test_a_broker_whose_write_permission_was_wiped_is_found(stage: DoctorStage) -> None:
    stage.typed("admin", "wipeWritePerm", "-b", "broker-a")
    try:
        finding = stage.examine("--only", "permissions").one("broker-a")
        assert "its write permission was wiped" in finding["message"]
        stage.follow(finding)
        eventually(lambda: not stage.examine("--only", "permissions", "--topic", "none").found, PATIENCE_S)
    finally:
        stage.typed("admin", "addWritePerm", "-b", "broker-a")
