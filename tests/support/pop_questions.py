"""One story of a group that pops over the remoting protocol, told by hand to any broker of RocketMQ 5.

What each request is answered is kept without what differs from run to run: times, ports, revive queues.
`tests/conformance/golden/pop_5.5.0.json` is what Apache's 5.5.0 answered.
"""

import json
import re
import time
from pathlib import Path
from typing import Any

from pyromq.codes import RequestCode, ResponseCode
from pyromq.testing.requests import send_v2_fields
from pyromq.testing.waiting import aeventually
from pyromq.testing.wire_client import WireClient
from pyromq.wire import properties as names
from pyromq.wire.bodies.pop_bodies import BatchAckPart, encode_batch_ack, pack_bits
from pyromq.wire.command import Command
from pyromq.wire.record import iter_records

TOPIC, GROUP = "told", "tellers"
#: A client of 5.5.
VERSION = 513
Told = dict[str, Any]

_MASKS = (
    (re.compile(r"127\.0\.0\.1:\d+"), "ADDRESS"),
    (re.compile(r"See https?://\S+ for further details\.?"), "FAQ"),
)
_CREATE = {
    "topic": TOPIC,
    "defaultTopic": "TBW102",
    "readQueueNums": 1,
    "writeQueueNums": 1,
    "perm": 6,
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": 0,
    "order": False,
}


