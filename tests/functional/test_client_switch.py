"""Python clients while their brokers' master goes, comes back, or is replaced by its slave."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pytest
from client_faces import Face
from slave_stage import Pair, running_pair
from typer.testing import CliRunner

from pyromq import (
    ClientSettings,
    ConsumeFrom,
    ConsumeResult,
    Message,
    NoMaster,
    Producer,
    PullConsumer,
    PushConsumer,
    RequestTimeout,
    SendFailed,
    TransactionProducer,
    TransactionState,
    select_by_hash,
)
from pyromq.cli.main import app
from pyromq.net.loop import new_event_loop
from pyromq.testing.waiting import eventually

T = TypeVar("T")
PATIENT = ClientSettings(send_msg_timeout=20_000)
#: What a consumer does every half minute, it does often here.
QUICK = ClientSettings(
    pull_time_delay_mills_when_exception=100,
    poll_name_server_interval=200,
    rebalance_wait_interval=300,
    persist_consumer_offset_interval=100,
    heartbeat_broker_interval=300,
)


class Switchable:
    """A pair of brokers on a thread of its own, for clients that block."""

    def __init__(self, folder: Path) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="brokers", daemon=True)
        self._thread.start()
        self._context = running_pair(folder)
        self.pair: Pair = self.run(self._context.__aenter__())

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Do something on the brokers' loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30.0)

    @property
    def address(self) -> str:
        """The name server's."""
        return self.pair.namesrv_address

    def lose_master(self) -> None:
        """Let the master go; what it has, the slave has."""
        self.run(self.pair.caught_up())
        self.run(self.pair.stop(self.pair.master))

    def close(self) -> None:
        """Stop all."""
        self.run(self._context.__aexit__(None, None, None))
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10.0)
        self._loop.close()


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[Switchable]:
    brokers = Switchable(tmp_path)
    try:
        yield brokers
    finally:
        brokers.close()


