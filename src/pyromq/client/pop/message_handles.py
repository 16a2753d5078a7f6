"""The receipt handles that received messages carry, and acknowledgements made of them.

A handle is the text of the property POP_CK. Handles of messages that came with one pop from one queue differ
in their last word only, which is the offset: so many messages are acknowledged as the bits of one part.
"""

from collections.abc import Sequence
from typing import Final

from pyromq.client.namespaces import wrap
from pyromq.client.plans.pop_plans import ALL_QUEUES
from pyromq.client.pop.popped_batch import SPAN_MAX, ack_part
from pyromq.errors import ConfigError, HeaderError
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.pop_bodies import BatchAckPart
from pyromq.wire.properties import POP_CK
from pyromq.wire.receipt_handle import ReceiptHandle, decode_receipt_handle

#: Spaces before the offset of a handle, without the one that stands right before it.
_SPACES_BEFORE: Final = 6


def handle_of(message: ReceivedMessage) -> ReceiptHandle:
    """Return a message's handle; raise ConfigError when it has none, or one that means nothing."""
    try:
        return decode_receipt_handle(_text(message))
    except HeaderError as error:
        raise ConfigError(f"message {message.message_id}: {error}") from error


def place_of(message: ReceivedMessage, handle: ReceiptHandle, namespace: str) -> MessageQueue:
    """Return the topic and the broker that a message came from, by their names on the wire."""
    return MessageQueue(wrap(namespace, message.topic), handle.broker_name, ALL_QUEUES)


def acknowledgements_of(
    messages: Sequence[ReceivedMessage], group: str, namespace: str
) -> dict[MessageQueue, list[BatchAckPart]]:
    """Return what acknowledges messages, by the broker and the topic that they came from."""
    places: dict[MessageQueue, list[BatchAckPart]] = {}
    for batch in _batches(messages):
        handle = handle_of(batch[0])
        place = place_of(batch[0], handle, namespace)
        bits = _bits(batch, handle) if len(batch) > 1 else 0
        places.setdefault(place, []).append(ack_part(group, place.topic, handle, bits))
    return places


def _batches(messages: Sequence[ReceivedMessage]) -> list[list[ReceivedMessage]]:
    """Return messages together whose handles differ in their last word only, which is their offset."""
    batches: dict[tuple[str, str], list[ReceivedMessage]] = {}
    for message in messages:
        text = _text(message)
        prefix = text.rpartition(" ")[0]
        is_usual = prefix.count(" ") == _SPACES_BEFORE
        batches.setdefault((message.topic, prefix if is_usual else text), []).append(message)
    return list(batches.values())


def _bits(batch: Sequence[ReceivedMessage], handle: ReceiptHandle) -> int:
    """Return the bits of a batch's messages, behind the start that their handles have in common."""
    bits = 0
    for message in batch:
        word = _text(message).rpartition(" ")[2]
        distance = int(word) - handle.start_offset if word.isdecimal() else -1
        if not 0 <= distance < SPAN_MAX:
            raise ConfigError(
                f"message {message.message_id}: no receipt handle: {_text(message):.200}; use the one that "
                "came with the message"
            )
        bits |= 1 << distance
    return bits


def _text(message: ReceivedMessage) -> str:
    text = message.properties.get(POP_CK)
    if text is None:
        raise ConfigError(
            f"message {message.message_id} has no receipt handle: it was not received by a SimpleConsumer"
        )
    return text
