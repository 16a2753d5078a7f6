"""What `pyromq doctor` finds of queues that do not move: who has them, and where its listener is."""

import asyncio
import re
import threading
from collections.abc import Iterator

import pytest
from doctor_group_stage import GroupStage, group_stage
from push_stage import FIRST, QUICK, own

import pyromq
from pyromq import ConsumeResult, Message, ReceivedMessage, aio
from pyromq.codes import RequestCode, ResponseCode
from pyromq.config.settings import NetSettings
from pyromq.net.blocking import BlockingLinks
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import aeventually, eventually
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, Heartbeat, Subscription, encode_heartbeat
from pyromq.wire.bodies.lock_bodies import LockBatch, encode_lock_batch
from pyromq.wire.command import Command


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    with running_cluster() as cluster:
        yield cluster


@pytest.fixture
def stage(cluster: ThreadCluster, topic: str) -> Iterator[GroupStage]:
    with group_stage(cluster.namesrv_address, topic) as stage:
        yield stage


class Gate:
    """A listener that lets messages through once it is opened; at first it may let some through."""

    def __init__(self, stops_at: bytes | None = None) -> None:
        self.is_open = threading.Event()
        self.is_stopping = threading.Event()
        self._stops_at = stops_at

    def __call__(self, message: ReceivedMessage) -> None:
        if self._stops_at in (None, message.body):
            self.wait_for_the_database()

    def wait_for_the_database(self) -> None:
        self.is_stopping.set()
        self.is_open.wait(30)


def test_a_listener_that_hangs_is_shown_with_its_stack(stage: GroupStage) -> None:
    gate = Gate()
    consumer = stage.member("one", gate)
    stage.settled(4)
    queue = own(consumer, stage.topic)[0]
    stage.producer.send(Message(stage.topic, b"stuck"), queue=queue)
    assert gate.is_stopping.wait(10)

    found = stage.found("listeners")

    assert found["severity"] == "warning"
    assert found["message"].startswith(
        f"the listener of member {consumer.client_id} of group {stage.group}, at 127.0.0.1:"
    )
    assert found["message"].endswith(
        f"with 1 message in hand: {stage.topic} broker-a:{queue.queue_id} at offset 0"
    )
    thread = found["facts"]["thread"]
    assert thread["name"] == f"pyromq-listener-{stage.group}-1"
    assert [call.rpartition(", in ")[2] for call in thread["calls"]][:2] == [
        "__call__: self.wait_for_the_database()",
        "wait_for_the_database: self.is_open.wait(30)",
    ]
    assert "MainThread" in found["facts"]["stacks"]
    stage.obey(found)
    gate.is_open.set()
    stage.is_cured("listeners")


def test_the_stack_is_printed_for_people(stage: GroupStage) -> None:
    gate = Gate()
    stage.member("one", gate)
    stage.send(1)
    assert gate.is_stopping.wait(10)
    stage.found("listeners")

    shown = stage.typed("doctor", "-g", stage.group, "--watch", "0.2", "--only", "listeners")

    assert shown.exit_code == 1
    assert f"thread pyromq-listener-{stage.group}-1:" in shown.output
    assert "in wait_for_the_database: self.is_open.wait(30)" in shown.output
    gate.is_open.set()


async def test_a_coroutine_that_hangs_is_shown_with_where_it_awaits(stage: GroupStage) -> None:
    is_open = asyncio.Event()
    is_stopping = asyncio.Event()

    async def answer_of_the_service() -> None:
        is_stopping.set()
        await is_open.wait()

    async def handle(_message: ReceivedMessage) -> None:
        await answer_of_the_service()

    consumer = aio.PushConsumer(stage.group, stage.name_server, listener=handle, **QUICK, **FIRST)
    consumer.subscribe(stage.topic)
    async with consumer:
        await asyncio.to_thread(stage.send, 1)
        await asyncio.wait_for(is_stopping.wait(), 10)

        found = await asyncio.to_thread(stage.found, "listeners")

        calls = [call.rpartition(", in ")[2] for call in found["facts"]["thread"]["calls"]]
        assert calls[:2] == [
            "handle: await answer_of_the_service()",
            "answer_of_the_service: await is_open.wait()",
        ]
        is_open.set()
        await aeventually(lambda: asyncio.to_thread(lambda: not stage.ask("--only", "listeners").findings))


def test_one_message_that_holds_up_progress_is_told_from_a_listener_that_hangs(stage: GroupStage) -> None:
    gate = Gate(stops_at=b"stuck")
    consumer = stage.member("one", gate)
    stage.settled(4)
    queue = own(consumer, stage.topic)[0]
    stage.producer.send(Message(stage.topic, b"stuck"), queue=queue)
    assert gate.is_stopping.wait(10)
    with stage.sending(queue):
        found = stage.found("listeners")

    assert found["severity"] == "warning"
    assert f"one message holds up member {consumer.client_id} of group {stage.group}" in found["message"]
    assert found["message"].endswith(f"{stage.topic} broker-a:{queue.queue_id} at offset 0")
    assert f"pyromq message at {stage.topic} broker-a:{queue.queue_id} 0" in found["do"]
    stage.obey(found)
    gate.is_open.set()
    stage.is_cured("listeners")


