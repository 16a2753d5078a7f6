"""Requests that are encoded once and patched for each send, and answers that are read no further than needed.

`wire` encodes the frame of a send, with marks where its opaque, its born time and its unique ids go; all of
them have a fixed width, and the marks are found again in the bytes, so nothing here knows how a header is
laid out. A pull's offset has any width, so its frame is kept in two pieces. A signature covers all of a
request but its opaque, so signed sends are made beforehand and only get their opaque; so are send-backs.

An answer is its length, the code at the header's start and the opaque. `wire` reads those answers whose
header is not written as Apache's and ours are.
"""

import os
import struct
import time
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from pyromq.codes import PullFlag, RequestCode, Serializer, SysFlag
from pyromq.errors import RemoteProtocolError
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.command import FRAME_BYTES_MAX, Command, decode_header, encode
from pyromq.wire.header import write_header
from pyromq.wire.headers.pull_headers import PullMessage
from pyromq.wire.headers.send_headers import SendMessageV2
from pyromq.wire.headers.transaction_headers import ConsumerSendMessageBack, EndTransaction
from pyromq.wire.signature import Sign

GROUP: Final = "pyromq-bench"
#: Every opaque has ten digits, so that all frames of a template are equally long.
OPAQUE_FIRST: Final = 1_000_000_000
_OPAQUE_MARK: Final = 1_999_999_999
#: Thirteen digits, as every born time until 2286.
_BORN_MARK: Final = 7_777_777_777_777
_OFFSET_MARK: Final = 7_777_777_777_777
_POSITION_MARK: Final = 7_777_777_777_778
_ID_MARK: Final = "the-half's-id"
#: The last characters of a message's id are its position in the log.
_POSITION_DIGITS: Final = 16
_NEXT_OFFSET: Final = b'"nextBeginOffset":"'
_CODE: Final = b'{"code":'
_OPAQUE: Final = b'"opaque":'
_LENGTHS: Final = struct.Struct(">iI")
_SERIALIZER_AT: Final = 4
#: A binary header begins with code (2 bytes), language (1), version (2) and opaque (4).
_BINARY_HEAD: Final = struct.Struct(">hBhi")
_BINARY_OPAQUE_AT: Final = 5
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
    """A request, of one message or of a batch, and where in it something is written for each time."""

    frame: bytes
    opaque_at: int
    born_at: int
    """Where its born time is; -1 when that stays as it is."""
    keys_at: list[int]
    """For each message, where the last 12 characters of its unique id are, and those of its key."""
    stamps_at: list[int]
    """For each message, where its body begins; empty when bodies are too short for a time."""
    is_binary: bool = False
    """Whether its opaque is a number of four bytes, not ten digits."""


def send_command(
    queue: Queue,
    *,
    size: int,
    batch: int,
    prefix: str,
    properties: str = "",
    has_keys: bool = False,
    is_half: bool = False,
) -> Command:
    """Return a send to a queue; `properties` are put behind those that every message has."""
    body = b"x" * size
    # A key is as long as a unique id and has its prefix, so that its counter is found as those are.
    more = [f"KEYS\x01{prefix}{0:012X}"] * has_keys + [text for text in (properties,) if text]
    texts = [
        "\x02".join([f"UNIQ_KEY\x01{prefix}{number:012X}", "WAIT\x01true", *more]) for number in range(batch)
    ]
    half = f"TRAN_MSG\x01true\x02PGROUP\x01{GROUP}\x02"
    is_batch = batch > 1
    header = SendMessageV2(
        producer_group=GROUP,
        topic=queue.topic,
        default_topic="TBW102",
        default_topic_queue_nums=8,
        queue_id=queue.queue_id,
        sys_flag=int(SysFlag.TRANSACTION_PREPARED) if is_half else 0,
        born_timestamp=_BORN_MARK,
        flag=0,
        properties="WAIT\x01true" if is_batch else half * is_half + texts[0],
        reconsume_times=0,
        batch=is_batch,
    )
    return Command(
        RequestCode.SEND_BATCH_MESSAGE if is_batch else RequestCode.SEND_MESSAGE_V2,
        opaque=_OPAQUE_MARK,
        ext=write_header(header),
        body=encode_batch(BatchUnit(0, body, text) for text in texts) if is_batch else body,
    )


