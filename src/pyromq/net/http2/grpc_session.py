"""HTTP/2 and gRPC's framing for the side that is called, without I/O: bytes in, events out, and the reverse.

    receive(bytes)         ──► events: calls, whole messages, ends, resets
    send, answer, finish   ──► what leaves, kept until
    take_output(room)      ──► bytes

It stands on `h2`, which knows HTTP/2's rules; gRPC's are here: the prefix of a message, statuses in trailers.
`pyromq._kernel.http2.sessions` does the same on nghttp2. Frames are cut here before h2 sees them, so that
`FrameGuard` counts each, and a client's GOAWAY stays ours: after one h2 would send nothing more, and a Java
client says it while its last calls are under way.

What is bounded: streams, headers, messages of which a part arrived (`message_bytes_max`, all streams
together), frames that carry nothing. What waits for the peer's windows is `queued_bytes`, which the link
looks at.
"""

from __future__ import annotations

from typing import Final

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
import hpack

from pyromq.net.http2.frame_guard import GOAWAY, FrameGuard
from pyromq.net.http2.grpc_calls import GrpcStatus
from pyromq.net.http2.session_terms import (
    CONTENT_TYPE,
    ENDED,
    FAILED,
    MESSAGE,
    OPENED,
    PREFACE,
    PREFIX_BYTES,
    RESET,
    Event,
    Http2Error,
    SessionLimits,
    percent_encoded,
)

_FRAME_HEAD_BYTES: Final = 9
#: HTTP/2's own limit for the frames of a peer that was not told another one.
_FRAME_BYTES_MAX: Final = 16_384
_FIRST_WINDOW_BYTES: Final = 65_535
_HEADER_TABLE_BYTES_MAX: Final = 4_096
_CONFIG = h2.config.H2Configuration(
    client_side=False,
    header_encoding=None,
    validate_outbound_headers=False,
    normalize_outbound_headers=False,
)
_ANSWER_HEADERS: Final = [(b":status", b"200"), (b"content-type", CONTENT_TYPE.encode())]
_OK_TRAILERS: Final = [(b"grpc-status", b"0")]


class _Connection(h2.connection.H2Connection):
    #: Streams whose end it remembers. 65,536 of them are megabytes, for each connection.
    MAX_CLOSED_STREAMS = 512
    #: The number of streams at which it looks for those that ended.
    _look_at = 64

    def _open_streams(self, remainder: int) -> int:
        """Return the number of open streams, or a number that is no less.

        h2 counts them all for each one that is opened: ten thousand would take half a minute. That those are
        counted that just ended does not matter below the limit.
        """
        count = len(self.streams)
        if count < min(self._look_at, self.local_settings.max_concurrent_streams):
            return count
        # It forgets the streams that ended.
        open_count: int = super()._open_streams(remainder)
        self._look_at = 2 * open_count + 64
        return open_count


class _Stream:
    __slots__ = (
        "has_headers",
        "is_deaf",
        "is_done",
        "out",
        "out_bytes",
        "partial",
        "partial_bytes",
        "trailers",
    )

    def __init__(self) -> None:
        #: A message of which a part arrived, and how much of it the session has counted.
        self.partial = bytearray()
        self.partial_bytes = 0
        #: Whether what arrives is of no interest any more.
        self.is_deaf = False
        #: What waits to be sent, and what is said behind it.
        self.out: list[bytes] = []
        self.out_bytes = 0
        self.trailers: list[tuple[bytes, bytes]] | None = None
        self.has_headers = False
        #: Whether the client has sent all.
        self.is_done = False


