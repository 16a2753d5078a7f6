"""Entries of the timer queue, driven with random inputs; see `kernel_targets`."""

import struct
from contextlib import suppress
from random import Random

from kernel_inputs import expect, module, number, target

_ENTRY = struct.Struct(">qiq")


def _entries(random: Random) -> bytes:
    if random.random() < 0.1:
        return random.randbytes(random.randrange(100))
    position, parts = 0, []
    for _ in range(random.choice((0, 1, 5, 300))):
        position += random.randrange(500)
        due_ms = random.choice((0, number(random), random.randrange(1_000)))
        parts.append(_ENTRY.pack(position, number(random, 32), due_ms))
    return b"".join(parts)


@target("due_rows.rows_before")
def rows_before(random: Random) -> None:
    entries = _entries(random)
    with suppress(ValueError):
        count, rows = module("due_rows").rows_before(entries, random.choice((number(random), 5_000)))
        cut = [rows[at : at + 20] for at in range(0, len(rows), 20)]
        expect(20 * count <= len(entries) and len(cut) <= count, "rows are of entries")
        expect(cut == sorted(cut), "rows are in order")


@target("due_rows.near_rows")
def near_rows(random: Random) -> None:
    entries = _entries(random)
    after, until = ((random.choice((-1, 500, number(random))), number(random)) for _ in range(2))
    with suppress(ValueError):
        rows, beyond_ms = module("due_rows").near_rows(entries, after, until)
        expect(all(after < row[:2] <= until for row in rows), "rows are due when they should be")
        expect(beyond_ms is None or beyond_ms >= max(until[0], 1), "the first behind is behind")
