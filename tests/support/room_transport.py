"""A transport with room for so many bytes, as a socket has: what does not fit waits for the peer."""

import asyncio

from pyromq.wire.command import CommandReader


class RoomTransport(asyncio.Transport):
    """What is written waits for `take`; above the high-water mark the protocol is told to pause.

    Bytes that arrive while nothing is read wait too, for `resume_reading`.
    """

    def __init__(self):
        super().__init__(extra={"peername": ("127.0.0.1", 5000)})
        self.protocol = None
        self.is_reading = True
        self.is_protocol_paused = False
        self.ended = None
        self.waiting = bytearray()
        self._arrived = bytearray()
        self._taken = bytearray()

    # What the peer does

    def send(self, data):
        """Let bytes arrive."""
        self._arrived += data
        self._deliver()

    def take(self, size):
        """Take some of what was written."""
        self._taken += self.waiting[:size]
        del self.waiting[:size]
        if self.is_protocol_paused and len(self.waiting) <= self._low:
            self.is_protocol_paused = False
            self.protocol.resume_writing()

    def commands(self):
        """Return what the peer has taken."""
        reader = CommandReader()
        reader.feed(bytes(self._taken))
        return list(iter(reader.next_command, None))

    # What the link does

    def set_write_buffer_limits(self, high=None, low=None):
        self._high, self._low = high, low

    def get_write_buffer_size(self):
        return len(self.waiting)

    def write(self, data):
        self.waiting += data
        if len(self.waiting) > self._high and not self.is_protocol_paused:
            self.is_protocol_paused = True
            self.protocol.pause_writing()

    def writelines(self, chunks):
        self.write(b"".join(chunks))

    def pause_reading(self):
        assert self.is_reading, "paused twice"
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading, "resumed twice"
        self.is_reading = True
        asyncio.get_running_loop().call_soon(self._deliver)

    def close(self):
        self.ended = "closed"

    def abort(self):
        self.ended = "aborted"

    def _deliver(self):
        if self.is_reading and self._arrived and self.ended is None:
            data, self._arrived = bytes(self._arrived), bytearray()
            self.protocol.data_received(data)
