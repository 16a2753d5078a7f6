"""From a pull's or a query's bytes to messages: decoded, decompressed, filtered by tag once more.

A message whose body does not decompress, or grows beyond the limit, is an `UnreadableMessage`: the others of
the answer are read all the same, and whoever asks for its body is told why there is none.
"""

from collections.abc import Mapping, Sequence, Set
from dataclasses import fields
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from pyromq.client.producer.compression import BODY_BYTES_MAX, decompress
from pyromq.codes import COMPRESSION_MASK, SysFlag
from pyromq.errors import BodyTooLarge, CorruptRecord, LocalProtocolError, PyroError
from pyromq.kernel import IS_COMPILED
from pyromq.model import MessageQueue, PureReceivedMessage, ReceivedMessage, restore_received
from pyromq.net.address import join_address
from pyromq.wire import properties as names
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, decode_host, decode_record, iter_records

_NOTHING: Final[Mapping[str, str]] = {}
_ALL_TAGS: Final[frozenset[str]] = frozenset()
#: A plain number: this is asked of each message.
_COMPRESSED: Final = int(SysFlag.COMPRESSED)
#: The bodies of one answer may grow to this many times what one body may.
ANSWER_FACTOR: Final = 4
_FIELDS: Final = tuple(field.name for field in fields(PureReceivedMessage))
_OTHER_FIELDS: Final = tuple(name for name in _FIELDS if name != "body")
#: The field of a message that can be read, the kernel's or a slot.
_BODY: Final[Any] = vars(ReceivedMessage)["body"]


class AnswerTooLarge(BodyTooLarge):
    """The bodies of an answer grow beyond the limit together; this one may be read with fewer others."""


