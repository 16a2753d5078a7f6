"""Push consumers that are full, that operators look at, and their states."""

import asyncio
import subprocess
import sys
import textwrap
import threading
from typing import Any

import pytest
from client_faces import Face
from push_stage import FIRST, QUICK, Handler, ask, own

import pyromq
from pyromq import (
    AlreadyStarted,
    ClientClosed,
    ConfigError,
    Message,
    aio,
)
from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.cluster import ThreadCluster
from pyromq.testing.waiting import aeventually, eventually
from pyromq.wire.bodies.running_info import DirectResult, decode_direct_consumption, decode_running_state

# Full, and watched ---------------------------------------------------------------------------------------


def running(cluster: ThreadCluster, group: str, client_id: str, *, stacks: bool = False):
    answer = ask(
        cluster,
        RequestCode.GET_CONSUMER_RUNNING_INFO,
        {"consumerGroup": group, "clientId": client_id, "jstackEnable": str(stacks).lower()},
    )
    assert answer.code == ResponseCode.SUCCESS, answer.remark
    return decode_running_state(answer.body)


@pytest.mark.row("CO-07", "RT-14")
def test_pulling_stops_when_too_much_waits_and_an_operator_sees_it(
    cluster, address, topic, group, producer, queues
) -> None:
    for _ in range(60):
        producer.send(Message(topic, b"x"), queue=queues[0])
    is_free = threading.Event()
    handler = Handler(lambda _message: is_free.wait(60) and None)
    with pyromq.PushConsumer(
        group,
        address,
        listener=handler,
        pull_threshold_for_queue=10,
        pull_batch_size=4,
        consume_thread_min=2,
        **QUICK,
        **FIRST,
    ) as consumer:
        consumer.subscribe(topic)
        client_id = consumer.client_id
        eventually(lambda: queues[0] in consumer.assignment())
        eventually(lambda: running(cluster, group, client_id).queues[queues[0]].cached_msg_count == 12)
        state = running(cluster, group, client_id, stacks=True)
        # Whoever pulled on would have more by now.
        assert state.queues[queues[0]].cached_msg_count == 12
        is_free.set()
        eventually(lambda: len(handler.got) == 60)

    assert state.queues[queues[0]].cached_msg_min_offset == 0
    assert state.properties["PROP_CONSUME_TYPE"] == "CONSUME_PASSIVELY"
    assert state.properties["PROP_CONSUMEORDERLY"] == "false"
    assert {wanted.topic for wanted in state.subscriptions} == {topic, f"%RETRY%{group}"}
    assert "pyromq-listener" in (state.stacks or "")


@pytest.mark.row("CO-08")
def test_an_operator_sees_how_many_listeners_may_run(
    face: Face, cluster, address, topic, group, producer, queues
) -> None:
    consumer = face.PushConsumer(
        group, address, listener=print, consume_thread_min=2, consume_thread_max=4, **QUICK
    )
    with consumer:
        consumer.subscribe(topic)

        client_id = consumer.client_id

        def shown() -> str:
            return running(cluster, group, client_id).properties["PROP_THREADPOOL_CORE_SIZE"]

        eventually(consumer.assignment)
        assert shown() == "2"
        consumer.update_core_pool_size(4)
        assert shown() == "4"
        for size in (0, 5):
            with pytest.raises(ConfigError, match="at least 1 and at most 4"):
                consumer.update_core_pool_size(size)


def test_a_listener_that_closes_its_consumer_is_told_how_to(
    face: Face, address, topic, group, producer
) -> None:
    producer.send(Message(topic, b"x"))
    told = threading.Event()
    if face.is_blocking:

        def listen(_message) -> None:
            with pytest.raises(RuntimeError, match="let the listener tell another thread or task"):
                consumer.close()
            told.set()

        consumer: Any = pyromq.PushConsumer(group, address, listener=listen, **QUICK, **FIRST)
        with consumer:
            consumer.subscribe(topic)
            assert told.wait(20)
        return

    async def main() -> None:
        async def listen(_message) -> None:
            with pytest.raises(RuntimeError, match="let the listener tell another thread or task"):
                await consumer.close()
            told.set()

        async with aio.PushConsumer(group, address, listener=listen, **QUICK, **FIRST) as consumer:
            consumer.subscribe(topic)
            await aeventually(told.is_set)

    asyncio.run(main())


