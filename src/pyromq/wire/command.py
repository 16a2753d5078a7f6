"""A command and its frame.

    int32 length            bytes that follow
    int32 serializer, header length     one byte and 24 bits
    header                  JSON or RocketMQ's binary
    body                    may be empty

`CommandReader` turns any cut of bytes into commands. It trusts no length before it has checked it, and
never holds more than one frame's worth of bytes that it has not handed on.

The JSON header is written as fastjson writes it: keys in alphabetical order, nothing that is null, no
whitespace. The map of fields inside it is a `java.util.HashMap` there; `java_map_order` gives its order,
so that our answers are the same bytes.
"""

import struct
from collections.abc import Iterable
from typing import Any, Final

import msgspec

from pyromq.codes import VERSION, CommandFlag, Language, Serializer
from pyromq.errors import LocalProtocolError, RemoteProtocolError
from pyromq.wire.header import Int32
from pyromq.wire.java_hash import java_map_order

#: RocketMQ's own limit on a whole frame, its length field included.
FRAME_BYTES_MAX: Final = 16_777_216

_LENGTHS = struct.Struct(">iI")
#: code, language, version, opaque, flag, length of the remark.
_BINARY_HEAD = struct.Struct(">hbhiii")
assert _BINARY_HEAD.size == 17
_INT16 = struct.Struct(">h")
_INT32 = struct.Struct(">i")

_JSON_HEADER: Final = (
    b'{"code":%d,%b"flag":%d,"language":"%b","opaque":%d,%b"serializeTypeCurrentRPC":"JSON","version":%d}'
)
_LANGUAGES: Final = {language.name: int(language) for language in Language}
_LANGUAGE_NAMES: Final = {int(language): language.name for language in Language}


#: Fields that are never shown: who sees them could act as somebody else.
_SECRETS: Final = frozenset({"secretKey", "Signature", "SecurityToken"})


class Command:
    """A request or an answer, with its fields as a map of strings and its body as bytes."""

    __slots__ = ("body", "code", "ext", "flag", "language", "opaque", "remark", "serializer", "version")

    def __init__(
        self,
        code: int,
        *,
        opaque: int = 0,
        flag: int = 0,
        remark: str | None = None,
        ext: dict[str, str] | None = None,
        body: bytes = b"",
        language: int = Language.JAVA,
        version: int = VERSION,
        serializer: int = Serializer.JSON,
    ) -> None:
        self.code = code
        self.opaque = opaque
        self.flag = flag
        self.remark = remark
        self.ext = ext
        self.body = body
        self.language = language
        self.version = version
        self.serializer = serializer

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & CommandFlag.RESPONSE)

    @property
    def is_oneway(self) -> bool:
        """Whether its sender wants no answer."""
        return bool(self.flag & CommandFlag.ONEWAY)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Command):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__slots__)

    __hash__ = None  # type: ignore[assignment]  # a command is a mutable record

    def __repr__(self) -> str:
        kind = "response" if self.is_response else "oneway" if self.is_oneway else "request"
        shown = {name: "******" if name in _SECRETS else text for name, text in (self.ext or {}).items()}
        return (
            f"Command({kind} {self.code}, opaque={self.opaque}, remark={self.remark!r}, ext={shown!r}, "
            f"body of {len(self.body)} bytes)"
        )


class CommandReader:
    """Bytes in, commands out.

    `feed` takes what arrived; `next_command` returns the next whole command, or None when more bytes are
    needed, and raises RemoteProtocolError when the bytes cannot be a frame. After that the reader is done:
    the border between frames is lost.
    """

    __slots__ = ("_buffer", "_frame_bytes_max", "_start")

    def __init__(self, frame_bytes_max: int = FRAME_BYTES_MAX) -> None:
        self._buffer: bytes | bytearray = b""
        self._start = 0
        self._frame_bytes_max = frame_bytes_max

    @property
    def pending_bytes(self) -> int:
        """The number of bytes that wait for the rest of their frame."""
        return len(self._buffer) - self._start

    def feed(self, data: bytes | bytearray) -> None:
        """Take what arrived; a bytearray must stay as it is until its commands were taken."""
        if self._start == len(self._buffer):
            self._buffer, self._start = data, 0
            return
        if isinstance(self._buffer, bytes):
            self._buffer = bytearray(memoryview(self._buffer)[self._start :])
        elif self._start:
            del self._buffer[: self._start]
        self._start = 0
        self._buffer += data

    @property
    def missing_bytes(self) -> int:
        """The number of missing bytes of the frame that `next_command` waits for; 0 when unknown."""
        available = self.pending_bytes
        if available < 8:
            return 0
        (length,) = _INT32.unpack_from(self._buffer, self._start)
        return max(0, int(length) + 4 - available)

    @property
    def pending(self) -> tuple[bytes | bytearray, int]:
        """The bytes that are there, and where in them the next frame begins."""
        return self._buffer, self._start

    def skip_to(self, start: int) -> None:
        """Go on at byte `start` of the pending bytes, where a frame begins: those before it were handled."""
        self._start = start
        if start == len(self._buffer):
            self._buffer, self._start = b"", 0

    def next_command(self) -> Command | None:
        """Return the next whole command, or None when more bytes are needed."""
        command, end = read_command(self._buffer, self._start, self._frame_bytes_max)
        if command is not None:
            self.skip_to(end)
        return command


