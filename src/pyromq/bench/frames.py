"""Requests that are encoded once and patched for each send, and answers that are read no further than needed.

A slot of a connection sends one request at a time, so its opaque is a constant of its frame: only the born
time and the unique ids change, and they have a fixed width. `wire` encodes the frame, with marks where they
go; the marks are found again in the bytes, so nothing here knows how a header is laid out.

An answer is its length, the code at the header's start and the opaque. `wire` reads those answers whose
header is not written as Apache's and ours are.
"""

import os
import struct
from collections.abc import Iterator
from typing import Final, NamedTuple

from pyromq.codes import PullFlag, RequestCode, Serializer
from pyromq.errors import RemoteProtocolError
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import FRAME_BYTES_MAX, Command, decode_header, encode
from pyromq.wire.header import write_header
from pyromq.wire.headers.pull import PullMessage
from pyromq.wire.headers.send import SendMessageV2

GROUP: Final = "pyromq-bench"
#: Every opaque has ten digits, so that all frames of a slot are equally long.
OPAQUE_FIRST: Final = 1_000_000_000
#: Thirteen digits, as every born time until 2286.
_BORN_MARK: Final = 7_777_777_777_777
_NEXT_OFFSET: Final = b'"nextBeginOffset":"'
_CODE: Final = b'{"code":'
_OPAQUE: Final = b'"opaque":'
_LENGTHS: Final = struct.Struct(">iI")
_UINT64: Final = struct.Struct(">Q")
#: A body that is long enough begins with the time at which it was to be sent.
STAMP_BYTES: Final = _UINT64.size


class Queue(NamedTuple):
    """A queue of the topic, on a broker at an address."""

    address: str
    broker_name: str
    queue_id: int


class UniqueKeys:
    """Unique ids of one process: 20 constant characters and a counter of 12."""

    __slots__ = ("_next", "prefix")

    def __init__(self, now_ms: int) -> None:
        fixed = b"\x7f\x00\x00\x01" + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)
        self.prefix = fixed.hex().upper()
        self._next = (now_ms & 0xFFFFFFFF) << 16

    def next(self) -> bytes:
        """Return the 12 characters that tell this id from all others of the process."""
        self._next += 1
        return b"%012X" % (self._next & 0xFFFFFFFFFFFF)


class SendFrame:
    """A send of one message, or of a batch, whose bytes are used again and again."""

    __slots__ = ("_born_at", "_bytes", "_keys", "_keys_at", "_stamps_at")

    def __init__(
        self, topic: str, queue: Queue, opaque: int, *, size: int, batch: int, keys: UniqueKeys
    ) -> None:
        body = b"x" * size
        properties = [f"UNIQ_KEY\x01{keys.prefix}{number:012X}\x02WAIT\x01true" for number in range(batch)]
        is_batch = batch > 1
        header = SendMessageV2(
            producer_group=GROUP,
            topic=topic,
            default_topic="TBW102",
            default_topic_queue_nums=8,
            queue_id=queue.queue_id,
            sys_flag=0,
            born_timestamp=_BORN_MARK,
            flag=0,
            properties="WAIT\x01true" if is_batch else properties[0],
            reconsume_times=0,
            batch=is_batch,
        )
        command = Command(
            RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2,
            opaque=opaque,
            ext=write_header(header),
            body=encode_batch(BatchUnit(0, body, text) for text in properties) if is_batch else body,
        )
        self._bytes = bytearray(encode(command))
        self._born_at = self._bytes.index(b"%d" % _BORN_MARK)
        prefix = keys.prefix.encode()
        self._keys_at = [at + len(prefix) for at in _positions(self._bytes, prefix, 0)]
        header_length = _LENGTHS.unpack_from(self._bytes)[1]
        bodies_at = _positions(self._bytes, body, _LENGTHS.size + header_length)
        self._stamps_at = list(bodies_at) if size >= STAMP_BYTES else []
        self._keys = keys

    def patched(self, born_ms: bytes) -> bytearray:
        """Return the frame with a new born time (13 digits) and new unique ids; valid until the next call."""
        frame, born_at = self._bytes, self._born_at
        frame[born_at : born_at + 13] = born_ms
        following = self._keys.next
        for at in self._keys_at:
            frame[at : at + 12] = following()
        return frame

    def stamp(self, at_ns: int) -> None:
        """Write a time into the first 8 bytes of each body, for whoever receives it."""
        for at in self._stamps_at:
            _UINT64.pack_into(self._bytes, at, at_ns)