def test_a_message_that_always_fails_in_order_is_found_and_can_be_passed(stage: GroupStage) -> None:
    is_mended = threading.Event()

    def handle(_message: ReceivedMessage) -> ConsumeResult:
        return ConsumeResult.SUCCESS if is_mended.is_set() else ConsumeResult.RECONSUME_LATER

    consumer = stage.member("one", handle, order="orderly")
    stage.settled(4)
    queue = own(consumer, stage.topic)[0]
    stage.producer.send(Message(stage.topic, b"bad"), queue=queue)

    found = stage.found("listeners")

    assert "gets the same message again and again, in order" in found["message"]
    assert (
        f"pyromq group reset {stage.group} -t {stage.topic} --to 1 --queue broker-a:{queue.queue_id} "
        f"-n {stage.name_server}"
    ) in found["do"].splitlines()
    is_mended.set()
    stage.is_cured("listeners")


def test_a_suspended_member_is_found_until_it_is_resumed(stage: GroupStage) -> None:
    consumer = stage.member("one")
    stage.settled(4)
    stage.send(4)
    stage.has_read(4)
    consumer.suspend()
    # What is asked for already is still brought.
    stage.send(4)
    stage.send(8)

    found = stage.found("listeners")

    assert found["severity"] == "warning"
    assert re.search(
        rf"does not fetch the \d+ messages of 4 queues: {stage.topic} broker-a:0 from offset \d, ",
        found["message"],
    )
    assert "consumer.resume()" in found["do"]
    stage.obey(found)
    consumer.resume()
    stage.is_cured("listeners")


def test_a_group_that_is_switched_off_is_told_from_a_suspended_one(stage: GroupStage) -> None:
    stage.member("one")
    stage.settled(4)
    stage.send(4)
    stage.has_read(4)
    stage.admin.update_group(SubscriptionGroupConfig(group_name=stage.group, consume_enable=False))
    stage.send(8)

    found = stage.found("listeners")

    assert found["why"].endswith(f"group {stage.group} is switched off at broker-a (consumeEnable=false)")
    stage.obey(found)
    stage.is_cured("listeners")


def test_a_queue_whose_lock_somebody_else_has_is_found(cluster: ThreadCluster, stage: GroupStage) -> None:
    consumer = stage.member("one", order="orderly")
    stage.settled(4)
    queue = own(consumer, stage.topic)[0]
    links = BlockingLinks(NetSettings())

    def tell(code: RequestCode, client_id: str) -> None:
        batch = LockBatch(consumer_group=stage.group, client_id=client_id, queues=[queue])
        answer = links.request(cluster.broker_addresses[0], Command(code, body=encode_lock_batch(batch)), 10)
        assert answer.code == ResponseCode.SUCCESS

    try:
        tell(RequestCode.UNLOCK_BATCH_MQ, consumer.client_id)
        tell(RequestCode.LOCK_BATCH_MQ, "ghost")
        assert stage.found("listeners")["severity"] == "warning"
        stage.producer.send(Message(stage.topic, b"late"), queue=queue)
        found = stage.found("listeners", severity="problem")

        assert found["message"].endswith(
            f"does not hold the locks of 1 queue: {stage.topic} broker-a:{queue.queue_id}"
        )
        stage.obey(found)
        tell(RequestCode.UNLOCK_BATCH_MQ, "ghost")
        stage.is_cured("listeners")
    finally:
        links.close()


def test_a_member_that_does_not_say_what_it_does_is_noted(cluster: ThreadCluster, stage: GroupStage) -> None:
    mute = BlockingLinks(NetSettings())
    try:
        part = ConsumerPart(group_name=stage.group, subscriptions=[Subscription(topic=stage.topic)])
        beat = encode_heartbeat(Heartbeat(client_id="mute", consumers=[part]))
        mute.request(cluster.broker_addresses[0], Command(RequestCode.HEART_BEAT, body=beat), 10)

        said = stage.ask("--only", "listeners")
    finally:
        mute.close()

    (found,) = said.findings
    assert (said.status, found["severity"]) == (0, "note")
    assert found["message"].startswith(f"member mute of group {stage.group}, at 127.0.0.1:")
    assert "does not say what it does: " in found["message"]


def test_a_pull_consumer_that_is_not_polled_is_found(stage: GroupStage) -> None:
    with pyromq.PullConsumer(stage.group, stage.name_server, start_from=FIRST["consume_from"]) as consumer:
        consumer.subscribe(stage.topic)
        stage.send(4)
        eventually(lambda: consumer.poll(timeout_ms=100))
        stage.send(4)

        found = stage.found("listeners")

        assert found["message"].startswith("the application of member ")
        assert f"of group {stage.group}, at 127.0.0.1:" in found["message"]


def test_a_pull_consumer_that_is_polled_is_well_though_it_commits_only_now_and_then(
    stage: GroupStage,
) -> None:
    with pyromq.PullConsumer(stage.group, stage.name_server, start_from=FIRST["consume_from"]) as consumer:
        consumer.subscribe(stage.topic)
        stage.send(4)
        got: list[ReceivedMessage] = []
        eventually(lambda: got.extend(consumer.poll(timeout_ms=100)) or len(got) == 4)
        for queue in stage.producer.queues(stage.topic):
            consumer.commit(queue, 1)
        stage.send(4)
        eventually(lambda: got.extend(consumer.poll(timeout_ms=100)) or len(got) == 8)

        assert stage.ask("--only", "listeners", "--only", "lag").findings == []
