"""The handle of one delivery of a popped message (RocketMQ 5's ExtraInfoUtil, the property POP_CK).

    start offset, pop time, invisible time, revive queue, mark, broker, queue, offset, position

Nine words with one space between them. Clients of the remoting protocol build the first eight themselves,
from the headers of a pop's answer. The ninth is the place of the record in the log; it is for clients of
gRPC, to whom a handle is opaque.
"""

import re
from dataclasses import dataclass
from typing import Final

from pyromq.errors import HeaderError
from pyromq.name_rules import RETRY_PREFIX, SERVER_CHARACTERS_MAX, shortened

#: The revive queue of messages that are popped in order.
ORDERED_QUEUE_ID: Final = 999
#: Which topic a record was popped from: the topic itself, or one of its two kinds of retry topics.
MARK_TOPIC, MARK_RETRY_V1, MARK_RETRY_V2 = 0, 1, 2

_WORDS: Final = 8
#: Eight numbers of at most twenty characters, a broker's name, and what is between them.
_CHARACTERS_MAX: Final = SERVER_CHARACTERS_MAX + 9 * 21
_is_number: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII).fullmatch
_INT64_MAX: Final = (1 << 63) - 1
_INT32_MAX: Final = (1 << 31) - 1


def pop_retry_topic(group: str, topic: str, *, is_v2: bool = False) -> str:
    """Return the topic of what a group popped of a topic and did not finish."""
    return f"{RETRY_PREFIX}{group}{'+' if is_v2 else '_'}{topic}"


def real_topic_of(group: str, topic: str, mark: int) -> str:
    """Return the topic that a record with this mark lies in; a retry topic stays what it is."""
    if mark == MARK_TOPIC or topic.startswith(RETRY_PREFIX):
        return topic
    return pop_retry_topic(group, topic, is_v2=mark == MARK_RETRY_V2)


@dataclass(frozen=True, slots=True)
class ReceiptHandle:
    """One delivery of one message."""

    #: The first offset of the pop's batch in this queue; after a change, the message's own.
    start_offset: int
    #: When it was popped, or its invisible time was last changed.
    popped_at_ms: int
    invisible_ms: int
    revive_queue_id: int
    mark: int
    broker_name: str
    queue_id: int
    offset: int
    #: Where the record is in the log; 0 where that is not known.
    position: int = 0

    @property
    def visible_at_ms(self) -> int:
        """The time from which others may have the message."""
        return self.popped_at_ms + self.invisible_ms

    @property
    def is_fifo(self) -> bool:
        """Whether the message was popped in order."""
        return self.revive_queue_id == ORDERED_QUEUE_ID

    def real_topic(self, group: str, topic: str) -> str:
        """Return the topic that the record lies in, by the topic that was asked for or this one itself."""
        return real_topic_of(group, topic, self.mark)

    def encode(self) -> str:
        """Return the handle as clients of gRPC get it."""
        return f"{self.encode_short()} {self.position}"

    def encode_short(self) -> str:
        """Return the eight words of the property POP_CK."""
        return (
            f"{self.start_offset} {self.popped_at_ms} {self.invisible_ms} {self.revive_queue_id} {self.mark} "
            f"{self.broker_name} {self.queue_id} {self.offset}"
        )


def decode_receipt_handle(text: str) -> ReceiptHandle:
    """Return what a handle says, of eight words or more; raise HeaderError when it is none."""
    words = text.split(" ", _WORDS + 2) if len(text) <= _CHARACTERS_MAX else []
    if len(words) < _WORDS:
        raise _no_handle(text)
    start, popped_at, invisible, revive, mark, broker, queue, offset, *more = words
    # Each acknowledgement comes here: all digits are looked at together, and an empty word is no number.
    digits = start + popped_at + invisible + revive + mark + queue + offset
    if not broker or not digits.isdecimal() or not digits.isascii():
        raise _no_handle(text)
    try:
        handle = ReceiptHandle(
            int(start), int(popped_at), int(invisible), int(revive), int(mark), broker, int(queue),
            int(offset), _position(more[0]) if more else 0,
        )  # fmt: skip
    except ValueError:
        raise _no_handle(text) from None
    if not _is_sound(handle):
        raise _no_handle(text)
    return handle


def _position(word: str) -> int:
    """Return a place in the log, 0 where the word says that it is unknown; raise ValueError for no number."""
    if not _is_number(word):
        raise ValueError(word)
    return max(int(word), 0)


def _is_sound(handle: ReceiptHandle) -> bool:
    """Return whether the numbers can be those of a message."""
    return (
        handle.start_offset <= handle.offset <= _INT64_MAX
        and handle.popped_at_ms <= _INT64_MAX
        and handle.invisible_ms <= _INT64_MAX
        and handle.queue_id <= _INT32_MAX
        and handle.revive_queue_id <= _INT32_MAX
        and handle.mark <= MARK_RETRY_V2
        and handle.position <= _INT64_MAX
    )


def _no_handle(text: str) -> HeaderError:
    return HeaderError(f"no receipt handle: {shortened(text)}; use the one that came with the message")
