"""Bodies of POP over remoting: acknowledgements in one batch (200151), and who reads which queues (400).

    {"brokerName":"a","acks":[{"c":group,"t":topic,"r":"0","so":7,"q":1,"rq":3,"pt":…,"it":60000,"b":"Cw=="}]}

Bit i of `b`, a bit set in base64 with the lowest bit first, is the message at offset so + i. Names written in
full (consumerGroup, startOffset …) are read too.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from pyromq.errors import BodyError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import Body, convert, read_object, read_queue
from pyromq.wire.header import ClientId, GroupName, Int32, Int64, ServerName, TopicName, Word
from pyromq.wire.java_json import dumps

#: A bit set reaches over one pop's offsets; filters may leave gaps in it, but not of any size.
BIT_SET_BYTES_MAX: Final = 64 * 1024
_FULL_NAMES: Final = {
    "consumerGroup": "c",
    "topic": "t",
    "retry": "r",
    "startOffset": "so",
    "queueId": "q",
    "reviveQueueId": "rq",
    "popTime": "pt",
    "invisibleTime": "it",
    "bitSet": "b",
}


class BatchAckPart(Body, kw_only=True, frozen=True):
    """Messages of one queue that were taken by one pop and are done; `bits` has bit offset − start set.

    The fields stand in the order in which fastjson writes them.
    """

    packed_bits: str = msgspec.field(default="", name="b")
    group: GroupName = msgspec.field(name="c")
    invisible_ms: Int64 = msgspec.field(name="it")
    popped_at_ms: Int64 = msgspec.field(name="pt")
    queue_id: Int32 = msgspec.field(name="q")
    #: Which topic the messages lie in: "0" the topic, "1" and "2" its retry topics.
    mark: Word = msgspec.field(default="0", name="r")
    revive_queue_id: Int32 = msgspec.field(name="rq")
    start_offset: Int64 = msgspec.field(name="so")
    topic: TopicName = msgspec.field(name="t")

    @property
    def bits(self) -> int:
        """The bit set as a number."""
        return unpack_bits(self.packed_bits)


class BatchAck(Body, kw_only=True, frozen=True):
    """The body of 200151."""

    acks: list[BatchAckPart]
    broker_name: ServerName | None = None


#: Names, numbers and base64 need none of what fastjson writes otherwise; and most bodies are as ours are.
_encode_plain = msgspec.json.Encoder().encode
_decode_plain = msgspec.json.Decoder(BatchAck).decode


class AssignmentQuestion(Body, kw_only=True, frozen=True):
    """The body of 400: a member asks which queues of a topic it is to read."""

    topic: TopicName
    consumer_group: GroupName
    client_id: ClientId
    strategy_name: Word = "AVG"
    message_model: Word = "CLUSTERING"


class QueueAssignment(Body, kw_only=True, frozen=True):
    """A queue to read; id −1 means all of its broker. `mode` is PULL or POP."""

    queue: MessageQueue
    mode: Word = "PULL"


def pack_bits(bits: int) -> str:
    """Return a bit set as Java writes it: base64, lowest bit first."""
    return base64.b64encode(bits.to_bytes((bits.bit_length() + 7) // 8, "little")).decode()


def unpack_bits(text: str) -> int:
    """Return a bit set; raise BodyError for what is none, or reaches too far."""
    if len(text) > BIT_SET_BYTES_MAX * 4 // 3 + 4:
        raise BodyError(f"b: a bit set of {len(text)} characters; {BIT_SET_BYTES_MAX} bytes are the limit")
    try:
        return int.from_bytes(base64.b64decode(text, validate=True), "little")
    except (binascii.Error, ValueError) as error:
        raise BodyError(f"b: no bit set in base64: {error}") from error


def encode_batch_ack(broker_name: str, parts: Iterable[BatchAckPart]) -> bytes:
    """Return the body of 200151."""
    return _encode_plain(BatchAck(broker_name=broker_name, acks=list(parts)))


def decode_batch_ack(data: bytes) -> BatchAck:
    """Return what the body of 200151 says."""
    try:
        return _decode_plain(data)
    except msgspec.DecodeError:
        return _decode_loosely(data)


def _decode_loosely(data: bytes) -> BatchAck:
    """Return what a body says in the words of other clients: names in full, numbers as text."""
    fields = read_object(data)
    parts = fields.get("acks", [])
    if not isinstance(parts, list):
        raise BodyError("acks: a list is expected")
    return convert(BatchAck, fields | {"acks": [_with_short_names(part) for part in parts]})


def encode_assignment_question(question: AssignmentQuestion) -> bytes:
    """Return the body of 400."""
    return dumps(question)


def decode_assignment_question(data: bytes) -> AssignmentQuestion:
    """Return what the body of 400 asks."""
    return convert(AssignmentQuestion, read_object(data))


def encode_assignments(assignments: Sequence[QueueAssignment] | None) -> bytes:
    """Return the answer to 400; None: the member keeps what it has."""
    if assignments is None:
        return dumps({})
    listed = [{"messageQueue": each.queue, "mode": each.mode} for each in assignments]
    return dumps({"messageQueueAssignments": listed})


def decode_assignments(data: bytes) -> list[QueueAssignment] | None:
    """Return the answer to 400; None means that a member keeps what it has."""
    listed = read_object(data).get("messageQueueAssignments")
    if listed is None:
        return None
    if not isinstance(listed, list) or not all(isinstance(each, dict) for each in listed):
        raise BodyError("messageQueueAssignments: a list of objects is expected")
    return [
        QueueAssignment(queue=read_queue(each.get("messageQueue")), mode=str(each.get("mode", "PULL")))
        for each in listed
    ]


def _with_short_names(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {_FULL_NAMES.get(name, name): value for name, value in part.items()}
