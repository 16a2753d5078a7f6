"""The messages that one pop brought of one queue: their names towards the broker, and which have ended.

A bit stands for a message: bit i is the offset `start_offset` + i, as in a BATCH_ACK. So a message that waits
for its listener costs a bit here, and no object of its own.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.clock import Clock
from pyromq.errors import RemoteProtocolError
from pyromq.model import MessageQueue, ReceivedMessage
from pyromq.wire.bodies.pop_bodies import BIT_SET_BYTES_MAX, BatchAckPart, pack_bits
from pyromq.wire.headers.pop_headers import PopMessageAnswer
from pyromq.wire.receipt_handle import ReceiptHandle

#: Part of the invisible time that is kept in reserve: the broker's clock began before this one.
_RESERVE: Final = 0.02
#: Offsets that one bit set reaches over.
SPAN_MAX: Final = 8 * BIT_SET_BYTES_MAX


class PoppedBatch:
    """Messages of one queue that came with one pop, until all of them have ended.

    `topic` has its name on the wire. What is `left` has not ended; of that, what is in `moved` has a handle
    of its own, because its invisible time was changed.
    """

    __slots__ = (
        "_clock",
        "_ends_s",
        "broker_name",
        "done",
        "invisible_ms",
        "left",
        "mark",
        "messages",
        "moved",
        "offsets",
        "popped_at_ms",
        "popped_s",
        "queue_id",
        "revive_queue_id",
        "start_offset",
        "topic",
    )

    def __init__(
        self, queue: MessageQueue, mark: int, start_offset: int, offsets: tuple[int, ...], clock: Clock
    ) -> None:
        self._clock = clock
        self.topic = queue.topic
        self.broker_name = queue.broker_name
        self.queue_id = queue.queue_id
        self.mark = mark
        self.start_offset = start_offset
        self.offsets = offsets
        self.messages: list[ReceivedMessage] = []
        self.popped_at_ms = self.invisible_ms = self.revive_queue_id = 0
        self.popped_s = self._ends_s = clock.monotonic()
        #: Messages that have not ended, and those that are done and not acknowledged yet.
        self.left = self.done = 0
        for offset in offsets:
            if not 0 <= offset - start_offset < SPAN_MAX:
                raise ValueError(f"offset {offset} is too far from {start_offset}")
            self.left |= 1 << (offset - start_offset)
        self.moved: dict[int, ReceiptHandle] = {}

    def begin(self, answer: PopMessageAnswer) -> None:
        """Note when the messages were popped, and for how long they are this consumer's."""
        self.popped_at_ms, self.invisible_ms = answer.pop_time, answer.invisible_time
        self.revive_queue_id = answer.revive_qid
        self.extend(answer.invisible_time)

    # Time ---------------------------------------------------------------------------------------------

    def extend(self, invisible_ms: int) -> None:
        """Note that the messages are this consumer's for so long from now on."""
        self._ends_s = self._clock.monotonic() + invisible_ms / 1_000 * (1 - _RESERVE)

    @property
    def rest_s(self) -> float:
        """Seconds until others may have the messages."""
        return self._ends_s - self._clock.monotonic()

    @property
    def is_dropped(self) -> bool:
        """Whether others may have the messages: no listener is to be called with them any more."""
        return self._clock.monotonic() >= self._ends_s

    def start(self, messages: Sequence[ReceivedMessage], now_ms: int) -> None:
        """Hear that a listener begins; the broker does not care."""

    # Messages -----------------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of messages that have not ended."""
        return self.left.bit_count()

    def has_left(self, offset: int) -> bool:
        """Whether the message at an offset has not ended."""
        return bool(self.left >> (offset - self.start_offset) & 1)

    def bits(self, messages: Sequence[ReceivedMessage]) -> int:
        """Return the bits of messages."""
        bits, start = 0, self.start_offset
        for message in messages:
            bits |= 1 << (message.queue_offset - start)
        return bits

    def finish(self, bits: int) -> None:
        """Note that messages are done; those that ended before are passed over."""
        self.done |= bits & self.left
        self.left &= ~bits

    def forget(self, bits: int) -> None:
        """Note that messages have ended in another way: they come again, or are a dead letter."""
        self.left &= ~bits

    # What the broker is told --------------------------------------------------------------------------

    def handle(self, offset: int) -> ReceiptHandle:
        """Return the handle by which the broker knows a message now."""
        moved = self.moved.get(offset)
        if moved is not None:
            return moved
        return ReceiptHandle(
            self.start_offset,
            self.popped_at_ms,
            self.invisible_ms,
            self.revive_queue_id,
            self.mark,
            self.broker_name,
            self.queue_id,
            offset,
        )

    @property
    def prefix(self) -> str:
        """The text of a handle of this batch up to its message's offset."""
        return (
            f"{self.start_offset} {self.popped_at_ms} {self.invisible_ms} {self.revive_queue_id} {self.mark} "
            f"{self.broker_name} {self.queue_id} "
        )

    def take_done(self, group: str) -> Iterator[BatchAckPart]:
        """Yield what is to be acknowledged now; whoever takes it has it acknowledged."""
        bits, self.done = self.done, 0
        for offset in tuple(self.moved) if self.moved else ():
            bit = 1 << (offset - self.start_offset)
            if bits & bit:
                bits &= ~bit
                yield ack_part(group, self.topic, self.moved.pop(offset))
        if bits:
            yield BatchAckPart(
                group=group,
                topic=self.topic,
                mark=str(self.mark),
                start_offset=self.start_offset,
                queue_id=self.queue_id,
                revive_queue_id=self.revive_queue_id,
                popped_at_ms=self.popped_at_ms,
                invisible_ms=self.invisible_ms,
                packed_bits=pack_bits(bits),
            )


