"""The id by which a gRPC producer ends its transaction: where the half is, so that it outlives restarts.

base32( "T" 1  queue offset of the half, int64  its position in the log, int64 ), without padding
"""

import base64
import binascii
import struct
from typing import Final, NamedTuple

_MARK: Final = b"T\x01"
_PLACE: Final = struct.Struct(">2sqq")
_CHARACTERS: Final = 29
_PADDING: Final = "==="


class HalfPlace(NamedTuple):
    """The place of a half message."""

    queue_offset: int
    position: int

    def encode(self) -> str:
        """Return the transaction id."""
        packed = _PLACE.pack(_MARK, self.queue_offset, self.position)
        return base64.b32encode(packed).decode().rstrip("=")


def decode_transaction_id(text: str) -> HalfPlace | None:
    """Return what a transaction id says, None when it is none of ours."""
    if len(text) != _CHARACTERS:
        return None
    try:
        mark, queue_offset, position = _PLACE.unpack(base64.b32decode(text + _PADDING))
    except (binascii.Error, ValueError):
        return None
    return HalfPlace(queue_offset, position) if mark == _MARK and min(queue_offset, position) >= 0 else None
