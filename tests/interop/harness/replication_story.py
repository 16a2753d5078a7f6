"""What happens to one replicated group, told once; the tests then ask one thing of it each.

A master that waits for slaves gets a first slave, and later a second one of another make. The first is
frozen, killed and started again. At the end the master is killed while a Java member of a group reads, and
comes back.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness.observer import Observer, Stored, loads
from harness.program import Program
from harness.replicas import APACHE, BROKER, OURS, Log, Replica, start_name_server
from harness.toolchains import java_class
from pyromq import Admin, Message, MessageQueue, Producer, PullConsumer
from pyromq.config.settings import ClientSettings
from pyromq.errors import NetworkError, PyroError
from pyromq.testing.waiting import eventually

TOPIC, QUEUES = "copied", 4
COMMITTED = 7
#: Three of these fill about half a file of the log.
PART = 60
BODY_BYTES = 9_000
PATIENCE_S = 60
HOLD_MS = 40
TOPICS, OFFSETS, DELAYS, GROUPS = 21, 43, 45, 201


class Cast(NamedTuple):
    """Who plays: the kinds of the name server, the master, its first slave and its second."""

    name_server: str
    master: str
    first: str
    second: str


CASTS = {
    "ours-of-apache": Cast(OURS, APACHE, OURS, APACHE),
    "apache-of-ours": Cast(APACHE, OURS, APACHE, OURS),
    "ours-at-apache": Cast(APACHE, OURS, OURS, OURS),
    "apache-at-ours": Cast(OURS, APACHE, APACHE, APACHE),
}
CALIBRATION = {"all-apache": Cast(APACHE, APACHE, APACHE, APACHE)}


@dataclass
class Statuses:
    """What the master said of sends at each point of the story."""

    alone: str = ""
    attached: set[str] = field(default_factory=set)
    frozen: str = ""
    thawed: str = ""
    killed: str = ""
    in_the_gap: set[str] = field(default_factory=set)
    after_the_gap: str = ""
    one_of_two_frozen: str = ""
    master_back: str = ""


@dataclass
class Sight:
    """Master and slave at one moment, when the slave had all."""

    master: Log
    slave: Log


@dataclass
class Story:
    """Everything that was seen."""

    statuses: Statuses = field(default_factory=Statuses)
    followed: Sight | None = None
    after_the_gap: Sight | None = None
    from_the_last_file: Sight | None = None
    master_back: Sight | None = None
    ids: dict[int, str] = field(default_factory=dict)
    addresses: dict[int, str] = field(default_factory=dict)
    read_at_master: list[Stored] = field(default_factory=list)
    read_at_slave: list[Stored] = field(default_factory=list)
    read_at_second: list[Stored] = field(default_factory=list)
    tables: dict[str, tuple[Any, Any]] = field(default_factory=dict)
    refusal: int = 0
    sent: set[tuple[int, int]] = field(default_factory=set)
    read_before: set[tuple[int, int]] = field(default_factory=set)
    read_while_away: set[tuple[int, int]] = field(default_factory=set)
    committed_at_the_end: dict[tuple[str, int], int | None] = field(default_factory=dict)
    ends: dict[tuple[str, int], int] = field(default_factory=dict)


class Telling:
    """Tells the story of one cast."""

    def __init__(self, cast: Cast, folder: Path, closing: ExitStack) -> None:
        self.story = Story()
        self._folder, self._closing = folder, closing
        self._name_server = start_name_server(cast.name_server, folder / "names", closing)
        self._observer = Observer(self._name_server)
        self.master = self._replica(cast.master, 0, brokerRole="SYNC_MASTER")
        self.first = self._replica(cast.first, 1)
        self.second = self._replica(cast.second, 2)
        self._producer: Producer | None = None

    def tell(self) -> Story:
        """Tell it from beginning to end."""
        self.master.start()
        with Admin(self._name_server) as admin:
            admin.create_topic(TOPIC, QUEUES)
        eventually(lambda: self._observer.queues(TOPIC), PATIENCE_S, what="the topic has a route")
        settings = ClientSettings(poll_name_server_interval=1_000)
        with Producer("replicated", self._name_server, settings=settings) as self._producer:
            self._the_master_is_alone()
            self._a_slave_follows()
            self._the_slave_is_frozen()
            self._the_slave_is_killed()
            self._a_second_slave_comes()
            self._the_master_is_killed()
        return self.story

    def _the_master_is_alone(self) -> None:
        self.story.statuses.alone = self._send()
        self._send(delay_level=1)
        for _ in range(PART):
            self._send()
        eventually(
            lambda: sum(self._end(self.master, queue) for queue in range(QUEUES)) > len(self.story.sent),
            PATIENCE_S,
            what="the delayed message is out",
        )
        with PullConsumer("copied_group", self._name_server) as consumer:
            consumer.commit(MessageQueue(TOPIC, BROKER, 0), COMMITTED)

    def _a_slave_follows(self) -> None:
        self.first.start()
        self._wait_until_whole(self.first)
        story = self.story
        story.statuses.attached = {self._send() for _ in range(3 * PART)}
        story.followed = self._sight(self.first)
        story.ids = self._observer.replicas(BROKER)
        story.addresses = {0: self.master.address, 1: self.first.address}
        self._wait_for_tables()
        story.read_at_master, story.read_at_slave = self._read(self.master), self._read(self.first)
        story.refusal = self._observer.send(self.first.address, TOPIC)

    def _the_slave_is_frozen(self) -> None:
        self.first.server.freeze()
        try:
            self.story.statuses.frozen = self._send()
        finally:
            self.first.server.thaw()
        self._wait_until_whole(self.first)
        self.story.statuses.thawed = self._send()

    def _the_slave_is_killed(self) -> None:
        statuses = self.story.statuses
        self.first.kill()
        statuses.killed = eventually(lambda: (said := self._send()) != "SEND_OK" and said, PATIENCE_S)
        statuses.in_the_gap = {self._send() for _ in range(2 * PART)}
        self.first.start()
        self._wait_until_whole(self.first)
        statuses.after_the_gap = self._send()
        self.story.after_the_gap = self._sight(self.first)

    def _a_second_slave_comes(self) -> None:
        story = self.story
        self.second.start()
        self._wait_until_whole(self.second)
        self._send()
        story.from_the_last_file = self._sight(self.second)
        eventually(
            lambda: TOPIC in self._table(self.second, TOPICS)["topicConfigTable"],
            PATIENCE_S,
            what="the second slave has the tables",
        )
        self._wait_for_queues(self.second)
        story.read_at_second = [
            stored
            for queue in range(QUEUES)
            for stored in self._observer.read(
                self.second.address, TOPIC, queue, self._observer.end(self.master.address, TOPIC, queue) - 1
            )
        ]
        self.first.server.freeze()
        try:
            story.statuses.one_of_two_frozen = self._send()
        finally:
            self.first.server.thaw()
        self.second.kill()
        self._wait_until_whole(self.first)

    def _the_master_is_killed(self) -> None:
        story = self.story
        with self._members() as program:
            program.do("join", "reader", "reading_group", TOPIC, "concurrent", HOLD_MS)
            eventually(lambda: len(self._uses(program)) > PART, PATIENCE_S, what="the group reads")
            self.master.kill()
            story.read_before = self._uses(program)
            eventually(lambda: self._uses(program) >= story.sent, PATIENCE_S, what="the group reads on")
            story.read_while_away = self._uses(program)
            self.master.start()
            story.statuses.master_back = eventually(self._send_again, PATIENCE_S)
            story.master_back = self._sight(self.first)
            eventually(lambda: self._uses(program) >= story.sent, PATIENCE_S, what="the group reads the last")
            story.ends = self._observer.ends(TOPIC)
            eventually(self._is_committed, PATIENCE_S, what="the group's offsets are at the master")
            story.committed_at_the_end = self._observer.committed("reading_group", TOPIC)

    # Steps --------------------------------------------------------------------------------------------------

    def _replica(self, kind: str, broker_id: int, **settings: str | int) -> Replica:
        folder = self._folder / f"replica-{broker_id}"
        replica = Replica(kind, folder, self._name_server, broker_id, **settings)
        self._closing.callback(replica.kill)
        return replica

    def _send(self, delay_level: int = 0) -> str:
        assert self._producer is not None
        body = os.urandom(BODY_BYTES)
        message = Message(TOPIC, body, tags="a", keys=["key"], delay_level=delay_level)
        result = self._producer.send(message, timeout_ms=10_000)
        if not delay_level:
            self.story.sent.add((result.queue.queue_id, result.queue_offset))
        return str(result.status)

    def _send_again(self) -> str | None:
        try:
            said = self._send()
        except (NetworkError, PyroError):
            return None
        return said if said == "SEND_OK" else None

    def _wait_until_whole(self, slave: Replica) -> None:
        eventually(lambda: slave.log().end == self.master.log().end, PATIENCE_S, what="the slave has all")

    def _sight(self, slave: Replica) -> Sight:
        self._wait_until_whole(slave)
        return Sight(self.master.log(), slave.log())

    def _read(self, replica: Replica) -> list[Stored]:
        self._wait_for_queues(replica)
        return [
            stored for queue in range(QUEUES) for stored in self._observer.read(replica.address, TOPIC, queue)
        ]

    def _wait_for_queues(self, replica: Replica) -> None:
        """Wait until the queues have followed the log, which they do in their own time."""
        eventually(
            lambda: all(
                self._end(replica, queue) == self._end(self.master, queue) for queue in range(QUEUES)
            ),
            PATIENCE_S,
            what="the queues follow the log",
        )

    def _end(self, replica: Replica, queue: int) -> int:
        return self._observer.end(replica.address, TOPIC, queue)

    def _wait_for_tables(self) -> None:
        """Wait until the slave has copied the tables, which it does every ten seconds, and keep both."""
        looks: dict[str, Callable[[Replica], Any]] = {
            "topics": lambda replica: self._table(replica, TOPICS)["topicConfigTable"],
            "groups": lambda replica: self._table(replica, GROUPS)["subscriptionGroupTable"],
            "offsets": lambda replica: self._table(replica, OFFSETS)["offsetTable"].get(
                f"{TOPIC}@copied_group"
            ),
            "delays": _delays,
        }
        for name, look in looks.items():

            def copied(look: Callable[[Replica], Any] = look) -> tuple[Any, Any] | None:
                pair = look(self.master), look(self.first)
                return pair if pair[0] and pair[0] == pair[1] else None

            self.story.tables[name] = eventually(copied, PATIENCE_S, what=f"{name} are copied")

    def _table(self, replica: Replica, code: int) -> Any:
        return self._observer.table(replica.address, code)

    def _is_committed(self) -> bool:
        return self._observer.committed("reading_group", TOPIC) == self.story.ends

    @contextmanager
    def _members(self) -> Iterator[Program]:
        folder = self._folder / "members"
        folder.mkdir()
        command = java_class("Members", "4.9.8", [f"-Duser.home={folder}"])
        program = Program([*command, self._name_server], folder=folder, env={**os.environ})
        try:
            yield program
        finally:
            program.close()

    @staticmethod
    def _uses(program: Program) -> set[tuple[int, int]]:
        return {(one["queue"], one["offset"]) for one in program.of("consumed")}


def _delays(replica: Replica) -> Any:
    # A slave of Apache's has it in its file only.
    path = replica.root / "config" / "delayOffset.json"
    try:
        table = loads(path.read_bytes())["offsetTable"]
    except (OSError, ValueError):
        return None
    return {level: offset for level, offset in table.items() if offset}
