"""Members of Java's clients and of ours come and go in one group while messages are sent all the time.

Each member notes when it began with a message and when it was done. So it can be told afterwards who had a
queue at any moment, also at those when queues moved.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness.missing import unavailable
from harness.ports import free_broker_port
from harness.processes import Server
from harness.program import Program
from harness.servers import PYROMQ, START_TIMEOUT_S, Cluster, broker_file, start_pyromq
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, ConsumeFrom, Message, NoRoute, Producer, PushConsumer, ReceivedMessage
from pyromq.errors import NetworkError, Refused
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(300)]

QUEUES = 8
HOLD_MS = 2
#: Messages of each queue that tell whose it is.
ENOUGH = 3
PATIENCE_S = 60
#: Both clients look again, and let go, sooner than after the 20 s of their defaults.
JAVA = (
    "-Drocketmq.client.rebalance.waitInterval=1000",
    "-Drocketmq.client.rebalance.lockInterval=500",
    "-Drocketmq.client.unlockDelayTimeMills=1000",
)
OURS: dict[str, Any] = {
    "consume_from": ConsumeFrom.FIRST_OFFSET,
    "rebalance_wait_interval": 1_000,
    "rebalance_lock_interval": 500,
    "persist_consumer_offset_interval": 500,
    "heartbeat_broker_interval": 1_000,
    "poll_name_server_interval": 1_000,
    "pull_time_delay_mills_when_exception": 500,
}


class Use(NamedTuple):
    """A member had a message from one moment to another, in microseconds."""

    began: int
    ended: int
    member: str
    queue: int
    offset: int


class Group:
    """The members of one group, of either language. A Java member is named after its program, and a digit."""

    def __init__(self, name_server: str, topic: str, order: str, **programs: Program) -> None:
        self._name_server, self._topic, self._order, self._programs = name_server, topic, order, programs
        self.name = f"{topic}_group"
        self.members: list[str] = []
        self._ours: dict[str, PushConsumer] = {}
        self._uses: list[Use] = []

    def join(self, name: str) -> None:
        program = self._programs.get(name[:-1])
        if program is not None:
            program.do("join", name, self.name, self._topic, self._order, HOLD_MS)
        else:
            self._ours[name] = consumer = PushConsumer(
                self.name,
                self._name_server,
                listener=lambda message: self._consume(name, message),
                order=self._order,
                instance_name=name,
                **OURS,
            )
            consumer.subscribe(self._topic)
            consumer.start()
        self.members.append(name)

    def leave(self, name: str) -> None:
        program = self._programs.get(name[:-1])
        if program is not None:
            program.do("leave", name)
        else:
            self._ours.pop(name).close()
        self.members.remove(name)

    def close(self) -> None:
        for consumer in self._ours.values():
            consumer.close()

    def uses(self) -> list[Use]:
        """Return what was consumed so far, in the order of its beginnings."""
        theirs = [
            Use(one["began"], one["ended"], one["member"], one["queue"], one["offset"])
            for program in self._programs.values()
            for one in program.of("consumed")
        ]
        return sorted(theirs + list(self._uses))

    def settle(self) -> None:
        """Wait until each queue is read by one member, and each member reads its even share."""
        since = _micros()

        def settled() -> bool:
            nonlocal since
            owners: dict[int, set[str]] = defaultdict(set)
            seen: dict[int, int] = defaultdict(int)
            for use in self.uses():
                if use.began >= since:
                    owners[use.queue].add(use.member)
                    seen[use.queue] += 1
            if any(len(members) > 1 for members in owners.values()):
                since = _micros()  # queues moved in this window; look at another
                return False
            if len(seen) < QUEUES or min(seen.values()) < ENOUGH:
                return False
            shares = [sum(members == {name} for members in owners.values()) for name in self.members]
            if shares != [QUEUES // len(self.members)] * len(self.members):
                since = _micros()
                return False
            return True

        eventually(settled, PATIENCE_S, what=f"{self.members} share the queues")

    def _consume(self, member: str, message: ReceivedMessage) -> None:
        began = _micros()
        threading.Event().wait(HOLD_MS / 1_000)
        self._uses.append(Use(began, _micros(), member, message.queue.queue_id, message.queue_offset))


def _micros() -> int:
    return time.time_ns() // 1_000


class Load:
    """Sends to all queues in turn, until it is told to stop. What is refused or unanswered is sent again."""

    def __init__(self, name_server: str, topic: str) -> None:
        self.sent: list[tuple[int, int]] = []
        self._name_server, self._topic = name_server, topic
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> "Load":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE_S)

    def _send(self) -> None:
        with Producer("mixed_producer", self._name_server) as producer:
            queues = eventually(lambda: _queues(producer, self._topic), PATIENCE_S)
            while not self._is_over.wait(0.003):
                try:
                    result = producer.send(Message(self._topic, b"x"), queue=queues[len(self.sent) % QUEUES])
                except (NetworkError, Refused):
                    continue  # the broker is away
                self.sent.append((result.queue.queue_id, result.queue_offset))


def _queues(producer: Producer, topic: str) -> list[Any]:
    try:
        return producer.queues(topic)
    except NoRoute:
        return []


@pytest.fixture
def servers(running: Callable[[str], Cluster]) -> Cluster:
    return running("up")


def members_of(version: str, name_server: str, folder: Path) -> Program:
    """Start a program whose members are of one version of Java's client."""
    folder.mkdir()
    try:
        command = java_class("Members", version, [f"-Duser.home={folder}", *JAVA])
    except Unavailable as error:
        unavailable(error)
    return Program([*command, name_server], folder=folder, env={**os.environ, "HOME": str(folder)})


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """Members of the 4.9.8 client."""
    with closing(members_of("4.9.8", servers.name_server, tmp_path / "java")) as program:
        yield program


