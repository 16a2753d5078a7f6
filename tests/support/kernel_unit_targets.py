"""The kernel's `units` driven with Arrow arrays that are whole, and with such that lie about themselves."""

import struct
from array import array
from contextlib import suppress
from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact, expect, module, mutated, number, target

from pyromq.wire.batch import decode_batch

TEXTS = (
    b"",
    b"paid",
    b"k1 k2",
    b"TAGS",
    b"KEYS",
    b"UNIQ_KEY",
    b"a\x01b",
    b"\x02",
    "größer".encode(),
    b"x" * 300,
)
LEFT_OUT = (b"UNIQ_KEY", b"WAIT", b"CLUSTER")


class Arrow:
    """What the kernel asks of an array."""

    keys: "Arrow"
    items: "Arrow"

    def __init__(self, random: Random, length: int, offset: int, *buffers: bytes | None) -> None:
        lies = random.random() < 0.1
        self._length = max(length + (random.randrange(-2, 3) if lies else 0), 0)
        self.offset = offset + (random.randrange(-1, 3) if lies else 0)
        self._buffers = [None if one is None else self._buffer(random, one) for one in buffers]

    def _buffer(self, random: Random, data: bytes) -> "array[int]":
        return exact(mutated(random, data) if random.random() < 0.03 else data)

    def __len__(self) -> int:
        return self._length

    def buffers(self) -> "list[array[int] | None]":
        return self._buffers


def _valid(random: Random, rows: int) -> bytes | None:
    return None if random.random() < 0.4 else random.randbytes((rows + 7) // 8)


def _offsets(lengths: list[int]) -> bytes:
    ends = [sum(lengths[:at]) for at in range(len(lengths) + 1)]
    return struct.pack(f"<{len(ends)}i", *ends)


def _texts(random: Random, rows: int) -> Arrow:
    offset = random.randrange(3)
    texts = [random.choice(TEXTS) for _ in range(rows + offset)]
    data = b"".join(texts)
    return Arrow(
        random, rows, offset, _valid(random, rows + offset), _offsets([len(one) for one in texts]), data
    )


def _numbers(random: Random, rows: int) -> Arrow:
    offset = random.randrange(3)
    data = struct.pack(f"<{rows + offset}q", *(number(random) for _ in range(rows + offset)))
    return Arrow(random, rows, offset, _valid(random, rows + offset), data)


def _maps(random: Random, rows: int) -> Arrow:
    offset = random.randrange(3)
    counts = [random.randrange(4) for _ in range(rows + offset)]
    made = Arrow(random, rows, offset, _valid(random, rows + offset), _offsets(counts))
    made.keys, made.items = _texts(random, sum(counts)), _texts(random, sum(counts))
    return made


def _maybe(random: Random, make: Any, rows: int) -> Any:
    return make(random, rows) if random.random() < 0.5 else None


@target("units.Units")
def units(random: Random) -> None:
    rows = random.choice((0, 1, 2, 5, 20))
    columns = SimpleNamespace(
        body=_texts(random, rows),
        tags=_maybe(random, _texts, rows),
        keys=_maybe(random, _texts, rows),
        message_group=_maybe(random, _texts, rows),
        msg_id=_maybe(random, _texts, rows),
        properties=_maybe(random, _maps, rows),
        deliver_at=_maybe(random, _numbers, rows),
        delay_ms=_maybe(random, _numbers, rows),
        delay_level=_maybe(random, _numbers, rows),
    )
    with suppress(ValueError, IndexError):
        made = module("units").Units(columns, b"0123456789ABCDEF", random.randrange(1 << 33), LEFT_OUT)
        places = None
        if random.random() < 0.5:
            places = array("i", [random.randrange(-1, rows + 1) for _ in range(random.randrange(30))])
        stop = made.count if places is None else len(places)
        for _ in range(random.randrange(1, 4)):
            start, most = random.randrange(stop + 1), random.choice((0, 100, 5_000, 1 << 20))
            encoded, end = made.encode(places, start, stop, most)
            expect(len(encoded) <= most, "no more bytes than there is room for")
            expect(len(decode_batch(encoded)) == end - start, "each row is one message")


@target("units.group_queues")
def group_queues(random: Random) -> None:
    rows, queues = random.choice((0, 1, 5, 20)), random.choice((1, 2, 7, 1_000))
    with suppress(ValueError):
        made = array("i", bytes(module("units").group_queues(_texts(random, rows), queues)))
        expect(all(-2 <= one < queues for one in made), "each row has a queue, or none")