def test_an_operator_can_have_a_message_consumed(
    face: Face, cluster, address, topic, group, producer, queues
) -> None:
    result = producer.send(Message(topic, b"again"))
    handler = Handler(lambda message: len(handler.got) != 2)
    with face.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: len(handler.got) == 1)
        asked = {
            "consumerGroup": group,
            "clientId": consumer.client_id,
            "msgId": result.offset_message_id,
            "brokerName": "broker-a",
        }
        results = [
            decode_direct_consumption(ask(cluster, RequestCode.CONSUME_MESSAGE_DIRECTLY, asked).body)
            for _ in range(2)
        ]

    assert [result.consume_result for result in results] == [DirectResult.LATER, DirectResult.SUCCESS]
    assert handler.bodies == [b"again"] * 3


def test_an_operator_sees_how_far_members_are(
    face: Face, cluster, address, topic, group, producer, queues
) -> None:
    for _ in range(3):
        producer.send(Message(topic, b"x"), queue=queues[1])
    with face.PushConsumer(group, address, listener=Handler(), **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        eventually(lambda: own(consumer, topic) == queues)
        asked = {"topic": topic, "group": group, "clientAddr": consumer.client_id}

        def status() -> bytes:
            return ask(cluster, RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, asked).body

        eventually(lambda: b'"queueId":1,' in status() and b":3" in status())


# States --------------------------------------------------------------------------------------------------


def test_a_consumer_starts_once_and_is_closed_once(face: Face, address, topic, group) -> None:
    consumer = face.PushConsumer(group, address, listener=Handler(), **QUICK)
    with pytest.raises(ClientClosed, match="not started"):
        consumer.suspend()
    consumer.start()
    with pytest.raises(AlreadyStarted):
        consumer.start()
    consumer.close()
    consumer.close()
    with pytest.raises(ClientClosed, match="closed"):
        consumer.start()


def test_two_members_of_a_group_need_two_client_ids(face: Face, address, group) -> None:
    def new(name: str) -> Any:
        return face.PushConsumer(group, address, listener=Handler(), instance_name=name, **QUICK)

    with new("same"):
        twin = new("same")
        with pytest.raises(AlreadyStarted, match="instance_name"):
            twin.start()
        with new("other"):
            pass
    with twin:
        pass


def test_a_consumer_may_start_before_there_is_anybody_to_talk_to(
    face: Face, group, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = face.PushConsumer(group, "127.0.0.1:1", listener=Handler(), **QUICK)
    consumer.subscribe("orders")
    with consumer:
        assert consumer.assignment() == []

    assert "127.0.0.1:1" in caplog.text


FORKING = """
    import os, sys
    from pyromq import ClientClosed, PushConsumer

    with PushConsumer("group", sys.argv[1], listener=print) as consumer:
        child = os.fork()
        if child == 0:
            try:
                consumer.assignment()
            except ClientClosed as error:
                print(error, flush=True)
            consumer.close()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        print(consumer.assignment())
"""


def test_a_child_of_fork_is_told_to_make_its_own(address) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(FORKING), address],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert ended.returncode == 0, ended.stderr
    assert "make a new one in this one" in ended.stdout, ended.stderr


async def test_an_awaitable_consumer_works_in_its_users_loop(address, topic, group, producer, queues) -> None:
    handler = Handler()
    producer.send(Message(topic, b"x"))
    async with aio.PushConsumer(group, address, listener=handler, **QUICK, **FIRST) as consumer:
        consumer.subscribe(topic)
        await aeventually(lambda: handler.bodies == [b"x"])