def come_and_go(servers: Cluster, java: Program, order: str) -> tuple[list[tuple[int, int]], list[Use]]:
    """Let members come and go under load; return what was sent, and what was consumed."""
    topic = f"mixed_{order}"
    with Admin(servers.name_server) as admin:
        admin.create_topic(topic, QUEUES)
    group = Group(servers.name_server, topic, order, java=java)
    try:
        with Load(servers.name_server, topic) as load:
            group.join("java1")
            group.join("ours1")
            group.settle()
            group.join("java2")
            group.join("ours2")
            group.settle()
            group.leave("java1")
            group.leave("ours1")
            group.settle()
            group.join("ours1")
            group.join("java1")
            group.settle()
            # Java first: a member of 4.9.8 that hears of another's end while it leaves locks queues again,
            # and keeps them for a minute. Ours gives them back, as it must here.
            group.leave("java2")
            group.leave("ours2")
            group.settle()
            load.end()
            eventually(
                lambda: {(use.queue, use.offset) for use in group.uses()} >= set(load.sent), PATIENCE_S
            )
        for member in list(group.members):
            group.leave(member)
        return load.sent, group.uses()
    finally:
        group.close()


@pytest.mark.row("CO-03", "RB-01", "RB-02", "RB-03", "RB-06", "RB-07", "OF-08")
def test_members_that_come_and_go_miss_nothing(servers: Cluster, java: Program) -> None:
    sent, uses = come_and_go(servers, java, "concurrent")

    assert {(use.queue, use.offset) for use in uses} == set(sent)


@pytest.mark.row("OR-02", "OR-03", "CO-03", "RB-02")
def test_in_order_a_queue_has_one_member_at_a_time_and_its_order(servers: Cluster, java: Program) -> None:
    sent, uses = come_and_go(servers, java, "orderly")

    assert {(use.queue, use.offset) for use in uses} == set(sent)
    assert_in_order(uses)


def assert_in_order(uses: list[Use]) -> None:
    """Check that no queue had two members at a time, and that its messages were begun in their order."""
    for queue in range(QUEUES):
        of_queue = [use for use in uses if use.queue == queue]
        firsts = list(dict.fromkeys(use.offset for use in of_queue))
        assert firsts == sorted(firsts)
        overlaps = [(one, next_one) for one, next_one in pairwise(of_queue) if next_one.began < one.ended]
        assert overlaps == []


class OwnBroker:
    """A broker of ours that is stopped, or killed, and started again on the same port and the same data."""

    def __init__(self, folder: Path, name_server: str) -> None:
        self._folder, self._name_server = folder, name_server
        self._settings = broker_file(folder, "broker-a", free_broker_port())
        self._starts = 0
        self.server = self.start()

    def start(self) -> Server:
        self._starts += 1
        name = f"broker-{self._starts}"
        ready = self._folder / f"{name}.ready"
        words = ["broker", "-c", str(self._settings), "-n", self._name_server, "--ready-file", str(ready)]
        self.server = Server([*PYROMQ, *words], folder=self._folder, name=name)
        self.server.wait_for_file(ready, START_TIMEOUT_S)
        return self.server


@pytest.mark.row("OR-02", "OR-03", "CO-03", "RB-02")
def test_in_order_a_queue_has_one_member_at_a_time_while_its_broker_is_away_and_back(tmp_path: Path) -> None:
    with ExitStack() as stack:
        ready = start_pyromq(
            tmp_path, stack, "namesrv", *("namesrv", "-p", "0", "--data", str(tmp_path / "names"))
        )
        address = ready["namesrv"]
        broker = OwnBroker(tmp_path, address)
        stack.callback(lambda: broker.server.kill())
        with Admin(address) as admin:
            admin.create_topic("restarted", QUEUES)
        four, five = (
            stack.enter_context(closing(members_of(version, address, tmp_path / version)))
            for version in ("4.9.8", "5.5.0")
        )
        group = Group(address, "restarted", "orderly", four=four, five=five)
        stack.callback(group.close)
        load = stack.enter_context(Load(address, "restarted"))
        for member in ("four1", "ours1", "five1", "ours2"):
            group.join(member)
        group.settle()
        assert broker.server.stop() == 0
        broker.start()
        group.settle()
        # A member of 4.9.8 waits 30 s for the answer to a pull, whether or not its connection has ended.
        group.leave("four1")
        group.join("five2")
        group.settle()
        broker.server.kill()
        broker.start()
        group.settle()
        load.end()
        eventually(lambda: {(use.queue, use.offset) for use in group.uses()} >= set(load.sent), PATIENCE_S)
        uses = group.uses()

    assert_in_order(uses)
