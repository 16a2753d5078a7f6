"""One blocking connection that many threads send requests on, without a thread of its own.

A thread puts its request into `waiting` and its frame into the inlet, and calls `wait_for`. There, one of the
threads that wait is the reader, for all of them: it writes what they collected, receives, and hands out the
answers. When it has its own it lets another waiting thread read. A thread that finds somebody reading writes
what is there, unless somebody is doing that too, and sleeps until its answer is handed to it.

Where many answers came, their threads go on one after the other (`thread_answers.py`). Meanwhile the reader
does not read: it watches, and what the threads send is collected.

    threads ── frames ──► one write ──► server
    threads ◄── answers ── one read ◄── server

Both roles are locks that are only ever tried, so nobody queues for them. Decision 40 says why plain sends
share a connection and other requests of a blocking client do not.
"""

import os
import select
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from pyromq.codes import CommandFlag, ResponseCode
from pyromq.errors import ConnectionLost, NetworkError, RemoteProtocolError, RequestTimeout
from pyromq.kernel import IS_COMPILED
from pyromq.net.awaited import Awaited
from pyromq.net.tls_failures import ALERT, ended_after_handshake, speaks_tls_only, tls_failure
from pyromq.wire.command import Command, encode, read_command

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import Inlet, TurnInlets
    from pyromq.net.thread_answers import ThreadAnswer, WakeChain
else:
    from pyromq._kernel.client.thread_answers import ThreadAnswer, WakeChain
    from pyromq._kernel.codec.inlets import Inlet, TurnInlets

__all__ = ["SharedLink", "ThreadAnswer", "WakeChain"]

