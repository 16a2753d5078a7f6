"""The load generator, driven with random inputs; see `kernel_targets`."""

from functools import cache
from random import Random
from typing import Any

from kernel_inputs import cuts, exact, number, some, target

from pyromq.errors import PyroError


@cache
def _answers(slot: int) -> list[bytes]:
    """Return answers to the request of a slot, as several brokers would write them."""
    from pyromq.bench.frames import OPAQUE_FIRST
    from pyromq.codes import CommandFlag, Serializer
    from pyromq.wire.command import Command, encode
    from pyromq.wire.record import Record, encode_record

    record = encode_record(Record(topic="load", body=bytes(8) + b"x" * 30, properties="TAGS\x01a"))
    fields = {"nextBeginOffset": "17", "minOffset": "0", "maxOffset": "20", "suggestWhichBrokerId": "0"}
    fields |= {"msgId": "7F00000100002A9F00000000000001F4", "queueOffset": "3"}
    return [
        bytes(
            encode(
                Command(
                    code,
                    opaque=OPAQUE_FIRST + slot,
                    flag=CommandFlag.RESPONSE,
                    ext=fields,
                    body=record * records,
                    serializer=serializer,
                )
            )
        )
        for code, records in ((0, 0), (0, 1), (0, 3), (1, 0), (19, 0), (20, 0), (21, 0))
        for serializer in Serializer
    ]


@target(
    "load.SendSlots",
    "load.TransactionSlots",
    "load.Counts",
    "load.Templates",
    "load.Busy",
    "load.read_with",
)
def send_slots(random: Random) -> None:
    from pyromq.bench.frames import Queue, send_back_template, send_template
    from pyromq.bench.speed import Counts, SendSlots, Templates, TransactionSlots

    queue, batch = Queue("127.0.0.1:1", "broker-a", "load", 0), random.choice((1, 1, 3))
    shape: dict[str, Any] = {"is_binary": random.random() < 0.3, "has_keys": random.random() < 0.3}
    rows = [send_template(queue, size=size, batch=batch, prefix="0" * 20, **shape) for size in (0, 8, 100)]
    rows += [send_back_template("load", 7, level=1)] * random.randrange(2)
    count = random.randrange(1, 9)
    slots = random.choice((SendSlots, TransactionSlots))(
        Templates(rows, random.getrandbits(48)),
        _counts(random, Counts()),
        count,
        batch=batch,
        is_stamped=batch == 1,
    )
    if random.random() < 0.5:
        slots.pace(random.randrange(1 << 60), random.uniform(1.0, 1e9), 0, random.randrange(1, 4))
        slots.fill_due(number(random), random.randrange(20), random.randrange(1 << 40))
    slots.fill(number(random), random.randrange(1 << 60), random.randrange(1 << 40))
    _feed(random, slots, count)


@target("load.PullSlots")
def pull_slots(random: Random) -> None:
    from pyromq.bench.frames import OPAQUE_FIRST, Queue, pull_template
    from pyromq.bench.speed import Counts, PullSlots

    queue, count = Queue("127.0.0.1:1", "broker-a", "load", 0), random.randrange(1, 5)
    rows = [
        [
            pull_template(queue, OPAQUE_FIRST + slot, random.randrange(1 << 40), count=32, hold_ms=0)
            for _ in range(random.randrange(1, 4))
        ]
        for slot in range(count)
    ]
    slots = PullSlots(
        rows,
        _counts(random, Counts()),
        is_following=random.random() < 0.5,
        is_repeated=random.random() < 0.5,
    )
    slots.fill(number(random), random.randrange(1 << 60), 0)
    _feed(random, slots, count)


def _counts(random: Random, counts: Any) -> Any:
    counts.from_ns, counts.until_ns, counts.delay_ns = number(random), number(random), number(random)
    return counts


def _feed(random: Random, slots: Any, count: int) -> None:
    """Answer a few requests, not always as asked, and go on until something is refused."""
    answers = [answer for slot in range(count + 1) for answer in _answers(slot)]
    for piece in cuts(random, some(random, answers)):
        try:
            slots.feed(exact(slots.rest + piece), number(random))
        except (PyroError, ValueError, OverflowError):
            return
        slots.fill(random.randrange(4), random.randrange(1 << 60), 0)
