"""The parts of a pop's answer: where the popped messages are, as three texts, and the messages themselves.

    startOffsetInfo   {mark} {queue} {start offset};…            one entry for each queue
    msgOffsetInfo     {mark} {queue} {offset},{offset},…;…       in the order of the messages
    orderCountInfo    {mark} qo{queue}%{offset} {count};…        of messages that were delivered before,
                      {mark} {queue} {smallest count};…          then of each queue; only of pops in order

The mark is 0 for the topic, 1 and 2 for its retry topics. The body has the records as they are stored, one
behind the other; but those of a retry topic name the topic that was asked for, and have their receipt handle
as the property POP_CK.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from pyromq.wire import properties as names
from pyromq.wire.record import (
    MAGIC_AT,
    MAGIC_V1,
    MAGIC_V2,
    PROPERTIES_BYTES_MAX,
    TOPIC_BYTES_MAX_V1,
    look_at_record,
)

_POP_CK: Final = f"{names.POP_CK}{names.NAME_VALUE_SEPARATOR}".encode()
_SEPARATOR: Final = names.PROPERTY_SEPARATOR.encode()


def start_offset_entry(mark: int, queue_id: int, start_offset: int) -> str:
    """Return a queue's entry of startOffsetInfo."""
    return f"{mark} {queue_id} {start_offset}"


def message_offsets_entry(mark: int, queue_id: int, offsets: Iterable[int]) -> str:
    """Return a queue's entry of msgOffsetInfo."""
    return f"{mark} {queue_id} {','.join(map(str, offsets))}"


def order_count_entry(mark: int, queue_id: int, offsets: Sequence[int], attempts: Sequence[int]) -> str:
    """Return a queue's entries of orderCountInfo; an attempt counts this delivery too."""
    counted = [
        f"{mark} qo{queue_id}%{offset} {attempt - 1}"
        for offset, attempt in zip(offsets, attempts, strict=True)
        if attempt > 1
    ]
    return ";".join([*counted, f"{mark} {queue_id} {min(attempts, default=1) - 1}"])


def retried_record(record: bytes, topic: str, pop_ck: str) -> bytes:
    """Return a record of a retry topic as clients get it: of the topic asked for, with its receipt handle.

    A record whose properties have no room for the handle stays as it is: clients find the rest in the
    answer's fields.
    """
    _, _, topic_at, _, properties_at, end = look_at_record(record, check_crc=False)
    stored, name = record[properties_at:end], topic.encode()
    gap = _SEPARATOR if stored and not stored.endswith(_SEPARATOR) else b""
    properties = b"".join((stored, gap, _POP_CK, pop_ck.encode(), _SEPARATOR))
    if len(properties) > PROPERTIES_BYTES_MAX:
        return record
    is_v1 = len(name) <= TOPIC_BYTES_MAX_V1
    tail = b"".join(
        (
            len(name).to_bytes(1 if is_v1 else 2, "big"),
            name,
            len(properties).to_bytes(2, "big"),
            properties,
        )
    )
    return b"".join(
        (
            (topic_at + len(tail)).to_bytes(4, "big"),
            (MAGIC_V1 if is_v1 else MAGIC_V2).to_bytes(4, "big", signed=True),
            record[MAGIC_AT + 4 : topic_at],
            tail,
        )
    )