RECEIVE_BYTES: Final = 256 * 1024
#: Seconds after which a connection that nobody used is looked at before it is used again.
IDLE_S: Final = 1.0
#: Seconds after which a thread that cannot write looks whether it has to read.
WRITE_LOOK_S: Final = 0.05
#: Seconds of one wait at most; whoever waits looks at its own time then. `poll` takes no number at will.
WAIT_S_MAX: Final = 60.0
#: Seconds that a turn may take. Threads that do more between their sends gain nothing by turns, and wait
#: for each other.
TURN_S_MAX: Final = 0.000_08
#: Seconds after which a reader looks how many turns there were.
WATCH_S: Final = 0.001
#: Reads after which it tries turns again when they took longer; it is twice as many each time.
DISTRUSTED_READS_MIN: Final = 32
DISTRUSTED_READS_MAX: Final = 4096
#: Frames that are collected while threads have their turns, before one of them writes.
OUT_FRAMES: Final = 16
#: A connection that has so many bytes to write takes no further requests.
OUT_BYTES_MAX: Final = 4 * 1024 * 1024
_WOULD_BLOCK: Final = (BlockingIOError, InterruptedError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class SharedLink(Inlet):
    """The connection. `take_answers` is offered what arrived before it becomes commands."""

    __slots__ = (
        "__weakref__",
        "_chain",
        "_connection",
        "_distrusted_reads",
        "_distrusts_for",
        "_fd",
        "_frame_bytes_max",
        "_has_received",
        "_is_watched",
        "_on_end",
        "_opaque",
        "_reading",
        "_take_answers",
        "_tls",
        "_unsent",
        "_used_at",
        "_writing",
        "address",
        "waiting",
    )

    def __init__(
        self,
        connection: socket.socket,
        address: str,
        *,
        frame_bytes_max: int,
        take_answers: "Callable[[Sequence[SharedLink]], bool]",
        on_end: "Callable[[SharedLink], None]",
        chain: WakeChain,
    ) -> None:
        super().__init__(TurnInlets(), time.monotonic, OUT_BYTES_MAX, is_caller=True)
        # Frames wait for a thread that writes, not for the end of a turn.
        self._is_in_turn = True
        connection.settimeout(0.0)
        self._connection = connection
        #: To wait for; whoever waits looks afterwards whether the connection is open.
        self._fd = connection.fileno()
        self.address = address
        self._frame_bytes_max = frame_bytes_max
        self._take_answers = take_answers
        self._on_end = on_end
        self._chain = chain
        #: Whether the reader watches the chain instead of the socket.
        self._is_watched = False
        #: Reads that are left until it trusts the chain again, and how many there will be the next time.
        self._distrusted_reads = 0
        self._distrusts_for = DISTRUSTED_READS_MIN
        self._opaque = 0
        #: The requests that wait for their answers, by their opaques.
        self.waiting: dict[int, Awaited] = {}
        self._reading = threading.Lock()
        self._writing = threading.Lock()
        #: One connection of TLS is one state: who reads and who writes take turns.
        self._tls = threading.Lock() if isinstance(connection, ssl.SSLSocket) else None
        self._unsent = b""
        self._has_received = False
        self._used_at = time.monotonic()

    # What whoever sends calls ----------------------------------------------------------------------------

    @property
    def takes_requests(self) -> bool:
        """Whether a request may leave now; a connection that was not used is looked at."""
        if self.closed or self._out_bytes >= OUT_BYTES_MAX:
            return False
        if not self.waiting and time.monotonic() - self._used_at > IDLE_S:
            self._look()
        return not self.closed

    def next_opaque(self) -> int:
        """Return the number of the next request."""
        self._opaque = opaque = (self._opaque + 1) & 0x7FFFFFFF
        return opaque

    def expect(self, opaque: int, awaited: Awaited) -> None:
        """Note who waits for the answer to a request. Its thread gives it up itself, in `wait_for`."""
        self.waiting[opaque] = awaited

    def wait_for(self, opaque: int, answer: ThreadAnswer, give_up_at: float, timeout_s: float) -> Any:
        """Return the answer to a request, or the error that came instead of it."""
        try:
            while answer.outcome is None:
                if self.closed:
                    # It ended before the request was among those that it was told to.
                    return ConnectionLost(f"the connection to {self.address} is closed")
                left_s = give_up_at - time.monotonic()
                if left_s <= 0:
                    return RequestTimeout(f"{self.address} did not answer within {timeout_s:.1f} s")
                if self._reading.acquire(blocking=False):
                    answer.is_reading = True
                    try:
                        self._read(answer, give_up_at)
                    finally:
                        answer.is_reading = False
                        self._reading.release()
                else:
                    if not self._is_watched or len(self._out) >= OUT_FRAMES:
                        self._write_beside_reader(give_up_at)
                    answer.sleep(min(left_s, WAIT_S_MAX))
            return answer.outcome
        finally:
            answer.has_left = True
            if answer.wakes_next:
                self._chain.wake_next()
            if answer.outcome is None:
                self.waiting.pop(opaque, None)
            if self.closed:
                self._let_go()
            elif self.waiting and not self._reading.locked():
                self._let_another_read()

    def close(self) -> None:
        """End the connection; what is awaited fails with ConnectionLost."""
        self._end(ConnectionLost(f"the connection to {self.address} was closed"))
        self._let_go()

    def forget(self) -> None:
        """Let go of a connection that belongs to another process."""
        # Not `close`: a TLS socket would say goodbye on the parent's behalf.
        self.closed = True
        os.close(self._connection.detach())

    # Roles -----------------------------------------------------------------------------------------------

    def _let_another_read(self) -> None:
        for awaited in tuple(self.waiting.values()):
            if not awaited.answer.done():
                answer = awaited.answer
                assert isinstance(answer, ThreadAnswer)
                answer.wake()
                return

    def _read(self, answer: ThreadAnswer, give_up_at: float) -> None:
        """Read for all, and write what they collect meanwhile, until this answer is there."""
        poll = select.poll()
        while answer.outcome is None and not self.closed:
            self._flush()
            has_received = self._receive()
            if has_received and self._chain:
                self._let_go_on(answer)
            left_s = give_up_at - time.monotonic()
            if left_s <= 0:
                return
            if not has_received and answer.outcome is None and not self.closed:
                events = select.POLLIN | (select.POLLOUT if self._unsent else 0)
                poll.register(self._fd, events)
                poll.poll(min(left_s, WAIT_S_MAX) * 1_000)

    def _let_go_on(self, answer: ThreadAnswer) -> None:
        """Let the threads go on whose answers are there."""
        if self._distrusted_reads:
            self._distrusted_reads -= 1
            self._chain.release()
            return
        self._is_watched = True
        chain, began_at = self._chain, time.monotonic()
        turns = chain.turns
        try:
            are_given = True
            while chain and are_given:
                are_given = answer.watch(WATCH_S, round(WATCH_S / TURN_S_MAX))
            if are_given and time.monotonic() - began_at <= (chain.turns - turns) * TURN_S_MAX:
                self._distrusts_for = DISTRUSTED_READS_MIN
                return
            self._distrusted_reads = self._distrusts_for
            self._distrusts_for = min(2 * self._distrusts_for, DISTRUSTED_READS_MAX)
            chain.release()
        except BaseException:
            # An interrupt: nobody watches any more.
            self._chain.release()
            raise
        finally:
            self._is_watched = False

    def _write_beside_reader(self, give_up_at: float) -> None:
        """Write what is there, for as long as somebody else reads."""
        while not self._flush():
            left_s = give_up_at - time.monotonic()
            if left_s <= 0 or self.closed or not self._reading.locked():
                return
            poll = select.poll()
            poll.register(self._fd, select.POLLOUT)
            poll.poll(min(left_s, WRITE_LOOK_S) * 1_000)

    def _flush(self) -> bool:
        """Write what threads collected, as far as it goes; return whether nobody has to come back for it."""
        while (self._out or self._unsent) and not self.closed:
            if not self._writing.acquire(blocking=False):
                # Whoever writes looks again after it let go of the role.
                return True
            try:
                if not self._write_once():
                    return False
            finally:
                self._writing.release()
        return True

    # Bytes -----------------------------------------------------------------------------------------------

    def _write_once(self) -> bool:
        """Write once; return whether all that was there then was taken."""
        out, self._out, self._out_bytes = self._out, [], 0
        data = self._unsent + b"".join(out) if self._unsent or len(out) != 1 else out[0]
        sent = 0
        try:
            sent = self._send(data)
        except _WOULD_BLOCK:
            pass
        except OSError as error:
            self._end(self._explained(error))
            return True
        except BaseException:
            # An interrupt: nobody knows what was written.
            self._end(ConnectionLost(f"writing to {self.address} was interrupted"))
            raise
        self._unsent = data[sent:] if sent < len(data) else b""
        return not self._unsent

    def _receive(self) -> bool:
        """Handle what arrived; return whether there was something."""
        try:
            data = self._recv()
            if data:
                self._handle(data)
            else:
                self._end(self._ended())
        except _WOULD_BLOCK:
            return False
        except OSError as error:
            self._end(self._explained(error))
        except RemoteProtocolError as error:
            self._end(ConnectionLost(f"{self.address} sent what is no command: {error}"))
        except BaseException:
            # An interrupt: nobody knows what was handled.
            self._end(ConnectionLost(f"reading from {self.address} was interrupted"))
            raise
        return True

    def _handle(self, data: bytes) -> None:
        self._used_at = time.monotonic()
        if not self._has_received:
            self._has_received = True
            if data.startswith(ALERT):
                self._end(speaks_tls_only(self.address))
                return
        self.feed(data)
        while self.pending_bytes:
            if self._take_answers((self,)):
                continue
            command, end = read_command(self.received, self.start, self._frame_bytes_max)
            if command is None:
                return
            self.skip_to(end)
            self._handle_command(command)

    def _handle_command(self, command: Command) -> None:
        if command.is_response:
            awaited = self.waiting.pop(command.opaque, None)
            if awaited is not None:
                awaited.answer.set_result(command)
        elif not command.is_oneway:
            # Nobody listens here.
            refusal = Command(
                ResponseCode.REQUEST_CODE_NOT_SUPPORTED,
                opaque=command.opaque,
                flag=CommandFlag.RESPONSE,
                remark=f" request type {command.code} not supported",
                serializer=command.serializer,
            )
            self.send_frames(encode(refusal))

    def _send(self, data: bytes) -> int:
        if self._tls is None:
            return self._connection.send(data)
        with self._tls:
            return self._connection.send(data)

    def _recv(self) -> bytes:
        if self._tls is None:
            return self._connection.recv(RECEIVE_BYTES)
        with self._tls:
            return self._connection.recv(RECEIVE_BYTES)

    # The end ---------------------------------------------------------------------------------------------

    def _look(self) -> None:
        """See whether the server still has its end open, as far as one can without asking it."""
        if self._reading.acquire(blocking=False):
            try:
                self._used_at = time.monotonic()
                self._receive()
                # Others may have sent since.
                self._chain.release()
            finally:
                self._reading.release()
            if self.closed:
                self._let_go()

    def _end(self, error: NetworkError) -> None:
        if self.closed:
            return
        self.closed = True
        waiting, self.waiting = self.waiting, {}
        self._on_end(self)
        # Whoever polls it is woken by that.
        with suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)
        for awaited in waiting.values():
            if not awaited.answer.done():
                awaited.answer.set_exception(error)
        self._chain.release()

    def _let_go(self) -> None:
        """Close the socket of a connection that ended, once nobody has a role at it any more."""
        if self.closed and self._reading.acquire(blocking=False):
            if self._writing.acquire(blocking=False):
                # Both roles are kept: there is nothing to read and to write any more.
                self._connection.close()
            else:
                self._reading.release()

    def _ended(self) -> NetworkError:
        if self._tls is not None and not self._has_received:
            return ConnectionLost(ended_after_handshake(self.address))
        return ConnectionLost(f"{self.address} ended the connection before its answer")

    def _explained(self, error: OSError) -> NetworkError:
        if isinstance(error, ssl.SSLError):
            return tls_failure(self.address, error)
        return ConnectionLost(f"the connection to {self.address} ended: {error.strerror or error}")
