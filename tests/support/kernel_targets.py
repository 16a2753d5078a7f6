"""What is driven with random inputs: every entry point of the kernel.

A target drives one or several entry points of one module once, as its random numbers say, while the
compiler's sanitizers watch. It raises what is wrong, and catches what the entry point may raise. To add one,
write a function under `@target("module.Name", ...)`: `tests/fuzz/test_fuzz_kernel.py` fails for entry points
that no target names.
"""

import ctypes
import struct
from array import array
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from random import Random
from types import SimpleNamespace
from typing import Any
from zlib import crc32

import kernel_copy_targets  # noqa: F401  its targets enter themselves
import kernel_scan_targets  # noqa: F401
import kernel_unit_targets  # noqa: F401
from kernel_inputs import cuts, exact, exact_bytes, expect, module, mutated, number, some, target

from pyromq.errors import PyroError

#: Not among the targets: it reads one byte too many, to see that it is found.
PROOF = "proof.overread"


def overread(_random: Random) -> None:
    held = exact(bytes(100))
    address, length = held.buffer_info()
    ctypes.string_at(address, length + 1)


# The ends of queues and index ------------------------------------------------------------------------------


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
                tail.slot_parts()
        else:
            key_hash = random.randrange(1 << random.choice((3, 12, 31)))
            newest[key_hash % slots] = tail.count
            tail.put(key_hash, number(random), number(random))
    tail.look = None
    expect(all(tail.newest(slot) == entry for slot, entry in newest.items()), "the newest entry is found")
    tail.look = exact(bytes(40 + 4 * slots))
    written = b"".join(part for part, _ in tail.slot_parts())
    slots_held = sum(any(written[at : at + 4]) for at in range(0, len(written), 4))
    expect(tail.held_slots_count() == slots_held, "held slots are written")


def _refuses_to_grow(held: bytearray, add: Callable[[], object]) -> None:
    """See that something that is being looked at is not moved away from below the reader."""
    with memoryview(held):
        try:
            add()
        except BufferError:
            return
    expect(holds=False, what="a bytearray grew while it was looked at")


# Sends -----------------------------------------------------------------------------------------------------


@cache
def _send_frames() -> list[bytes]:
    """Return sends as clients write them: plain ones, and those that are left to Python."""
    from pyromq.codes import CommandFlag, RequestCode, Serializer
    from pyromq.wire.batch import BatchUnit, encode_batch
    from pyromq.wire.command import Command, encode
    from pyromq.wire.header import write_header
    from pyromq.wire.headers.send import SendMessage, SendMessageV2

    single = "UNIQ_KEY\x017F00000100010CA5D2F8000000000001\x02WAIT\x01true\x02KEYS\x01a  b\x02TAGS\x01paid"
    many = "\x02".join(f"{name}\x01{name}" for name in "abcdefghijk")
    units = [
        BatchUnit(flag=0, body=b"x" * size, properties=text) for size in (0, 90) for text in ("", single)
    ]
    frames = []
    for properties in (None, "", single, "WAIT\x01false", "DELAY\x013", many, 'q"\\/\x01\t'):
        for batch, body in ((False, b"x" * 100), (False, b""), (True, encode_batch(units))):
            fields: dict[str, Any] = {
                "producer_group": "group",
                "topic": "orders",
                "default_topic": "TBW102",
                "default_topic_queue_nums": 8,
                "queue_id": len(frames) % 4,
                "sys_flag": 0,
                "born_timestamp": 1_700_000_000_000,
                "flag": 0,
                "properties": properties,
                "reconsume_times": 0,
                "batch": batch,
            }
            for serializer in Serializer:
                for code, header in (
                    (RequestCode.SEND_MESSAGE, SendMessage(**fields)),
                    (RequestCode.SEND_MESSAGE_V2, SendMessageV2.from_v1(SendMessage(**fields))),
                ):
                    ext, flag = write_header(header), CommandFlag.ONEWAY if properties == "" else 0
                    command = Command(code, opaque=7, flag=flag, ext=ext, body=body, serializer=serializer)
                    frames.append(bytes(encode(command)))
    return frames


