"""The words between a session and its link: limits, events, and gRPC's texts in headers.

`grpc_session.py` and its compiled twin share them, so that both say the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final
from urllib.parse import unquote_to_bytes

#: What happened on a stream, as `receive` tells it: the kind, the stream, and two things that depend on it.
Event = tuple[int, int, Any, Any]

#: The headers of a call are there: its path, and its other headers by their names.
OPENED: Final = 0
#: A whole message arrived.
MESSAGE: Final = 1
#: The client sends no more.
ENDED: Final = 2
#: The client sent what gRPC does not allow: a status and a text to end the call with.
FAILED: Final = 3
#: The stream was reset: its error code, and whether the client did it, or we because of what it sent.
RESET: Final = 4


class Http2Error(IntEnum):
    """Error codes of HTTP/2, by their numbers on the wire."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    ENHANCE_YOUR_CALM = 11


@dataclass(frozen=True, slots=True)
class SessionLimits:
    """Limits of one connection, in bytes and streams."""

    #: Of one message, and of all messages together of which a part arrived.
    message_bytes_max: int = 136_314_880
    #: Streams that are open at a time.
    streams_max: int = 16_384
    #: A call's headers, as HTTP/2 counts them: names, values, and 32 for each.
    header_list_bytes_max: int = 8_192
    #: Bytes that a client may send ahead, on a stream and on the connection.
    window_bytes: int = 1_048_576


#: What a connection begins with, whichever side of it is a client.
PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
#: Before each message of gRPC: whether it is compressed, and its length.
PREFIX_BYTES: Final = 5
CONTENT_TYPE: Final = "application/grpc"

_PLAIN_TEXT = re.compile(r"[ -$&-~]*")
_TIMEOUT_DIGITS_MAX: Final = 8
_UNIT_S: Final = {"H": 3600.0, "M": 60.0, "S": 1.0, "m": 1e-3, "u": 1e-6, "n": 1e-9}
#: Of a text that goes into a header; clients take 8 KiB of headers at least.
_TEXT_CHARACTERS_MAX: Final = 1_024


def percent_encoded(text: str) -> bytes:
    """Return a status's text as the header `grpc-message` carries it; a very long one is cut."""
    text = text[:_TEXT_CHARACTERS_MAX]
    if _PLAIN_TEXT.fullmatch(text):
        return text.encode("ascii")
    return b"".join(
        b"%c" % byte if 0x20 <= byte <= 0x7E and byte != 0x25 else b"%%%02X" % byte
        for byte in text.encode("utf-8", "replace")
    )


def percent_decoded(value: bytes) -> str:
    """Return the text of a header `grpc-message`."""
    return unquote_to_bytes(value).decode("utf-8", "replace")


def timeout_s(value: str) -> float | None:
    """Return the seconds of a header `grpc-timeout`, None when it cannot be read."""
    # Each call has one, and a regular expression takes three times as long.
    digits, unit_s = value[:-1], _UNIT_S.get(value[-1:])
    if unit_s is None or not digits.isdecimal() or not digits.isascii() or len(digits) > _TIMEOUT_DIGITS_MAX:
        return None
    return int(digits) * unit_s
