"""The inner loops of `pyromq store verify`, driven with random inputs; see `kernel_targets`."""

from array import array
from collections import Counter
from contextlib import suppress
from random import Random
from zlib import crc32

from kernel_inputs import exact, expect, module, mutated, number, target


@target("facts.scan", "facts.Run", "facts.RunTable", "facts.are_keys")
def scan(random: Random) -> None:
    from pyromq.errors import CorruptRecord
    from pyromq.store.inspect.facts import Facts
    from pyromq.wire.record import decode_record

    kernel, facts, base, at = module("facts"), Facts({1: 1000}), random.randrange(1 << 50), 0
    block = _log(random, base)
    while (at := kernel.scan(exact(block), at, len(block) + random.randrange(-9, 10), base, facts)) < len(
        block
    ):
        try:
            record = decode_record(block, at)
        except CorruptRecord:
            break
        if min(record.queue_id, record.queue_offset) < 0 or record.size <= 0:
            break
        facts.take_in(record, base + at)
        at += record.size
    entries = b"".join(facts.keys[at : at + 12] + bytes(8) for at in range(0, len(facts.keys), 12))
    kernel.are_keys(exact(mutated(random, entries)), facts, random.randrange(-2, 3), number(random))
    expect(sum(len(run.entries) for run in facts.end()) <= 20 * facts.records, "an entry for a record")


def _log(random: Random, base: int) -> bytes:
    """Return records as a log has them, each with its position, and each perhaps damaged."""
    from pyromq.wire.record import Record, encode_record

    log, offsets = b"", Counter[tuple[str, int]]()
    topics, queue_count = random.sample(("a", "orders", "ünï", "x" * 127), 2), random.choice((1, 2, 60))
    for _ in range(random.choice((3, 10, 10, 150))):
        queue = random.choice(topics), random.randrange(queue_count)
        offsets[queue] += random.random() < 0.99
        record = Record(
            topic=queue[0],
            body=random.randbytes(random.choice((0, 1, 15, 16, 17, 63, 64, 65, 200))),
            queue_id=queue[1],
            queue_offset=offsets[queue],
            properties=random.choice(
                ("", "TAGS\x01a", "KEYS\x01a  b é ", "UNIQ_KEY\x01" + "7F" * 16 + "\x02TAGS\x01ü\x02")
            ),
            position=base + len(log),
            stored_at_ms=number(random),
        )
        encoded = encode_record(record)
        log += mutated(random, encoded) if random.random() < 0.04 else encoded
    return log


@target("facts.play", "facts.are_slots", "facts.count_used", "facts.count_before")
def index_files(random: Random) -> None:
    kernel = module("facts")
    slots = array(random.choice("iiiiq"), bytes(8 * random.choice((0, 1, 7, 100))))
    chunk = exact(
        random.randbytes(random.choice((0, 19, 20, 21, 400))) if random.random() < 0.5 else bytes(400)
    )
    for call in (
        lambda: kernel.play(slots, number(random, 32), chunk, random.randrange(-1, 25)),
        lambda: kernel.count_used(slots),
        lambda: kernel.are_slots(slots, exact(mutated(random, slots.tobytes()))),
        lambda: kernel.count_before(chunk, [number(random) for _ in range(random.randrange(4))]),
    ):
        with suppress(ValueError):
            call()


@target("crc32.crc32")
def checksum(random: Random) -> None:
    text, before = random.randbytes(random.randrange(random.choice((20, 300, 5000)))), random.getrandbits(32)
    expect(module("crc32").crc32(exact(text), before) == crc32(text, before), "a checksum is zlib's")
