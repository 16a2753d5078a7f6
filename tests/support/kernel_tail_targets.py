"""The growing ends of queues and index, driven with random inputs; see `kernel_targets`."""

import struct
from collections.abc import Callable
from contextlib import suppress
from random import Random

from kernel_inputs import exact, exact_bytes, expect, module, mostly, number, target


@target("tails.QueueTail")
def queue_tail(random: Random) -> None:
    tail = module("tails").QueueTail()
    tail.end = end = random.randrange(1 << 40)
    added = random.randrange(40)
    for _ in range(added):
        if random.random() < 0.02:
            _refuses_to_grow(tail.held, lambda: tail.add(0, 0, 0))
        tail.add(number(random), number(random, 32), number(random))
    expect(tail.end == end + added and len(tail.held) == 20 * added, "one entry for each message")


@target("entry_runs.run_of")
def entry_runs(random: Random) -> None:
    run_of = module("entry_runs").run_of
    entries = b"".join(
        struct.pack(">qiq", random.choice((0, 1_000, 1 << 62, -1)), random.choice((1_000, 0, -5, 1 << 30)), 7)
        for _ in range(random.randrange(1, 5))
    )
    data = exact_bytes(entries[: mostly(random, len(entries), random.randrange(20, len(entries) + 1))])
    count, _ = run_of(
        data,
        mostly(random, 1 << 40, 0, (1 << 63) - 1, -(1 << 63)),
        mostly(random, 32, 0, 1 << 40),
        mostly(random, 262_144, 0, (1 << 63) - 1),
    )
    expect(0 <= count <= len(data) // 20, "no more than there are")


@target("tails.IndexTail")
def index_tail(random: Random) -> None:
    slots = random.choice((1, 2, 7, 200, 5000))
    tail = module("tails").IndexTail(slots, 1 << 20)
    newest: dict[int, int] = {}
    for _ in range(random.randrange(random.choice((30, 30, 30, 600)))):
        roll = random.random()
        if roll < 0.01:
            # A map of the file, whole or cut short, with anything in its slots.
            tail.look = exact(random.randbytes(random.choice((0, 39, 40, 43, 40 + 4 * slots))))
            newest.clear()
        elif roll < 0.02:
            tail.drop_held()
            tail.look, newest = None, {}
        elif roll < 0.04:
            tail.newest(random.randrange(slots))
        elif roll < 0.05:
            # Without a file, or with one that is too short, there is nothing to write into.
            with suppress(ValueError):
                tail.note_slots()
                tail.noted_parts(random.randrange(1, 4))
        elif roll < 0.06:
            tail.forget_noted()
        else:
            key_hash = random.randrange(1 << random.choice((3, 12, 31)))
            newest[key_hash % slots] = tail.count
            tail.put(key_hash, number(random), number(random))
    tail.look = None
    expect(all(tail.newest(slot) == entry for slot, entry in newest.items()), "the newest entry is found")
    tail.look = exact(bytes(40 + 4 * slots))
    tail.note_slots()
    written = b""
    while parts := tail.noted_parts(random.choice((1, 2, 100))):
        written += b"".join(part for part, _ in parts)
    slots_held = sum(any(written[at : at + 4]) for at in range(0, len(written), 4))
    expect(tail.held_slots_count() == slots_held, "held slots are written")
    tail.put(5, 1, 1)
    tail.drop_noted()
    expect(tail.held_slots_count() == 1, "what came later is held on")


def _refuses_to_grow(held: bytearray, add: Callable[[], object]) -> None:
    """See that something that is being looked at is not moved away from below the reader."""
    with memoryview(held):
        try:
            add()
        except BufferError:
            return
    expect(holds=False, what="a bytearray grew while it was looked at")
