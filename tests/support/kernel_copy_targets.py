"""What is driven with random inputs: the records of a log that a slave copies."""

from collections import Counter
from random import Random

from kernel_inputs import cuts, exact, expect, module, mutated, number, target

#: How queues get the times when messages are due; mostly they have tags.
DUE: tuple[tuple[object, ...], ...] = (
    (),
    (),
    (b"DELAY", (1000, 5000)),
    (b"TIMER_OUT_MS",),
    (b"DELAY", (1 << 61,)),
)


@target("copies.Copies", "copies.Topic")
def copies(random: Random) -> None:
    """Plan a log in pieces, and apply or drop each plan; every message leaves one entry."""
    kernel, tails = module("copies"), module("tails")
    planning = kernel.Copies(has_index=random.random() < 0.8)
    index = tails.IndexTail(random.choice((1, 50, 5000)), 1 << 20)
    queues = {}
    for topic in (b"a", b"orders", b"x" * 127):
        for queue_id in (0, 1, random.choice((-1, 7, 4095, 4096))):
            queues[topic, queue_id] = queue = tails.QueueTail()
            queue.gone = random.random() < 0.02
            planning.learn(topic, queue_id, queue, *random.choice(DUE))
    kernel.Topic(b"orders")
    position, applied = random.choice((0, 1 << 40)), 0
    for data in cuts(random, _log(random, position)):
        room = len(data) if random.random() < 0.8 else number(random)
        taken = planning.plan(exact(data), position, room, random.choice((0, 3, 1 << 20)))
        expect(0 <= taken <= max(min(len(data), room), 0), "only what is there is taken")
        count = planning.message_count
        if random.random() < 0.2:
            planning.drop()
        else:
            _, grown, _ = planning.apply(index, random.choice((20, 2000)))
            expect(len(grown) <= count, "a queue grows by a message")
            applied += count
        position += taken
    expect(sum(queue.end for queue in queues.values()) == applied, "an entry for a message")


def _log(random: Random, base: int) -> bytes:
    """Return records as a log has them, of queues that begin at 0, each perhaps damaged."""
    from pyromq.wire.record import Record, encode_record

    log, offsets = b"", Counter[tuple[str, int]]()
    for _ in range(random.choice((3, 10, 60))):
        queue = random.choice(("a", "orders", "ünï", "x" * 127)), random.choice((0, 0, 1, 7, 4095, 4096))
        record = Record(
            topic=queue[0],
            body=random.randbytes(random.choice((0, 1, 15, 64, 200))),
            queue_id=queue[1],
            queue_offset=offsets[queue],
            sys_flag=random.choice((0, 0, 0, 0, 1, 4, 8, 12, 16, 32)),
            properties=random.choice(
                (
                    "",
                    "DELAY\x012",
                    "DELAY\x0199\x02TIMER_OUT_MS\x0112345",
                    "TIMER_DEL_UNIQKEY\x01a",
                    "TAGS\x01a",
                    "KEYS\x01a  b é ",
                    "UNIQ_KEY\x01" + "7F" * 16 + "\x02KEYS\x01k l\x02",
                )
            ),
            position=base + len(log),
            stored_at_ms=number(random),
        )
        if not record.sys_flag & 4:
            offsets[queue] += 1
        encoded = encode_record(record)
        log += mutated(random, encoded) if random.random() < 0.03 else encoded
    return log