def send_template(
    queue: Queue,
    *,
    size: int,
    batch: int,
    prefix: str,
    properties: str = "",
    has_keys: bool = False,
    is_half: bool = False,
    is_binary: bool = False,
) -> SendTemplate:
    """Encode a send, and find what is written into it for each request."""
    command = send_command(
        queue,
        size=size,
        batch=batch,
        prefix=prefix,
        properties=properties,
        has_keys=has_keys,
        is_half=is_half,
    )
    command.serializer = Serializer.ROCKETMQ if is_binary else Serializer.JSON
    frame = bytes(encode(command))
    body_at = _body_at(frame)
    keys_at = [at + len(prefix) for at in _positions(frame, prefix.encode(), 0)]
    stamps_at = list(_positions(frame, b"x" * size, body_at)) if size >= STAMP_BYTES else []
    born_at = frame.index(b"%d" % _BORN_MARK)
    return SendTemplate(frame, _opaque_at(frame, body_at), born_at, keys_at, stamps_at, is_binary)


def fixed_template(command: Command) -> SendTemplate:
    """Encode a request that is the same each time, but for its opaque."""
    command.opaque = _OPAQUE_MARK
    frame = bytes(encode(command))
    is_binary = command.serializer == Serializer.ROCKETMQ
    return SendTemplate(frame, _opaque_at(frame, _body_at(frame)), -1, [], [], is_binary)


def signed_templates(queues: Sequence[Queue], count: int, sign: Sign, **shape: Any) -> list[SendTemplate]:
    """Sign and encode so many sends to queues in turn, each with ids of its own; `shape` as for one send."""
    now_ms, prefix = time.time_ns() // 1_000_000, shape["prefix"]
    made = []
    for number in range(count):
        command = send_command(queues[number % len(queues)], **shape)
        first, mine = f"{prefix}{0:012X}", f"{prefix}{number:012X}"
        command.ext = {
            name: str(now_ms) if text == str(_BORN_MARK) else text.replace(first, mine)
            for name, text in (command.ext or {}).items()
        }
        sign(command)
        made.append(fixed_template(command))
    return made


def send_back_template(topic: str, position: int, *, level: int) -> SendTemplate:
    """Encode a consumer's request to have a message again; with a level, after that level's delay."""
    header = ConsumerSendMessageBack(
        offset=position, group=GROUP, delay_level=level, origin_topic=topic, max_reconsume_times=16
    )
    return fixed_template(Command(RequestCode.CONSUMER_SEND_MSG_BACK, ext=write_header(header)))


def _body_at(frame: bytes) -> int:
    return _LENGTHS.size + (int(_LENGTHS.unpack_from(frame)[1]) & 0xFFFFFF)


def _opaque_at(frame: bytes, body_at: int) -> int:
    if frame[_SERIALIZER_AT] == Serializer.ROCKETMQ:
        return _LENGTHS.size + _BINARY_OPAQUE_AT
    return frame.rindex(b"%b%d" % (_OPAQUE, _OPAQUE_MARK), 0, body_at) + len(_OPAQUE)


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
    if serializer == Serializer.ROCKETMQ and len(header) >= _BINARY_HEAD.size:
        code, _, _, opaque = _BINARY_HEAD.unpack_from(header)
        return code, opaque
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


@cache
def _end_template() -> bytes:
    header = EndTransaction(
        producer_group=GROUP,
        tran_state_table_offset=_OFFSET_MARK,
        commit_log_offset=_POSITION_MARK,
        commit_or_rollback=int(SysFlag.TRANSACTION_COMMIT),
        msg_id=_ID_MARK,
    )
    command = Command(RequestCode.END_TRANSACTION, opaque=_OPAQUE_MARK, ext=write_header(header))
    return bytes(encode(command))[_LENGTHS.size :]


def end_request(header: bytes, serializer: int, opaque: int) -> bytes:
    """Return the request that commits a half message, from the header of the answer to its send."""
    if serializer == Serializer.JSON:
        offset, message_id = _field(header, b'"queueOffset":"'), _field(header, b'"msgId":"')
    else:
        ext = decode_header(header, serializer).ext or {}
        offset, message_id = ext.get("queueOffset", "").encode(), ext.get("msgId", "").encode()
    if not offset.isdigit() or len(message_id) < _POSITION_DIGITS:
        raise RemoteProtocolError("the answer to a half message does not say where it is")
    position = int(message_id[-_POSITION_DIGITS:], 16)
    end = (
        _end_template()
        .replace(b"%d" % _OFFSET_MARK, offset)
        .replace(b"%d" % _POSITION_MARK, b"%d" % position)
        .replace(_ID_MARK.encode(), message_id)
        .replace(b"%d" % _OPAQUE_MARK, b"%d" % opaque)
    )
    return _LENGTHS.pack(len(end) + 4, len(end)) + end


def _field(header: bytes, name: bytes) -> bytes:
    at = header.find(name) + len(name)
    return header[at : header.find(b'"', at)] if at >= len(name) else b""