def _mostly(random: Random, usual: int, *others: int) -> int:
    return usual if random.random() < 0.9 else random.choice(others)


@target("sends.Sends", "sends.Topic")
def sends(random: Random) -> None:
    from pyromq.broker.fast_sends import make_sends
    from pyromq.wire.command import CommandReader
    from pyromq.wire.record import iter_records

    tails, host = module("tails"), b"\x7f\0\0\x01\0\0\x2a\x9f"
    index, queues = tails.IndexTail(5000, 1 << 20), [tails.QueueTail() for _ in range(3)]
    kernel = make_sends(
        store_host=host,
        cluster="DefaultCluster",
        common_ext={"MSG_REGION": "DefaultRegion", "TRACE_ON": "true"},
        diverting=("DELAY", "TRAN_MSG"),
        wait_matters=random.random() < 0.5,
        has_index=random.random() < 0.8,
        body_bytes_max=_mostly(random, 4 << 20, 0, 99, 100),
    )
    assert kernel is not None
    for _ in range(random.choice((1, 3, 80))):
        kernel.learn(b"other-%d" % random.randrange(200), random.randrange(4), tails.QueueTail(), 0)
    for queue in queues:
        queue.end, queue.watched = random.randrange(1 << 50), random.random() < 0.5
    for _ in range(random.randrange(1, 5)):
        for queue_id, queue in enumerate(queues):
            kernel.learn(b"orders", queue_id, queue, _mostly(random, 0, 2))
        received = exact_bytes(some(random, _send_frames(), count_max=6))
        start = _mostly(random, 0, 1, len(received), len(received) + 1)
        end = kernel.plan(
            received,
            start,
            now_ms=number(random),
            born_host=host,
            log_end=random.randrange(1 << 60),
            log_room=_mostly(random, 1 << 30, 0, 500),
            index_room=_mostly(random, 1 << 20, 0, 3),
            answer_bytes_max=_mostly(random, 1 << 20, 0, 300),
        )
        expect(start <= end <= max(start, len(received)), "a plan ends in what was received")
        count, reader = kernel.message_count, CommandReader()
        expect(len(list(iter_records(kernel.records))) == count, "records are whole")
        reader.feed(kernel.answers)
        while reader.next_command() is not None:
            pass
        if random.random() < 0.3:
            random.choice((kernel.drop, kernel.forget_all, lambda: kernel.forget(b"orders")))()
            continue
        ends = sum(queue.end for queue in queues)
        kernel.apply(index, random.choice((20, 4096)))
        expect(sum(queue.end for queue in queues) == ends + count, "each message has its entry")


@cache
def _unit_bodies() -> list[bytes]:
    """Return bodies of batches: plain ones, and those that are left to Python."""
    from pyromq.wire.batch import BatchUnit, encode_batch

    texts = (
        "",
        "TAGS\x01paid",
        "UNIQ_KEY\x01a\x02KEYS\x01a  b\x02",
        "DELAY\x011",
        "a\x01\x02\x01b\x02\x02",
        "s\x01ü",
        "\0",
    )
    return [
        encode_batch([BatchUnit(flag=1, body=b"x" * size, properties=text)] * many)
        for text in texts
        for size, many in ((0, 1), (90, 1), (30, 3))
    ]


