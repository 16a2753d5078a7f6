"""Load on a broker, until it is killed: several connections, many requests under way on each.

One thread and plain sockets, because the load must not cost more than the broker. The kill falls between any
two instructions of the broker; answers that it sent before are read afterwards and count.
"""

import contextlib
import selectors
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count
from random import Random

from kill_ledger import Ledger, Queue

from pyromq.codes import RequestCode, ResponseCode
from pyromq.net.address import split_address
from pyromq.testing.requests import pull_fields, send_v2_fields
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import Command, CommandReader, encode

CONNECTIONS = 4
UNDER_WAY_MAX = 48
COMMITS_UNDER_WAY_MAX = 4
TOPICS = ("orders", "other")
QUEUES = 4
SIZES = (0, 1, 100, 100, 500, 1000, 1000, 3000, 20_000)
GROUPS = ("readers", "writers")

OnAnswer = Callable[[Command], None]
NextRequest = Callable[[], tuple[Command, OnAnswer]]


@dataclass
class Sender:
    """One connection that always has requests under way."""

    address: str
    next_request: NextRequest
    under_way_max: int
    waiting: dict[int, OnAnswer] = field(default_factory=dict)
    _opaques: "count[int]" = field(default_factory=lambda: count(1))

    def __post_init__(self) -> None:
        self.socket = socket.create_connection(split_address(self.address))
        self.socket.setblocking(False)
        self._reader = CommandReader()
        self._out = bytearray()

    def fill(self) -> None:
        """Begin as many requests as may be under way, and send what the socket takes."""
        while len(self.waiting) < self.under_way_max:
            command, on_answer = self.next_request()
            command.opaque = next(self._opaques)
            self.waiting[command.opaque] = on_answer
            self._out += encode(command)
        with contextlib.suppress(BlockingIOError):
            del self._out[: self.socket.send(self._out)]

    def receive(self) -> bool:
        """Take the answers that are there; return False when the connection has ended."""
        try:
            data = self.socket.recv(1 << 18)
        except BlockingIOError:
            return True
        except ConnectionError:
            return False
        self._reader.feed(data)
        while (answer := self._reader.next_command()) is not None:
            self.waiting.pop(answer.opaque)(answer)
        return bool(data)

    def drain(self) -> None:
        """Take what the broker sent before its end."""
        self.socket.setblocking(True)
        while self.receive():
            pass
        self.socket.close()