class UnreadableMessage(ReceivedMessage):
    """A message whose body cannot be read here; everything else of it can. To ask for `body` raises why.

    `packed` is the body as it is stored.
    """

    failure: PyroError | None
    packed: bytes

    def __init__(self, failure: PyroError, packed: bytes, **others: Any) -> None:
        super().__init__(body=b"", **others)
        self.failure = failure
        self.packed = packed

    @property
    def body(self) -> bytes:
        """The body that was set; raises the failure until one is."""
        if self.failure is not None:
            raise self.failure.with_traceback(None)
        body: bytes = _BODY.__get__(self)
        return body

    @body.setter
    def body(self, body: bytes) -> None:
        self.failure, self.packed = None, body
        _BODY.__set__(self, body)

    @property
    def packing(self) -> int:
        """The bits of the sysFlag that say how `packed` is compressed."""
        return 0 if self.failure is None else self.sys_flag & (SysFlag.COMPRESSED | COMPRESSION_MASK)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UnreadableMessage):
            return NotImplemented
        return self._parts() == other._parts()

    def __ne__(self, other: object) -> bool:
        # The kernel's class has one of its own, which asks for the body.
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # as every message

    def __repr__(self) -> str:
        return (
            f"UnreadableMessage({self.message_id}, {self.queue}, offset {self.queue_offset}: {self.failure})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        if self.failure is None:
            return restore_received, tuple(getattr(self, name) for name in _FIELDS)
        return _restore, self._parts()

    def _parts(self) -> tuple[Any, ...]:
        others = {name: getattr(self, name) for name in _OTHER_FIELDS}
        return type(self.failure), str(self.failure), self.packed, others


def _restore(kind: type[PyroError], text: str, packed: bytes, others: dict[str, Any]) -> UnreadableMessage:
    return UnreadableMessage(kind(text), packed, **others)


class Unpacking:
    """Decompresses the bodies of one answer, within what one body and all of them together may grow to."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._left = bytes_max * ANSWER_FACTOR

    def message(self, packed: bytes, identity: str, others: dict[str, Any]) -> ReceivedMessage:
        """Return a message, an unreadable one if its body cannot be had."""
        sys_flag = others["sys_flag"]
        if not sys_flag & SysFlag.COMPRESSED:
            return ReceivedMessage(body=packed, **others)
        queue, offset = others["queue"], others["queue_offset"]
        name = f"{identity} ({queue.topic}, queue {queue.queue_id} of {queue.broker_name}, offset {offset})"
        try:
            body = self._unpack(packed, sys_flag, name)
        except (BodyTooLarge, CorruptRecord, LocalProtocolError) as error:
            return UnreadableMessage(error, packed, **others)
        return ReceivedMessage(body=body, **others)

    def _unpack(self, packed: bytes, sys_flag: int, name: str) -> bytes:
        is_last = self._left < self._bytes_max
        try:
            body = decompress(packed, sys_flag, name, min(self._left, self._bytes_max))
        except BodyTooLarge as error:
            if not is_last:
                raise
            self._left = 0
            limit = self._bytes_max * ANSWER_FACTOR
            raise AnswerTooLarge(
                f"the bodies of one answer, up to message {name}, unpack to more than {limit} bytes, four "
                "times decompressed_bytes_max; ask for fewer messages at once, or raise it"
            ) from error
        self._left -= len(body)
        return body


def pure_received_messages(
    body: bytes,
    broker_name: str,
    added: Mapping[str, str] = _NOTHING,
    tags: Set[str] = _ALL_TAGS,
    bytes_max: int = BODY_BYTES_MAX,
) -> list[ReceivedMessage]:
    """Return the messages of an answer's body, which came from the broker of that name.

    `added` are pairs for the properties of each. Of those without one of the tags none is returned, unless no
    tag is named: brokers compare hashes of tags, and a stranger with the same hash ends here. A compressed
    body may grow to `bytes_max`, and all of them together to a few times that.
    """
    messages = []
    unpacking = Unpacking(bytes_max)
    for record in iter_records(body):
        message = _received(record, broker_name, unpacking)
        if not tags or message.tags in tags:
            message.properties.update(added)
            messages.append(message)
    return messages


if TYPE_CHECKING or not IS_COMPILED:
    received_messages = pure_received_messages
else:
    from pyromq._kernel.client.records import read_messages

    def received_messages(
        body: bytes,
        broker_name: str,
        added: Mapping[str, str] = _NOTHING,
        tags: Set[str] = _ALL_TAGS,
        bytes_max: int = BODY_BYTES_MAX,
    ) -> list[ReceivedMessage]:
        """Return the messages of an answer's body, which came from the broker of that name."""

        def queue(topic: str, queue_id: int) -> MessageQueue:
            return MessageQueue(topic, broker_name, queue_id)

        other = partial(_unusual, broker_name, Unpacking(bytes_max))
        return read_messages(bytes(body), dict(added), frozenset(tags), queue, other)


def first_unreadable(messages: Sequence[ReceivedMessage], kind: type[PyroError] = PyroError) -> int | None:
    """Return the index of the first message that cannot be read, for a reason of that kind; else None."""
    for index, message in enumerate(messages):
        if isinstance(message, UnreadableMessage) and isinstance(message.failure, kind):
            return index
    return None


def must_read(messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
    """Return messages that can all be read; raise why the first one that cannot does not."""
    index = first_unreadable(messages)
    if index is not None:
        _ = messages[index].body
    return messages


def shown_body(message: ReceivedMessage) -> bytes:
    """Return a body to show to a person, or why there is none."""
    try:
        return message.body
    except (BodyTooLarge, CorruptRecord, LocalProtocolError) as error:
        return f"({error})".encode()


def held_bytes(message: ReceivedMessage) -> int:
    """Return how much memory a message takes here: more than was stored, when it was compressed."""
    # To ask for the body would unpack it before its time, unless it is unpacked already.
    if not message.sys_flag & _COMPRESSED or isinstance(message, UnreadableMessage):
        return message.size
    return len(message.body)


def _unusual(broker_name: str, unpacking: Unpacking, body: bytes, at: int) -> tuple[ReceivedMessage, int]:
    """Read the record that the kernel left; raise what is wrong with it."""
    record = decode_record(body, at)
    return _received(record, broker_name, unpacking), record.size


def _received(record: Record, broker_name: str, unpacking: Unpacking) -> ReceivedMessage:
    position_id = offset_message_id(record.store_host, record.position)
    properties = names.decode(record.properties)
    others = {
        "topic": record.topic,
        "queue": MessageQueue(record.topic, broker_name, record.queue_id),
        "queue_offset": record.queue_offset,
        "position": record.position,
        "message_id": properties.get(names.UNIQ_KEY, position_id),
        "offset_message_id": position_id,
        "properties": properties,
        "flag": record.flag,
        "sys_flag": record.sys_flag,
        "born_at_ms": record.born_at_ms,
        "born_host": join_address(*decode_host(record.born_host)),
        "stored_at_ms": record.stored_at_ms,
        "store_host": join_address(*decode_host(record.store_host)),
        "reconsume_times": record.reconsume_times,
        "prepared_position": record.prepared_position,
        "body_crc": record.body_crc,
        "size": record.size,
    }
    return unpacking.message(record.body, position_id, others)
