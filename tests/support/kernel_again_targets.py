"""Records that are stored again, driven with random inputs; see `kernel_targets`."""

from array import array
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any

from kernel_inputs import exact, exact_bytes, expect, module, mostly, mutated, number, some, target

FILE_BYTES = 3000
HALF, WHEEL = "RMQ_SYS_TRANS_HALF_TOPIC", "rmq_sys_wheel_timer"
HOST = b"\x7f\0\0\x01\0\0\x2a\x9f"
IDENTITY = "7F00000100010CA5D2F8000000000001"
BORN_AT_MS = 1_700_000_000_000
PLAIN = f"REAL_TOPIC\x01orders\x02PGROUP\x01payers\x02REAL_QID\x011\x02UNIQ_KEY\x01{IDENTITY}\x02KEYS\x01a b"
TEXTS = (
    PLAIN,
    PLAIN,
    PLAIN,
    PLAIN + "\x02",
    "REAL_TOPIC\x01orders\x02REAL_QID\x010\x02PGROUP\x01payers\x02DELAY\x013",
    "REAL_TOPIC\x01orders\x02REAL_QID\x0107\x02PGROUP\x01payers",
    "REAL_TOPIC\x01\x02REAL_QID\x01\x02PGROUP\x01",
    "REAL_TOPIC\x01nowhere\x02REAL_QID\x019\x02PGROUP\x01payers\x02PGROUP\x01others",
    "nül\x01nül\x02" + PLAIN,
    "x\x01" + "y" * 500 + "\x02" + PLAIN,
    "",
)


def _stored(random: Random, topic: str) -> tuple[list[int], Any]:
    """Return the positions of records, and a log of several files that has them, some of them damaged."""
    from pyromq.wire.record import Record, encode_record

    positions, files = [], [bytearray()]
    for offset in range(random.choice((2, 8, 40))):
        if len(files[-1]) > FILE_BYTES - 900:
            files.append(bytearray())
        held, position = files[-1], (len(files) - 1) * FILE_BYTES + len(files[-1])
        record = encode_record(
            Record(
                topic=mostly(random, topic, "orders", "t" * 128),
                body=b"x" * random.randrange(200),
                properties=PLAIN if random.random() < 0.6 else random.choice(TEXTS),
                queue_offset=offset,
                position=position,
                sys_flag=mostly(random, 0, 1, 4, 8, 12, 16),
                born_at_ms=BORN_AT_MS,
                stored_at_ms=number(random),
            )
        )
        positions.append(position)
        held += (
            mutated(random, record)[: len(record)].ljust(len(record)) if random.random() < 0.03 else record
        )
    segments = [
        SimpleNamespace(
            base=base, end=base + mostly(random, len(held), len(held) + 9), map=exact(bytes(held))
        )
        for base, held in ((at * FILE_BYTES, held) for at, held in enumerate(files))
    ]

    def segment_at(position: int) -> Any:
        at = position // FILE_BYTES
        return segments[at] if 0 <= at < len(segments) else None

    log = SimpleNamespace(
        end=segments[-1].end - mostly(random, 0, 1, 100),
        written_from=random.choice((0, 500, 1 << 40)),
        segment_at=segment_at,
    )
    return positions, log


