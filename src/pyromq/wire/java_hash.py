"""Java's string hash: what tags, keys and hash maps are sorted by on the wire and on disk."""

from functools import lru_cache

_MASK = 0xFFFFFFFF


@lru_cache(maxsize=65536)
def java_hash(text: str) -> int:
    """Return `String.hashCode`: s[0]·31^(n−1) + … over UTF-16 units, as a signed 32-bit number."""
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & _MASK
    return value - (1 << 32) if value & 0x80000000 else value
