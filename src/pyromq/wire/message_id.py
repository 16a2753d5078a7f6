"""The two ids of a message.

    unique id (the producer's)          position id (the broker's, `offsetMsgId`)
      4|16  producer's IP address          4|16  store host's IP address
      2     process id                     4     its port
      4     hash of the class loader       8     position in the commit log
      4     milliseconds since the month began
      2     counter

Both are upper-case hexadecimal, 32 characters with an IPv4 address and 56 with an IPv6 one.
"""

import struct
from datetime import datetime
from ipaddress import ip_address
from itertools import count
from typing import Final, NamedTuple

from pyromq.errors import HeaderError

ID_CHARACTERS_V4: Final = 32
ID_CHARACTERS_V6: Final = 56

_POSITION: Final = struct.Struct(">q")
_PID_AND_HASH: Final = struct.Struct(">HI")


class OffsetMessageId(NamedTuple):
    """The content of an offset message id: the broker's address, and the message's position in its log."""

    host: str
    port: int
    position: int


def offset_message_id(store_host: bytes, position: int) -> str:
    """Return the position id; `store_host` is the 8 or 20 bytes that a record carries."""
    return (store_host + _POSITION.pack(position)).hex().upper()


def parse_offset_message_id(text: str) -> OffsetMessageId:
    """Return what a position id says; raise HeaderError when it is not one."""
    if len(text) not in (ID_CHARACTERS_V4, ID_CHARACTERS_V6):
        raise HeaderError(f"message id {text!r}: 32 or 56 hexadecimal characters are expected")
    try:
        packed = bytes.fromhex(text)
    except ValueError as error:
        raise HeaderError(f"message id {text!r} is not hexadecimal") from error
    if len(packed) * 2 != len(text):
        raise HeaderError(f"message id {text!r} is not hexadecimal")
    return OffsetMessageId(
        host=str(ip_address(packed[:-12])),
        port=int.from_bytes(packed[-12:-8], "big"),
        position=_POSITION.unpack(packed[-8:])[0],
    )


class UniqueIds:
    """Makes the ids that a producer gives its messages.

    The month is that of the local calendar, as in Java. Java's class-loader hash tells two class loaders of
    one process apart; here `loader_hash` tells apart whatever the caller wants to (a random number does).
    """

    __slots__ = ("_counter", "_month_ends_ms", "_month_starts_ms", "_prefix")

    def __init__(self, address: str, pid: int, loader_hash: int = 0) -> None:
        packed = ip_address(address).packed
        fixed = packed + _PID_AND_HASH.pack(pid & 0xFFFF, loader_hash & 0xFFFFFFFF)
        self._prefix = fixed.hex().upper()
        self._counter = count()
        self._month_starts_ms = self._month_ends_ms = 0

    def next(self, now_ms: int) -> str:
        """Return an id that this object has not given within the last 65,536."""
        if now_ms >= self._month_ends_ms:
            self._month_starts_ms, self._month_ends_ms = _month_around(now_ms)
        # A clock that was set back a little before the month's start must not give a huge number.
        since_ms = max(now_ms - self._month_starts_ms, 0)
        return f"{self._prefix}{since_ms & 0xFFFFFFFF:08X}{next(self._counter) & 0xFFFF:04X}"


def _month_around(now_ms: int) -> tuple[int, int]:
    start = datetime.fromtimestamp(now_ms / 1000).replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    next_month = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
    return int(start.timestamp() * 1000), int(next_month.timestamp() * 1000)
