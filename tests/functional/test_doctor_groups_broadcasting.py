"""What `pyromq doctor` finds in broadcasting groups, whose members alone know how far they are."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from doctor_group_stage import Finding, GroupStage, Third, group_stage
from late_clock import long_running_cluster
from push_stage import Handler, own

import pyromq
from pyromq import ReceivedMessage
from pyromq.codes import RequestCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster
from pyromq.testing.waiting import eventually
from pyromq.wire.bodies.heartbeat_bodies import (
    ConsumerPart,
    Heartbeat,
    MessageModel,
    Subscription,
    encode_heartbeat,
)
from pyromq.wire.command import Command


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with long_running_cluster() as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic, queues=1) as stage:
        yield stage


@pytest.fixture
def broadcasting(tmp_path: Path) -> dict[str, str]:
    return {"model": "broadcasting", "local_offset_store_dir": str(tmp_path)}


class Pace:
    """A listener that takes its time for each message, until it may hurry."""

    def __init__(self) -> None:
        self.may_hurry = threading.Event()

    def __call__(self, _message: ReceivedMessage) -> None:
        self.may_hurry.wait(0.05)


def ready(stage: GroupStage, consumer: pyromq.PushConsumer) -> None:
    eventually(lambda: own(consumer, stage.topic))


def test_members_that_read_all_have_no_finding(stage: GroupStage, broadcasting: dict[str, str]) -> None:
    handlers = {name: Handler() for name in ("one", "two")}
    for name, handler in handlers.items():
        ready(stage, stage.member(name, handler, **broadcasting))
    stage.send(8)
    eventually(lambda: all(len(handler.got) == 8 for handler in handlers.values()))

    # This machine's disk is as full as it is.
    said = stage.ask("--skip", "disks")

    assert (said.status, said.findings, said.could_not) == (0, [], [])


def test_the_one_member_that_falls_behind_is_named_with_how_fast(
    stage: GroupStage, broadcasting: dict[str, str]
) -> None:
    pace = Third()
    ready(stage, stage.member("quick", **broadcasting))
    slow = stage.member("slow", pace, consume_thread_min=1, **broadcasting)
    ready(stage, slow)

    def falls_behind() -> Finding | None:
        findings = stage.ask("--only", "lag", watch_s=0.6).of("lag")
        return next((one for one in findings if is_moving(one)), None)

    def is_moving(finding: Finding) -> bool:
        members = finding["facts"]["members"]
        return [one["client"] for one in members] == [slow.client_id] and members[0]["out_a_second"] > 0

    with stage.sending(stage.producer.queues(stage.topic)[0], pace.sent):
        found = eventually(falls_behind, stage.patience_s)

    assert found is not None
    assert found["severity"] == "warning"
    assert found["message"].startswith(f"member {slow.client_id} of broadcasting group {stage.group} is ")
    assert f" behind in {stage.topic} and falls back further: " in found["message"]
    (member,) = found["facts"]["members"]
    assert member["client"] == slow.client_id
    assert member["in_a_second"] > member["out_a_second"] > 0
    assert f"pyromq admin consumerStatus -g {stage.group} -i {slow.client_id} -n" in found["do"]
    stage.obey(found)
    pace.may_hurry.set()
    stage.is_cured("lag")


def test_members_that_catch_up_are_noted_together(stage: GroupStage, broadcasting: dict[str, str]) -> None:
    pace = Pace()
    stage.send(400)
    for name in ("one", "two"):
        ready(stage, stage.member(name, pace, consume_thread_min=1, **broadcasting))

    def both() -> str | None:
        (message,) = [one["message"] for one in stage.ask("--only", "lag").findings] or [""]
        return message if message.startswith("2 of the 2 members") else None

    message = eventually(both, 20)

    assert f" of broadcasting group {stage.group} are behind in {stage.topic}: " in message
    assert "The first catches up in about " in message
    pace.may_hurry.set()
    stage.is_cured("lag")


def test_a_suspended_member_is_found_though_another_reads_on(
    stage: GroupStage, broadcasting: dict[str, str]
) -> None:
    handler = Handler()
    ready(stage, stage.member("awake", handler, **broadcasting))
    asleep = stage.member("asleep", **broadcasting)
    ready(stage, asleep)
    stage.send(4)
    eventually(lambda: len(handler.got) == 4)
    eventually(lambda: stage.ask("--only", "lag").findings == [], 20)
    asleep.suspend()
    # What is asked for already is still brought.
    stage.send(4)
    stage.send(8)

    found = stage.found("listeners")

    assert found["message"].startswith(f"member {asleep.client_id} of group {stage.group}, at 127.0.0.1:")
    assert found["why"].startswith("the others go on, for each reads all; ")
    asleep.resume()
    stage.is_cured("listeners")


def test_a_member_that_does_not_say_how_far_it_is_is_noted(cluster: ThreadCluster, stage: GroupStage) -> None:
    mute = BlockingLinks(NetSettings())
    try:
        part = ConsumerPart(
            group_name=stage.group,
            message_model=MessageModel.BROADCASTING,
            subscriptions=[Subscription(topic=stage.topic)],
        )
        beat = encode_heartbeat(Heartbeat(client_id="mute", consumers=[part]))
        mute.request(cluster.broker_addresses[0], Command(RequestCode.HEART_BEAT, body=beat), 10)

        said = stage.ask("--only", "lag", "--only", "listeners")
    finally:
        mute.close()

    (found,) = said.findings
    assert (said.status, found["check"], found["severity"]) == (0, "lag", "note")
    assert found["message"].startswith(
        f"how far 1 member of broadcasting groups got is not known: mute of group {stage.group} ("
    )
