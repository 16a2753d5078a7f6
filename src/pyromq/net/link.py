"""One asyncio connection with many requests under way, in both directions.

Bytes that arrive become commands: answers go to whoever waits for their `opaque`, requests to `on_request`.
Where the turn has a shortcut, it is asked first, for all links together: when the turn ends, or as soon as
they received much.
Commands that leave are collected and written once when the turn of the loop ends (`net/turn.py`).

Whatever a peer can make grow is bounded:

    what arrives    a frame over the limit ends the connection; a connection that received more than
                    TURN_BYTES_MAX in a turn is not read again before the others had theirs (libuv alone
                    would read one socket 32 times over). Requests that are refused do not count (`forgive`)
    what leaves     above the high-water mark no further frame is handled and nothing is read, until the
                    peer has taken enough; what answers and pushes pile up meanwhile is bounded by
                    OUTPUT_FACTOR_MAX times that mark, then the connection ends. Requests of ours wait for
                    room, in their order
    what waits      requests under way have a limit, which `net/routes.py` keeps; those still under way
                    when the connection ends are cancelled

Whether a link reads follows from three facts, and `_settle` alone turns them into a call of the transport;
whatever changes one of them calls it. Each fact has somebody who ends it, so no link stays deaf:

    frames are left that were not handled   the end of this turn, which `_settle` joins
    it had its share of this turn           the same
    the peer does not take what we write    the peer, by `resume_writing`

`waits_since` says since when the frames that are handled now may wait to be: since the loop last looked at
the connections, as `Turn.begin` tells. `read_at` is when the turn began in which they were read. What a peer
sent beyond its share, and the network holds back, is not counted before it is read.

Only the side that accepted a connection stops reading for the third one. Were both sides to, each could wait
for the other: the caller with large requests, the server with large answers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, cast

from pyromq.clock import Clock
from pyromq.codes import CommandFlag
from pyromq.config.settings import NetSettings
from pyromq.errors import ConnectionLost, RemoteProtocolError, RequestTimeout, TlsFailed
from pyromq.kernel import IS_COMPILED
from pyromq.net.address import peer_of
from pyromq.net.awaited import Awaited, AwaitedAnswer
from pyromq.net.tls_failures import ALERT, ended_after_handshake, speaks_tls_only, tls_failure
from pyromq.net.turn import Turn
from pyromq.wire.command import Command, encode, read_command

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import OUTPUT_FACTOR_MAX, TURN_BYTES_MAX, Inlet
else:
    from pyromq._kernel.codec.inlets import OUTPUT_FACTOR_MAX, TURN_BYTES_MAX, Inlet

__all__ = ["OUTPUT_FACTOR_MAX", "TURN_BYTES_MAX", "Link", "close_all"]

#: Seconds of a turn in which bytes that are refused do not count for a link's share of it.
FORGIVING_S = 0.2
#: Between two looks for answers that did not come in time.
LOOK_PAUSE_S = 0.01
TLS_HANDSHAKE_BYTE = 0x16

_RESPONSE = int(CommandFlag.RESPONSE)  # a plain number: this is asked of each command

_log = logging.getLogger("pyromq.net")


class Link(Inlet, asyncio.Protocol):
    """One connection; `is_caller` on the side that opened it.

    `on_start` is called once when it is made, `on_request` with each request that arrives, `on_end` once when
    it is over. The turn's shortcut, if there is one, is offered the received bytes first.
    """

    # Without a dictionary an idle connection takes a tenth less.
    __slots__ = (
        "__weakref__",
        "_close_callbacks",
        "_ended_by",
        "_frame_bytes_max",
        "_has_received",
        "_is_ended",
        "_is_tls",
        "_look",
        "_looks_at",
        "_on_end",
        "_on_request",
        "_on_start",
        "_opaque",
        "_out_bytes_low",
        "_want_room",
        "peer",
        "waiting",
    )

    def __init__(
        self,
        settings: NetSettings,
        *,
        turn: Turn,
        clock: Clock,
        on_request: Callable[[Link, Command], None],
        on_end: Callable[[Link], None],
        on_start: Callable[[Link], None] | None = None,
        is_caller: bool = False,
    ) -> None:
        high = settings.write_buffer_high_water_mark
        super().__init__(turn, clock.monotonic, high, is_caller=is_caller)
        self.peer = "unknown:0"
        self._frame_bytes_max = settings.frame_bytes_max
        self._on_request = on_request
        self._on_start = on_start
        self._on_end = on_end
        self._close_callbacks: list[Callable[[Link], None]] = []
        self._is_ended = False
        self._has_received = False
        #: Why the connection ended, where TLS knows more than that it did.
        self._ended_by: TlsFailed | None = None
        self._is_tls = False
        self._out_bytes_low = min(settings.write_buffer_low_water_mark, high)
        #: Whoever has a request to send and no room for it, in order; None: nobody ever had to wait.
        self._want_room: deque[asyncio.Future[None]] | None = None

        self._opaque = 0
        #: The requests that wait for their answers, by their opaques.
        self.waiting: dict[int, Awaited] = {}
        #: When it is looked for what was awaited too long; one timer serves all.
        self._looks_at = math.inf
        self._look: asyncio.TimerHandle | None = None

    # What others call ----------------------------------------------------------------------------------

    def send(self, command: Command) -> None:
        """Write a command when this turn ends; on a closed link it is dropped, as the network would.

        Raises LocalProtocolError when the command does not fit a frame.
        """
        if self.closed:
            return
        self.send_frames(encode(command))

    async def request(self, command: Command, timeout_s: float) -> Command:
        """Send a request and return its answer, whatever its code; sets the command's `opaque`.

        Raises RequestTimeout, or ConnectionLost when the connection ends first.
        """
        loop = asyncio.get_running_loop()
        give_up_at = loop.time() + timeout_s
        if not self._has_room() or self._want_room:
            await self.room(timeout_s)
        if self.closed:
            raise ConnectionLost(f"the connection to {self.peer} is closed")
        answer: asyncio.Future[Command] = loop.create_future()
        command.opaque = opaque = self.next_opaque()
        self.send(command)
        self.expect(opaque, AwaitedAnswer(answer, give_up_at, timeout_s))
        try:
            return await answer
        finally:
            self.waiting.pop(opaque, None)

    @property
    def takes_requests(self) -> bool:
        """Whether a request may leave now: there is room, and none waits for it."""
        return not self.closed and self._has_room() and not self._want_room

    def next_opaque(self) -> int:
        """Return the number of the next request."""
        self._opaque = (self._opaque + 1) & 0x7FFFFFFF
        return self._opaque

    def expect(self, opaque: int, awaited: Awaited) -> None:
        """Note who waits for the answer to a request, until it comes or is given up."""
        self.waiting[opaque] = awaited
        if awaited.give_up_at < self._looks_at:
            self._look_at(asyncio.get_running_loop(), awaited.give_up_at)

    async def room(self, timeout_s: float) -> None:
        """Wait until the peer has taken enough of what was sent before; whoever came first is first.

        Raises RequestTimeout, or ConnectionLost when the connection ends first.
        """
        if self._want_room is None:
            self._want_room = deque()
        if not self._want_room and self._has_room():
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._want_room.append(turn)
        try:
            async with asyncio.timeout(timeout_s):
                await turn
        except TimeoutError as error:
            raise RequestTimeout(
                f"{self.peer} did not take the request within {timeout_s:.1f} s; others wait before it"
            ) from error
        finally:
            if turn in self._want_room:
                self._want_room.remove(turn)
            # The next may go at the end of this turn, when this one has sent, or has given up.
            if not self._is_in_turn:
                self._join_turn()

    def forgive(self, size: int) -> None:
        """Do not count received bytes that were refused as a part of the link's share of this turn.

        To refuse them took little time, and a busy broker must read them to know how old the next ones are.
        But a turn must end: the first requests of the next one are taken, however late they are.
        """
        if self._monotonic() - self.read_at < FORGIVING_S:
            self._turn_bytes -= size

    def all_settled(self) -> asyncio.Future[None]:
        """Return a future that is done when no turn of this link waits to be safe any more."""
        settled: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def settle() -> None:
            if not settled.done():
                settled.set_result(None)

        self.when_settled = settle
        if not self.unsettled:
            settle()
        return settled

    def oneway(self, command: Command) -> None:
        """Send a request that wants no answer; sets its `opaque` and its flag."""
        command.opaque = self.next_opaque()
        command.flag |= CommandFlag.ONEWAY
        self.send(command)

    def next_command(self) -> Command | None:
        """Return the next whole command that arrived, None when more bytes are needed.

        Raises RemoteProtocolError when the bytes cannot be a frame.
        """
        command, end = read_command(self.received, self.start, self._frame_bytes_max)
        if command is not None:
            self.skip_to(end)
        return command

    def close(self) -> None:
        """End the connection after what was sent is written. What is awaited on either side is given up."""
        if self.closed:
            return
        self.closed = True
        self._write()
        if self._transport is not None:
            self._transport.close()
        self._give_up_all()

    def abort(self) -> None:
        """End the connection now; what is not yet written is lost."""
        self.closed = True
        self._out.clear()
        self._out_bytes = 0
        if self._transport is not None:
            self._transport.abort()
        self._give_up_all()

    def on_close(self, callback: Callable[[Link], None]) -> None:
        """Have `callback` called with the link once the connection is over; at once if it is."""
        if self._is_ended:
            callback(self)
        else:
            self._close_callbacks.append(callback)

    def idle_s(self) -> float:
        """Return the seconds since bytes last moved on the connection."""
        return self._monotonic() - self._active_at

    # What the loop calls -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start."""
        # uvloop's transports do not inherit from asyncio.Transport; they only look the same.
        self._transport = cast(asyncio.Transport, transport)
        self._turn.forget_loop()
        self._transport.set_write_buffer_limits(high=self._out_bytes_high, low=self._out_bytes_low)
        self.peer, self.peer_host_bytes = peer_of(transport.get_extra_info("peername"))
        self._is_tls = transport.get_extra_info("ssl_object") is not None
        if self._on_start is not None:
            self._on_start(self)

    def pause_writing(self) -> None:
        """Stop reading from a peer that does not read."""
        self._is_writing_paused = True
        self._settle()

    def resume_writing(self) -> None:
        """Go on where the peer had stopped us."""
        self._is_writing_paused = False
        # That its requests waited was the peer's own doing.
        self.waits_since = self.read_at = self._active_at = self._monotonic()
        self._settle()

    def connection_lost(self, error: Exception | None) -> None:
        """Give up what is under way and tell whoever asked to know."""
        self.closed = self._is_ended = True
        self._transport = None
        if isinstance(error, ssl.SSLError):
            self._ended_by = tls_failure(self.peer, error)
        self._give_up_all()
        callbacks, self._close_callbacks = self._close_callbacks, []
        for callback in callbacks:
            try:
                callback(self)
            except Exception:  # noqa: BLE001  whoever is told next must still be told
                _log.exception("the end of the connection to %s could not be told to all", self.peer)
        self._on_end(self)

    def handle_left(self) -> None:
        """Handle what arrived in this turn and the shortcut left. The turn calls it."""
        if not self.closed:
            self._handle_frames(was_asked=True)
            self._settle()

    # Inside --------------------------------------------------------------------------------------------

    def _join_turn(self) -> None:
        self._is_in_turn = True
        self._turn.joined.append(self)
        self._turn.plan_end()

    def _handle_received(self, data: bytes) -> None:
        """Handle what arrived now: the first bytes, much at once, and all where nothing is noted."""
        if self._is_caller:
            self._active_at = self._monotonic()
        if not self._has_received:
            self._has_received = True
            self._takes_notes = not self._is_caller
            if data[0] == TLS_HANDSHAKE_BYTE:
                self._end_badly(
                    "wants TLS, which is not set up here; set tlsServerCertPath and tlsServerKeyPath"
                )
                return
            if self._is_caller and data.startswith(ALERT):
                self._ended_by = speaks_tls_only(self.peer)
                self.close()
                return
        self._handle_frames()
        self._settle()

    def _go_on(self) -> None:
        """Take up what was left over, and read again if it is time to."""
        if self._has_frames_left:
            self._handle_frames()
        self._settle()

    def _handle_frames(self, *, was_asked: bool = False) -> None:
        """Handle what arrived while there is room for answers; `was_asked`: the shortcut saw these bytes."""
        shortcut, is_caller = self._turn.shortcut, self._is_caller
        out_bytes_high = self._out_bytes_high
        self._has_frames_left = True
        try:
            while not self.closed and (
                is_caller or (self._out_bytes < out_bytes_high and not self._is_writing_paused)
            ):
                if not self.pending_bytes:
                    # The usual case: asking anything again for no bytes costs as much as a send.
                    self._has_frames_left = False
                    break
                if not was_asked and shortcut is not None and shortcut([self]):
                    continue
                was_asked = False
                command = self.next_command()
                if command is None:
                    self._has_frames_left = False
                    break
                if command.flag & _RESPONSE:
                    self._take_answer(command)
                else:
                    self._on_request(self, command)
        except RemoteProtocolError as error:
            self._end_badly(f"sent what is no command: {error}")
        except Exception:  # noqa: BLE001  our own mistake; the other links of this turn must still write
            _log.exception("a frame of %s could not be handled; connection closed", self.peer)
            self.close()

    def _settle(self) -> None:
        """Read, or do not, as the state says; the head of this file has the rule."""
        transport = self._transport
        if self.closed or transport is None:
            return
        goes_on_next_turn = self._has_frames_left or self._turn_bytes > TURN_BYTES_MAX
        waits_for_peer = self._is_writing_paused and not self._is_caller
        if goes_on_next_turn and not waits_for_peer and not self._is_in_turn:
            self._join_turn()
        if self._want_room:
            self._let_next_send()
        is_paused = goes_on_next_turn or waits_for_peer
        if is_paused == self._is_reading_paused:
            return
        self._is_reading_paused = is_paused
        if is_paused:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def _has_room(self) -> bool:
        return self._out_bytes < self._out_bytes_high and not self._is_writing_paused

    def _let_next_send(self) -> None:
        """Let the first go who waits for room, if there is some; it lets the next one go."""
        while self._want_room and self._has_room():
            turn = self._want_room.popleft()
            if not turn.done():
                turn.set_result(None)
                return

    def _take_answer(self, command: Command) -> None:
        awaited = self.waiting.pop(command.opaque, None)
        if awaited is not None and not awaited.answer.done():
            awaited.answer.set_result(command)

    def _overflow(self, waiting_bytes: int) -> None:
        _log.warning("%s does not read: %d bytes wait for it; connection closed", self.peer, waiting_bytes)
        self.abort()

    def _end_badly(self, what: str) -> None:
        _log.warning("%s %s; connection closed", self.peer, what)
        self.close()

    def _look_at(self, loop: asyncio.AbstractEventLoop, at: float) -> None:
        if self._look is not None:
            self._look.cancel()
        self._looks_at = at
        self._look = loop.call_at(at, self._give_up_late, loop)

    def _give_up_late(self, loop: asyncio.AbstractEventLoop) -> None:
        """Give up what was awaited too long, and look again when the next is, but not all the time."""
        now, next_at = loop.time(), math.inf
        self._look, self._looks_at = None, math.inf
        for opaque, awaited in tuple(self.waiting.items()):
            if awaited.give_up_at > now:
                next_at = min(next_at, awaited.give_up_at)
                continue
            # Nobody waits any more, and a late answer is dropped.
            del self.waiting[opaque]
            if not awaited.answer.done():
                awaited.answer.set_exception(
                    RequestTimeout(f"{self.peer} did not answer within {awaited.timeout_s:.1f} s")
                )
        if next_at < math.inf:
            self._look_at(loop, max(next_at, now + LOOK_PAUSE_S))

    def _give_up_all(self) -> None:
        if self._look is not None:
            self._look.cancel()
        waiting, self.waiting = self.waiting, {}
        why = f"the connection to {self.peer} ended before the answer"
        if self._is_tls and not self._has_received:
            why = ended_after_handshake(self.peer)
        for awaited in waiting.values():
            if not awaited.answer.done():
                awaited.answer.set_exception(self._ended_by or ConnectionLost(why))
        for turn in self._want_room or ():
            if not turn.done():
                turn.set_exception(ConnectionLost(f"the connection to {self.peer} ended before the request"))
        for future in tuple(self.under_way):
            future.cancel()
        for pull in tuple(self.held or ()):
            pull.drop()
        if self.when_settled is not None:
            self.when_settled()


async def close_all(links: Iterable[Link], grace_s: float) -> None:
    """Close links and wait for their end; those whose peers do not take what is left are aborted."""
    left = dict.fromkeys(links)
    ended = asyncio.Event()

    def one_ended(link: Link) -> None:
        left.pop(link, None)
        if not left:
            ended.set()

    for link in tuple(left):
        link.on_close(one_ended)
        link.close()
    if not left:
        return
    try:
        await asyncio.wait_for(ended.wait(), grace_s)
    except TimeoutError:
        for link in tuple(left):
            link.abort()
        await ended.wait()
