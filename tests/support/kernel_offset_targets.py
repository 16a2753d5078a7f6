"""Commits and queries of offsets, driven with random inputs; see `kernel_targets`."""

from functools import cache
from random import Random

from kernel_inputs import exact_bytes, expect, mostly, some, target


@cache
def _frames() -> list[bytes]:
    from pyromq.codes import RequestCode, Serializer
    from pyromq.wire.command import Command, encode

    place = {"consumerGroup": "readers", "topic": "orders", "queueId": "0"}
    commits = [place | {"commitOffset": str(offset)} for offset in (-1, 0, 5, 6, 1 << 40, 1 << 61)]
    queries = [place, place | {"setZeroIfNotFound": "false"}, place | {"queueId": "1"}]
    asked = [(RequestCode.UPDATE_CONSUMER_OFFSET, ext) for ext in commits]
    asked += [(RequestCode.QUERY_CONSUMER_OFFSET, ext) for ext in queries]
    return [
        bytes(encode(Command(code, opaque=7, flag=flag, ext=ext, serializer=serializer)))
        for code, ext in asked
        for serializer in Serializer
        for flag in (0, 2)
    ]


@target("offsets.Offsets", "offsets.OffsetPlan")
def offsets(random: Random) -> None:
    from kernel_inlets import answers_of, inlet

    from pyromq.broker.groups.offset_shortcut import make_offsets
    from pyromq.wire.command import CommandReader

    kernel = make_offsets()
    kept = {0: random.choice((0, 5, -1, 1 << 40, 1 << 70)), 1: 3}
    for queue_id in (0, 1, 2):
        key = b"readers\0orders\0%d\0" % queue_id
        kernel.learn(key, kept, queue_id, "orders@readers", takes_commits=random.random() < 0.9)
    for _ in range(random.randrange(1, 5)):
        before = dict(kept)
        received = exact_bytes(some(random, _frames()))
        start = mostly(random, 0, 1, len(received), len(received) + 1)
        inlets = [
            inlet(received, start=start, room=mostly(random, 1 << 20, 0, 100))
            for _ in range(mostly(random, 1, 0, 3))
        ]
        lengths = [len(one.received) for one in inlets]
        count, changed = kernel.answer(inlets)
        expect(count > 0 or not changed, "what changed was handled")
        expect(
            all(one.start <= end for one, end in zip(inlets, lengths, strict=True)), "it ends in the bytes"
        )
        expect(all(kept[queue_id] >= before[queue_id] for queue_id in before), "nobody goes back")
        expect(bool(changed) == (kept != before), "what changed is told")
        for one in inlets:
            reader = CommandReader()
            reader.feed(answers_of(one))
            while reader.next_command() is not None:
                pass
            expect(not reader.pending_bytes, "answers are whole")
        if random.random() < 0.2:
            kernel.forget_all()
