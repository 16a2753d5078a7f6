"""Patterns of addresses that need no signature.

    *                           everybody
    192.168.1.7                 one address; 2001:db8::7
    192.168.1.7,192.168.1.9     some
    192.168.1.{7,9}             the same; 2001:db8::{7,9}
    192.168.*.*                 a part that may be anything; 2001:db8:0:0:0:0:*:*
    192.168.10-20.*             a part from one number to another; in IPv6 the numbers are hexadecimal

Every part is compared, also those behind the first `*`: RocketMQ stops there (RemoteAddressStrategyFactory).
"""

import ipaddress
import re
from collections.abc import Iterable

from pyromq.errors import ConfigError

#: The lowest and the highest number of each part: four of an IPv4 address, eight of an IPv6 address.
Ranges = tuple[tuple[int, int], ...]
_EVERYBODY = frozenset({"*", "*.*.*.*", "*:*:*:*:*:*:*:*"})
_LIST = re.compile(r"(?P<head>[^{}]*)\{(?P<tails>[^{}]*)\}")
_ANY_V4: Ranges = ((0, 255),) * 4
_ANY_V6: Ranges = ((0, 0xFFFF),) * 8


class Addresses:
    """The addresses that some patterns name."""

    def __init__(self, patterns: Iterable[str] = ()) -> None:
        """Read the patterns. Raises ConfigError, which names the one that means nothing."""
        self._ranges = [ranges for pattern in patterns for ranges in _read(pattern.strip())]

    def __contains__(self, host: str) -> bool:
        if not self._ranges:
            return False
        parts = _parts_of(host)
        return any(
            len(ranges) == len(parts)
            and all(low <= part <= high for part, (low, high) in zip(parts, ranges, strict=True))
            for ranges in self._ranges
        )


def _parts_of(host: str) -> tuple[int, ...]:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return ()
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is None:
            packed = address.packed
            return tuple(packed[at] << 8 | packed[at + 1] for at in range(0, 16, 2))
        address = address.ipv4_mapped
    return tuple(address.packed)


def _read(pattern: str) -> list[Ranges]:
    if not pattern:
        return []
    if pattern in _EVERYBODY:
        return [_ANY_V4, _ANY_V6]
    listed = _LIST.fullmatch(pattern)
    if listed is not None:
        return [_read_one(listed["head"] + tail.strip()) for tail in listed["tails"].split(",")]
    return [_read_one(one.strip()) for one in pattern.split(",")]


def _read_one(text: str) -> Ranges:
    parts, base, highest = (_v6_parts(text), 16, 0xFFFF) if ":" in text else (text.split("."), 10, 255)
    if len(parts) != (8 if base == 16 else 4):
        raise ConfigError(f"{text!r} is no address or pattern of addresses")
    return tuple(_read_part(part, base, highest, text) for part in parts)


def _v6_parts(text: str) -> list[str]:
    left, gap, right = text.partition("::")
    parts = [part for part in left.split(":") if part]
    if not gap:
        return parts
    tail = [part for part in right.split(":") if part]
    return [*parts, *["0"] * (8 - len(parts) - len(tail)), *tail]


def _read_part(part: str, base: int, highest: int, text: str) -> tuple[int, int]:
    if part == "*":
        return 0, highest
    low, _, high = part.partition("-")
    try:
        numbers = int(low, base), int(high or low, base)
    except ValueError:
        numbers = -1, -1
    if not (part.replace("-", "").isalnum() and 0 <= numbers[0] <= numbers[1] <= highest):
        raise ConfigError(f"{text!r} is no address or pattern of addresses: {part!r} is none of its parts")
    return numbers