class PopStory:
    """A client that tells the story; `told` has the answers by the names of its steps."""

    def __init__(self, client: WireClient) -> None:
        self._client = client
        self.told: dict[str, Told] = {}
        self._sent = 0

    async def step(self, name: str, code: int, fields: Told | None = None, body: bytes = b"") -> Command:
        """Ask, and keep what was answered."""
        answer = await self._client.ask(code, fields, body)
        self.told[name] = shown(answer)
        return answer

    async def pop(self, name: str, **more: object) -> Command:
        """Pop, and keep what was answered."""
        return await self.step(name, RequestCode.POP_MESSAGE, _pop_fields(**more))

    async def send(self, *bodies: bytes) -> None:
        """Send messages."""
        for body in bodies:
            fields = send_v2_fields(TOPIC) | {"i": "TAGS\x01red"}
            assert (await self._client.ask(RequestCode.SEND_MESSAGE_V2, fields, body)).code == 0
            self._sent += 1
        # Apache's queues come some milliseconds behind its log.
        await aeventually(self._is_there)

    async def _is_there(self) -> bool:
        answer = await self._client.ask(RequestCode.GET_MAX_OFFSET, {"topic": TOPIC, "queueId": 0})
        return (answer.ext or {})["offset"] == str(self._sent)

    async def handle(self, answer: Command, offset: int, mark: int = 0) -> Told:
        """Return the fields of a request about a message of an answer."""
        ext = answer.ext or {}
        (start,) = [
            entry.split()[2] for entry in ext["startOffsetInfo"].split(";") if entry.split()[0] == str(mark)
        ]
        words = (
            f"{start} {ext['popTime']} {ext['invisibleTime']} {ext['reviveQid']} {mark} broker-a 0 {offset}"
        )
        topic = f"%RETRY%{GROUP}_{TOPIC}" if mark else TOPIC
        return {
            "consumerGroup": GROUP,
            "topic": topic,
            "queueId": 0,
            "offset": offset,
            "extraInfo": words,
        }

    async def tell(self) -> None:
        """Tell the whole story."""
        created = await self._client.ask(RequestCode.UPDATE_AND_CREATE_TOPIC, _CREATE)
        assert created.code == 0, created.remark
        await self._pops()
        await self._refusals()
        await self._looks()
        await self._order()

    async def _pops(self) -> None:
        await self.pop("nothing there")
        await self.pop("nothing there in order", order="true")
        await self.pop("too late", bornTime=1, pollTime=1)
        await self.send(b"one", b"two", b"three", b"four")
        first = await self.pop("two of four", maxMsgNums=2, invisibleTime=2_000)
        await self.pop("the rest", invisibleTime=60_000)
        one = await self.handle(first, 0)
        await self.step("acknowledged", RequestCode.ACK_MESSAGE, one)
        await self.step("acknowledged twice", RequestCode.ACK_MESSAGE, one)
        again = await self._until_found("a retry", _pop_fields())
        retried = await self.handle(again, 0, mark=1)
        # In the same millisecond the new handle would have another invisible time.
        popped_at_ms = int((again.ext or {})["popTime"])
        await aeventually(lambda: time.time_ns() // 1_000_000 > popped_at_ms)
        await self.step(
            "changed", RequestCode.CHANGE_MESSAGE_INVISIBLETIME, retried | {"invisibleTime": 50_000}
        )
        await self.send(b"five", b"six")
        last = await self.pop("two more")
        part = await self.handle(last, 4)
        words = part["extraInfo"].split()
        ack = BatchAckPart(
            group=GROUP,
            topic=TOPIC,
            start_offset=4,
            queue_id=0,
            revive_queue_id=int(words[3]),
            popped_at_ms=int(words[1]),
            invisible_ms=int(words[2]),
            packed_bits=pack_bits(3),
        )
        await self.step(
            "many acknowledged", RequestCode.BATCH_ACK_MESSAGE, None, encode_batch_ack("broker-a", [ack])
        )

    async def _until_found(self, name: str, fields: Told) -> Command:
        answer = Command(0)

        async def is_found() -> bool:
            nonlocal answer
            answer = await self._client.ask(RequestCode.POP_MESSAGE, fields)
            return answer.code == ResponseCode.SUCCESS

        await aeventually(is_found, 60)
        self.told[name] = shown(answer)
        return answer

    async def _refusals(self) -> None:
        some = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": 0, "offset": 0}
        some |= {"extraInfo": "0 1700000000000 60000 0 0 broker-a 0 0"}
        await self.pop("unknown topic", topic="nowhere")
        await self.pop("queue beyond the last", queueId=9)
        await self.pop("too many", maxMsgNums=33)
        for name, code in (
            ("acknowledge", RequestCode.ACK_MESSAGE),
            ("change", RequestCode.CHANGE_MESSAGE_INVISIBLETIME),
        ):
            more = {"invisibleTime": 1_000} if name == "change" else {}
            await self.step(f"{name} in an unknown topic", code, some | more | {"topic": "nowhere"})
            await self.step(f"{name} in an unknown queue", code, some | more | {"queueId": 9})
        await self.step("acknowledge what is not there", RequestCode.ACK_MESSAGE, some | {"offset": 1_000})
        for name, code in (("peek", RequestCode.PEEK_MESSAGE), ("polling info", RequestCode.POLLING_INFO)):
            fields = {"consumerGroup": GROUP, "topic": "nowhere", "queueId": 0, "maxMsgNums": 1}
            await self.step(f"{name} of an unknown topic", code, fields)
            await self.step(f"{name} of an unknown queue", code, fields | {"topic": TOPIC, "queueId": 9})

    async def _looks(self) -> None:
        where = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": -1}
        notify = where | {"pollTime": 0, "bornTime": 0}
        await self.step("nothing to notify", RequestCode.NOTIFICATION, notify)
        await self.step("nothing to peek", RequestCode.PEEK_MESSAGE, where | {"maxMsgNums": 2})
        await self.send(b"seven")
        await self.step("a notification", RequestCode.NOTIFICATION, notify)
        await self.step("a peek", RequestCode.PEEK_MESSAGE, where | {"maxMsgNums": 2})
        await self.step("polling info", RequestCode.POLLING_INFO, where)
        await self.pop("what was peeked")

    async def _order(self) -> None:
        order = {"order": "true", "queueId": 0, "consumerGroup": "orderly", "initMode": 0}
        first = await self.pop("in order", **order, maxMsgNums=2, invisibleTime=2_000)
        await self.pop("blocked", **order)
        more = _pop_fields(**order, maxMsgNums=3, invisibleTime=60_000)
        again = await self._until_found("in order again", more)
        assert first.code == again.code == 0
        handle = await self.handle(again, 0) | {"consumerGroup": "orderly"}
        await self.step("acknowledged in order", RequestCode.ACK_MESSAGE, handle)
        stranger = handle | {"offset": 5}
        await self.step("acknowledged beyond the batch", RequestCode.ACK_MESSAGE, stranger)


def _pop_fields(**more: object) -> Told:
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


def shown(answer: Command) -> Told:
    """Return what an answer says, without what differs from run to run."""
    return {
        "code": answer.code,
        "remark": masked(answer.remark),
        "ext": None
        if answer.ext is None
        else [[name, _value(name, text)] for name, text in answer.ext.items()],
        "messages": [
            [
                record.topic,
                record.body.decode(),
                record.reconsume_times,
                "POP_CK" in names.decode(record.properties),
            ]
            for record in iter_records(answer.body)
        ]
        if answer.body
        else [],
    }


def masked(text: str | None) -> str | None:
    """Return a remark without what differs from run to run."""
    for pattern, name in _MASKS:
        text = text and pattern.sub(name, text)
    return text


def _value(name: str, text: str) -> str:
    if name == "popTime" and text != "0":
        return "TIME"
    if name == "reviveQid" and text != "999":
        return "REVIVE"
    return text


async def tell_pops(broker: str) -> dict[str, Told]:
    """Tell the story to the broker at an address, and return the answers by the names of its steps."""
    async with WireClient(broker, version=VERSION) as client:
        story = PopStory(client)
        await story.tell()
        return story.told


def read_told(path: Path) -> dict[str, Told]:
    """Return the recorded answers."""
    told: dict[str, Told] = json.loads(path.read_text())
    return told


def write_told(told: dict[str, Told], path: Path) -> None:
    """Write the answers down, a line each."""
    lines = [f"{json.dumps(name)}: {json.dumps(answer)}" for name, answer in told.items()]
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n")
