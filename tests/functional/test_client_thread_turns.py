"""Blocking sends of many threads on one connection: turns (compiled and Python's), interrupts, forks."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from played_broker import PlayedBroker, answer_to, played_broker

from pyromq import Message, Producer, RequestTimeout, SendStatus
from pyromq.client.sync import plain_on_threads
from pyromq.kernel import IS_COMPILED
from pyromq.net import blocking, shared_link, thread_answers
from pyromq.testing.cluster import running_cluster
from pyromq.testing.waiting import eventually
from pyromq.wire.command import Command

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="plain sends are compiled")

WAIT_S = 30.0
THREADS = 16
ORDER = Message("orders", b"body")


@pytest.fixture(params=["compiled", "python"], autouse=True)
def turns(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        for module in (blocking, shared_link, plain_on_threads):
            for name in ("ThreadAnswer", "WakeChain"):
                if hasattr(module, name):
                    monkeypatch.setattr(module, name, getattr(thread_answers, name))


@pytest.fixture
def broker() -> Iterator[PlayedBroker]:
    with played_broker() as broker:
        yield broker


@pytest.fixture
def producer(broker: PlayedBroker) -> Iterator[Producer]:
    with Producer("group", broker.address) as producer:
        share(producer)
        yield producer


def share(producer: Producer, links: int = 1, topic: str = "orders") -> None:
    """Send until there are shared connections."""

    def is_shared() -> bool:
        producer.send(Message(topic, b"first"))
        sends = producer._runner.plain_sends
        return sends is not None and len(sends._links.shared_links) == links

    eventually(is_shared)


class Kept:
    """Keeps sends, and answers all of them together when told to, or when there are so many."""

    def __init__(self, broker: PlayedBroker, count: int) -> None:
        self._broker, self._count = broker, count
        self._lock = threading.Lock()
        self.sends: list[Command] = []

    def __call__(self, send: Command) -> bytes:
        with self._lock:
            self.sends.append(send)
            return b"".join(map(answer_to, self.sends)) if len(self.sends) == self._count else b""

    def answer(self) -> None:
        number = next(number for send, number in self._broker.sends if send is self.sends[0])
        self._broker._connections[number - 1].sendall(b"".join(map(answer_to, self.sends)))


def on_thread(deed: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=deed)
    thread.start()
    return thread


def test_each_thread_gets_its_own_answer(broker: PlayedBroker, producer: Producer) -> None:
    broker.plays = [lambda send: answer_to(send, queueOffset=send.body.decode())] * 2000
    with ThreadPoolExecutor(THREADS) as pool:
        results = pool.map(lambda n: producer.send(Message("orders", b"%d" % n)), range(2000))
        assert [result.queue_offset for result in results] == list(range(2000))
    assert len({connection for _, connection in broker.sends[-2000:]}) == 1


def test_who_has_its_answer_goes_on_though_nobody_sends_again(
    broker: PlayedBroker, producer: Producer
) -> None:
    """The threads whose answers came together wait for each other before they send again."""
    together = threading.Barrier(THREADS)
    broker.plays = [play for _ in range(5) for play in [Kept(broker, THREADS)] * THREADS]

    def send(number: int) -> None:
        for turn in range(5):
            producer.send(Message("orders", b"%d" % (turn * 100 + number)), timeout_ms=60_000)
            together.wait(WAIT_S)

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(send, range(THREADS)))


def test_who_has_its_answer_goes_on_while_another_thread_computes(
    broker: PlayedBroker, producer: Producer
) -> None:
    kept = Kept(broker, THREADS)
    broker.plays = [kept] * THREADS
    came: list[int] = []

    def send(number: int) -> None:
        producer.send(ORDER, timeout_ms=60_000)
        came.append(number)
        # It goes on without waiting for anything until all came.
        while len(came) < THREADS:
            pass

    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(send, range(THREADS)))
    assert sorted(came) == list(range(THREADS))


def test_a_lost_answer_is_late_while_other_threads_go_on(broker: PlayedBroker, producer: Producer) -> None:
    kept, is_late = Kept(broker, 2), threading.Event()
    broker.plays = [kept]

    def send_on(_number: int) -> int:
        count = 0
        while not is_late.is_set():
            assert producer.send(ORDER).status is SendStatus.SEND_OK
            count += 1
        return count

    def lose() -> None:
        try:
            with pytest.raises(RequestTimeout):
                producer.send(ORDER, timeout_ms=200)
        finally:
            is_late.set()

    with ThreadPoolExecutor(THREADS) as pool:
        lost = pool.submit(lose)
        eventually(lambda: bool(kept.sends))
        others = [pool.submit(send_on, number) for number in range(THREADS - 1)]
        lost.result(WAIT_S)
        assert all(other.result(WAIT_S) for other in others)


@pytest.mark.parametrize("is_reader", [True, False])
def test_an_interrupt_ends_the_send_of_its_thread_only(
    broker: PlayedBroker,
    producer: Producer,
    is_reader: bool,
) -> None:
    """The main thread reads for another one, or another one for it."""
    main, kept = threading.get_ident(), Kept(broker, 3)
    broker.plays = [kept, kept]
    results: list[SendStatus] = []

    def send() -> None:
        results.append(producer.send(ORDER, timeout_ms=60_000).status)

    def interrupt() -> None:
        eventually(lambda: len(kept.sends) == 2)
        signal.pthread_kill(main, signal.SIGINT)

    def send_second() -> None:
        eventually(lambda: len(kept.sends) == 1)
        send()

    threads = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        if is_reader:
            threads = [on_thread(send_second), on_thread(interrupt)]
        else:
            threads = [on_thread(send)]
            eventually(lambda: len(kept.sends) == 1)
            threads.append(on_thread(interrupt))
        producer.send(ORDER, timeout_ms=60_000)
    # An interrupt within a read or a write ends the connection, and the other one is sent again.
    with suppress(OSError):
        kept.answer()
    for thread in threads:
        thread.join(WAIT_S)
        assert not thread.is_alive()
    assert results == [SendStatus.SEND_OK]
    assert producer.send(ORDER).status is SendStatus.SEND_OK


def test_threads_go_on_after_their_connection_ended(broker: PlayedBroker, producer: Producer) -> None:
    kept = Kept(broker, THREADS + 1)
    broker.plays = [kept] * THREADS
    with ThreadPoolExecutor(THREADS) as pool:
        sending = [pool.submit(producer.send, ORDER, timeout_ms=60_000) for _ in range(THREADS)]
        eventually(lambda: len(kept.sends) == THREADS)
        broker.end_connections()
        assert {sent.result(WAIT_S).status for sent in sending} == {SendStatus.SEND_OK}


def test_a_child_of_fork_sends_while_threads_of_its_parent_wait(
    broker: PlayedBroker, producer: Producer
) -> None:
    kept = Kept(broker, THREADS + 1)
    broker.plays = [kept] * THREADS
    with ThreadPoolExecutor(THREADS) as pool:
        sending = [pool.submit(producer.send, ORDER, timeout_ms=60_000) for _ in range(THREADS)]
        eventually(lambda: len(kept.sends) == THREADS)
        child = os.fork()
        if child == 0:  # the child; what it finds is its exit status
            try:
                threads = [on_thread(lambda: producer.send(ORDER)) for _ in range(4)]
                ok = all(producer.send(ORDER).status is SendStatus.SEND_OK for _ in range(10))
                for thread in threads:
                    thread.join(WAIT_S)
                os._exit(0 if ok and not any(thread.is_alive() for thread in threads) else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        kept.answer()
        assert {sent.result(WAIT_S).status for sent in sending} == {SendStatus.SEND_OK}


def test_threads_that_send_to_two_brokers_have_their_turns() -> None:
    with running_cluster(2) as cluster, Producer("group", cluster.namesrv_address) as producer:
        share(producer, links=2, topic="both")
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(lambda n: producer.send(Message("both", b"%d" % n)), range(2000)))

    assert {result.status for result in results} == {SendStatus.SEND_OK}
    assert len({(result.queue, result.queue_offset) for result in results}) == 2000
    assert len({result.queue.broker_name for result in results}) == 2
