"""Two members of Java's 4.9.8 and two of ours come and go in one group while messages are sent all the time.

Each member notes when it began with a message and when it was done. So it can be told afterwards who had a
queue at any moment, also at those when queues moved.
"""

import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from harness.missing import unavailable
from harness.program import Program
from harness.servers import Cluster
from harness.toolchains import Unavailable, java_class

from pyromq import Admin, ConsumeFrom, Message, NoRoute, Producer, PushConsumer, ReceivedMessage
from pyromq.testing.waiting import eventually

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

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
}


class Use(NamedTuple):
    """A member had a message from one moment to another, in microseconds."""

    began: int
    ended: int
    member: str
    queue: int
    offset: int


class Group:
    """The members of one group, of either language."""

    def __init__(self, name_server: str, topic: str, order: str, java: Program) -> None:
        self._name_server, self._topic, self._order, self._java = name_server, topic, order, java
        self.name = f"{topic}_group"
        self.members: list[str] = []
        self._ours: dict[str, PushConsumer] = {}
        self._uses: list[Use] = []

    def join(self, name: str) -> None:
        if name.startswith("java"):
            self._java.do("join", name, self.name, self._topic, self._order, HOLD_MS)
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
        if name.startswith("java"):
            self._java.do("leave", name)
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
            for one in self._java.of("consumed")
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
    """Sends to all queues in turn, until it is told to stop."""

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
                result = producer.send(Message(self._topic, b"x"), queue=queues[len(self.sent) % QUEUES])
                self.sent.append((result.queue.queue_id, result.queue_offset))


def _queues(producer: Producer, topic: str) -> list[Any]:
    try:
        return producer.queues(topic)
    except NoRoute:
        return []


@pytest.fixture
def servers(running: Callable[[str], Cluster]) -> Cluster:
    return running("up")


@pytest.fixture
def java(servers: Cluster, tmp_path: Path) -> Iterator[Program]:
    """Members of the 4.9.8 client."""
    try:
        command = java_class("Members", "4.9.8", [f"-Duser.home={tmp_path}", *JAVA])
    except Unavailable as error:
        unavailable(error)
    program = Program(
        [*command, servers.name_server], folder=tmp_path, env={**os.environ, "HOME": str(tmp_path)}
    )
    yield program
    program.close()


def come_and_go(servers: Cluster, java: Program, order: str) -> tuple[list[tuple[int, int]], list[Use]]:
    """Let members come and go under load; return what was sent, and what was consumed."""
    topic = f"mixed_{order}"
    with Admin(servers.name_server) as admin:
        admin.create_topic(topic, QUEUES)
    group = Group(servers.name_server, topic, order, java)
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
    for queue in range(QUEUES):
        of_queue = [use for use in uses if use.queue == queue]
        firsts = list(dict.fromkeys(use.offset for use in of_queue))
        assert firsts == sorted(firsts)
        overlaps = [(one, next_one) for one, next_one in pairwise(of_queue) if next_one.began < one.ended]
        assert overlaps == []