def _positions(frame: bytearray, mark: bytes, start: int) -> Iterator[int]:
    at = frame.find(mark, start)
    while at >= 0:
        yield at
        at = frame.find(mark, at + len(mark))


class PullFrame:
    """A pull from one queue; the offset is of any width, so the two lengths are written for each."""

    __slots__ = ("_head", "_tail")

    def __init__(self, topic: str, queue: Queue, opaque: int, *, count: int, hold_ms: int) -> None:
        mark = 7_777_777_777_777
        flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if hold_ms else 0)
        header = PullMessage(
            consumer_group=GROUP,
            topic=topic,
            queue_id=queue.queue_id,
            queue_offset=mark,
            max_msg_nums=count,
            sys_flag=int(flags),
            commit_offset=0,
            suspend_timeout_millis=hold_ms,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
        )
        whole = encode(Command(RequestCode.PULL_MESSAGE, opaque=opaque, ext=write_header(header)))
        self._head, self._tail = whole[_LENGTHS.size :].split(b"%d" % mark)

    def at(self, offset: int) -> bytes:
        """Return the pull's frame for an offset."""
        header = b"%b%d%b" % (self._head, offset, self._tail)
        return _LENGTHS.pack(len(header) + 4, len(header)) + header


class Answer(NamedTuple):
    """What a generator needs to know of an answer; the rest is still in the buffer."""

    code: int
    opaque: int
    buffer: bytes
    header_at: int
    body_at: int
    end: int

    def next_offset(self) -> int:
        """Return where a pull goes on."""
        at = self.buffer.find(_NEXT_OFFSET, self.header_at, self.body_at)
        if at >= 0:
            at += len(_NEXT_OFFSET)
            return int(self.buffer[at : self.buffer.index(b'"', at)])
        header = decode_header(self.buffer[self.header_at : self.body_at], Serializer.JSON)
        return int((header.ext or {}).get("nextBeginOffset", "0"))


class AnswerReader:
    """Bytes in, answers out."""

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Answer]:
        """Take what arrived and return the whole answers; raise RemoteProtocolError for what is none."""
        buffer = self._rest + data if self._rest else data
        at, size = 0, len(buffer)
        while at + 8 <= size:
            length, mark = _LENGTHS.unpack_from(buffer, at)
            if not 4 <= length <= FRAME_BYTES_MAX or mark & 0xFFFFFF > length - 4:
                raise RemoteProtocolError(f"an answer says it is {length} bytes long")
            end = at + 4 + length
            if end > size:
                break
            header_at = at + 8
            body_at = header_at + (mark & 0xFFFFFF)
            code, opaque = _code_and_opaque(buffer, header_at, body_at, mark >> 24)
            yield Answer(code, opaque, buffer, header_at, body_at, end)
            at = end
        self._rest = buffer[at:]


def _code_and_opaque(buffer: bytes, header_at: int, body_at: int, serializer: int) -> tuple[int, int]:
    # The opaque is behind the fields of the answer: looked for from the end, a text among them cannot be it.
    opaque_at = buffer.rfind(_OPAQUE, header_at, body_at) + len(_OPAQUE)
    digits = buffer[opaque_at : opaque_at + 10]
    if buffer.startswith(_CODE, header_at) and digits.isdigit():
        code_at = header_at + len(_CODE)
        return int(buffer[code_at : buffer.index(b",", code_at)]), int(digits)
    command = decode_header(buffer[header_at:body_at], serializer)
    return command.code, command.opaque