@target("sends.measure_units", "sends.Sends")
def units(random: Random) -> None:
    from pyromq.wire.record import iter_records

    tails, host = module("tails"), b"\x7f\0\0\x01\0\0\x2a\x9f"
    index, queue = tails.IndexTail(5000, 1 << 20), tails.QueueTail()
    kernel = module("sends").Sends(
        store_host=host,
        cluster=b"",
        answer_parts=[],
        binary_parts=[],
        diverting=(),
        wait_matters=False,
        has_index=random.random() < 0.8,
        body_bytes_max=0,
        language=0,
        version=0,
    )
    for _ in range(random.randrange(1, 5)):
        messages = exact_bytes(some(random, _unit_bodies(), count_max=6))
        measured = module("sends").measure_units(
            messages, (b"DELAY", b"TRAN_MSG"), _mostly(random, 20, 0, 32_760)
        )
        planned = kernel.plan_units(
            messages,
            _mostly(random, 0, 1, 22, len(messages), len(messages) + 1, -1),
            topic=random.choice((b"orders", b"t" * 127, b"", b"t" * 128)),
            queue_id=_mostly(random, 1, -1, 1 << 31),
            queue=queue,
            sys_flag=_mostly(random, 1, 4, 16),
            born_at_ms=number(random),
            born_host=random.choice((host, host, host, b"", host * 3)),
            prepared_position=number(random),
            more_properties=random.choice((b"CLUSTER\x01c", b"", b"x" * 32_767)),
            now_ms=number(random),
            log_end=random.randrange(1 << 60),
            log_room=_mostly(random, 1 << 30, 0, 500),
            index_room=_mostly(random, 1 << 20, 0, 3),
        )
        expect(measured is None or measured[0] * 22 + measured[1] == len(messages), "all bytes are measured")
        expect(planned == kernel.message_count, "what is planned is counted")
        expect(len(list(iter_records(kernel.records))) == planned, "records are whole")
        end = queue.end
        if random.random() < 0.3:
            kernel.drop()
            planned = 0
        else:
            kernel.apply(index, random.choice((20, 4096)))
        expect(queue.end == end + planned, "each message has its entry")


# Pulls -----------------------------------------------------------------------------------------------------

PULLED_FILE_BYTES = 1000


@cache
def _pull_header() -> Any:
    from pyromq.wire.headers.pull import PullMessage

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
            + _mostly(random, len(held), len(held) + 9, PULLED_FILE_BYTES),
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
    from pyromq.broker.fast_pulls import _key_of, make_pulls
    from pyromq.config.settings import StoreSettings
    from pyromq.wire.command import CommandReader

    entries, log = _stored(random)

    class Queue(module("tails").QueueTail):  # type: ignore[misc]
        min_offset = _mostly(random, 0, 3)

        def read(self, offset: int, count: int) -> bytes:
            return entries[20 * offset : 20 * (offset + count)]

    queue, kernel = Queue(), make_pulls(StoreSettings(), broker_id=0)
    queue.end = len(entries) // 20
    for flags in (4, 5):
        _pull_header().sys_flag = flags
        codes = random.choice((None, None, frozenset(), frozenset({1}), frozenset({0, 1, 2})))
        kernel.learn(_key_of(_pull_header()), queue, b"orders", 0, codes, "who")
    for _ in range(random.randrange(1, 5)):
        received = exact_bytes(some(random, _pull_frames()))
        start = _mostly(random, 0, 1, len(received), len(received) + 1)
        end, frames, commits = kernel.answer(
            received,
            start,
            log=log,
            disk_position=random.choice((0, 1 << 40)),
            answer_bytes_max=_mostly(random, 1 << 20, 0, 300),
        )
        expect(start <= end <= max(start, len(received)), "the pulls end in what was received")
        expect(len(commits) <= len(frames), "a commit comes with an answer")
        reader = CommandReader()
        reader.feed(b"".join(frames))
        expect(all(reader.next_command() is not None for _ in frames), "answers are whole")
        if random.random() < 0.2:
            random.choice((kernel.release, kernel.forget_all))()


# The load generator ----------------------------------------------------------------------------------------


@cache
def _answers(slot: int) -> list[bytes]:
    """Return answers to the request of a slot, as several brokers would write them."""
    from pyromq.bench.frames import OPAQUE_FIRST
    from pyromq.codes import CommandFlag, Serializer
    from pyromq.wire.command import Command, encode
    from pyromq.wire.record import Record, encode_record

    record = encode_record(Record(topic="load", body=bytes(8) + b"x" * 30, properties="TAGS\x01a"))
    fields = {"nextBeginOffset": "17", "minOffset": "0", "maxOffset": "20", "suggestWhichBrokerId": "0"}
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


