"""A client that pops over the remoting protocol, by hand: its requests, and what it makes of an answer."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.command import Command
from pyromq.wire.receipt_handle import ReceiptHandle, pop_retry_topic
from pyromq.wire.record import Record, iter_records

GROUP, TOPIC = "readers", "orders"
RETRY = pop_retry_topic(GROUP, TOPIC)
OK = ResponseCode.SUCCESS


@dataclass(frozen=True)
class WirePopped:
    """A message as a client of the remoting protocol gets it."""

    record: Record
    mark: int
    #: The eight words of its handle.
    handle: str

    @property
    def topic(self) -> str:
        """The topic that it lies in, which acknowledgements name."""
        return TOPIC if self.mark == 0 else RETRY

    @property
    def properties(self) -> dict[str, str]:
        return names.decode(self.record.properties)

    def fields(self, **more: object) -> dict[str, object]:
        """The fields of a request about it."""
        return {
            "consumerGroup": GROUP,
            "topic": self.topic,
            "queueId": self.handle.split()[6],
            "offset": self.handle.split()[7],
            "extraInfo": self.handle,
            **more,
        }


def pop_fields(**more: object) -> dict[str, object]:
    return {
        "consumerGroup": GROUP,
        "topic": TOPIC,
        "queueId": -1,
        "maxMsgNums": 32,
        "invisibleTime": 60_000,
        "pollTime": 0,
        "bornTime": 0,
        "initMode": 0,
        **more,
    }


async def pop_answer(client: WireClient, **more: object) -> Command:
    return await client.ask(RequestCode.POP_MESSAGE, pop_fields(**more))


async def pop(client: WireClient, **more: object) -> list[WirePopped]:
    """Pop, and return the messages that there were."""
    return popped_of(await pop_answer(client, **more))


def popped_of(answer: Command) -> list[WirePopped]:
    """Return the messages of an answer, with the handles that a client makes of its fields."""
    if answer.code == ResponseCode.POLLING_TIMEOUT:
        return []
    assert answer.code == OK, answer.remark
    ext = answer.ext or {}
    starts = entries_of(ext, "startOffsetInfo")
    places = [
        (mark, queue, start, offset)
        for (mark, queue, offsets), (_, _, start) in zip(
            entries_of(ext, "msgOffsetInfo"), starts, strict=True
        )
        for offset in offsets.split(",")
    ]
    assert len({entry[:2] for entry in starts}) == len(starts)
    records = list(iter_records(answer.body))
    found = []
    for (mark, queue, start, offset), record in zip(places, records, strict=True):
        times = f"{ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']}"
        handle = f"{start} {times} {mark} broker-a {queue} {offset}"
        assert (record.queue_id, record.queue_offset, record.topic) == (int(queue), int(offset), TOPIC)
        if mark != "0":
            assert names.decode(record.properties)["POP_CK"] == handle
        found.append(WirePopped(record, int(mark), handle))
    return found


def entries_of(ext: Mapping[str, str], name: str) -> list[tuple[str, str, str]]:
    """Return the entries of one of an answer's texts."""
    found = []
    for entry in filter(None, ext.get(name, "").split(";")):
        mark, queue, rest = entry.split(" ")
        found.append((mark, queue, rest))
    return found


async def ack(client: WireClient, message: WirePopped, **more: object) -> Command:
    return await client.ask(RequestCode.ACK_MESSAGE, message.fields(**more))


async def change(client: WireClient, message: WirePopped, invisible_ms: int, **more: object) -> Command:
    fields = message.fields(invisibleTime=invisible_ms, **more)
    return await client.ask(RequestCode.CHANGE_MESSAGE_INVISIBLETIME, fields)


def changed(message: WirePopped, answer: Command) -> WirePopped:
    """Return a message with the handle that a client makes of the answer to a change."""
    assert answer.code == OK, answer.remark
    ext, words = answer.ext or {}, message.handle.split()
    words[0] = words[7]
    words[1:4] = ext["popTime"], ext["invisibleTime"], ext["reviveQid"]
    return WirePopped(message.record, message.mark, " ".join(words))


def handle_of(message: WirePopped, **changes: int) -> str:
    """Return a handle of which some words are others."""
    words = message.handle.split()
    numbers = {"start_offset": 0, "popped_at_ms": 1, "invisible_ms": 2, "queue_id": 6, "offset": 7}
    for name, value in changes.items():
        words[numbers[name]] = str(value)
    return " ".join(words)


def as_handle(message: WirePopped) -> ReceiptHandle:
    start, popped_at, invisible, revive, mark, broker, queue, offset = message.handle.split()
    return ReceiptHandle(
        int(start), int(popped_at), int(invisible), int(revive), int(mark), broker, int(queue), int(offset)
    )
