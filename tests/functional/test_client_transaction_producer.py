"""Transactions: both faces against a cluster in this process whose broker asks soon."""

import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from client_faces import Face, face_of

from pyromq import (
    ClientSettings,
    ConsumeFrom,
    Message,
    MessageIllegal,
    NoRoute,
    Producer,
    PullConsumer,
    ReceivedMessage,
    SendStatus,
    TransactionState,
)
from pyromq.testing.cluster import ThreadCluster, running_cluster
from pyromq.testing.waiting import eventually

COMMIT, ROLLBACK, UNKNOWN = TransactionState.COMMIT, TransactionState.ROLLBACK, TransactionState.UNKNOWN


@pytest.fixture(scope="module")
def cluster() -> Iterator[ThreadCluster]:
    """A cluster whose broker asks after a tenth of a second, and never gives up, however slow a test is."""
    asks_soon = {"transaction_time_out": 100, "transaction_check_interval": 100}
    with running_cluster(**asks_soon, transaction_check_max=1_000_000) as cluster:
        yield cluster


def never(*_: Any) -> TransactionState:
    raise AssertionError("this is not called")


def bodies(address: str, topic: str) -> list[bytes]:
    """What consumers see of a topic now."""
    with PullConsumer("readers", address, start_from=ConsumeFrom.FIRST_OFFSET) as consumer:
        try:
            queues = consumer.queues(topic)
        except NoRoute:
            return []
        return [message.body for queue in queues for message in consumer.pull(queue, 0).messages]


def see(address: str, topic: str, *expected: bytes) -> None:
    eventually(lambda: bodies(address, topic) == list(expected), what=f"{expected} in {topic}")


def send_plain(address: str, topic: str, body: bytes) -> None:
    with Producer("plain", address) as producer:
        producer.send(Message(topic, body), queue=producer.queues(topic)[0])


@pytest.mark.row("TX-01", "TX-02", "TX-03")
def test_a_committed_message_is_seen_after_its_execution_and_not_before(
    face: Face, address: str, topic: str, group: str
) -> None:
    seen: list[Any] = []

    def execute(message: Message, arg: object) -> TransactionState:
        seen.append((message.body, arg, message.message_id, bodies(address, topic)))
        return COMMIT

    with face.TransactionProducer(group, address, execute=execute, check=never) as producer:
        result = producer.send_in_transaction(Message(topic, b"paid", keys=["42"]), 42)
        see(address, topic, b"paid")

    assert seen == [(b"paid", 42, result.message_id, [])]
    assert (result.state, result.status, result.error) == (COMMIT, SendStatus.SEND_OK, None)


@pytest.mark.row("TX-03")
def test_a_message_that_is_rolled_back_is_never_seen(
    face: Face, address: str, topic: str, group: str
) -> None:
    with face.TransactionProducer(group, address, execute=lambda *_: ROLLBACK, check=never) as producer:
        assert producer.send_in_transaction(Message(topic, b"not paid")).state is ROLLBACK
        send_plain(address, topic, b"marker")
        see(address, topic, b"marker")


@pytest.mark.row("TX-04", "TX-05")
@pytest.mark.parametrize(("fate", "expected"), [(COMMIT, [b"order", b"marker"]), (ROLLBACK, [b"marker"])])
def test_what_is_not_known_is_asked_for_later(
    face: Face, address: str, topic: str, group: str, fate: TransactionState, expected: list[bytes]
) -> None:
    asked: list[ReceivedMessage] = []
    fates = iter([UNKNOWN])

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message)
        return next(fates, fate)

    settings = ClientSettings(send_msg_timeout=20_000)
    with face.TransactionProducer(
        group, address, settings, execute=lambda *_: UNKNOWN, check=check
    ) as producer:
        result = producer.send_in_transaction(Message(topic, b"order"))
        # Twice: the first answer is «not known» again.
        eventually(lambda: len(asked) >= 2)
        send_plain(address, topic, b"marker")
        eventually(lambda: sorted(bodies(address, topic)) == sorted(expected))

    assert result.state is UNKNOWN
    assert {(message.topic, message.body, message.message_id) for message in asked} == {
        (topic, b"order", result.message_id)
    }


