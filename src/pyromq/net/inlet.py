"""Received bytes of a connection, and answers to them, until the turn of the loop ends.

    data_received    bytes ──► the inlet, which notes itself in its turn
    end              noted inlets ──► shortcuts, which plan and answer what stands at the front of them
    send_frames      answers ──► the inlet, which joins the end of its turn
    end              answers ──► the transport, in one write

`pyromq._kernel.codec.inlets` has the same, compiled; `Turn` and `Link` inherit from whichever runs. What is
done for each event of a socket, at the end of each turn, and for each connection then, is here, and nothing
else is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyromq.net.turn import Shortcut

#: Seconds after a turn in which the next one may have been waited for; a shorter turn made nobody wait.
IDLE_S: Final = 0.005
#: A connection that received more in a turn is not read again before the others had theirs.
TURN_BYTES_MAX: Final = 256 * 1024
#: What connections received is handled together when the turn ends, or as soon as it is more: one write of
#: the log is cheaper than several, up to about so much.
NOTED_BYTES_MAX: Final = 256 * 1024
#: So many times the high-water mark may wait for a peer.
OUTPUT_FACTOR_MAX: Final = 16


class TurnInlets:
    """The inlets that take part in a turn, its beginning and end. `Turn` inherits it and has the rest."""

    __slots__ = (
        "_ended_at",
        "_is_idle",
        "_is_taken",
        "_monotonic",
        "began_at",
        "call_soon",
        "has_due_steps",
        "is_planned",
        "joined",
        "looked_at",
        "may_leave",
        "noted",
        "noted_bytes",
        "shortcut",
    )

    def __init__(self) -> None:
        self._monotonic: Callable[[], float] = time.monotonic
        self._ended_at = 0.0
        #: Whether the loop found nothing to read since the last long turn.
        self._is_idle = True
        #: When the first bytes of this turn were read; None: none were yet.
        self.began_at: float | None = None
        #: When the turn before began, if this one followed at once, else when this one did.
        self.looked_at = 0.0
        #: Offered what links received before it becomes commands; without one nothing is noted.
        self.shortcut: Shortcut | None = None
        self.noted: list[Any] = []
        #: How much the noted inlets received.
        self.noted_bytes = 0
        self.joined: list[Any] = []
        #: Whether there is to be an end of this turn.
        self.is_planned = False
        #: Asked before the answers of a turn leave; None: they may.
        self.may_leave: Callable[[], bool] | None = None
        #: Whether a step is due, and whether somebody has this turn alone.
        self.has_due_steps = False
        self._is_taken = False
        #: The running loop's; None: it is asked for when it is needed.
        self.call_soon: Callable[[Callable[[], None]], object] | None = None

    def plan_end(self) -> None:
        """Let there be an end of this turn."""
        if self.is_planned:
            return
        self.is_planned = True
        if self.call_soon is None:
            # Asked once for many turns: it costs as much as a system call, which it makes.
            self.call_soon = asyncio.get_running_loop().call_soon
        self.call_soon(self.end)

    def _begin(self) -> None:
        """Note that bytes were read, and since when they may have been there to be read."""
        now = self._monotonic()
        # Time alone does not tell: it passes also while the process gets no processor.
        if self._is_idle and now - self._ended_at > IDLE_S:
            self.looked_at = now
        self.began_at = now
        self.plan_end()

    def end(self) -> None:
        """Handle what noted inlets received, run what is due, and let the inlets that joined write."""
        # What is handled here is a part of the turn.
        if self.noted:
            self._handle_noted()
        self.is_planned = False
        now = self._monotonic()
        if self.began_at is not None:
            self.looked_at, self._ended_at, self.began_at = self.began_at, now, None
            self._is_idle = now - self.looked_at < IDLE_S
            if not self._is_idle:
                self._look_for_bytes(2)
        if self.has_due_steps:
            self._run_steps()
        if self._is_taken:
            self._pass_on()
        if self.joined:
            self._write(now)

    def _handle_noted(self) -> None:
        inlets, self.noted = self.noted, []
        self.noted_bytes = 0
        try:
            if self.shortcut is not None:
                self.shortcut(inlets)
        except Exception:  # noqa: BLE001  our own mistake: nobody knows what was handled
            self._give_up(inlets)
        for inlet in _left_over(inlets):
            inlet.handle_left()

    def _write(self, now: float) -> None:
        inlets, self.joined = self.joined, []
        if self.may_leave is not None and not self.may_leave():
            self._keep_back(inlets)
            return
        for inlet in inlets:
            inlet._end_turn(now)

    # What `Turn` does

    def _give_up(self, inlets: list[Any]) -> None:
        raise NotImplementedError

    def _keep_back(self, inlets: list[Any]) -> None:
        raise NotImplementedError

    def _look_for_bytes(self, turns: int) -> None:
        raise NotImplementedError

    def _run_steps(self) -> None:
        raise NotImplementedError

    def _pass_on(self) -> None:
        raise NotImplementedError


class Inlet:
    """Received bytes of a connection that were not handled, and answers that leave when the turn ends."""

    __slots__ = (
        "_active_at",
        "_has_frames_left",
        "_is_caller",
        "_is_in_turn",
        "_is_noted",
        "_is_reading_paused",
        "_is_writing_paused",
        "_monotonic",
        "_out",
        "_out_bytes",
        "_out_bytes_high",
        "_takes_notes",
        "_transport",
        "_turn",
        "_turn_bytes",
        "closed",
        "held",
        "peer_host_bytes",
        "read_at",
        "received",
        "start",
        "under_way",
        "unsettled",
        "waits_since",
        "when_settled",
    )

    def __init__(
        self,
        turn: TurnInlets,
        monotonic: Callable[[], float],
        out_bytes_high: int,
        *,
        is_caller: bool = False,
    ) -> None:
        #: What arrived and was not handled, and where in it the next frame begins.
        self.received: bytes | bytearray = b""
        self.start = 0
        self.peer_host_bytes = bytes(8)
        self.closed = False
        #: Answers that are awaited here; cancelled when the connection ends.
        self.under_way: set[asyncio.Future[Any]] = set()
        #: Turns in which something was received whose answers wait to be safe.
        self.unsettled = 0
        #: Called when the last of them is settled.
        self.when_settled: Callable[[], None] | None = None
        #: Pulls that the kernel holds for it, each with `drop`; None when there never was one.
        self.held: dict[Any, None] | None = None
        self._turn: Any = turn
        self._monotonic = monotonic
        self._is_caller = is_caller
        self._active_at = monotonic()
        #: Since when the frames that are handled now may wait, by the clock's monotonic seconds.
        self.waits_since = self._active_at
        #: When the turn began in which they were read.
        self.read_at = self._active_at

        self._transport: asyncio.Transport | None = None
        #: Whether what arrives may be noted: the first bytes are looked at when they come.
        self._takes_notes = False
        #: Whether the turn handles what arrived when it ends.
        self._is_noted = False
        self._is_in_turn = False
        self._turn_bytes = 0
        self._has_frames_left = False
        self._is_reading_paused = False

        self._out: list[bytes] = []
        self._out_bytes = 0
        self._out_bytes_high = out_bytes_high
        self._is_writing_paused = False

    # What arrives

    def data_received(self, data: bytes) -> None:
        """Keep what arrived; it is handled when the turn ends, or now when much is kept or it may not be."""
        if self.closed:
            # TLS hands on what comes until its peer has said goodbye too.
            return
        turn = self._turn
        if not self._is_caller:
            if turn.began_at is None:
                turn._begin()
            self._active_at = turn.began_at
            # Frames that are left are older.
            if not self._has_frames_left:
                self.read_at, self.waits_since = turn.began_at, turn.looked_at
        self._turn_bytes += len(data)
        self.feed(data)
        if self._takes_notes and turn.shortcut is not None:
            if not self._is_noted:
                self._is_noted = True
                turn.noted.append(self)
                turn.plan_end()
            turn.noted_bytes += len(data)
            # Requests that are refused do not count for the share, so they are looked at before it ends.
            if turn.noted_bytes > NOTED_BYTES_MAX or self._turn_bytes > TURN_BYTES_MAX:
                turn._handle_noted()
            if self._turn_bytes > TURN_BYTES_MAX:
                self._settle()
            return
        self._handle_received(data)

    def feed(self, data: bytes) -> None:
        """Keep bytes behind those that were not handled."""
        if self.start == len(self.received):
            self.received, self.start = data, 0
            return
        if isinstance(self.received, bytes):
            self.received = bytearray(memoryview(self.received)[self.start :])
        elif self.start:
            del self.received[: self.start]
        self.start = 0
        self.received += data

    @property
    def pending_bytes(self) -> int:
        """The number of received bytes that were not handled."""
        return len(self.received) - self.start

    def skip_to(self, start: int) -> None:
        """Go on at byte `start` of what was received, where a frame begins: those before it were handled."""
        if not self.start <= start <= len(self.received):
            raise ValueError("a frame begins in what was received")
        self.start = start
        if start == len(self.received):
            self.received, self.start = b"", 0

    # What leaves

    @property
    def under_way_count(self) -> int:
        """The number of requests, and of turns of requests, whose answers are awaited."""
        return len(self.under_way) + self.unsettled + len(self.held or ())

    def settled_one(self) -> None:
        """Note that the answers of a turn wait no longer."""
        self.unsettled -= 1
        if self.when_settled is not None and not self.unsettled:
            self.when_settled()

    def answer_room(self) -> int:
        """Return how many bytes of answers the link takes now; with 0 or less no frame is to be handled."""
        if self.closed or self._is_writing_paused:
            return 0
        return self._out_bytes_high - self._out_bytes

    def send_frames(self, frames: bytes) -> None:
        """Write frames when this turn ends; on a closed link they are dropped, as the network would."""
        if self.closed:
            return
        self._out.append(frames)
        self._out_bytes += len(frames)
        if not self._is_in_turn:
            self._is_in_turn = True
            self._turn.joined.append(self)
            self._turn.plan_end()

    def _write(self) -> None:
        transport = self._transport
        if not self._out or transport is None:
            return
        out, self._out, self._out_bytes = self._out, [], 0
        if len(out) == 1:
            transport.write(out[0])
        else:
            transport.writelines(out)
        # Below the high-water mark nobody is told to pause, and little waits.
        if self._is_writing_paused and self._transport is not None:
            waiting_bytes = transport.get_write_buffer_size()
            if waiting_bytes > self._out_bytes_high * OUTPUT_FACTOR_MAX:
                self._overflow(waiting_bytes)

    def _end_turn(self, now: float) -> None:
        """Write what was collected, then take up what was left over."""
        self._is_in_turn = False
        self._turn_bytes = 0
        if self._out:
            self._write()
            if not self._is_writing_paused:
                self._active_at = now
        if self._has_frames_left or self._is_reading_paused or self._is_writing_paused or self._is_caller:
            self._go_on()

    # What `Link` does

    def _handle_received(self, data: bytes) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        raise NotImplementedError

    def _go_on(self) -> None:
        raise NotImplementedError

    def _overflow(self, waiting_bytes: int) -> None:
        raise NotImplementedError

    def handle_left(self) -> None:
        """Handle what arrived in this turn and the shortcut left. The turn calls it."""
        raise NotImplementedError


def _left_over(noted: list[Any]) -> list[Any]:
    """Return the inlets that have bytes left, and let all be noted again."""
    left = []
    for inlet in noted:
        inlet._is_noted = False
        if not inlet.closed and inlet.pending_bytes:
            left.append(inlet)
    return left


def waiting_since(inlets: list[Any]) -> float:
    """Return since when the frames may wait that wait longest."""
    oldest: float = min(inlet.waits_since for inlet in inlets)
    return oldest


def with_bytes(inlets: list[Any], under_way_max: int) -> list[Any]:
    """Return the inlets that have bytes left, and fewer requests under way."""
    return [inlet for inlet in inlets if inlet.pending_bytes and inlet.under_way_count < under_way_max]
