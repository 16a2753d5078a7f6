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
        for flags in ("4", "5", "6", "7")
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


@target(
    "pulls.Pulls",
    "reading.Limits",
    "reading.PullPlan",
    "reading.PullReader",
    "holds.Holds",
    "holds.HeldPull",
)
def pulls(random: Random) -> None:
    from kernel_inlets import answers_of

    from pyromq.broker.delivery.pull_shortcut import make_pulls
    from pyromq.config.settings import StoreSettings
    from pyromq.wire.command import CommandReader

    entries, log = _stored(random)
    kernel, kept = make_pulls(StoreSettings()), {0: random.choice((0, 3, 1 << 70))}
    queue, reached, revision = _queue(random, entries), array("q", [-1]), array("q", [0])
    _teach(random, kernel, queue, kept, reached, revision)
    inlets: list[Any] = []
    for now_ms in range(random.randrange(1, 5)):
        at = {
            "readable": random.choice((0, 700, 1 << 62)),
            "disk_position": random.choice((0, 1 << 40)),
            "now_ms": mostly(random, now_ms, 1 << 61),
        }
        inlets += [_inlet(random) for _ in range(mostly(random, 1, 0, 3))]
        lengths = [len(one.received) for one in inlets]
        limits = {"hold_room": mostly(random, 9, 0, 1), "hold_ms": random.choice((-1, 0, 2))}
        count, _, commits = kernel.answer(inlets, log, under_way_max=mostly(random, 9, 0, 1), **limits, **at)
        for one, length in zip(inlets, lengths, strict=True):
            expect(one.start <= length, "the pulls end in what was received")
        expect(len(commits) <= count, "a commit comes with an answer")
        expect(reached[0] <= queue.end, "nobody gets behind the end of a queue")
        _change(random, kernel, inlets, revision)
        kernel.holds.grew([(queue, random.randrange(queue.end + 2))])
        for wake in (kernel.holds.wake, kernel.holds.sweep):
            _, _, left = wake(kernel.reader, log, **at)
            expect(all(not pull.inlet.closed for pull in left), "nobody answers who has gone")
        expect(kernel.holds.count == sum(len(one.held or ()) for one in inlets), "all slots are counted")
    kernel.holds.take_all()
    expect(kernel.holds.count == 0, "nothing is held any more")
    for one in inlets:
        reader = CommandReader()
        reader.feed(answers_of(one))
        while reader.next_command() is not None:
            pass
        expect(not reader.pending_bytes, "answers are whole")


def _queue(random: Random, entries: bytes) -> Any:
    class Queue(module("tails").QueueTail):  # type: ignore[misc]
        min_offset = mostly(random, 0, 3)

        def read(self, offset: int, count: int) -> bytes:
            return entries[20 * offset : 20 * (offset + count)]

        def end_before(self, position: int) -> int:
            return random.randrange(self.end + 1)

    queue = Queue()
    queue.end = len(entries) // 20
    # The newest entries are in memory, and the readable end is found there.
    queue.held = bytearray(entries[20 * random.randrange(queue.end + 1) : 20 * queue.end])
    queue.reach = random.choice((0, 1 << 40))
    return queue


def _teach(
    random: Random, kernel: Any, queue: Any, kept: Any, reached: "array[int]", revision: "array[int]"
) -> None:
    from pyromq.broker.delivery.pull_shortcut import _key_of

    for flags in (4, 5, 6, 7):
        _pull_header().sys_flag = flags
        codes = random.choice((None, None, frozenset(), frozenset({1}), frozenset({0, 1, 2})))
        plan = module("reading").PullPlan(
            queue,
            header=_pull_header(),
            codes=codes,
            broker_ids=(0, random.choice((0, 1))),
            offsets=random.choice((None, kept)),
            name=random.choice((None, "orders@group")),
            reached=reached,
            revision=revision,
        )
        kernel.learn(_key_of(_pull_header()), plan)


def _change(random: Random, kernel: Any, inlets: list[Any], revision: "array[int]") -> None:
    """Let something happen between two turns."""
    what = random.randrange(12)
    if what == 0:
        kernel.reader.release()
    elif what == 1:
        kernel.forget_all()
    elif what == 2:
        revision[0] += 1
    elif what == 3 and inlets:
        one = random.choice(inlets)
        one.closed = True
        for pull in tuple(one.held or ()):
            pull.drop()


def _inlet(random: Random) -> Any:
    from kernel_inlets import inlet

    received = exact_bytes(some(random, _pull_frames()))
    start = mostly(random, 0, 1, len(received), len(received) + 1)
    return inlet(received, start=start, room=mostly(random, 1 << 20, 0, 300))
