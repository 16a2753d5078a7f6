"""The fast loop makes of any log what the store's own functions make of it, record by record."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyromq.errors import CorruptRecord
from pyromq.store.commitlog import is_torn
from pyromq.store.inspect import piece
from pyromq.store.inspect.facts import Facts, Run
from pyromq.store.inspect.scan import scan as pure_scan
from pyromq.wire.record import Record, decode_record, encode_host, encode_record

#: The loop that runs, and the pure one, which is the same where no kernel is.
each_scan = pytest.mark.parametrize("scan", [piece.scan, pure_scan], ids=["running", "pure"])
Scan = Callable[[bytes, int, int, int, Facts], int]
DELAYS = {1: 1000, 2: 5000}
HOSTS = [encode_host("127.0.0.1", 10911), encode_host("::1", 1)]
TEXT = st.text("aZ09-#é漢\U0001f600", max_size=12)
LONG = st.integers(0, 1 << 40).map(lambda number: f"7F00000100010CA5D2F8{number:012X}")
NAMES = st.sampled_from(["TAGS", "KEYS", "UNIQ_KEY", "DELAY", "OTHER", "XTAGS", ""])
VALUES = st.one_of(TEXT, LONG, st.sampled_from(["1", "2", "9", " ", "a b", "a  b ", "größe " + "x" * 40]))
PROPERTIES = st.lists(st.tuples(NAMES, VALUES), max_size=5).map(
    lambda pairs: "\x02".join(f"{name}\x01{value}" for name, value in pairs)
)
RECORDS = st.lists(
    st.builds(
        Record,
        topic=st.sampled_from(["a", "orders", "SCHEDULE_TOPIC_XXXX", "ünï", "x" * 130]),
        body=st.binary(max_size=40),
        queue_id=st.integers(0, 2),
        properties=st.one_of(PROPERTIES, PROPERTIES.map(lambda text: text + "\x02")),
        sys_flag=st.sampled_from([0, 0, 0, 1, 4, 8, 12]),
        born_host=st.sampled_from(HOSTS),
        store_host=st.sampled_from(HOSTS),
        stored_at_ms=st.integers(0, 1 << 41),
    ),
    max_size=12,
)


def log_of(records: list[Record], base: int, breaks: list[bool]) -> bytes:
    """Return the records' bytes, their offsets counted queue by queue, with a jump where one is wanted."""
    log = b""
    offsets: dict[tuple[str, int], int] = {}
    for number, record in enumerate(records):
        queue = (record.topic, record.queue_id)
        offset = offsets.get(queue, 7) + (5 if breaks[number % len(breaks)] else 0)
        record.queue_offset, record.position = offset, base + len(log)
        if record.sys_flag & 4 == 0:
            offsets[queue] = offset + 1
        log += encode_record(record)
    return log


def no_scan(log: bytes, at: int, limit: int, base: int, facts: Facts) -> int:
    return at


def facts_of(log: bytes, base: int, scan: Scan = no_scan) -> Facts:
    """Return what a log says up to its first record that is wrong."""
    facts = Facts(DELAYS)
    at = 0
    while (at := scan(log, at, len(log), base, facts)) < len(log):
        try:
            record = decode_record(log, at)
        except CorruptRecord:
            break
        if record.position != base + at or is_torn(record.properties):
            break
        if record.queue_id < 0 or record.queue_offset < 0:
            break
        facts.take_in(record, base + at)
        at += record.size
    return facts


def everything(facts: Facts) -> tuple[object, ...]:
    def told(run: Run) -> tuple[object, ...]:
        return run.topic, run.queue_id, run.first, run.next_offset, bytes(run.entries)

    runs = sorted(map(told, facts.end()), key=repr)
    return facts.records, facts.newest, runs, bytes(facts.keys), facts.times.tolist()


@each_scan
@given(RECORDS, st.integers(0, 1 << 50), st.lists(st.booleans(), min_size=1, max_size=5))
@settings(deadline=None, max_examples=300)
def test_the_fast_loop_and_the_plain_one_see_the_same(
    scan: Scan, records: list[Record], base: int, breaks: list[bool]
) -> None:
    log = log_of(records, base, breaks)

    facts = facts_of(log, base, scan)

    assert facts.records == len(records)
    assert everything(facts) == everything(facts_of(log, base))


@each_scan
@given(RECORDS.filter(bool), st.data())
@settings(deadline=None, max_examples=400)
def test_they_see_the_same_in_a_log_with_wrong_bytes(
    scan: Scan, records: list[Record], data: st.DataObject
) -> None:
    log = bytearray(log_of(records * 2, 0, [False]))
    changes = st.tuples(
        st.integers(0, len(log) - 1), st.one_of(st.integers(0, 255), st.sampled_from(b"\0\1\2 "))
    )
    for at, value in data.draw(st.lists(changes, min_size=1, max_size=4)):
        log[at] = value

    assert everything(facts_of(bytes(log), 0, scan)) == everything(facts_of(bytes(log), 0))


@each_scan
@given(RECORDS, st.data())
@settings(deadline=None, max_examples=200)
def test_a_record_that_is_not_wholly_in_the_block_is_left_for_the_next(
    scan: Scan, records: list[Record], data: st.DataObject
) -> None:
    log = log_of(records, 0, [False])
    cut = data.draw(st.integers(0, len(log)))

    facts = Facts(DELAYS)
    at = 0
    while (at := scan(log[:cut], at, cut, 0, facts)) < cut and at + record_bytes(log, at) <= cut:
        facts.take_in(decode_record(log, at), at)
        at += record_bytes(log, at)

    ends = [0, *(record.position + record_bytes(log, record.position) for record in records)]
    assert at == max(end for end in ends if end <= cut)
    assert everything(facts) == everything(facts_of(log[:at], 0))


def record_bytes(log: bytes, at: int) -> int:
    return int.from_bytes(log[at : at + 4], "big")


def plain_record(body: bytes = b"hello") -> bytes:
    record = Record(topic="orders", body=body, queue_offset=1, position=0, properties="TAGS\x01a")
    return encode_record(record)


@each_scan
@pytest.mark.parametrize("at", [*range(16), *range(20, 36), *range(84, 95), 101])
def test_a_flip_of_a_field_that_the_loop_reads_stops_it(scan: Scan, at: int) -> None:
    good = plain_record()
    facts = Facts(DELAYS)
    facts.take_in(decode_record(encode_record(Record(topic="orders", body=b""))), 0)
    block = bytearray(good + bytes(100))
    assert scan(bytes(block), 0, len(good), 0, facts) == len(good)
    block[at] ^= 0x40

    facts = Facts(DELAYS)
    facts.take_in(decode_record(encode_record(Record(topic="orders", body=b""))), 0)

    assert scan(bytes(block), 0, len(good), 0, facts) == 0
    assert facts.records == 1
