"""Java's string hash, and the order that Java's hash maps list their keys in.

Tags and index keys are stored as this hash; the order of fields, properties and tables on the wire is that
of a `java.util.HashMap`, so that what we write is byte for byte what RocketMQ writes.
"""

from collections.abc import Hashable, Iterable
from functools import lru_cache
from typing import TypeVar

from pyromq.model import MessageQueue

_MASK = 0xFFFFFFFF
CACHED_CHARACTERS_MAX = 128
CACHED_KEYS_MAX = 32

K = TypeVar("K", bound=Hashable)


def java_hash(text: str) -> int:
    """Return `String.hashCode`: s[0]·31^(n−1) + … over UTF-16 units, as a signed 32-bit number."""
    return _short_hash(text) if len(text) <= CACHED_CHARACTERS_MAX else _hash(text)


def _hash(text: str) -> int:
    value = 0
    if text.isascii():
        for unit in text.encode():
            value = (31 * value + unit) & _MASK
    else:
        units = text.encode("utf-16-be", "surrogatepass")
        for high, low in zip(units[::2], units[1::2], strict=True):
            value = (31 * value + (high << 8 | low)) & _MASK
    return _signed(value)


#: Of short texts only: keys and tags come from peers, and a cache of long ones would hold gigabytes.
_short_hash = lru_cache(maxsize=65536)(_hash)


def java_queue_hash(queue: MessageQueue) -> int:
    """Return what RocketMQ's `MessageQueue.hashCode` returns, as a signed 32-bit number."""
    value = 31 + java_hash(queue.broker_name)
    value = 31 * value + queue.queue_id
    value = 31 * value + java_hash(queue.topic)
    return _signed(value & _MASK)


def java_map_order(keys: tuple[str, ...], capacity: int = 16) -> tuple[str, ...]:
    """Return the keys in the order in which a `java.util.HashMap`, filled in the given order, lists them.

    `capacity` is the number of buckets that the map starts with.
    """
    if len(keys) <= CACHED_KEYS_MAX and sum(map(len, keys)) <= CACHED_KEYS_MAX * CACHED_CHARACTERS_MAX:
        return _few_in_order(keys, capacity)
    return _in_order(keys, capacity)


def _in_order(keys: tuple[str, ...], capacity: int) -> tuple[str, ...]:
    return _by_bucket([(key, java_hash(key)) for key in keys], capacity)


#: Of the fields of a header, say; the names of all topics of a broker are another matter.
_few_in_order = lru_cache(maxsize=1024)(_in_order)


def java_queue_order(queues: Iterable[MessageQueue]) -> tuple[MessageQueue, ...]:
    """Return the queues in the order in which a `java.util.HashMap` or `HashSet` lists them."""
    return _by_bucket([(queue, java_queue_hash(queue)) for queue in queues], 16)


def java_capacity(count: int, capacity: int) -> int:
    """Return how many buckets a map that began with `capacity` of them has with so many keys."""
    while count > capacity * 3 // 4:
        capacity *= 2
    return capacity


def java_bucket(key: str, capacity: int) -> int:
    """Return the bucket of a key in a map of `capacity` buckets."""
    return _bucket(java_hash(key), capacity)


def _bucket(hashed: int, capacity: int) -> int:
    spread = hashed & _MASK
    return (spread ^ spread >> 16) & (capacity - 1)


def _by_bucket(hashed: list[tuple[K, int]], capacity: int) -> tuple[K, ...]:
    capacity = java_capacity(len(hashed), capacity)

    def bucket(entry: tuple[K, int]) -> int:
        return _bucket(entry[1], capacity)

    # Keys of one bucket keep the order in which they came, as the chains of a HashMap do.
    return tuple(key for key, _ in sorted(hashed, key=bucket))


def _signed(value: int) -> int:
    return value - (1 << 32) if value & 0x80000000 else value