def meanwhile(work: Callable[[], T], what: Callable[[], object]) -> T:
    """Begin some work on a thread, do something else, and return what came of the work."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(work)
        what()
        return future.result(30.0)


# Producers


@pytest.mark.row("HA-09")
@pytest.mark.parametrize("selector", [None, select_by_hash("42")], ids=["in turn", "selected"])
def test_a_send_only_sees_a_pause(face: Face, brokers: Switchable, selector: Any) -> None:
    with face.Producer("group", brokers.address, PATIENT) as producer:
        producer.send(Message("t", b"before"))
        brokers.lose_master()

        def send() -> None:
            producer.send(Message("t", b"after"), selector=selector)

        meanwhile(send, lambda: brokers.run(brokers.pair.promote()))

        with PullConsumer("readers", brokers.address) as consumer:
            bodies = [
                message.body
                for queue in consumer.queues("t")
                for message in consumer.pull(queue, 0, wait_ms=0).messages
            ]
    assert sorted(bodies) == [b"after", b"before"]


@pytest.mark.row("HA-06")
def test_without_a_master_a_send_fails_when_its_time_is_over(face: Face, brokers: Switchable) -> None:
    with face.Producer("group", brokers.address) as producer:
        producer.send(Message("t", b"x"))
        brokers.lose_master()

        with pytest.raises((NoMaster, SendFailed, RequestTimeout)) as caught:
            producer.send(Message("t", b"x"), timeout_ms=1_500)
        if not isinstance(caught.value, NoMaster):
            # A busy machine had no time to look at the route again, which is older than a second by now.
            with pytest.raises(NoMaster) as caught:
                producer.send(Message("t", b"x"), timeout_ms=10_000)

    assert "master" in str(caught.value)


def test_produce_gives_each_message_the_time_that_it_is_told(brokers: Switchable) -> None:
    produce = ["produce", "-n", brokers.address, "t", "x", "--timeout"]
    assert CliRunner().invoke(app, [*produce, "20"]).exit_code == 0
    brokers.lose_master()

    failed = CliRunner().invoke(app, [*produce, "1.5"])

    assert isinstance(failed.exception, NoMaster)
    assert "more time than the 1500 ms" in str(failed.exception)


def test_a_transaction_goes_on_at_the_next_master(brokers: Switchable) -> None:
    def commit(_message: Message, _argument: object) -> TransactionState:
        return TransactionState.COMMIT

    def never(_message: object) -> TransactionState:
        raise AssertionError("nobody asks")

    with TransactionProducer("payers", brokers.address, PATIENT, execute=commit, check=never) as producer:
        producer.send_in_transaction(Message("t", b"before"))
        brokers.lose_master()

        sent = meanwhile(
            lambda: producer.send_in_transaction(Message("t", b"after")),
            lambda: brokers.run(brokers.pair.promote()),
        )

        assert sent.state is TransactionState.COMMIT
        with PullConsumer("readers", brokers.address) as consumer:

            def bodies() -> list[bytes]:
                queues = consumer.queues("t")
                return [message.body for queue in queues for message in consumer.pull(queue, 0).messages]

            assert eventually(lambda: sorted(bodies()) == [b"after", b"before"])


# Consumers


def test_a_push_consumer_reads_on_from_the_slave_and_returns(brokers: Switchable) -> None:
    seen: list[bytes] = []

    def listen(message: Any) -> ConsumeResult:
        seen.append(message.body)
        return ConsumeResult.SUCCESS

    with _producer(brokers) as producer:
        producer.send(Message("t", b"early"))
        brokers.run(brokers.pair.caught_up())
        consumer = PushConsumer(
            "readers",
            brokers.address,
            listener=listen,
            settings=QUICK,
            consume_from=ConsumeFrom.FIRST_OFFSET,
        )
        consumer.subscribe("t")
        with consumer:
            eventually(lambda: seen == [b"early"])
            for number in range(8):
                producer.send(Message("t", b"%d" % number))
            eventually(lambda: len(seen) == 9)
            brokers.lose_master()
            # Nothing new comes while there is no master; what is asked is answered by the slave.
            brokers.run(brokers.pair.start_master())
            producer.send(Message("t", b"late"))

            assert eventually(lambda: b"late" in seen, 30.0)
    assert len(seen) == len(set(seen)) == 10


@pytest.mark.row("HA-07", "CO-06")
def test_what_the_master_took_is_read_from_the_slave_when_it_is_gone(face: Face, brokers: Switchable) -> None:
    with _producer(brokers) as producer:
        for number in range(8):
            producer.send(Message("t", b"%d" % number))
    brokers.lose_master()

    with face.PullConsumer("readers", brokers.address, QUICK) as consumer:
        found = {
            message.body for queue in consumer.queues("t") for message in consumer.pull(queue, 0).messages
        }
        (first, *_) = consumer.queues("t")
        consumer.commit(first, 1)

        assert found == {b"%d" % number for number in range(8)}
        assert consumer.committed(first) == 1

    brokers.run(brokers.pair.start_master())
    with face.PullConsumer("readers", brokers.address, QUICK) as consumer:

        def flowed_back() -> bool:
            brokers.run(brokers.pair.copier.copy())
            return bool(consumer.committed(first) == 1)

        assert eventually(flowed_back)


@pytest.mark.row("HA-07")
def test_a_consumer_that_subscribes_reads_on_from_the_slave(face: Face, brokers: Switchable) -> None:
    with _producer(brokers) as producer:
        producer.send(Message("t", b"early"))
        with face.PullConsumer(
            "readers", brokers.address, QUICK, start_from=ConsumeFrom.FIRST_OFFSET
        ) as consumer:
            consumer.subscribe("t")
            first = eventually(lambda: consumer.poll(timeout_ms=200), 20.0)
            for number in range(4):
                producer.send(Message("t", b"%d" % number))
            brokers.lose_master()

            rest: list[bytes] = []

            def all_there() -> bool:
                rest.extend(message.body for message in consumer.poll(timeout_ms=200))
                return len(rest) >= 4

            eventually(all_there, 30.0)

    assert [message.body for message in first] == [b"early"]
    assert sorted(rest) == [b"0", b"1", b"2", b"3"]


def _producer(brokers: Switchable) -> Producer:
    return Producer("group", brokers.address, PATIENT)
