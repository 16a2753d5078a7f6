"""Producers that send numbered messages to whoever takes them, and readers of every node, all the time.

They speak the protocol themselves, straight to the nodes: a producer that is refused asks the next node, and
goes back to a deposed master as readily as to any other, which no well-behaved client would do.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from itertools import count
from random import Random

from pyromq.codes import PullFlag, RequestCode, ResponseCode
from pyromq.testing.requests import batch_body, pull_fields, send_v2_fields
from pyromq.testing.wire_client import WireClient
from pyromq.wire.command import Command
from pyromq.wire.message_id import parse_offset_message_id
from pyromq.wire.record import Record, decode_host, iter_records
from torture.history import Final, History, Outcome, Queue, Send, Stored

TOPIC = "orders"
QUEUES = 4
CONNECT_S_MAX = 1.0
NUMBER_DIGITS = 12
_SIZES = (0, 100, 100, 300, 1000, 3000, 12_000)
#: How often a producer leaves a node that takes its messages: there may be another that does, too.
_RESTLESSNESS = 0.03
#: Stored, says the broker, but not as it should be: nobody may count on it.
_HALF_DONE = (
    ResponseCode.FLUSH_DISK_TIMEOUT,
    ResponseCode.SLAVE_NOT_AVAILABLE,
    ResponseCode.FLUSH_SLAVE_TIMEOUT,
)


def body_of(number: int, size: int) -> bytes:
    """Return the body of a message: its number, and a filling by which it is known again."""
    digits = b"%0*d" % (NUMBER_DIGITS, number)
    return digits + (digits * (size // NUMBER_DIGITS + 1))[:size]


def number_of(record: Record) -> int | None:
    """Return a message's number; None when the body is none of ours."""
    digits = record.body[:NUMBER_DIGITS]
    if not digits.isdigit():
        return None
    number = int(digits)
    return number if record.body == body_of(number, len(record.body) - NUMBER_DIGITS) else None