class Load:
    """Sends of all kinds, new topics and groups, and commits, as the chance has it."""

    def __init__(self, ledger: Ledger, chance: Random) -> None:
        self._ledger = ledger
        self._chance = chance
        self._may_be_refused = False

    def run(
        self,
        broker: str,
        seconds: float,
        *,
        name_server: str = "",
        look: Callable[[], None],
        kill: Callable[[], None],
    ) -> None:
        """Send for some time, looking around now and then; kill the broker, and take what it answered."""
        senders = [Sender(broker, self._next_request, UNDER_WAY_MAX) for _ in range(CONNECTIONS)]
        # Progress may go back when it is committed over several connections: whoever comes last, holds.
        senders.append(Sender(broker, self._commit, COMMITS_UNDER_WAY_MAX))
        if name_server:
            senders.append(Sender(name_server, self._put_key_value, 1))
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            for sender in senders:
                selector.register(sender.socket, selectors.EVENT_READ, sender)
            while time.monotonic() < until:
                for sender in senders:
                    sender.fill()
                for key, _ in selector.select(0.01):
                    key.data.receive()
                look()
        # A broker that stops in order refuses what still comes.
        self._may_be_refused = True
        kill()
        for sender in senders:
            sender.drain()
        self._may_be_refused = False

    def _next_request(self) -> tuple[Command, OnAnswer]:
        dice = self._chance.random()
        if dice < 0.80:
            return self._send(self._queue())
        if dice < 0.94:
            return self._send_batch(self._queue())
        if dice < 0.96:
            return self._make_group() if dice < 0.95 else self._make_topic()
        if dice < 0.965:
            return self._send((f"auto-{len(self._ledger.sent)}", 0))
        return self._send(self._queue(), WAIT="false")

    def _queue(self) -> Queue:
        return self._chance.choice(TOPICS), self._chance.randrange(QUEUES)

    def _send(self, queue: Queue, **properties: str) -> tuple[Command, OnAnswer]:
        number, body = self._ledger.new_body(self._chance.choice(SIZES))
        keys = {"KEYS": f"k{number}", "TAGS": "t", **properties}
        fields = send_v2_fields(queue[0], keys, queueId=queue[1])
        command = Command(RequestCode.SEND_MESSAGE_V2, ext=_texts(fields), body=body)
        return command, self._stored(queue, [number])

    def _send_batch(self, queue: Queue) -> tuple[Command, OnAnswer]:
        messages = [
            self._ledger.new_body(self._chance.choice(SIZES[:-1]))
            for _ in range(self._chance.randrange(1, 12))
        ]
        body = encode_batch(BatchUnit(0, body, f"KEYS\x01k{number}") for number, body in messages)
        fields = send_v2_fields(queue[0], queueId=queue[1], batch=True)
        command = Command(RequestCode.SEND_BATCH_MESSAGE, ext=_texts(fields), body=body)
        return command, self._stored(queue, [number for number, _ in messages])

    def _stored(self, queue: Queue, numbers: list[int]) -> OnAnswer:
        self._ledger.touched.add(queue)

        def note(answer: Command) -> None:
            if self._is_success(answer):
                self._ledger.acknowledge(queue, int((answer.ext or {})["queueOffset"]), numbers)
                self._ledger.topics.add(queue[0])

        return note

    def _make_topic(self) -> tuple[Command, OnAnswer]:
        topic = f"made-{len(self._ledger.sent)}"
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": 2,
            "writeQueueNums": 2,
            "perm": 6,
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": 0,
            "order": False,
        }
        command = Command(RequestCode.UPDATE_AND_CREATE_TOPIC, ext=_texts(fields))
        return command, self._kept(self._ledger.topics, topic)

    def _make_group(self) -> tuple[Command, OnAnswer]:
        """Return a pull of a group that comes into being by it, and so is written to the table of groups."""
        fields = pull_fields(TOPICS[0], f"group-{len(self._ledger.sent)}", maxMsgNums=1)
        return Command(RequestCode.PULL_MESSAGE, ext=_texts(fields)), lambda _answer: None

    def _put_key_value(self) -> tuple[Command, OnAnswer]:
        key = f"key-{len(self._ledger.sent)}-{self._chance.random()}"
        fields = {"namespace": "kills", "key": key, "value": key}
        return Command(RequestCode.PUT_KV_CONFIG, ext=_texts(fields)), self._kept(
            self._ledger.key_values, key
        )

    def _kept(self, names: set[str], name: str) -> OnAnswer:
        def note(answer: Command) -> None:
            if self._is_success(answer):
                names.add(name)

        return note

    def _commit(self) -> tuple[Command, OnAnswer]:
        group, queue = self._chance.choice(GROUPS), self._queue()
        topic, queue_id = queue
        offset = self._ledger.end_of(queue)
        self._ledger.committed[group, topic, queue_id] = offset
        fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id, "commitOffset": offset}
        return Command(RequestCode.UPDATE_CONSUMER_OFFSET, ext=_texts(fields)), self._is_success

    def _is_success(self, answer: Command) -> bool:
        if answer.code != ResponseCode.SUCCESS and not self._may_be_refused:
            self._ledger.complain(f"refused: {answer.code} {answer.remark}")
        return answer.code == ResponseCode.SUCCESS


def _texts(fields: dict[str, object]) -> dict[str, str]:
    return {
        name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in fields.items()
    }
