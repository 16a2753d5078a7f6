"""Received messages as a test wants them."""

from pyromq.model import MessageQueue, ReceivedMessage

QUEUE = MessageQueue("orders", "a", 0)


def received(
    offset: int = 0, *, queue: MessageQueue = QUEUE, body: bytes = b"x", size: int = 100, **more: object
) -> ReceivedMessage:
    fields: dict[str, object] = {
        "topic": queue.topic,
        "body": body,
        "queue": queue,
        "queue_offset": offset,
        "position": 1_000 + offset,
        "message_id": f"ID{offset}",
        "offset_message_id": f"OFFSET{offset}",
        "properties": {},
        "flag": 0,
        "sys_flag": 0,
        "born_at_ms": 0,
        "born_host": "1.2.3.4:5",
        "stored_at_ms": 0,
        "store_host": "a:1",
        "reconsume_times": 0,
        "prepared_position": 0,
        "body_crc": 0,
        "size": size,
    }
    return ReceivedMessage(**(fields | more))  # type: ignore[arg-type]


def several(*offsets: int) -> list[ReceivedMessage]:
    return [received(offset) for offset in offsets]