def read_command(
    buffer: bytes | bytearray, start: int, frame_bytes_max: int
) -> tuple[Command, int] | tuple[None, int]:
    """Return the command that begins at byte `start` and the byte behind it; no command: bytes are missing.

    Raises RemoteProtocolError when the bytes cannot be a frame.
    """
    available = len(buffer) - start
    if available < 4:
        return None, start
    (length,) = _INT32.unpack_from(buffer, start)
    if length < 4 or length + 4 > frame_bytes_max:
        raise RemoteProtocolError(
            f"a frame says it is {length} bytes long; the limit is {frame_bytes_max - 4}, and 4 is the least"
        )
    if available < 8:
        return None, start
    _, mark = _LENGTHS.unpack_from(buffer, start)
    serializer, header_length = mark >> 24, mark & 0xFFFFFF
    if header_length > length - 4:
        raise RemoteProtocolError(f"a frame of {length} bytes says that its header has {header_length} bytes")
    if available < length + 4:
        return None, start
    header_start = start + 8
    header_end = header_start + header_length
    end = start + 4 + length
    # A slice of bytes is the one copy; a slice of a bytearray would be copied once more.
    source = buffer if isinstance(buffer, bytes) else memoryview(buffer)
    header, body = bytes(source[header_start:header_end]), bytes(source[header_end:end])
    command = decode_header(header, serializer)
    command.body = body
    return command, end


def decode_header(header: bytes, serializer: int) -> Command:
    """Return the command that a header's bytes say, without its body."""
    if serializer == Serializer.JSON:
        return _decode_json(header)
    if serializer == Serializer.ROCKETMQ:
        return _decode_binary(header)
    raise RemoteProtocolError(
        f"a frame's header is in serializer {serializer}; 0 (JSON) and 1 (binary) exist"
    )


def encode(command: Command) -> bytes:
    """Return a command's frame, in the command's own serializer."""
    try:
        header = _encode_json(command) if command.serializer == Serializer.JSON else _encode_binary(command)
    except (UnicodeEncodeError, struct.error) as error:
        raise LocalProtocolError(f"{command!r} has a field that cannot be sent: {error}") from error
    length = 4 + len(header) + len(command.body)
    if length + 4 > FRAME_BYTES_MAX or len(header) > 0xFFFFFF:
        raise LocalProtocolError(f"a frame of {length} bytes is over the limit of {FRAME_BYTES_MAX - 4}")
    return b"".join((_LENGTHS.pack(length, command.serializer << 24 | len(header)), header, command.body))


# JSON ------------------------------------------------------------------------------------------------------


class _JsonHeader(msgspec.Struct):
    """The header as Java and Go write it: every field a string."""

    code: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | int | None = None
    remark: str | None = None
    extFields: dict[str, str] | None = None  # noqa: N815  the wire's own name


class _LooseJsonHeader(msgspec.Struct):
    """The header as C++ and JavaScript write it: numbers and booleans among the fields."""

    code: Int32 = 0
    opaque: Int32 = 0
    flag: Int32 = 0
    version: Int32 = 0
    language: str | int | None = None
    remark: str | None = None
    extFields: dict[str, Any] | None = None  # noqa: N815  the wire's own name


_decode_strict_json = msgspec.json.Decoder(_JsonHeader, strict=False).decode
_decode_loose_json = msgspec.json.Decoder(_LooseJsonHeader, strict=False).decode
_encode_text = msgspec.json.Encoder().encode


