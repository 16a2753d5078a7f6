"""From a pull's or a query's bytes to messages: decoded, decompressed, filtered by tag once more."""

from collections.abc import Mapping, Set
from functools import partial
from typing import TYPE_CHECKING, Final

from pyromq.client.compression import decompress
from pyromq.kernel import IS_COMPILED
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.net.address import join_address
from pyromq.wire import properties as names
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, decode_host, decode_record, iter_records

_NOTHING: Final[Mapping[str, str]] = {}
_ALL_TAGS: Final[frozenset[str]] = frozenset()


def pure_received_messages(
    body: bytes, broker_name: str, added: Mapping[str, str] = _NOTHING, tags: Set[str] = _ALL_TAGS
) -> list[ReceivedMessage]:
    """Return the messages of an answer's body, which came from the broker of that name.

    `added` are pairs for the properties of each. Of those without one of the tags none is returned, unless no
    tag is named: brokers compare hashes of tags, and a stranger with the same hash ends here.
    """
    messages = []
    for record in iter_records(body):
        message = _received(record, broker_name)
        if not tags or message.tags in tags:
            message.properties.update(added)
            messages.append(message)
    return messages


if TYPE_CHECKING or not IS_COMPILED:
    received_messages = pure_received_messages
else:
    from pyromq._kernel.records import read_messages

    def received_messages(
        body: bytes, broker_name: str, added: Mapping[str, str] = _NOTHING, tags: Set[str] = _ALL_TAGS
    ) -> list[ReceivedMessage]:
        """Return the messages of an answer's body, which came from the broker of that name."""

        def queue(topic: str, queue_id: int) -> MessageQueue:
            return MessageQueue(topic, broker_name, queue_id)

        return read_messages(bytes(body), dict(added), frozenset(tags), queue, partial(_unusual, broker_name))


def _unusual(broker_name: str, body: bytes, at: int) -> tuple[ReceivedMessage, int]:
    """Read the record that the kernel left; raise what is wrong with it."""
    record = decode_record(body, at)
    return _received(record, broker_name), record.size


def _received(record: Record, broker_name: str) -> ReceivedMessage:
    position_id = offset_message_id(record.store_host, record.position)
    properties = names.decode(record.properties)
    return ReceivedMessage(
        topic=record.topic,
        body=decompress(record.body, record.sys_flag, position_id),
        queue=MessageQueue(record.topic, broker_name, record.queue_id),
        queue_offset=record.queue_offset,
        position=record.position,
        message_id=properties.get(names.UNIQ_KEY, position_id),
        offset_message_id=position_id,
        properties=properties,
        flag=record.flag,
        sys_flag=record.sys_flag,
        born_at_ms=record.born_at_ms,
        born_host=join_address(*decode_host(record.born_host)),
        stored_at_ms=record.stored_at_ms,
        store_host=join_address(*decode_host(record.store_host)),
        reconsume_times=record.reconsume_times,
        prepared_position=record.prepared_position,
        body_crc=record.body_crc,
        size=record.size,
    )
