"""A connection of a server that speaks gRPC: a link like the others, with a session instead of commands.

What arrives goes to the session, and what it means to the calls. What calls send stays in the session until
the turn ends, and leaves in one write; so do its own frames. Limits are those of `Link`, and these:

    what arrives   streams, headers and messages by `SessionLimits`, frames that carry nothing by
                   `FrameGuard`, streams that are reset as soon as they are opened by RESETS_MAX; headers
                   of calls that are held, and parts of messages on all connections, by `arriving.py`
    what leaves    a peer that does not read, or keeps its windows shut, has calls that wait for `room`; what
                   is sent without waiting is bounded by OUTPUT_FACTOR_MAX times the high-water mark

A peer that takes nothing from its socket is not read. One that only keeps its windows shut is: the frame that
opens them must be read.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyromq.clock import Clock
from pyromq.config.settings import NetSettings
from pyromq.net.http2.arriving import ArrivingBytes, HeaderBytes
from pyromq.net.http2.grpc_calls import GrpcMethods, GrpcStatus
from pyromq.net.http2.server_call import ServerCall, take_all
from pyromq.net.http2.session_terms import (
    ENDED,
    FAILED,
    MESSAGE,
    RESET,
    Http2Error,
)
from pyromq.net.link import OUTPUT_FACTOR_MAX, TLS_HANDSHAKE_BYTE, Link
from pyromq.net.turn import Turn
from pyromq.wire.command import Command

if TYPE_CHECKING:
    from pyromq.net.http2.grpc_session import GrpcSession
    from pyromq.net.http2.plain_call import PlainCall

#: Bytes of one call that may wait before its handler waits for room.
ROOM_BYTES = 256 * 1024
#: Streams that a connection may reset while they are young, and how many more each second.
RESETS_MAX = 1_000
RESETS_PER_S = 100
YOUNG_S = 1.0

_log = logging.getLogger("pyromq.net")


class GrpcLink(Link):
    """One connection of a server of gRPC."""

    __slots__ = (
        "_arrived_bytes",
        "_arriving",
        "_calls",
        "_headers",
        "_is_noted_for_output",
        "_methods",
        "_resets",
        "_resets_at",
        "_rooms",
        "_session",
    )

    def __init__(
        self,
        settings: NetSettings,
        *,
        turn: Turn,
        clock: Clock,
        methods: GrpcMethods,
        session: GrpcSession,
        arriving: ArrivingBytes,
        on_end: Callable[[Link], None],
        on_start: Callable[[Link], None] | None = None,
    ) -> None:
        super().__init__(
            settings, turn=turn, clock=clock, on_request=_no_command, on_end=on_end, on_start=on_start
        )
        self._methods = methods
        self._session = session
        #: Parts of messages: of all connections, and how many bytes of this one are counted there.
        self._arriving = arriving
        self._arrived_bytes = 0
        self._headers: HeaderBytes | None = None
        self._calls: dict[int, ServerCall] = {}
        #: Calls whose handlers wait for room.
        self._rooms: dict[PlainCall, asyncio.Future[None]] = {}
        self._resets = 0.0
        self._resets_at = 0.0
        #: Whether the end of this turn is asked to write what the session has.
        self._is_noted_for_output = False

    @property
    def call_count(self) -> int:
        """The number of calls that are not over."""
        return len(self._calls)

    # What calls and the server call ----------------------------------------------------------------------

    def now(self) -> float:
        """Return the time by the server's clock, in monotonic seconds."""
        return self._monotonic()

    def send_message(self, stream_id: int, message: bytes) -> None:
        """Send a message of a call when this turn ends."""
        self._session.send(stream_id, message)
        self._has_output()

    def send_framed(self, stream_id: int, messages: bytes) -> None:
        """Send messages of a call that have gRPC's prefixes already, when this turn ends."""
        self._session.send_framed(stream_id, messages)
        self._has_output()

    def answer_call(self, stream_id: int, message: bytes) -> None:
        """Send the only message of a call, which ends well."""
        session = self._session
        session.answer(stream_id, message)
        if not self._is_noted_for_output or session.queued_bytes > self._out_bytes_high:
            self._has_output()

    def finish_call(self, stream_id: int, status: int, text: str) -> None:
        """End a call behind what was sent."""
        self._session.finish(stream_id, status, text)
        self._has_output()

    def forget_call(self, call: PlainCall) -> None:
        """Note that a call is over."""
        self._calls.pop(call.stream_id, None)
        if self._headers is not None:
            self._headers.forget(call.stream_id)
        if self._rooms:
            room = self._rooms.pop(call, None)
            if room is not None and not room.done():
                room.set_result(None)

    def has_room_for(self, stream_id: int) -> bool:
        """Whether a call may send more: what it and others sent is taken, or nearly."""
        session = self._session
        return (
            self._has_room()
            and session.queued_bytes < self._out_bytes_high
            and session.unsent(stream_id) < ROOM_BYTES
        )

    def next_room(self, call: ServerCall) -> asyncio.Future[None]:
        """Return a future that is done when a call should look again for room."""
        room = self._rooms.get(call)
        if room is None or room.done():
            room = self._rooms[call] = asyncio.get_running_loop().create_future()
        return room

    def go_away(self) -> None:
        """Tell the client to make its next calls elsewhere; those that are under way go on."""
        if not self.closed:
            self._session.shut_down()
            self._has_output()

    def idle_s(self) -> float:
        """Return the seconds since bytes last moved; a connection with calls is not idle while it is read."""
        if self._calls and not self.closed and not self._is_writing_paused:
            return 0.0
        return super().idle_s()

    def look_after(self, silence_s: float) -> None:
        """Send a PING to a peer with calls that was silent; if it is gone, the system finds out."""
        if self._calls and not self.closed and super().idle_s() >= silence_s:
            self._session.ping()
            self._has_output()

    def close(self) -> None:
        """Say so, and end the connection after what was sent is written."""
        if self.closed:
            return
        self._session.shut_down()
        super().close()

    # What the loop and the turn call -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start: a server says first what it allows."""
        super().connection_made(transport)
        if not self.closed:
            self._has_output()

    def resume_writing(self) -> None:
        """Go on where the peer had stopped us."""
        super().resume_writing()
        self._has_output()

    def _handle_received(self, data: bytes) -> None:
        if not self._has_received:
            self._has_received = True
            if data[0] == TLS_HANDSHAKE_BYTE:
                self._end_badly("wants TLS, which is switched off here by tlsServerMode=disabled")
                return
        self._handle_frames()
        self._settle()

    def _handle_frames(self, *, was_asked: bool = False) -> None:
        """Handle what arrived, unless the peer does not take what it is sent."""
        self._has_frames_left = bool(self.pending_bytes)
        if self.closed or not self._has_frames_left or self._is_writing_paused:
            return
        self._has_frames_left = False
        data = self.received if not self.start else bytes(self.received[self.start :])
        try:
            events = self._session.receive(data)
            self.skip_to(len(self.received))
            if events:
                take_all(self, events, ServerCall, HeaderBytes.UNCOUNTED)
        except Exception:  # noqa: BLE001  our own mistake; the other links of this turn must still write
            _log.exception("frames of %s could not be handled; connection closed", self.peer)
            self.close()
            return
        if self._session.error is not None:
            self._end_badly(f"broke HTTP/2: {self._session.error}")
            return
        if self._session.partial_bytes != self._arrived_bytes and not self._count_arrived():
            self._end_badly(
                "sends a part of a message, and those of all connections have "
                f"{self._arriving.count_max} bytes"
            )
            return
        self._has_output()

    def _write(self) -> None:
        """Write what the session has; the end of the turn calls it."""
        self._is_noted_for_output = False
        self._out, self._out_bytes = [], 0
        if self._transport is None or (self._is_writing_paused and not self.closed):
            return
        try:
            output = self._session.take_output(self._out_bytes_high)
        except Exception:  # noqa: BLE001  our own mistake; the other links of this turn must still write
            _log.exception("frames for %s could not be made; connection ended", self.peer)
            self.abort()
            return
        if output:
            self._out.append(output)
            super()._write()
        if self._session.error is not None and not self.closed:
            # What nghttp2 has against a peer it says when it writes.
            self._end_badly(f"broke HTTP/2: {self._session.error}")
            return
        self._has_output()
        for call, room in tuple(self._rooms.items()):
            if not room.done() and self.has_room_for(call.stream_id):
                room.set_result(None)

    # Inside ------------------------------------------------------------------------------------------------

    def _take(self, kind: int, stream_id: int, first: Any, second: Any) -> None:
        """Have a call do what came behind its opening, unless it is over."""
        found = self._calls.get(stream_id)
        if kind == RESET:
            self._count_reset(found, is_theirs=second)
        if found is None:
            return
        if kind == MESSAGE:
            found.message(first)
        elif kind == ENDED:
            found.half_closed()
        elif kind == FAILED:
            found.finish(first, second)
        else:
            found.end()

    def _refuse_headers(self, call: ServerCall) -> None:
        call.finish(
            GrpcStatus.RESOURCE_EXHAUSTED,
            f"the headers of the calls that this connection holds have {HeaderBytes.COUNT_MAX} "
            "bytes; end some of them, or use another connection",
        )

    def _has_room_for_headers(self, stream_id: int, headers: Mapping[str, str]) -> bool:
        if self._headers is None:
            self._headers = HeaderBytes()
        return self._headers.add(stream_id, headers)

    def _count_arrived(self) -> bool:
        """Count the parts of messages that this connection has; return whether there is memory for them."""
        before, self._arrived_bytes = self._arrived_bytes, self._session.partial_bytes
        return self._arriving.add(self._arrived_bytes - before)

    def _count_reset(self, call: ServerCall | None, *, is_theirs: bool) -> None:
        """Count a stream that ended before it was of use; to do that all the time is an attack."""
        now = self._monotonic()
        if is_theirs and (call is None or now - call.opened_at > YOUNG_S):
            return
        self._resets = max(self._resets - (now - self._resets_at) * RESETS_PER_S, 0.0) + 1
        self._resets_at = now
        if self._resets > RESETS_MAX and not self.closed:
            self._session.shut_down(Http2Error.ENHANCE_YOUR_CALM)
            self._end_badly(f"opened and reset {RESETS_MAX} streams within moments")

    def _has_output(self) -> None:
        """Have the session's frames written when this turn ends."""
        if self.closed:
            return
        queued_bytes = self._session.queued_bytes
        if queued_bytes > self._out_bytes_high * OUTPUT_FACTOR_MAX:
            self._overflow(queued_bytes)
        elif not self._is_noted_for_output and self._session.wants_output:
            self._is_noted_for_output = True
            # Without bytes: they are made when all calls of this turn have sent theirs.
            self.send_frames(b"")

    def _give_up_all(self) -> None:
        super()._give_up_all()
        for call in tuple(self._calls.values()):
            call.end()
        self._arriving.add(-self._arrived_bytes)
        self._arrived_bytes = 0


def _no_command(link: Link, command: Command) -> None:
    raise AssertionError("a session hands on no commands")