@pytest.mark.row("TX-04")
def test_an_execution_or_a_check_that_raises_leaves_the_fate_open(
    face: Face, address: str, topic: str, group: str
) -> None:
    failures = [ValueError("no database"), ValueError("still none")]

    def execute(_message: Message, _arg: object) -> TransactionState:
        raise failures[0]

    checks = iter([failures[1]])

    def check(_message: ReceivedMessage) -> TransactionState:
        for failure in checks:
            raise failure
        return COMMIT

    with face.TransactionProducer(group, address, execute=execute, check=check) as producer:
        result = producer.send_in_transaction(Message(topic, b"order"))
        see(address, topic, b"order")

    assert result.state is UNKNOWN
    assert result.error is failures[0]


@pytest.mark.row("TX-05")
def test_another_member_answers_for_one_that_is_gone(
    face: Face, address: str, topic: str, group: str
) -> None:
    with face.TransactionProducer(group, address, execute=lambda *_: UNKNOWN, check=lambda _: UNKNOWN) as one:
        one.send_in_transaction(Message(topic, b"order"))

    with face.TransactionProducer(group, address, execute=never, check=lambda _: COMMIT) as other:
        other.announce(topic)
        see(address, topic, b"order")


def test_a_delayed_message_is_refused_and_nothing_is_executed(
    face: Face, address: str, topic: str, group: str
) -> None:
    with (
        face.TransactionProducer(group, address, execute=never, check=never) as producer,
        pytest.raises(MessageIllegal, match="delayed"),
    ):
        producer.send_in_transaction(Message(topic, b"x", delay_level=1))


def test_a_transaction_producer_sends_plain_messages_too(
    face: Face, address: str, topic: str, group: str
) -> None:
    with face.TransactionProducer(group, address, execute=never, check=never) as producer:
        producer.send(Message(topic, b"plain"))
        see(address, topic, b"plain")


def test_a_blocking_transaction_is_executed_on_the_caller_s_thread(
    address: str, topic: str, group: str
) -> None:
    threads: list[threading.Thread] = []

    def execute(_message: Message, _arg: object) -> TransactionState:
        threads.append(threading.current_thread())
        return COMMIT

    with (
        face_of("blocking") as face,
        face.TransactionProducer(group, address, execute=execute, check=never) as producer,
    ):
        producer.send_in_transaction(Message(topic, b"x"))

    assert threads == [threading.current_thread()]


def test_awaitable_transactions_may_be_coroutines(address: str, topic: str, group: str) -> None:
    asked: list[str] = []

    async def execute(_message: Message, _arg: object) -> TransactionState:
        return UNKNOWN

    async def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.message_id)
        return COMMIT

    with (
        face_of("asyncio") as face,
        face.TransactionProducer(group, address, execute=execute, check=check) as producer,
    ):
        result = producer.send_in_transaction(Message(topic, b"x"))
        see(address, topic, b"x")

    assert set(asked) == {result.message_id}


FORKING = """
    import os, sys
    from pyromq import Message, RequestTimeout, TransactionProducer, TransactionState

    def execute(message, arg):
        return TransactionState.UNKNOWN

    def check(message):
        return TransactionState.COMMIT

    with TransactionProducer(sys.argv[2], sys.argv[1], execute=execute, check=check) as producer:
        producer.send_in_transaction(Message(sys.argv[3], b"parent"))
        child = os.fork()
        if child == 0:
            producer.send_in_transaction(Message(sys.argv[3], b"child"))
            try:
                producer.request(Message(sys.argv[3] + "-asked", b"?"), timeout_ms=1_000)
            except RequestTimeout:
                producer.close()
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_child_of_fork_has_transactions_of_its_own(address: str, topic: str, group: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(FORKING), address, group, topic],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            eventually(lambda: sorted(bodies(address, topic)) == [b"child", b"parent"], 60)
        finally:
            _, errors = program.communicate(timeout=60)

    assert program.returncode == 0, errors


@contextmanager
def in_namespace(
    face: Face, address: str, group: str, check: Callable[..., TransactionState]
) -> Iterator[Any]:
    settings = ClientSettings(namespace="shop")
    with face.TransactionProducer(
        group, address, settings, execute=lambda *_: UNKNOWN, check=check
    ) as producer:
        yield producer


@pytest.mark.row("PR-23")
def test_a_transaction_stays_in_its_namespace(face: Face, address: str, topic: str, group: str) -> None:
    asked: list[str] = []

    def check(message: ReceivedMessage) -> TransactionState:
        asked.append(message.topic)
        return COMMIT

    with in_namespace(face, address, group, check) as producer:
        producer.send_in_transaction(Message(topic, b"order"))
        see(address, f"shop%{topic}", b"order")

    assert set(asked) == {topic}