@target("again.DuePlan", "again.Again", "log_views.LogViews")
def due(random: Random) -> None:
    from pyromq.wire.record import iter_records

    tails = module("tails")
    index, queues = tails.IndexTail(5000, 1 << 20), [tails.QueueTail() for _ in range(3)]
    kernel = module("again").DuePlan(
        store_host=HOST, has_index=random.random() < 0.8, body_bytes_max=mostly(random, 4 << 20, 0, 100)
    )
    positions, log = _stored(random, WHEEL)
    for _ in range(random.randrange(1, 4)):
        for queue_id, queue in enumerate(queues):
            kernel.learn(b"orders", queue_id, queue)
        asked = [random.choice(positions) if random.random() < 0.98 else number(random) for _ in positions]
        raw = array("q", asked).tobytes()
        planned = kernel.plan_due(
            exact(raw[: mostly(random, len(raw), len(raw) - 1, 7, 0)]),
            log=log,
            timed_topic=random.choice((None, WHEEL.encode())),
            now_ms=number(random),
            log_end=random.randrange(1 << 60),
            log_room=mostly(random, 1 << 30, 0, 500),
            index_room=mostly(random, 1 << 20, 0, 3),
        )
        expect(planned == kernel.message_count <= len(asked), "what is planned is counted")
        records = list(iter_records(kernel.records))
        expect(
            [record.position for record in records] == list(array("q", kernel.positions)), "all have a place"
        )
        end = sum(queue.end for queue in queues)
        if random.random() < 0.3:
            random.choice((kernel.drop, kernel.forget_all))()
            continue
        kernel.apply(index, random.choice((20, 4096)))
        expect(sum(queue.end for queue in queues) == end + planned, "each message has its entry")
    entries = b"".join(
        position.to_bytes(8, "big")
        + number(random, 32).to_bytes(4, "big", signed=True)
        + number(random).to_bytes(8, "big", signed=True)
        for position in positions
    )
    cut = entries[: mostly(random, len(entries), len(entries) - 1, 19, 0)]
    found = kernel.positions_due(exact(cut), number(random), number(random))
    expect(
        list(array("q", found)) == positions[: len(found) // 8], "positions are those of the first entries"
    )


@cache
def _end_frames(count: int) -> list[bytes]:
    from pyromq.codes import CommandFlag, RequestCode, Serializer
    from pyromq.wire.command import Command, encode

    return [
        bytes(
            encode(
                Command(
                    RequestCode.END_TRANSACTION,
                    opaque=7,
                    flag=flag,
                    ext={
                        "producerGroup": "payers",
                        "tranStateTableOffset": str(offset),
                        "commitLogOffset": "@POSITION@",
                        "commitOrRollback": fate,
                        "msgId": IDENTITY,
                    },
                    serializer=serializer,
                )
            )
        )
        for offset in range(count)
        for fate in ("8", "8", "12", "0")
        for flag in (0, CommandFlag.ONEWAY)
        for serializer in Serializer
    ]


def _ends_of(positions: list[int]) -> list[bytes]:
    """Return ends of all halves, in every way."""
    return [_at(frame, positions[at // 16]) for at, frame in enumerate(_end_frames(len(positions)))]


def _at(frame: bytes, position: int) -> bytes:
    """Return a request with a position in its place."""
    text = str(position).encode()
    # Of a binary header the length of the value goes before it.
    made = frame.replace(b"\0\0\0\x0a@POSITION@", len(text).to_bytes(4, "big") + text)
    made = made.replace(b"@POSITION@", text)
    less = len(frame) - len(made)
    header = int.from_bytes(made[4:8], "big")
    length = int.from_bytes(made[:4], "big") - less
    made = length.to_bytes(4, "big") + (header - less).to_bytes(4, "big") + made[8:]
    if header >> 24:
        fields = int.from_bytes(made[25:29], "big") - less
        made = made[:25] + fields.to_bytes(4, "big") + made[29:]
    return made


@target("ends.Ends", "again_frames.AgainFrames")
def ends(random: Random) -> None:
    from kernel_send_targets import a_sends

    from pyromq.broker.requests.end_shortcut import make_ends
    from pyromq.wire.record import iter_records

    tails = module("tails")
    positions, log = _stored(random, HALF)
    start = mostly(random, 0, 3, 8)
    bits = bytearray(mostly(random, len(positions) // 8 + 1, 0, 1))
    latest = random.choice(({}, {}, {f"{IDENTITY} {BORN_AT_MS}": 5}, {"x": 1}))
    is_open = random.random() < 0.95
    kernel = make_ends(
        lambda: (log, bits, start, latest) if is_open else None, store_host=HOST, body_bytes_max=4 << 20
    )
    sends = a_sends(random, HOST)
    sends.take_in(kernel)
    index, queues, ops = (
        tails.IndexTail(5000, 1 << 20),
        [tails.QueueTail() for _ in range(2)],
        tails.QueueTail(),
    )
    frames = _ends_of(positions)
    for _ in range(random.randrange(1, 4)):
        for queue_id, queue in enumerate(queues):
            kernel.learn(b"orders", queue_id, queue)
        kernel.learn(b"RMQ_SYS_TRANS_OP_HALF_TOPIC", 0, ops)
        _plan_frames(random, sends, frames)
        before, planned = bytes(bits), sends.message_count
        expect(len(list(iter_records(sends.records))) == planned, "records are whole")
        if random.random() < 0.3:
            sends.drop()
            expect(kernel.take_ended() == b"", "what is dropped ends nothing")
            continue
        end = ops.end
        sends.apply(index, 4096)
        sends.hand_out()
        ended = array("q", kernel.take_ended())
        expect(ops.end == end + len(ended), "each end has its op message")
        expect(len(set(ended)) == len(ended), "each half ends once")
        expect(all(before[(one - start + start % 8) // 8] >> one % 8 & 1 for one in ended), "its bit says so")


@cache
def _back_frames() -> list[bytes]:
    from pyromq.codes import CommandFlag, RequestCode, Serializer
    from pyromq.wire.command import Command, encode

    changes: tuple[dict[str, str], ...] = (
        *[{}] * 8,
        {"delayLevel": "1", "maxReconsumeTimes": "16", "unitMode": "false"},
        {"delayLevel": "99", "originMsgId": IDENTITY, "originTopic": "orders"},
        {"maxReconsumeTimes": "0"},
        {"delayLevel": "-1"},
        {"group": "others"},
        {"group": "g" * 300},
        {"offset": "-1"},
    )
    return [
        bytes(
            encode(
                Command(
                    RequestCode.CONSUMER_SEND_MSG_BACK,
                    opaque=7,
                    flag=flag,
                    ext={"offset": "@POSITION@", "group": "readers", "delayLevel": "0"} | more,
                    serializer=serializer,
                )
            )
        )
        for more in changes
        for flag in (0, CommandFlag.ONEWAY)
        for serializer in Serializer
    ]


@target("send_backs.SendBacks", "send_backs.RetryGroup")
def send_backs(random: Random) -> None:
    from kernel_send_targets import a_sends

    from pyromq.broker.requests.send_back_shortcut import make_send_backs
    from pyromq.broker.requests.send_shortcut import kernel_diversion
    from pyromq.broker.topics.intake import PlainDiversion
    from pyromq.wire.record import iter_records

    tails = module("tails")
    positions, log = _stored(random, "orders")
    delays_ms = tuple(range(1000, 1000 * mostly(random, 19, 2, 5), 1000))
    delayed = kernel_diversion(
        PlainDiversion(name="DELAY", topic="SCHEDULE_TOPIC_XXXX", delays_ms=delays_ms), ""
    )
    is_open = random.random() < 0.95
    kernel = make_send_backs(
        lambda: log if is_open else None,
        delayed,
        diverting=("DELAY", "TRAN_MSG", "KEYS") if random.random() < 0.1 else ("DELAY", "TRAN_MSG"),
        body_bytes_max=4 << 20,
    )
    sends = a_sends(random, HOST)
    sends.take_in(kernel)
    index, queues = tails.IndexTail(5000, 1 << 20), [tails.QueueTail() for _ in delays_ms]
    frames = [
        _at(frame, position) for frame in _back_frames() for position in [*positions[:20], number(random)]
    ]
    for _ in range(random.randrange(1, 4)):
        for level, queue in enumerate(queues):
            delayed.learn(level, queue)
        count = mostly(random, 1, 3, 65536)
        kernel.learn_group(
            b"readers",
            mostly(random, b"%RETRY%readers", b"t" * 127),
            queue_count=count,
            first_queue=random.randrange(count),
            times_max=mostly(random, 16, 0, 1 << 40),
        )
        _plan_frames(random, sends, frames)
        planned = sends.message_count
        expect(len(list(iter_records(sends.records))) == planned, "records are whole")
        end = sum(queue.end for queue in queues)
        if random.random() < 0.3:
            random.choice((sends.drop, sends.forget_all))()
            continue
        sends.apply(index, 4096)
        sends.hand_out()
        expect(sum(queue.end for queue in queues) == end + planned, "each message has its entry")


def _plan_frames(random: Random, sends: Any, frames: list[bytes]) -> None:
    from kernel_inlets import inlet

    inlets = [inlet(exact_bytes(some(random, frames, 12)), host=HOST) for _ in range(mostly(random, 2, 1, 5))]
    sends.plan(
        inlets,
        0,
        under_way_max=1,
        now_ms=number(random),
        log_end=random.randrange(1 << 60),
        log_room=mostly(random, 1 << 30, 0, 500),
        index_room=mostly(random, 1 << 20, 0, 3),
    )
