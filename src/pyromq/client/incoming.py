"""From a pull's or a query's bytes to messages: decoded, decompressed, filtered by tag once more."""

import zlib
from collections.abc import Iterator
from typing import Final

from pyromq.codes import COMPRESSION_MASK, SysFlag
from pyromq.errors import CorruptRecord, LocalProtocolError
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.net.address import join_address
from pyromq.wire import properties as names
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.record import Record, decode_host, iter_records

_OTHER_COMPRESSIONS: Final = {SysFlag.COMPRESSION_LZ4: "LZ4", SysFlag.COMPRESSION_ZSTD: "ZSTD"}


def received_messages(body: bytes, broker_name: str) -> Iterator[ReceivedMessage]:
    """Yield the messages of an answer's body, which came from the broker of that name."""
    for record in iter_records(body):
        yield _received(record, broker_name)


def _received(record: Record, broker_name: str) -> ReceivedMessage:
    position_id = offset_message_id(record.store_host, record.position)
    properties = names.decode(record.properties)
    return ReceivedMessage(
        topic=record.topic,
        body=_plain_body(record, position_id),
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


def _plain_body(record: Record, position_id: str) -> bytes:
    if not record.sys_flag & SysFlag.COMPRESSED:
        return record.body
    # Clients before 4.9.4 name no compression: theirs is always zlib.
    other = _OTHER_COMPRESSIONS.get(SysFlag(record.sys_flag & COMPRESSION_MASK))
    if other is not None:
        raise LocalProtocolError(
            f"message {position_id} is compressed by {other}, which this client does not read; let its "
            "producer compress by ZLIB (-Drocketmq.message.compressType=ZLIB)"
        )
    try:
        return zlib.decompress(record.body)
    except zlib.error as error:
        raise CorruptRecord(f"the body of message {position_id} does not decompress: {error}") from error
