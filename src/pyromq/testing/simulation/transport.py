"""One side of a simulated connection, with the face and the flow control of asyncio's transports.

    write ─► buffer of the process ─► pipe (both kernels and the wire, PIPE_BYTES) ─► data_received
             above the high mark:      held while the network is cut; kept in order;
             pause_writing             full while the peer does not read

A pipe's bytes go on when the process that wrote them is stopped or dead, as those in a kernel do.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

if TYPE_CHECKING:
    from pyromq.testing.simulation.simulated_machines import Process
    from pyromq.testing.simulation.simulated_network import Network

#: Bytes between two processes that neither of them holds.
PIPE_BYTES: Final = 512 * 1024
SEGMENT_BYTES: Final = 64 * 1024
MOMENT_S: Final = 1e-6
_HIGH_BYTES: Final = 64 * 1024

_FIN: Final = b""


class Endpoint(asyncio.Transport):
    """One side."""

    def __init__(
        self, network: Network, process: Process, local: tuple[str, int], remote: tuple[str, int]
    ) -> None:
        super().__init__()
        self.network = network
        self.process = process
        self.local = local
        self.remote = remote
        self.number = 0
        #: The other side.
        self.peer: Endpoint = self
        self.protocol: Any = None
        #: Whether its machine lost power, so that nobody answers for it.
        self.is_silent = False
        self.is_lost = False
        self._is_closing = False
        self._buffer: deque[memoryview] = deque()
        self._buffer_bytes = 0
        self._high = _HIGH_BYTES
        self._low = _HIGH_BYTES // 4
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._unread: deque[bytes] = deque()
        #: Bytes in the pipe to the peer, and when the last of them arrives.
        self._outstanding = 0
        self._last_arrival = 0.0
        #: What the network holds back, and whether it is about to come.
        self.held: deque[bytes] = deque()
        #: The next bytes that this side sends are lost, and the connection with them.
        self.loses_next = False
        process.endpoints[self] = None

    def begin(self, protocol: Any) -> None:
        """Give the connection to a protocol."""
        self.protocol = protocol
        protocol.connection_made(self)
        if self._unread:
            self.network.loop.call_soon(self._read_on)

    # What protocols call

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Tell the addresses."""
        return {"peername": self.remote, "sockname": self.local}.get(name, default)

    def is_closing(self) -> bool:
        """Return whether it is closed or being closed."""
        return self._is_closing

    def set_protocol(self, protocol: Any) -> None:
        """Have another protocol."""
        self.protocol = protocol

    def get_protocol(self) -> Any:
        """Return the protocol."""
        return self.protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Set when the protocol is told to stop writing, and to go on."""
        if high is None:
            high = _HIGH_BYTES if low is None else 4 * low
        self._high, self._low = high, high // 4 if low is None else low

    def get_write_buffer_size(self) -> int:
        """Return how much waits in the process."""
        return self._buffer_bytes

    def get_write_buffer_limits(self) -> tuple[int, int]:
        """Return the limits."""
        return self._low, self._high

    def pause_reading(self) -> None:
        """Take no more bytes."""
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        """Take bytes again."""
        if self._is_reading_paused and not self._is_closing:
            self._is_reading_paused = False
            if self._unread:
                self.network.loop.call_soon(self._read_on)

    def is_reading(self) -> bool:
        """Return whether bytes are taken."""
        return not self._is_reading_paused and not self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes; they are the transport's from now on."""
        if self._is_closing or self.is_lost or self.process.is_dead or not data:
            return
        if self.network.on_write is not None:
            self.network.on_write(self, bytes(data))
        self._buffer.append(memoryview(bytes(data)))
        self._buffer_bytes += len(data)
        self._fill_pipe()
        if self._buffer_bytes > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self.protocol.pause_writing()

    def writelines(self, list_of_data: Any) -> None:
        """Send several pieces."""
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        """Say no: nobody here closes one half."""
        return False

    def close(self) -> None:
        """Send what waits, then end."""
        if self._is_closing or self.process.is_dead:
            return
        self._is_closing = True
        if not self._buffer:
            self._finish()

    def abort(self) -> None:
        """End now; the peer is told by a reset."""
        if self.is_lost or self.process.is_dead:
            return
        self._is_closing = True
        self._buffer.clear()
        self._buffer_bytes = 0
        self._tell_reset()
        self._lose(None)

    # The pipe

    def _fill_pipe(self) -> None:
        network, buffer = self.network, self._buffer
        if self.loses_next:
            self.loses_next = False
            network.loop.call_soon(network.reset, self)
            buffer.clear()
            self._buffer_bytes = 0
            return
        while buffer and self._outstanding < PIPE_BYTES:
            data = buffer[0]
            size = min(len(data), network.segment_bytes(), PIPE_BYTES - self._outstanding)
            segment = bytes(data[:size])
            if size == len(data):
                buffer.popleft()
            else:
                buffer[0] = data[size:]
            self._buffer_bytes -= size
            self._send(segment)
        if self._is_writing_paused and self._buffer_bytes <= self._low:
            self._is_writing_paused = False
            self.protocol.resume_writing()

    def _send(self, segment: bytes) -> None:
        self._outstanding += len(segment)
        loop, peer = self.network.loop, self.peer
        latency_s = self.network.latency_s(self.process.machine, peer, len(segment))
        # Never at the same moment: timers of one moment have no order.
        at = max(self._last_arrival + MOMENT_S, loop.time() + latency_s)
        self._last_arrival = at
        loop.call_at(at, peer.arrived, segment, context=peer.process.context)
        if peer.process.is_dead and not peer.is_silent:
            # Its machine runs and knows no such connection.
            loop.call_at(at, self.reset, context=self.process.context)

    def arrived(self, segment: bytes) -> None:
        """Take bytes from the wire, or leave them there while the network is cut."""
        if self.held or self.network.is_cut(self.peer.process.machine, self.process.machine):
            if not self.held:
                self.network.hold(self)
            self.held.append(segment)
        else:
            self._take(segment)

    def release(self) -> None:
        """Take what was held back: the network is whole again."""
        held, self.held = self.held, deque()
        for segment in held:
            self._take(segment)

    def _take(self, segment: bytes) -> None:
        if self.is_lost or self._is_closing:
            if segment and self.is_lost:
                self._tell_reset()
        elif self._is_reading_paused or self._unread or self.protocol is None:
            self._unread.append(segment)
        else:
            self._hand_over(segment)

    def _read_on(self) -> None:
        while self._unread and not self._is_reading_paused and not self._is_closing:
            self._hand_over(self._unread.popleft())

    def _hand_over(self, segment: bytes) -> None:
        if segment is _FIN:
            if not self.protocol.eof_received():
                self.close()
            return
        network = self.network
        if network.trace is not None:
            network.trace(
                "net", f"{self.peer.local[0]}>{self.local[0]} #{self.number}", len(segment), crc32(segment)
            )
        self._consumed(len(segment))
        network.delivered(self)
        if isinstance(self.protocol, asyncio.BufferedProtocol):
            self._fill_buffers(segment)
        else:
            self.protocol.data_received(segment)

    def _fill_buffers(self, segment: bytes) -> None:
        left = memoryview(segment)
        while left and not self.is_lost:
            buffer = memoryview(self.protocol.get_buffer(-1))
            size = min(len(buffer), len(left))
            buffer[:size] = left[:size]
            self.protocol.buffer_updated(size)
            left = left[size:]

    def _consumed(self, size: int) -> None:
        peer = self.peer
        peer._outstanding -= size
        if peer._buffer and not peer.is_lost:
            loop = self.network.loop
            delay_s = self.network.latency_s(self.process.machine, peer, 0)
            loop.call_later(delay_s, peer._go_on, context=peer.process.context)

    def _go_on(self) -> None:
        if not self.is_lost:
            self._fill_pipe()
            if self._is_closing and not self._buffer:
                self._finish()

    # The end

    def _finish(self) -> None:
        if self.is_lost:
            return
        self._send(_FIN)
        self._lose(None)

    def _lose(self, error: Exception | None) -> None:
        if not self.is_lost:
            self.is_lost = True
            self.process.endpoints.pop(self, None)
            self.network.loop.call_soon(self._tell_lost, error, context=self.process.context)

    def _tell_lost(self, error: Exception | None) -> None:
        if self.protocol is not None:
            self.protocol.connection_lost(error)

    def _tell_reset(self) -> None:
        loop, peer = self.network.loop, self.peer
        if not peer.is_lost:
            delay_s = self.network.latency_s(self.process.machine, peer, 0)
            loop.call_later(delay_s, peer.reset, context=peer.process.context)

    def reset(self) -> None:
        """End, because the other side says that there is no such connection."""
        if self.is_lost:
            return
        if self.network.is_cut(self.peer.process.machine, self.process.machine):
            self.network.hold_reset(self)
            return
        self._is_closing = True
        self._buffer.clear()
        self._buffer_bytes = 0
        self._lose(ConnectionResetError(104, "Connection reset by peer"))

    def die(self, *, is_orderly: bool) -> None:
        """End with the process: the kernel sends what it has and a FIN, or a reset."""
        self.is_lost = self._is_closing = True
        if is_orderly:
            self._send(_FIN)
        else:
            self._tell_reset()
