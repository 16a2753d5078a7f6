"""Pulls at the broker, driven with random inputs; see `kernel_targets`."""

import struct
from array import array
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact, exact_bytes, expect, module, mostly, mutated, some, target

PULLED_FILE_BYTES = 1000


@cache
def _pull_header() -> Any:
    from pyromq.wire.headers.pull_headers import PullMessage

    return PullMessage(
        consumer_group="group",
        topic="orders",
        queue_id=0,
        queue_offset=0,
        max_msg_nums=32,
        sys_flag=4,
        commit_offset=0,
        suspend_timeout_millis=0,
        subscription="*",
        sub_version=0,
        expression_type="TAG",
    )


@cache
def _pull_frames() -> list[bytes]:
    from pyromq.codes import RequestCode, Serializer
    from pyromq.wire.command import Command, encode
    from pyromq.wire.header import write_header

    asked = write_header(_pull_header())
    return [
        bytes(encode(Command(RequestCode.PULL_MESSAGE, opaque=7, ext=ext, serializer=serializer)))
        for offset, count in ((0, 32), (0, 32), (1, 32), (2, 1), (5, 0), (20, -1), (1 << 61, 32))
        for flags in ("4", "5")
        for ext in [asked | {"queueOffset": str(offset), "maxMsgNums": str(count), "sysFlag": flags}]
        for serializer in Serializer
    ]


def _stored(random: Random) -> tuple[bytes, Any]:
    """Return a queue's entries, and a log of several files that has their records, some of them damaged."""
    from pyromq.wire.record import Record, encode_record

    entries, files = b"", [bytearray()]
    for offset in range(random.choice((3, 10, 60))):
        if len(files[-1]) > PULLED_FILE_BYTES - 400:
            files.append(bytearray())
        held, position = files[-1], (len(files) - 1) * PULLED_FILE_BYTES + len(files[-1])
        body = b"x" * random.randrange(200)
        record = encode_record(Record(topic="orders", body=body, queue_offset=offset, position=position))
        entries += struct.pack(">qiq", position, len(record), random.randrange(3))
        held += (
            mutated(random, record)[: len(record)].ljust(len(record)) if random.random() < 0.02 else record
        )
    segments = [
        SimpleNamespace(
            base=number_of_file * PULLED_FILE_BYTES,
            end=number_of_file * PULLED_FILE_BYTES
            + mostly(random, len(held), len(held) + 9, PULLED_FILE_BYTES),
            map=exact(bytes(held)),
        )
        for number_of_file, held in enumerate(files)
    ]

    def segment_at(position: int) -> Any:
        at = position // PULLED_FILE_BYTES
        return segments[at] if 0 <= at < len(segments) and position < segments[at].end else None

    log = SimpleNamespace(
        end=segments[-1].end,
        written_from=random.choice((0, 500, 1 << 40)),
        segments=segments,
        segment_at=segment_at,
    )
    return mutated(random, entries) if random.random() < 0.2 else entries, log


@target("pulls.Pulls", "pulls.Limits", "pulls.PullPlan")
def pulls(random: Random) -> None:
    from kernel_inlets import answers_of

    from pyromq.broker.delivery.pull_shortcut import _key_of, make_pulls
    from pyromq.config.settings import StoreSettings
    from pyromq.wire.command import CommandReader

    entries, log = _stored(random)

    class Queue(module("tails").QueueTail):  # type: ignore[misc]
        min_offset = mostly(random, 0, 3)

        def read(self, offset: int, count: int) -> bytes:
            return entries[20 * offset : 20 * (offset + count)]

    queue, kernel, reached = Queue(), make_pulls(StoreSettings(), broker_id=0), array("q", [-1])
    queue.end = len(entries) // 20
    for flags in (4, 5):
        _pull_header().sys_flag = flags
        codes = random.choice((None, None, frozenset(), frozenset({1}), frozenset({0, 1, 2})))
        kernel.learn(_key_of(_pull_header()), queue, b"orders", 0, codes, "who", reached)
    for _ in range(random.randrange(1, 5)):
        inlets = [_inlet(random) for _ in range(mostly(random, 1, 0, 3))]
        lengths = [len(one.received) for one in inlets]
        count, commits = kernel.answer(inlets, log=log, disk_position=random.choice((0, 1 << 40)))
        for one, length in zip(inlets, lengths, strict=True):
            expect(one.start <= length, "the pulls end in what was received")
        expect(len(commits) <= count, "a commit comes with an answer")
        expect(reached[0] <= queue.end, "nobody gets behind the end of a queue")
        expect(not count or reached[0] > 0, "an answer says how far it went")
        reader = CommandReader()
        reader.feed(b"".join(answers_of(one) for one in inlets))
        expect(sum(1 for _ in iter(reader.next_command, None)) == count, "answers are whole")
        if random.random() < 0.2:
            random.choice((kernel.release, kernel.forget_all))()


def _inlet(random: Random) -> Any:
    from kernel_inlets import inlet

    received = exact_bytes(some(random, _pull_frames()))
    start = mostly(random, 0, 1, len(received), len(received) + 1)
    return inlet(received, start=start, room=mostly(random, 1 << 20, 0, 300))
