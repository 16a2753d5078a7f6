"""What `pyromq doctor` finds of groups that are behind, of what is deleted unread, and of what fails."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dead_letter_stage import undertaker
from doctor_group_stage import Finding, GroupStage, Third, group_stage
from late_clock import long_running_cluster
from push_stage import own

from pyromq import Message, PullConsumer, ReceivedMessage
from pyromq.config.namesrv_settings import NamesrvSettings
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    # What fails comes again at once.
    with long_running_cluster(message_delay_level=" ".join(["1s"] * 18)) as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic, queues=1) as stage:
        yield stage


def commit(stage: GroupStage, offset: int) -> None:
    """Let the group be at an offset, without members."""
    stage.admin.update_group(SubscriptionGroupConfig(group_name=stage.group))
    with PullConsumer(stage.group, stage.name_server) as consumer:
        for queue in consumer.queues(stage.topic):
            consumer.commit(queue, offset)


# Lag --------------------------------------------------------------------------------------------------


def test_a_group_that_nobody_reads_for_is_found_while_messages_come(stage: GroupStage) -> None:
    stage.send(3)
    commit(stage, 1)
    with stage.sending(stage.producer.queues(stage.topic)[0]):
        found = stage.found("lag", severity="warning")

    assert found["message"].startswith(f"nobody reads for group {stage.group}: it has no member, ")
    assert found["facts"]["in_a_second"] > 0
    assert f"pyromq group delete {stage.group} -n {stage.name_server}" in found["do"].splitlines()

    stage.obey(found, (" -n ", " --yes -n "))

    assert stage.ask("--only", "lag").findings == []


def test_a_group_that_was_left_behind_a_quiet_topic_is_only_noted(stage: GroupStage) -> None:
    stage.send(3)
    commit(stage, 1)

    said = stage.ask("--only", "lag")

    (found,) = said.findings
    assert (said.status, found["severity"]) == (0, "note")
    assert found["message"] == (
        "1 group without members has unread messages in topics that nothing comes into: "
        f"{stage.group} (2 messages of {stage.topic})"
    )


def test_a_broker_that_began_just_now_does_not_know_yet_who_reads(tmp_path: Path, topic: str) -> None:
    with (
        running_cluster(data_dir=tmp_path) as cluster,
        group_stage(cluster.namesrv_address, topic, queues=1) as stage,
    ):
        stage.send(3)
        commit(stage, 1)
        with stage.sending(stage.producer.queues(topic)[0]):
            found = stage.found("lag")

        assert (found["severity"], found["subject"]) == ("note", f"group {stage.group}")
        assert "with unread messages has members is not known yet: " in found["message"]
        assert "broker-a began " in found["message"]
        assert list(found["facts"]["running_seconds"]) == ["broker-a"]
        assert f"pyromq doctor --only lag -g {stage.group} -n {stage.name_server}" in found["do"]


class Pace:
    """A listener that takes its time for each message, until it may hurry."""

    def __init__(self) -> None:
        self.may_hurry = threading.Event()

    def __call__(self, _message: ReceivedMessage) -> None:
        self.may_hurry.wait(0.05)


def test_a_group_that_falls_behind_is_told_how_fast(stage: GroupStage) -> None:
    pace = Third()
    consumer = stage.member("one", pace, consume_thread_min=1)
    queue = eventually(lambda: own(consumer, stage.topic))[0]

    def falls_behind() -> Finding | None:
        findings = stage.ask("--only", "lag", watch_s=0.6).of("lag")
        return next((one for one in findings if one["facts"]["out_a_second"] > 0), None)

    with stage.sending(queue, pace.sent):
        found = eventually(falls_behind, stage.patience_s)

    assert found is not None
    assert found["severity"] == "warning"
    assert found["message"].startswith(f"group {stage.group} is ")
    assert f" behind in {stage.topic} and falls back further: " in found["message"]
    facts = found["facts"]
    assert facts["in_a_second"] > facts["out_a_second"] > 0
    assert facts["catches_up_in_s"] is None
    assert f"pyromq topic create {stage.topic} --queues 2 -n {stage.name_server}" in found["do"]
    pace.may_hurry.set()
    stage.is_cured("lag")


def test_a_group_that_catches_up_is_noted_with_how_long_it_takes(stage: GroupStage) -> None:
    pace = Pace()
    stage.send(400)
    stage.member("one", pace, consume_thread_min=1)

    found = stage.found("lag", watch_s=0.3, severity="note")

    assert " and catches up in about " in found["message"]
    assert found["facts"]["catches_up_in_s"] > 0
    pace.may_hurry.set()
    stage.is_cured("lag")


def test_a_queue_whose_listener_hangs_is_no_second_finding(stage: GroupStage) -> None:
    is_open = threading.Event()
    stage.member("one", lambda _message: is_open.wait(30) and None, consume_thread_min=1)
    stage.send(5)
    stage.found("listeners")

    # This machine's disk is as full as it is.
    said = stage.ask("--skip", "disks")

    assert [one["check"] for one in said.findings] == ["listeners"]
    is_open.set()


# What is deleted --------------------------------------------------------------------------------------


@pytest.fixture
def aging(tmp_path: Path, topic: str, clock: ManualClock) -> Iterator[GroupStage]:
    """A cluster with a clock of its own and log files of 64 KiB."""
    with (
        running_cluster(
            data_dir=tmp_path,
            clock=clock,
            # A name server must not believe that a broker is gone because hours pass in a moment.
            namesrv=NamesrvSettings(scan_not_active_broker_interval=HOUR_MS),
            mapped_file_size_commit_log=64 * 1024,
            file_reserved_time=48,
        ) as cluster,
        group_stage(cluster.namesrv_address, topic, queues=1) as stage,
    ):
        yield stage


def test_messages_that_are_soon_deleted_unread_are_told_of_in_time(
    aging: GroupStage, clock: ManualClock
) -> None:
    aging.send(3)
    commit(aging, 1)
    assert aging.ask("--only", "retention").findings == []
    clock.advance(45 * HOUR_MS)

    found = aging.found("retention")

    assert found["severity"] == "warning"
    assert found["message"] == (
        f"2 messages of {aging.topic} that group {aging.group} has not read are deleted within 3 hours"
    )

    aging.obey(found, (" --watch 2", ""))

    aging.is_cured("retention")


def test_messages_that_were_deleted_unread_are_counted(aging: GroupStage, clock: ManualClock) -> None:
    aging.producer.send(Message(aging.topic, b"read"))
    for _ in range(4):
        aging.producer.send(Message(aging.topic, os.urandom(30_000)))
    commit(aging, 1)
    clock.advance(49 * HOUR_MS)
    aging.producer.send(Message(aging.topic, b"new"))
    assert aging.typed("admin", "deleteExpiredCommitLog").exit_code == 0

    def deleted() -> list[dict[str, object]]:
        return [one for one in aging.ask("--only", "retention").findings if "were deleted" in one["message"]]

    (found,) = eventually(deleted, 20)

    # One that is stopped loses nothing that it would have read now.
    assert found["severity"] == "note"
    assert str(found["message"]).endswith(
        f"of {aging.topic} were deleted before group {aging.group} read them"
    )
    aging.obey(found, (" --to first", " --to first --yes"))
    eventually(lambda: not deleted(), 20)


# What fails -------------------------------------------------------------------------------------------


def test_dead_letters_are_noted_and_a_warning_while_they_become_more(
    cluster: ThreadCluster, stage: GroupStage
) -> None:
    stage.send(1)
    commit(stage, 1)
    with undertaker(cluster.namesrv_address, cluster.broker_addresses) as grave:
        grave.bury(stage.group, stage.topic, b"bad")

        said = stage.ask("--only", "retries")

        (found,) = said.findings
        assert (said.status, found["severity"]) == (0, "note")
        assert found["message"].startswith(f"group {stage.group} has 1 dead letter, the last one of ")
        stage.obey(found)

        is_over = threading.Event()

        def bury() -> None:
            while not is_over.wait(0.01):
                grave.bury(stage.group, stage.topic, b"bad")

        digging = threading.Thread(target=bury)
        digging.start()
        try:
            found = stage.found("retries", severity="warning")
        finally:
            is_over.set()
            digging.join()

    assert "of them since the doctor watches" in found["message"]


def test_listeners_that_fail_for_many_messages_are_found(stage: GroupStage) -> None:
    def handle(message: ReceivedMessage) -> None:
        if message.body == b"0":
            raise ValueError("no such account")

    stage.member("one", handle)
    stage.send(4)

    found = stage.found("retries", severity="warning")

    assert found["message"].startswith(f"listeners of group {stage.group} fail for ")
    assert found["facts"]["failed_a_second"] > 0
    stage.obey(found)
