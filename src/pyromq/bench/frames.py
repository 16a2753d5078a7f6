"""Requests that are encoded once and patched for each send, and answers that are read no further than needed.

`wire` encodes the frame of a send, with marks where its opaque, its born time and its unique ids go; all of
them have a fixed width, and the marks are found again in the bytes, so nothing here knows how a header is
laid out. A pull's offset has any width, so its frame is kept in two pieces.

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
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.headers.send_headers import SendMessageV2

GROUP: Final = "pyromq-bench"
#: Every opaque has ten digits, so that all frames of a template are equally long.
OPAQUE_FIRST: Final = 1_000_000_000
_OPAQUE_MARK: Final = 1_999_999_999
#: Thirteen digits, as every born time until 2286.
_BORN_MARK: Final = 7_777_777_777_777
_OFFSET_MARK: Final = 7_777_777_777_777
_NEXT_OFFSET: Final = b'"nextBeginOffset":"'
_CODE: Final = b'{"code":'
_OPAQUE: Final = b'"opaque":'
_LENGTHS: Final = struct.Struct(">iI")
#: A body that is long enough begins with the time at which it was to be sent.
STAMP_BYTES: Final = 8


class Queue(NamedTuple):
    """A queue of a topic, on a broker at an address."""

    address: str
    broker_name: str
    topic: str
    queue_id: int


def key_prefix() -> str:
    """Return the 20 characters that all unique ids of one series share; a counter of 12 follows."""
    fixed = b"\x7f\x00\x00\x01" + struct.pack(">H", os.getpid() & 0xFFFF) + os.urandom(4)
    return fixed.hex().upper()


class SendTemplate(NamedTuple):
    """A send of one message, or of a batch, and where in it something is written for each request."""

    frame: bytes
    opaque_at: int
    born_at: int
    keys_at: list[int]
    """For each message, where the last 12 characters of its unique id are."""
    stamps_at: list[int]
    """For each message, where its body begins; empty when bodies are too short for a time."""


def send_template(queue: Queue, *, size: int, batch: int, prefix: str, properties: str = "") -> SendTemplate:
    """Encode a send to a queue; `properties` are put behind those that every message has."""
    body = b"x" * size
    texts = [
        f"UNIQ_KEY\x01{prefix}{number:012X}\x02WAIT\x01true{properties and chr(2) + properties}"
        for number in range(batch)
    ]
    is_batch = batch > 1
    header = SendMessageV2(
        producer_group=GROUP,
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=8,
        queue_id=queue.queue_id,
        sys_flag=0,
        born_timestamp=_BORN_MARK,
        flag=0,
        properties="WAIT\x01true" if is_batch else texts[0],
        reconsume_times=0,
        batch=is_batch,
    )
    command = Command(
        RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2,
        opaque=_OPAQUE_MARK,
        ext=write_header(header),
        body=encode_batch(BatchUnit(0, body, text) for text in texts) if is_batch else body,
    )
    frame = bytes(encode(command))
    body_at = _LENGTHS.size + _LENGTHS.unpack_from(frame)[1]
    opaque_at = frame.rindex(b"%b%d" % (_OPAQUE, _OPAQUE_MARK), 0, body_at) + len(_OPAQUE)
    keys_at = [at + len(prefix) for at in _positions(frame, prefix.encode(), 0)]
    stamps_at = list(_positions(frame, body, body_at)) if size >= STAMP_BYTES else []
    return SendTemplate(frame, opaque_at, frame.index(b"%d" % _BORN_MARK), keys_at, stamps_at)


def _positions(frame: bytes, mark: bytes, start: int) -> Iterator[int]:
    at = frame.find(mark, start)
    while at >= 0:
        yield at
        at = frame.find(mark, at + len(mark))


class PullTemplate(NamedTuple):
    """A pull from one queue: the header before and behind the offset, and the offset that it begins with."""

    head: bytes
    tail: bytes
    start: int


def pull_template(queue: Queue, opaque: int, start: int, *, count: int, hold_ms: int) -> PullTemplate:
    """Encode a pull of up to `count` messages, held by the broker for as long as there are none."""
    flags = PullFlag.SUBSCRIPTION | (PullFlag.SUSPEND if hold_ms else 0)
    header = PullMessage(
        consumer_group=GROUP,
        topic=queue.topic,
        queue_id=queue.queue_id,
        queue_offset=_OFFSET_MARK,
        max_msg_nums=count,
        sys_flag=int(flags),
        commit_offset=0,
        suspend_timeout_millis=hold_ms,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )
    whole = bytes(encode(Command(RequestCode.PULL_MESSAGE, opaque=opaque, ext=write_header(header))))
    head, tail = whole[_LENGTHS.size :].split(b"%d" % _OFFSET_MARK)
    return PullTemplate(head, tail, start)


class AnswerHead(NamedTuple):
    """The part of an answer that a generator needs; the rest stays in the buffer."""

    code: int
    opaque: int
    serializer: int
    buffer: bytes
    header_at: int
    body_at: int
    end: int

    def next_offset(self) -> int:
        """Return where a pull goes on."""
        return read_next_offset(self.buffer[self.header_at : self.body_at], self.serializer)


def answers(buffer: bytes) -> Iterator[AnswerHead]:
    """Return the whole answers at the buffer's start; raise RemoteProtocolError for what is none."""
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
        code, opaque = read_answer(buffer[header_at:body_at], mark >> 24)
        yield AnswerHead(code, opaque, mark >> 24, buffer, header_at, body_at, end)
        at = end


def read_answer(header: bytes, serializer: int) -> tuple[int, int]:
    """Return code and opaque of a header."""
    # The opaque is behind the fields of the answer: looked for from the end, a text among them cannot be it.
    opaque_at = header.rfind(_OPAQUE) + len(_OPAQUE)
    digits = header[opaque_at : opaque_at + 10]
    code = header[len(_CODE) : header.find(b",")] if header.startswith(_CODE) else b""
    if code.isdigit() and len(digits) == 10 and digits.isdigit():
        return int(code), int(digits)
    command = decode_header(header, serializer)
    return command.code, command.opaque


def read_next_offset(header: bytes, serializer: int) -> int:
    """Return where a pull goes on, from its answer's header."""
    at = header.find(_NEXT_OFFSET)
    if at >= 0 and serializer == Serializer.JSON:
        at += len(_NEXT_OFFSET)
        return int(header[at : header.index(b'"', at)])
    return int((decode_header(header, serializer).ext or {}).get("nextBeginOffset", "0"))
