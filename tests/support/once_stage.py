"""Messages as a consumer gets them, for listeners that are called by hand."""

from pyromq import MessageQueue, ReceivedMessage


def received(key: str, *, message_id: str = "ID", body: bytes = b"") -> ReceivedMessage:
    return ReceivedMessage(
        topic="orders",
        body=body,
        queue=MessageQueue("orders", "broker-a", 0),
        queue_offset=0,
        position=0,
        message_id=message_id,
        offset_message_id="",
        properties={"KEYS": key} if key else {},
        flag=0,
        sys_flag=0,
        born_at_ms=0,
        born_host="127.0.0.1:1",
        stored_at_ms=0,
        store_host="127.0.0.1:2",
        reconsume_times=0,
        prepared_position=0,
        body_crc=0,
        size=0,
    )