class GrpcSession:
    """One connection of a server. After `error` is set nothing more is received."""

    def __init__(self, limits: SessionLimits) -> None:
        self._limits = limits
        self._h2 = _Connection(config=_CONFIG)
        settings = h2.settings.SettingCodes
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={
                settings.MAX_CONCURRENT_STREAMS: limits.streams_max,
                settings.INITIAL_WINDOW_SIZE: limits.window_bytes,
                settings.MAX_HEADER_LIST_SIZE: limits.header_list_bytes_max,
            },
        )
        self._h2.decoder.max_header_list_size = limits.header_list_bytes_max
        self._h2.initiate_connection()
        if limits.window_bytes > _FIRST_WINDOW_BYTES:
            self._h2.increment_flow_control_window(limits.window_bytes - _FIRST_WINDOW_BYTES)
        self._guard = FrameGuard()
        self._streams: dict[int, _Stream] = {}
        #: Streams with something to send, and those of them whose own window is used up.
        self._sendable: dict[int, _Stream] = {}
        self._blocked: dict[int, _Stream] = {}
        self._frames = bytearray()
        self._has_preface = False
        self._last_id = 0
        self._is_leaving = False
        self._goaway = b""
        self._events: list[Event] = []
        #: Bytes of messages that wait to be sent, and of those that arrived in part.
        self.queued_bytes = 0
        self.partial_bytes = 0
        #: What the peer did that ends the connection.
        self.error: str | None = None

    @property
    def stream_count(self) -> int:
        """The number of streams that are open."""
        return len(self._streams)

    @property
    def wants_output(self) -> bool:
        """Whether `take_output` has bytes now, if it has room for them."""
        return bool(self._can_send or self._goaway or self._h2._data_to_send)

    @property
    def _can_send(self) -> bool:
        """Whether a message may leave; after an error h2 takes none."""
        return bool(self._sendable) and self.error is None and self._h2.outbound_flow_control_window > 0

    # What arrives ----------------------------------------------------------------------------------------

    def receive(self, data: bytes | bytearray | memoryview) -> list[Event]:
        """Take bytes that arrived, and return what they mean; what is wrong with them is in `error`."""
        self._frames += data
        at = 0
        try:
            if not self._has_preface:
                at = self._take_preface()
            while self.error is None:
                end = self._frame_end(at)
                if not at < end <= len(self._frames):
                    break
                self._take_frame(at, end)
                at = end
        except h2.exceptions.ProtocolError as error:
            self.error = str(error) or type(error).__name__
        del self._frames[:at]
        events, self._events = self._events, []
        return events

    def _take_preface(self) -> int:
        begun = bytes(self._frames[: len(PREFACE)])
        if not PREFACE.startswith(begun):
            self.error = "it does not begin as HTTP/2 does"
        elif len(begun) == len(PREFACE):
            self._has_preface = True
            self._h2.receive_data(begun)
            return len(begun)
        return 0

    def _frame_end(self, at: int) -> int:
        """Return where the frame that begins at a place ends, the place itself when that is not known yet."""
        frames = self._frames
        if not self._has_preface or len(frames) - at < _FRAME_HEAD_BYTES:
            return at
        length = int.from_bytes(frames[at : at + 3], "big")
        if length > _FRAME_BYTES_MAX:
            self.error = f"a frame of {length} bytes; {_FRAME_BYTES_MAX} are allowed"
            self.shut_down(Http2Error.FRAME_SIZE_ERROR)
            return at
        return at + _FRAME_HEAD_BYTES + length

    def _take_frame(self, at: int, end: int) -> None:
        kind, flags = self._frames[at + 3], self._frames[at + 4]
        flood = self._guard.flood(kind, flags, end - at - _FRAME_HEAD_BYTES)
        if flood is not None:
            self.error = f"a flood of {flood}"
            self.shut_down(Http2Error.ENHANCE_YOUR_CALM)
            return
        if kind == GOAWAY:
            return
        for event in self._h2.receive_data(bytes(self._frames[at:end])):
            self._take(event)

    def _take(self, event: h2.events.Event) -> None:
        if isinstance(event, h2.events.DataReceived):
            self._take_data(event)
        elif isinstance(event, h2.events.RequestReceived):
            self._open(event)
        elif isinstance(event, h2.events.StreamEnded):
            self._end_request(event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            if event.stream_id in self._streams:
                self._forget(event.stream_id)
                code = int(event.error_code)
                self._events.append((RESET, event.stream_id, code, bool(event.remote_reset)))
        elif isinstance(event, h2.events.WindowUpdated):
            # Of the whole connection when there is no stream; then it is enough that there is room again.
            blocked = self._blocked.pop(event.stream_id, None)
            if blocked is not None:
                self._sendable[event.stream_id] = blocked
        elif isinstance(event, h2.events.RemoteSettingsChanged):
            self._sendable |= self._blocked
            self._blocked.clear()
            # A peer may not decide how much is remembered for it.
            if self._h2.encoder.header_table_size > _HEADER_TABLE_BYTES_MAX:
                self._h2.encoder.header_table_size = _HEADER_TABLE_BYTES_MAX

    def _open(self, event: h2.events.RequestReceived) -> None:
        stream_id = event.stream_id
        self._last_id = stream_id
        if self._is_leaving:
            self._h2.reset_stream(stream_id, Http2Error.REFUSED_STREAM)
            return
        pseudo: dict[str, str] = {}
        metadata: dict[str, str] = {}
        for name, value in event.headers:
            text = name.decode("latin-1")
            (pseudo if text[:1] == ":" else metadata)[text] = value.decode("latin-1")
        stream = self._streams[stream_id] = _Stream()
        status = _refusal(pseudo, metadata)
        if status:
            self._respond_http(stream_id, stream, status)
            return
        self._events.append((OPENED, stream_id, pseudo[":path"], metadata))

    def _respond_http(self, stream_id: int, stream: _Stream, status: bytes) -> None:
        stream.is_deaf = stream.has_headers = True
        stream.trailers = []
        self._h2.send_headers(stream_id, [(b":status", status)], end_stream=True)
        self._end_stream(stream_id, stream)

    def _take_data(self, event: h2.events.DataReceived) -> None:
        stream_id = event.stream_id
        stream = self._streams.get(stream_id)
        if event.flow_controlled_length:
            self._h2.acknowledge_received_data(event.flow_controlled_length, stream_id)
        if stream is None or stream.is_deaf:
            return
        self._read_messages(stream_id, stream, event.data)
        self._count_partial(stream)
        if self.partial_bytes > self._limits.message_bytes_max:
            self._fail(
                stream_id,
                stream,
                GrpcStatus.RESOURCE_EXHAUSTED,
                f"messages of which a part arrived have more than {self._limits.message_bytes_max} bytes on "
                "this connection; send fewer at a time",
            )

    def _read_messages(self, stream_id: int, stream: _Stream, data: bytes) -> None:
        partial = stream.partial
        partial += data
        at = 0
        while len(partial) - at >= PREFIX_BYTES:
            length = int.from_bytes(partial[at + 1 : at + PREFIX_BYTES], "big")
            if partial[at]:
                self._fail(
                    stream_id,
                    stream,
                    GrpcStatus.INTERNAL,
                    "a message is marked as compressed, but no compression was agreed on",
                )
                return
            if length > self._limits.message_bytes_max:
                self._fail(
                    stream_id,
                    stream,
                    GrpcStatus.RESOURCE_EXHAUSTED,
                    f"a message of {length} bytes; {self._limits.message_bytes_max} are taken at most",
                )
                return
            end = at + PREFIX_BYTES + length
            if end > len(partial):
                break
            self._events.append((MESSAGE, stream_id, bytes(partial[at + PREFIX_BYTES : end]), None))
            at = end
        del partial[:at]

    def _fail(self, stream_id: int, stream: _Stream, status: int, text: str) -> None:
        self._hear_no_more(stream)
        self._events.append((FAILED, stream_id, int(status), text))

    def _hear_no_more(self, stream: _Stream) -> None:
        stream.is_deaf = True
        stream.partial = bytearray()
        self._count_partial(stream)

    def _count_partial(self, stream: _Stream) -> None:
        self.partial_bytes += len(stream.partial) - stream.partial_bytes
        stream.partial_bytes = len(stream.partial)

    def _end_request(self, stream_id: int) -> None:
        stream = self._streams.get(stream_id)
        if stream is None:
            return
        stream.is_done = True
        if stream.is_deaf:
            return
        if stream.partial:
            self._fail(stream_id, stream, GrpcStatus.INTERNAL, "the request ends within a message")
        else:
            self._events.append((ENDED, stream_id, None, None))

    # What leaves -----------------------------------------------------------------------------------------

    def send(self, stream_id: int, message: bytes) -> None:
        """Send one message of a call; dropped if its stream is gone."""
        self.send_framed(stream_id, b"\0" + len(message).to_bytes(4, "big") + message)

    def send_framed(self, stream_id: int, messages: bytes) -> None:
        """Send messages of a call that have gRPC's prefixes already; dropped if its stream is gone."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.trailers is not None or self.error is not None:
            return
        if not stream.has_headers:
            stream.has_headers = True
            self._h2.send_headers(stream_id, _ANSWER_HEADERS)
        stream.out.append(messages)
        stream.out_bytes += len(messages)
        self.queued_bytes += len(messages)
        if stream_id not in self._blocked:
            self._sendable[stream_id] = stream

    def finish(self, stream_id: int, status: int, text: str) -> None:
        """End a call behind what was sent."""
        stream = self._streams.get(stream_id)
        if stream is None or stream.trailers is not None or self.error is not None:
            return
        trailers = _OK_TRAILERS if not status and not text else _trailers(status, text)
        stream.trailers = trailers if stream.has_headers else [*_ANSWER_HEADERS, *trailers]
        self._hear_no_more(stream)
        if not stream.out_bytes:
            self._send_trailers(stream_id, stream)

    def answer(self, stream_id: int, message: bytes) -> None:
        """Send the one message of a call that ends well."""
        self.send(stream_id, message)
        self.finish(stream_id, 0, "")

    def reset(self, stream_id: int, code: int) -> None:
        """End a stream without a status; what waits to be sent is dropped."""
        if stream_id in self._streams and self.error is None:
            self._forget(stream_id)
            self._h2.reset_stream(stream_id, code)

    def unsent(self, stream_id: int) -> int:
        """Return how many bytes of a stream wait to be sent."""
        stream = self._streams.get(stream_id)
        return 0 if stream is None else stream.out_bytes

    def ping(self) -> None:
        """Ask the peer whether it is there."""
        if self.error is None:
            self._h2.ping(bytes(8))

    def shut_down(self, code: int = Http2Error.NO_ERROR) -> None:
        """Tell the peer to open no more streams here; those that are open go on, unless it did wrong."""
        if not self._is_leaving:
            self._is_leaving = True
            # h2 would send nothing more after a GOAWAY of its own.
            payload = self._last_id.to_bytes(4, "big") + int(code).to_bytes(4, "big")
            self._goaway = b"\0\0\x08" + bytes((GOAWAY, 0)) + bytes(4) + payload

    def take_output(self, room: int) -> bytes:
        """Return what is to be written, with at most so many bytes of messages, give or take a frame."""
        self._guard.turn_ended()
        while self._can_send and room > 0:
            stream_id = next(iter(self._sendable))
            stream = self._sendable.pop(stream_id)
            room -= self._send_data(stream_id, stream, room)
        return bytes(self._h2.data_to_send()) + self._take_goaway()

    def _take_goaway(self) -> bytes:
        goaway, self._goaway = self._goaway, b""
        return goaway

    def _send_data(self, stream_id: int, stream: _Stream, room: int) -> int:
        data = memoryview(b"".join(stream.out))
        at = 0
        while at < len(data) and at < room:
            size = min(
                self._h2.local_flow_control_window(stream_id),
                self._h2.max_outbound_frame_size,
                len(data) - at,
            )
            if size <= 0:
                break
            self._h2.send_data(stream_id, bytes(data[at : at + size]))
            self._guard.data_sent += 1
            at += size
        self.queued_bytes -= at
        stream.out_bytes -= at
        stream.out = [bytes(data[at:])] if at < len(data) else []
        if not stream.out_bytes:
            if stream.trailers is not None:
                self._send_trailers(stream_id, stream)
        elif at < room and self._h2.outbound_flow_control_window > 0:
            self._blocked[stream_id] = stream
        else:
            self._sendable[stream_id] = stream
        return at

    def _send_trailers(self, stream_id: int, stream: _Stream) -> None:
        assert stream.trailers is not None
        self._h2.send_headers(stream_id, stream.trailers, end_stream=True)
        self._end_stream(stream_id, stream)

    def _end_stream(self, stream_id: int, stream: _Stream) -> None:
        """Forget a stream that has its answer; a client that still sends is told to stop."""
        if not stream.is_done:
            self._h2.reset_stream(stream_id, Http2Error.NO_ERROR)
        self._forget(stream_id)

    def _forget(self, stream_id: int) -> None:
        stream = self._streams.pop(stream_id, None)
        if stream is not None:
            self._sendable.pop(stream_id, None)
            self._blocked.pop(stream_id, None)
            self.queued_bytes -= stream.out_bytes
            self.partial_bytes -= stream.partial_bytes


def _refusal(pseudo: dict[str, str], metadata: dict[str, str]) -> bytes:
    """Return the status of HTTP for a request that is none of gRPC; empty for one that is."""
    if pseudo.get(":method") != "POST":
        return b"405"
    return b"" if metadata.get("content-type", "").startswith(CONTENT_TYPE) else b"415"


def _trailers(status: int, text: str) -> list[tuple[bytes, bytes]]:
    # A text is not kept in the table of headers: the next one is another.
    message = hpack.NeverIndexedHeaderTuple(b"grpc-message", percent_encoded(text))
    return [(b"grpc-status", b"%d" % status), message]