def ack_part(group: str, topic: str, handle: ReceiptHandle, bits: int = 0) -> BatchAckPart:
    """Return the acknowledgement of one message, or of those of its batch whose bits are set."""
    return BatchAckPart(
        group=group,
        topic=topic,
        mark=str(handle.mark),
        start_offset=handle.start_offset,
        queue_id=handle.queue_id,
        revive_queue_id=handle.revive_queue_id,
        popped_at_ms=handle.popped_at_ms,
        invisible_ms=handle.invisible_ms,
        packed_bits=pack_bits(bits or 1 << (handle.offset - handle.start_offset)),
    )


def read_batches(answer: PopMessageAnswer, popped: MessageQueue, clock: Clock) -> list[PoppedBatch]:
    """Return what the answer to a pop says of its messages, queue by queue, in the order of the messages."""
    try:
        starts = {(mark, queue): int(start) for mark, queue, start in _entries(answer.start_offset_info)}
        batches = [
            PoppedBatch(
                MessageQueue(popped.topic, popped.broker_name, int(queue)),
                int(mark),
                starts[mark, queue],
                tuple(map(int, offsets.split(","))),
                clock,
            )
            for mark, queue, offsets in _entries(answer.msg_offset_info)
        ]
    except (ValueError, KeyError, IndexError) as error:
        raise RemoteProtocolError(
            f"the broker's answer to a pop is no list of offsets: startOffsetInfo "
            f"{answer.start_offset_info!r:.200}, msgOffsetInfo {answer.msg_offset_info!r:.200}"
        ) from error
    for batch in batches:
        batch.begin(answer)
    return batches


def read_counts(answer: PopMessageAnswer) -> dict[tuple[int, int, int], int]:
    """Return how often messages popped in order were delivered before, by mark, queue and offset.

    The text has an entry for each that was, `{mark} qo{queue}%{offset} {count}`, and others for queues.
    """
    counts = {}
    try:
        for mark, place, count in _entries(answer.order_count_info):
            queue, is_message, offset = place.removeprefix("qo").partition("%")
            if is_message:
                counts[int(mark), int(queue), int(offset)] = int(count)
    except ValueError as error:
        raise RemoteProtocolError(
            f"the broker's answer to a pop has no counts: orderCountInfo {answer.order_count_info!r:.200}"
        ) from error
    return counts


def _entries(text: str | None) -> list[list[str]]:
    return [entry.split(" ") for entry in (text or "").split(";") if entry]
