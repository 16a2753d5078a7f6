"""A transport that is a list: what a link writes, and whether it reads."""

import asyncio

from pyromq.wire.command import CommandReader


class ListTransport(asyncio.Transport):
    """Keeps what is written; `stuck` bytes are said to wait for the peer."""

    def __init__(self):
        super().__init__(extra={"peername": ("127.0.0.1", 5000)})
        self.writes = []
        self.is_reading = True
        self.stuck = 0
        self.ended = None

    def set_write_buffer_limits(self, high=None, low=None):
        self.high = high

    def get_write_buffer_size(self):
        return self.stuck

    def write(self, data):
        self.writes.append(bytes(data))

    def writelines(self, chunks):
        self.writes.append(b"".join(chunks))

    def pause_reading(self):
        assert self.is_reading
        self.is_reading = False

    def resume_reading(self):
        assert not self.is_reading
        self.is_reading = True

    def close(self):
        self.ended = "closed"

    def abort(self):
        self.ended = "aborted"

    def commands(self):
        reader = CommandReader()
        reader.feed(b"".join(self.writes))
        return list(iter(reader.next_command, None))
