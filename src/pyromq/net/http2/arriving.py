"""Memory for what arrives and is not a whole request yet: one limit for all connections of a server."""

from __future__ import annotations

from collections.abc import Mapping


class ArrivingBytes:
    """The bytes of all messages of which a part arrived. A part of a message costs its sender little."""

    __slots__ = ("count", "count_max")

    def __init__(self, count_max: int) -> None:
        self.count = 0
        self.count_max = count_max

    def add(self, count: int) -> bool:
        """Count bytes more, or fewer; return whether there is memory for them."""
        self.count += count
        return count <= 0 or self.count <= self.count_max


class HeaderBytes:
    """The headers of one connection's calls that are held: a call that is answered at once is not counted.

    A stream that is only opened keeps its headers for as long as its client likes, and ten thousand may be.
    """

    __slots__ = ("_by_stream", "count")

    #: So many calls may have any headers that a session lets pass.
    UNCOUNTED = 256
    COUNT_MAX = 16 * 1024 * 1024

    def __init__(self) -> None:
        self.count = 0
        self._by_stream: dict[int, int] = {}

    def add(self, stream_id: int, headers: Mapping[str, str]) -> bool:
        """Count a call's headers as HTTP/2 does; return whether there is memory for them."""
        size = sum(len(name) + len(value) + 32 for name, value in headers.items())
        if self.count + size > self.COUNT_MAX:
            return False
        self._by_stream[stream_id] = size
        self.count += size
        return True

    def forget(self, stream_id: int) -> None:
        """Forget a call, if it was counted."""
        self.count -= self._by_stream.pop(stream_id, 0)