@dataclass(slots=True)
class Stage:
    """What producers and readers share."""

    history: History
    #: A node's number → where clients reach it.
    addresses: list[str]
    #: A host by which a node is known → its number.
    nodes: dict[str, int]
    send_s_max: float = 1.5
    #: Whoever acknowledged last is taken for the master.
    master: int = 0
    last_answer_at: float = 0.0
    longest_pause_s: float = 0.0
    is_over: asyncio.Event = field(default_factory=asyncio.Event)
    began_at: float = field(default_factory=time.monotonic)
    connections: "count[int]" = field(default_factory=count)

    @property
    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self.began_at

    async def pause(self, seconds: float) -> None:
        """Wait, but not longer than the run lasts."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.is_over.wait(), seconds)

    def answered(self, node: int) -> None:
        """Note that a node acknowledged something."""
        self.longest_pause_s = max(self.longest_pause_s, self.now - self.last_answer_at)
        self.last_answer_at = self.now
        self.master = node


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[WireClient]:
    """Connect for the block; raises OSError when nobody is there."""
    client = WireClient(address)
    await asyncio.wait_for(client.__aenter__(), CONNECT_S_MAX)
    try:
        yield client
    finally:
        client.abort()


async def produce(stage: Stage, chance: Random) -> None:
    """Send until the run is over, to one node after the other."""
    node = stage.master
    while not stage.is_over.is_set():
        with contextlib.suppress(OSError, TimeoutError):
            async with connected(stage.addresses[node]) as client:
                connection = next(stage.connections)
                while not (stage.is_over.is_set() or client.is_hung_up):
                    if not await _send_some(stage, chance, client, node, connection):
                        break
                    if chance.random() < _RESTLESSNESS:
                        break
                    await stage.pause(chance.uniform(0, 0.03))
        # Most find the new master soon; some stay with the old one, which must not take anything.
        node = stage.master if chance.random() < 0.5 else chance.randrange(len(stage.addresses))
        await stage.pause(chance.uniform(0.01, 0.1))


async def _send_some(stage: Stage, chance: Random, client: WireClient, node: int, connection: int) -> bool:
    """Send a few messages at once; return whether all were acknowledged."""
    under_way: dict[asyncio.Future[Command], list[Send]] = {}
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        queue = TOPIC, chance.randrange(QUEUES)
        together = chance.choice((1, 1, 1, 1, 3))
        sends = [
            stage.history.begin(queue, node=node, connection=connection, now=stage.now)
            for _ in range(together)
        ]
        bodies = [body_of(send.number, chance.choice(_SIZES)) for send in sends]
        answer = _begin(client, queue, bodies)
        # The moment of the answer counts, not that at which somebody looks at it.
        answer.add_done_callback(lambda done, sends=sends: _end(stage, sends, done))  # type: ignore[misc]
        under_way[answer] = sends
    await asyncio.wait(under_way, timeout=stage.send_s_max)
    for answer in under_way:
        answer.cancel()
    await asyncio.wait(under_way)
    return all(send.outcome is Outcome.ACKNOWLEDGED for sends in under_way.values() for send in sends)


def _begin(client: WireClient, queue: Queue, bodies: list[bytes]) -> "asyncio.Future[Command]":
    topic, queue_id = queue
    fields = send_v2_fields(topic, {"TAGS": "t"}, queueId=queue_id, batch=len(bodies) > 1)
    if len(bodies) == 1:
        return client.begin(RequestCode.SEND_MESSAGE_V2, fields, bodies[0])
    return client.begin(RequestCode.SEND_BATCH_MESSAGE, fields, batch_body(bodies))


def _end(stage: Stage, sends: list[Send], done: "asyncio.Future[Command]") -> None:
    answer = None if done.cancelled() or done.exception() is not None else done.result()
    for send in sends:
        send.ended_at = stage.now
        if answer is None:
            send.detail = "timed out" if done.cancelled() else "the connection ended"
    if answer is None:
        return
    if answer.code == ResponseCode.SUCCESS:
        stage.answered(sends[0].node)
        fields = answer.ext or {}
        ids = fields["msgId"].split(",")
        for place, (send, message_id) in enumerate(zip(sends, ids, strict=True)):
            send.outcome = Outcome.ACKNOWLEDGED
            send.offset = int(fields["queueOffset"]) + place
            send.position = parse_offset_message_id(message_id).position
        return
    stage.history.refusals[f"{answer.code} {answer.remark}"] += len(sends)
    for send in sends:
        send.outcome = Outcome.UNKNOWN if answer.code in _HALF_DONE else Outcome.REFUSED
        send.detail = f"{answer.code} {answer.remark}"


async def read(stage: Stage, chance: Random, node: int) -> None:
    """Read all queues of one node, over and over, until the run is over."""
    offsets: Counter[Queue] = Counter()
    while not stage.is_over.is_set():
        with contextlib.suppress(OSError, TimeoutError):
            async with connected(stage.addresses[node]) as client:
                while not (stage.is_over.is_set() or client.is_hung_up):
                    pulls = [
                        _read_some(
                            stage, client, node, (TOPIC, queue_id), offsets, is_held=chance.random() < 0.2
                        )
                        for queue_id in range(QUEUES)
                    ]
                    if not any(await asyncio.gather(*pulls)):
                        await stage.pause(0.1)
        await stage.pause(0.2)


async def _read_some(
    stage: Stage, client: WireClient, node: int, queue: Queue, offsets: Counter[Queue], *, is_held: bool
) -> int:
    """Pull once, note what came, and return how many messages it was."""
    begin = offsets[queue]
    answer = await asyncio.wait_for(_pull(client, queue, begin, is_held=is_held), 3.0)
    if answer.code == ResponseCode.PULL_OFFSET_MOVED:
        # A replica that began late has no older messages.
        offsets[queue] = max(begin, int((answer.ext or {})["minOffset"]))
    if answer.code != ResponseCode.SUCCESS:
        return 0
    for record in iter_records(answer.body):
        if record.queue_offset != offsets[queue]:
            stage.history.complaints.append(
                f"gap: node {node} gave {queue} offset {record.queue_offset} after {offsets[queue] - 1}"
            )
        note(stage.history, queue, record, node=node, now=stage.now)
        offsets[queue] = record.queue_offset + 1
    return offsets[queue] - begin


def _pull(client: WireClient, queue: Queue, offset: int, *, is_held: bool) -> "asyncio.Future[Command]":
    topic, queue_id = queue
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if is_held else 0)
    fields = pull_fields(
        topic,
        queueId=queue_id,
        queueOffset=offset,
        maxMsgNums=2000,
        sysFlag=int(flags),
        suspendTimeoutMillis=500,
    )
    return client.begin(RequestCode.PULL_MESSAGE, fields)


def note(history: History, queue: Queue, record: Record, *, node: int, now: float) -> int | None:
    """Note a message that a node has, and return its number."""
    number = number_of(record)
    if number is None or (record.topic, record.queue_id) != queue:
        history.complaints.append(
            f"damaged: node {node} gave {record.topic}/{record.queue_id} {record.body[:30]!r} for {queue}"
        )
        return None
    history.see(queue, record.queue_offset, number, node=node, now=now)
    return number


async def read_all(stage: Stage, node: int) -> Final:
    """Read everything that a node has, from the first message of each queue."""
    final = Final()
    async with connected(stage.addresses[node]) as client:
        for queue_id in range(QUEUES):
            queue = TOPIC, queue_id
            final.queues[queue] = messages = {}
            offset = 0
            while (answer := await _ask(client, queue, offset)).code in (
                ResponseCode.SUCCESS,
                ResponseCode.PULL_OFFSET_MOVED,
                ResponseCode.PULL_RETRY_IMMEDIATELY,
            ):
                for record in iter_records(answer.body):
                    number = note(stage.history, queue, record, node=node, now=stage.now)
                    host = stage.nodes.get(decode_host(record.store_host)[0], -1)
                    messages[record.queue_offset] = Stored(
                        -1 if number is None else number, record.position, host
                    )
                after = int((answer.ext or {})["nextBeginOffset"])
                if after <= offset:
                    break
                offset = after
    return final


async def _ask(client: WireClient, queue: Queue, offset: int) -> Command:
    return await asyncio.wait_for(_pull(client, queue, offset, is_held=False), 10.0)


async def make_topic(address: str) -> bool:
    """Ask a node to make the topic; return whether it did."""
    fields = {
        "topic": TOPIC,
        "defaultTopic": "TBW102",
        "readQueueNums": QUEUES,
        "writeQueueNums": QUEUES,
        "perm": 6,
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": 0,
        "order": False,
    }
    try:
        async with connected(address) as client:
            answer = await asyncio.wait_for(client.begin(RequestCode.UPDATE_AND_CREATE_TOPIC, fields), 2.0)
    except (OSError, TimeoutError):
        return False
    return answer.code == ResponseCode.SUCCESS