@target("load.SendSlots", "load.Counts", "load.Templates", "load.Busy", "load.read_with")
def send_slots(random: Random) -> None:
    from pyromq.bench.frames import Queue, send_template
    from pyromq.bench.speed import Counts, SendSlots, Templates

    queue, batch = Queue("127.0.0.1:1", "broker-a", "load", 0), random.choice((1, 1, 3))
    rows = [send_template(queue, size=size, batch=batch, prefix="0" * 20) for size in (0, 8, 100)]
    count = random.randrange(1, 9)
    slots = SendSlots(
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


# Verify's inner loops --------------------------------------------------------------------------------------


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


@target("facts.checksum")
def checksum(random: Random) -> None:
    text, before = random.randbytes(random.randrange(random.choice((20, 300, 5000)))), random.getrandbits(32)
    expect(module("facts").checksum(exact(text), before) == crc32(text, before), "a checksum is zlib's")


# Pulled messages and their columns -------------------------------------------------------------------------


@target(
    "records.read_messages",
    "records.ReceivedMessage",
    "columns.numbers",
    "columns.texts",
    "columns.pairs",
    "columns.due_times",
    "columns.named",
)
def pulled_messages(random: Random) -> None:
    from pyromq.client.incoming import received_messages
    from pyromq.model import restore_received

    tags = frozenset(random.choice(((), (), ("a",), ("ü", "b"))))
    try:
        messages = received_messages(_pulled(random), "broker-a", {"MIN_OFFSET": "0"}, tags)
    except PyroError:
        return
    for message in messages:
        kind = random.randrange(6)
        if kind == 0:
            expect(restore_received(*message.__reduce__()[1]) == message, "a message is what its fields say")
        elif kind == 1:
            setattr(message, random.choice(("queue_offset", "position", "born_at_ms")), number(random))
        elif kind == 2:
            message.body, message.properties = b"new", {"TAGS": "é", "": ""}
    columns = module("columns")
    for name in random.sample(("queue_id", "queue_offset", "born_timestamp", "flag"), 2):
        with suppress(OverflowError):
            width = 8 if name in ("queue_offset", "born_timestamp") else 4
            expect(len(columns.numbers(messages, name)) == width * len(messages), "a number for each")
    for name in random.sample(("topic", "broker", "msg_id", "tags", "body", "born_host"), 3):
        expect(len(columns.texts(messages, name)[1]) == 4 * len(messages) + 4, "a text for each")
    walked = columns.named(messages, ("msg_id", "tags", "keys", "message_group"))
    expect(all(len(offsets) == 4 * len(messages) + 4 for _, offsets, _ in walked), "a text for each")
    expect(len(columns.due_times(messages)[1]) == 8 * len(messages), "a time for each")
    rows, (names, _), (values, _) = columns.pairs(messages)
    expect(len(rows) == 4 * len(messages) + 4 and len(names) == len(values), "a row of pairs for each")


def _pulled(random: Random) -> bytes:
    """Return records as a pull brings them, some damaged, compressed, or with a checksum that still holds."""
    from pyromq.wire.record import Record, encode_host, encode_record

    hosts = encode_host("127.0.0.1", 10911), encode_host("::1", 1)
    many = "\x02".join(f"n{number % 33}\x01v" for number in range(random.choice((2, 31, 32, 33, 40))))
    texts = (
        "",
        "TAGS\x01a",
        "TAGS\x01ü\x02TAGS\x01b\x02\x01\x02x\x01\x02",
        "UNIQ_KEY\x01é\x02KEYS\x01a b",
        many,
    )
    pulled = b""
    for _ in range(random.randrange(1, 12)):
        record = Record(
            topic=random.choice(("a", "a", "orders", "ünï", "x" * 130, "")),
            body=random.randbytes(random.choice((0, 1, 64, 300))),
            queue_id=random.randrange(3),
            sys_flag=random.choice((0, 0, 0, 0, 0, 1, 4)),
            properties=random.choice(texts),
            born_host=hosts[random.random() < 0.1],
            born_at_ms=number(random),
        )
        encoded = encode_record(record)
        pulled += mutated(random, encoded) if random.random() < 0.1 else encoded
    return pulled
