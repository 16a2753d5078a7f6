"""Many messages of one topic in one body.

    at   bytes  field of one unit; units stand one behind the other
     0     4    total size
     4     4    magic, 0
     8     4    CRC, 0
    12     4    flag
    16     4+n  body
           2+n  properties, 32,767 bytes at most

The broker turns each unit into a record of its own.
"""

import struct
from collections.abc import Iterable
from typing import Final

import msgspec

from pyromq.errors import HeaderError, MessageTooLarge
from pyromq.wire.record import PROPERTIES_BYTES_MAX

#: size, magic, checksum, flag, length of the body.
_HEAD: Final = struct.Struct(">iiiii")
_INT16: Final = struct.Struct(">h")
#: A unit with an empty body and no properties.
UNIT_BYTES_MIN: Final = 22
assert _HEAD.size + _INT16.size == UNIT_BYTES_MIN


class BatchUnit(msgspec.Struct, frozen=True, gc=False):
    """One message of a batch. Its topic is the request's; `properties` is the property string."""

    flag: int
    body: bytes
    properties: str


def encode_batch(units: Iterable[BatchUnit]) -> bytes:
    """Return the body of a batch; raise MessageTooLarge when a unit's properties do not fit."""
    parts: list[bytes] = []
    for unit in units:
        properties = unit.properties.encode("utf-8", "replace")
        if len(properties) > PROPERTIES_BYTES_MAX:
            raise MessageTooLarge(
                f"the properties of a message in the batch have {len(properties)} bytes; "
                f"the limit is {PROPERTIES_BYTES_MAX}"
            )
        size = UNIT_BYTES_MIN + len(unit.body) + len(properties)
        parts += (
            _HEAD.pack(size, 0, 0, unit.flag, len(unit.body)),
            unit.body,
            _INT16.pack(len(properties)),
            properties,
        )
    return b"".join(parts)


def decode_batch(body: bytes) -> list[BatchUnit]:
    """Return the units; raise HeaderError when the lengths inside do not fit one another."""
    units: list[BatchUnit] = []
    at, end_of_body = 0, len(body)
    while at < end_of_body:
        if end_of_body - at < UNIT_BYTES_MIN:
            raise HeaderError(f"batch: {end_of_body - at} bytes at {at} are too few for a message")
        size, _, _, flag, body_length = _HEAD.unpack_from(body, at)
        body_at = at + 20
        properties_at = body_at + body_length + 2
        end = at + size
        if body_length < 0 or properties_at > end or end > end_of_body:
            raise HeaderError(
                f"batch: the message at {at} says {size} bytes, {body_length} of body; "
                f"{end_of_body - at} bytes are there"
            )
        (properties_length,) = _INT16.unpack_from(body, properties_at - 2)
        if properties_length != end - properties_at:
            raise HeaderError(f"batch: the message at {at} says {properties_length} bytes of properties")
        units.append(
            BatchUnit(
                flag,
                body[body_at : properties_at - 2],
                body[properties_at:end].decode("utf-8", "replace"),
            )
        )
        at = end
    return units
