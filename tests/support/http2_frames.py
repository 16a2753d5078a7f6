"""The client's side of HTTP/2, frame by frame: what a peer may send that no library would."""

import struct
from collections.abc import Iterator, Sequence

import hpack

from pyromq.net.http2.session_terms import PREFACE

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = (
    range(10)
)
END_STREAM, ACK, END_HEADERS = 1, 1, 4
FRAME_HEAD_BYTES = 9

#: A frame: kind, flags, stream, payload.
Frame = tuple[int, int, int, bytes]

CALL_HEADERS = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/pyromq.Test/Echo"),
    (":authority", "localhost"),
    ("content-type", "application/grpc"),
    ("te", "trailers"),
)


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """Return one frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def begun(settings: Sequence[tuple[int, int]] = ()) -> bytes:
    """Return what a connection begins with."""
    return PREFACE + frame(SETTINGS, payload=b"".join(struct.pack(">HI", *pair) for pair in settings))


def block(headers: Sequence[tuple[str, str]] = CALL_HEADERS) -> bytes:
    """Return headers as bytes that no table is needed for."""
    # Each is new to the encoder, and none is kept: the blocks of a connection may come in any order.
    return bytes(hpack.Encoder().encode([hpack.NeverIndexedHeaderTuple(*pair) for pair in headers]))


def opened(
    stream: int, headers: Sequence[tuple[str, str]] = CALL_HEADERS, *, is_whole: bool = False
) -> bytes:
    """Return the beginning of a call."""
    return frame(HEADERS, END_HEADERS | (END_STREAM if is_whole else 0), stream, block(headers))


def prefixed(message: bytes, mark: int = 0) -> bytes:
    """Return a message as gRPC frames it."""
    return bytes((mark,)) + len(message).to_bytes(4, "big") + message


def said(stream: int, message: bytes, *, is_last: bool = True) -> bytes:
    """Return a message of a call, in as many frames as it needs."""
    data = prefixed(message)
    pieces = [data[at : at + 16_384] for at in range(0, len(data), 16_384)]
    return b"".join(
        frame(DATA, END_STREAM if is_last and number == len(pieces) - 1 else 0, stream, piece)
        for number, piece in enumerate(pieces)
    )


def called(stream: int, message: bytes, headers: Sequence[tuple[str, str]] = CALL_HEADERS) -> bytes:
    """Return a whole call with one message."""
    return opened(stream, headers) + said(stream, message)


def window(stream: int, size: int) -> bytes:
    """Return a frame that opens a window."""
    return frame(WINDOW_UPDATE, 0, stream, size.to_bytes(4, "big"))


def reset(stream: int, code: int = 8) -> bytes:
    """Return the end of a stream."""
    return frame(RST_STREAM, 0, stream, code.to_bytes(4, "big"))


def frames(data: bytes) -> Iterator[Frame]:
    """Cut what a server sent into frames, which must be whole."""
    at = 0
    while at < len(data):
        length = int.from_bytes(data[at : at + 3], "big")
        payload = data[at + FRAME_HEAD_BYTES : at + FRAME_HEAD_BYTES + length]
        assert len(payload) == length, "half a frame"
        yield data[at + 3], data[at + 4], int.from_bytes(data[at + 5 : at + 9], "big"), payload
        at += FRAME_HEAD_BYTES + length


class Answers:
    """What a server said, stream by stream: headers, bytes of messages, the code of its end."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self.headers: dict[int, list[tuple[str, str]]] = {}
        self.data: dict[int, bytes] = {}
        self.ended: set[int] = set()
        self.resets: dict[int, int] = {}
        self.goaway: int | None = None
        self.pongs = 0
        self.window_bytes = 0

    def take(self, output: bytes) -> "Answers":
        """Read what a session wrote."""
        for kind, flags, stream, payload in frames(output):
            if kind == HEADERS:
                assert flags & END_HEADERS
                self.headers.setdefault(stream, []).extend(
                    (_text(name), _text(value)) for name, value in self._decoder.decode(payload)
                )
            elif kind == DATA:
                self.data[stream] = self.data.get(stream, b"") + payload
            elif kind == RST_STREAM:
                self.resets.setdefault(stream, int.from_bytes(payload, "big"))
            elif kind == GOAWAY:
                self.goaway = int.from_bytes(payload[4:8], "big")
            elif kind == PING and flags & ACK:
                self.pongs += 1
            elif kind == WINDOW_UPDATE:
                self.window_bytes += int.from_bytes(payload, "big")
            if kind in (DATA, HEADERS) and flags & END_STREAM:
                self.ended.add(stream)
        return self

    def messages(self, stream: int) -> list[bytes]:
        """Return the whole messages of a stream."""
        data, found, at = self.data.get(stream, b""), [], 0
        while at < len(data):
            end = at + 5 + int.from_bytes(data[at + 1 : at + 5], "big")
            assert end <= len(data), "half a message"
            found.append(data[at + 5 : end])
            at = end
        return found

    def status(self, stream: int) -> str | None:
        """Return gRPC's status of a stream."""
        return dict(self.headers.get(stream, ())).get("grpc-status")


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode("latin-1")