def _decode_json(header: bytes) -> Command:
    fields: _JsonHeader | _LooseJsonHeader
    ext: dict[str, str] | None
    try:
        fields = _decode_strict_json(header)
        ext = fields.extFields
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        fields, ext = _decode_loosely(header)
    return Command(
        fields.code,
        opaque=fields.opaque,
        flag=fields.flag,
        remark=fields.remark,
        ext=ext,
        language=_language_number(fields.language),
        version=fields.version,
    )


def _decode_loosely(header: bytes) -> tuple[_LooseJsonHeader, dict[str, str]]:
    try:
        fields = _decode_loose_json(header)
        ext = {key: _as_text(value) for key, value in (fields.extFields or {}).items() if value is not None}
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise RemoteProtocolError(f"a frame's header is not the JSON of a command: {error}") from error
    return fields, ext


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    return _encode_text(value).decode()


def _language_number(value: str | int | None) -> int:
    if isinstance(value, int):
        return value if value in _LANGUAGE_NAMES else int(Language.OTHER)
    return _LANGUAGES.get(value or "", int(Language.OTHER))


def _encode_json(command: Command) -> bytes:
    ext = command.ext
    middle = b""
    if ext is not None:
        keys = tuple(ext)
        order = java_map_order(keys)
        fields = ext if order == keys else {key: ext[key] for key in order}
        middle = b'"extFields":' + _encode_text(fields) + b","
    remark = b"" if command.remark is None else b'"remark":' + _encode_text(command.remark) + b","
    language = _LANGUAGE_NAMES.get(command.language, "OTHER").encode()
    return _JSON_HEADER % (
        command.code,
        middle,
        command.flag,
        language,
        command.opaque,
        remark,
        command.version,
    )


# RocketMQ's binary -----------------------------------------------------------------------------------------
#
#   int16 code, int8 language, int16 version, int32 opaque, int32 flag,
#   int32 length, remark, int32 length, fields: (int16 length, name, int32 length, value)*


def _decode_binary(header: bytes) -> Command:
    try:
        code, language, version, opaque, flag, remark_length = _BINARY_HEAD.unpack_from(header)
        remark, at = _text(header, _BINARY_HEAD.size, remark_length)
        (ext_length,) = _INT32.unpack_from(header, at)
        ext = _decode_binary_ext(header, at + 4, ext_length)
    except (struct.error, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"a frame's binary header does not read: {error}") from error
    return Command(
        code,
        opaque=opaque,
        flag=flag,
        remark=remark or None,
        ext=ext,
        language=language if language in _LANGUAGE_NAMES else int(Language.OTHER),
        version=version,
        serializer=Serializer.ROCKETMQ,
    )


def _decode_binary_ext(header: bytes, at: int, length: int) -> dict[str, str] | None:
    if length == 0:
        return None
    end = at + length
    if length < 0 or end > len(header):
        raise RemoteProtocolError(f"a frame's binary header says it has {length} bytes of fields")
    ext: dict[str, str] = {}
    while at < end:
        (key_length,) = _INT16.unpack_from(header, at)
        key, at = _text(header, at + 2, key_length)
        (value_length,) = _INT32.unpack_from(header, at)
        ext[key], at = _text(header, at + 4, value_length)
    return ext


def _text(header: bytes, at: int, length: int) -> tuple[str, int]:
    end = at + length
    if length < 0 or end > len(header):
        raise RemoteProtocolError(f"a frame's binary header says a text has {length} bytes")
    return header[at:end].decode(), end


def _encode_binary(command: Command) -> bytes:
    if not -0x8000 <= command.code <= 0x7FFF:
        raise LocalProtocolError(f"code {command.code} does not fit the binary header's 16 bits; use JSON")
    remark = (command.remark or "").encode()
    ext = b"".join(_binary_pairs((command.ext or {}).items()))
    return b"".join(
        (
            _BINARY_HEAD.pack(
                command.code, command.language, command.version, command.opaque, command.flag, len(remark)
            ),
            remark,
            _INT32.pack(len(ext)),
            ext,
        )
    )


def _binary_pairs(pairs: Iterable[tuple[str, str]]) -> Iterable[bytes]:
    for key, value in pairs:
        name, text = key.encode(), value.encode()
        if len(name) > 0x7FFF:
            raise LocalProtocolError(f"a field's name of {len(name)} bytes is over the binary header's limit")
        yield _INT16.pack(len(name))
        yield name
        yield _INT32.pack(len(text))
        yield text
