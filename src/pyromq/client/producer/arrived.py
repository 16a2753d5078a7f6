"""A sent message as its consumer would get it, where there is no broker in between."""

from pyromq.client.producer.outgoing import pairs_of
from pyromq.model import Message, MessageQueue, ReceivedMessage


def arrived(message: Message, queue: MessageQueue, offset: int, id_: str) -> ReceivedMessage:
    """Return what a broker would have made of a message."""
    return ReceivedMessage(
        topic=message.topic,
        body=message.body,
        queue=queue,
        queue_offset=offset,
        position=offset,
        message_id=id_,
        offset_message_id=id_,
        properties=pairs_of(message, id_, ""),
        flag=message.flag,
        sys_flag=0,
        born_at_ms=0,
        born_host="127.0.0.1:0",
        stored_at_ms=0,
        store_host="127.0.0.1:0",
        reconsume_times=0,
        prepared_position=0,
        body_crc=0,
        size=len(message.body),
    )
