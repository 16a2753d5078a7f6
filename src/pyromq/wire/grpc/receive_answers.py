"""The messages of the streams that bring messages, as bytes.

0a  1 status                        { 08 code, 12 text }
12  2 message
1a  3 delivery_timestamp            { 08 seconds, 10 nanoseconds }    ReceiveMessage
18  3 next_offset                                                     PullMessage
"""

import logging
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Final, Protocol

from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.wire.grpc.grpc_codes import GrpcCode
from pyromq.wire.grpc.reserved_names import RESERVED_NAMES
from pyromq.wire.grpc.shown_messages import field, shown_message, timestamp, varint

if TYPE_CHECKING:
    from pyromq._kernel.requests.shown import ShownRecords

#: Bytes of messages that are written at once.
_CHUNK_BYTES: Final = 64 * 1024

log = logging.getLogger(__name__)


def framed(message: bytes) -> bytes:
    """Return a message as gRPC frames it: that it is not compressed, and its length."""
    return b"\0" + len(message).to_bytes(4, "big") + message


def status_bytes(code: int, text: str) -> bytes:
    """Return a `Status`."""
    return b"\x08" + varint(code) + field(b"\x12", text.encode("utf-8", "replace"))


@lru_cache(maxsize=256)
def received_status(code: int, text: str) -> bytes:
    """Return the first message of a stream."""
    return field(b"\x0a", status_bytes(code, text))


RECEIVED_OK: Final = received_status(GrpcCode.OK, "OK")


def delivered_at(now_ms: int) -> bytes:
    """Return the last message of a stream."""
    return field(b"\x1a", timestamp(now_ms))


def pulled_next(offset: int) -> bytes:
    """Return the last message of a pull's stream: the offset to go on from."""
    return b"\x18" + varint(offset)


def pulled_messages(records: bytes, topic: bytes, body_bytes_max: int) -> Iterator[bytes]:
    """Yield one message of the stream for each of the records that stand one behind the other.

    Raises CorruptRecord at a record that is not whole.
    """
    view, at = memoryview(records), 0
    while at < len(view):
        end = at + int.from_bytes(view[at : at + 4], "big")
        yield field(b"\x12", shown_message(view[at:end], topic, body_bytes_max=body_bytes_max))
        at = end


class RecordRun(Protocol):
    """Records of one queue that were popped together. The sequences are of the same length."""

    @property
    def offsets(self) -> Sequence[int]:
        """The offsets in the queue."""
        ...

    @property
    def positions(self) -> Sequence[int]:
        """The places in the log."""
        ...

    @property
    def body(self) -> bytes:
        """The records as they are stored, one behind the other."""
        ...

    @property
    def sizes(self) -> Sequence[int]:
        """The length of each record."""
        ...

    @property
    def attempts(self) -> Sequence[int]:
        """The deliveries of each, with this one."""
        ...


class ReceivedFrames:
    """Writes popped records as the messages of a stream, with the prefix that gRPC gives each of them."""

    def __init__(self, body_bytes_max: int, *, use_kernel: bool = IS_COMPILED) -> None:
        self._body_bytes_max = body_bytes_max
        self._compiled: ShownRecords | None = None
        if use_kernel:
            # Only now: without a compiler there is nothing to import.
            from pyromq._kernel.requests import shown

            self._compiled = shown.ShownRecords(RESERVED_NAMES)

    def of(self, run: RecordRun, handle_head: bytes, topic: bytes) -> Iterator[bytes]:
        """Yield the messages of some records, one or more at a time, up to a few.

        `handle_head` are the words of the receipt handles before the offset, with a space behind each;
        `topic` is what `shown_topic` made of its name. A record that is not whole is left out: it comes
        again, and in the end to the dead letters.
        """
        at = number = 0
        compiled, sizes = self._compiled, run.sizes
        while number < len(sizes):
            if compiled is not None:
                frames, count = compiled.write(
                    run.body, at, number, sizes, run.offsets, run.positions, run.attempts, handle_head, topic,
                    _CHUNK_BYTES,
                )  # fmt: skip
                if count:
                    at += sum(sizes[number : number + count])
                    number += count
                    yield frames
                    continue
            end = at + sizes[number]
            yield self._message(run, number, memoryview(run.body)[at:end], handle_head, topic)
            at, number = end, number + 1

    def _message(
        self, run: RecordRun, number: int, record: memoryview, handle_head: bytes, topic: bytes
    ) -> bytes:
        position = run.positions[number]
        try:
            message = shown_message(
                record,
                topic,
                body_bytes_max=self._body_bytes_max,
                receipt=b"%b%d %d" % (handle_head, run.offsets[number], position),
                attempt=run.attempts[number],
            )
        except CorruptRecord as error:
            log.warning("the message at %d cannot be delivered: %s", position, error)
            return b""
        return framed(field(b"\x12", message))
