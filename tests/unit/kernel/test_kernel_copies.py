"""Copied records, planned by the kernel: queues, index and announcements are those that Python makes."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from replication_stage import LOG_FILE_BYTES, store_settings, whole_log

from pyromq.codes import SysFlag
from pyromq.errors import CorruptRecord
from pyromq.kernel import IS_COMPILED
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import encode_host

pytestmark = pytest.mark.skipif(not IS_COMPILED, reason="the compiled kernel is not here")

V4, V6 = encode_host("10.1.2.3", 10911), encode_host("fe80::1", 10911)
TOPICS = (
    "orders",
    "payments",
    "SCHEDULE_TOPIC_XXXX",
    "rmq_sys_wheel_timer",
    "bestellungen-ü",
    "%RETRY%group",
)
#: What says when a message is due, and what only looks like it.
DUE = (
    "", "", "DELAY\x013", "DELAY\x0118", "DELAY\x0199", "DELAY\x010", "DELAY\x01007", "DELAY\x01x",
    "DELAY\x01",
    "DELAY\x013\x02DELAY\x01", "DELAY\x0112345678901", "TIMER_OUT_MS\x011700000090000", "TIMER_OUT_MS\x010",
    "TIMER_OUT_MS\x011700000090000\x02TIMER_OUT_MS\x01x", "TIMER_OUT_MS\x0199999999999999999999",
    "TIMER_OUT_MS\x011700000090000\x02TIMER_DEL_UNIQKEY\x01x",
    "TIMER_OUT_MS\x011700000090000\x02TIMER_DEL_UNIQKEY\x01", "TIMER_DEL_UNIQKEY",
)  # fmt: skip
TAGS = ("", "TAGS\x01red", "TAGS\x01grün", "TAGS\x01a\x02TAGS\x01b", "TAGS\x01")
KEYS = (
    "",
    "KEYS\x01one",
    "KEYS\x01one  two three",
    "KEYS\x01schlüssel",
    "KEYS\x01a\x01b",
    "KEYS\x01\x02KEYS\x01x",
)
PREPARED, COMMIT = int(SysFlag.TRANSACTION_PREPARED), int(SysFlag.TRANSACTION_COMMIT)
FLAGS = (0, 0, 0, PREPARED, COMMIT, int(SysFlag.TRANSACTION_ROLLBACK), 1)

Told = list[tuple[str, int, int, int]]


class Pair:
    """Two slaves of one master: one with the kernel, one without."""

    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.told: tuple[Told, Told] = ([], [])
        self.master, self.fast, self.slow = (
            MessageStore(store_settings(folder / name), clock=self.clock)
            for name in ("master", "fast", "slow")
        )
        for store in (self.master, self.fast, self.slow):
            store.open()
        self.slow._copies = None
        for store, told in zip((self.fast, self.slow), self.told, strict=True):
            store.on_append = lambda *what, told=told: told.append(what)  # type: ignore[misc]

    @property
    def both(self) -> tuple[MessageStore, MessageStore]:
        return self.fast, self.slow

    def close(self) -> None:
        for store in (self.master, *self.both):
            store.close()


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    pair = Pair(tmp_path)
    yield pair
    pair.close()


def random_draft(chance: random.Random, number: int) -> Draft:
    parts = [
        chance.choice(TAGS),
        chance.choice(KEYS),
        chance.choice(DUE),
        f"UNIQ_KEY\x01{number:032X}" * chance.randrange(2),
    ]
    chance.shuffle(parts)
    sys_flag, is_v6 = chance.choice(FLAGS), chance.random() < 0.02
    return Draft(
        topic=chance.choice(TOPICS if chance.random() < 0.1 else TOPICS[:4]),
        queue_id=chance.randrange(4) if chance.random() < 0.99 else 5000,
        body=chance.randbytes(chance.randrange(600)),
        properties="\x02".join(part for part in parts if part),
        flag=chance.randrange(3),
        sys_flag=sys_flag | int(SysFlag.BORN_HOST_V6) if is_v6 else sys_flag,
        born_at_ms=number,
        born_host=V6 if is_v6 else V4,
        store_host=V4,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for part in ("consumequeue", "index", "commitlog")
        for path in sorted((folder / part).rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("seed", range(6))
def test_both_speeds_make_the_same_files_and_announce_the_same(tmp_path: Path, seed: int) -> None:
    chance, pair = random.Random(seed), Pair(tmp_path)
    planned = 0
    for number in range(1200):
        pair.clock.advance(chance.randrange(3))
        pair.master.put(random_draft(chance, number))
        if chance.random() < 0.05:
            copied = pair.fast.max_position
            data = pair.master.log_bytes(copied, chance.randrange(1, 20_000))
            for store in pair.both:
                store.append_copied(data)
            planned += 1
        if chance.random() < 0.003:
            for store in pair.both:
                store.delete_topic("payments")
    while data := pair.master.log_bytes(pair.fast.max_position, LOG_FILE_BYTES):
        for store in pair.both:
            store.append_copied(data)
    assert whole_log(pair.fast) == whole_log(pair.slow) == whole_log(pair.master)
    fast_told, slow_told = (sorted(told) for told in pair.told)
    assert fast_told == slow_told
    pair.close()
    assert files_of(tmp_path / "fast") == files_of(tmp_path / "slow")
    assert planned


def plain(number: int, body: bytes = b"x" * 100) -> Draft:
    return Draft(
        topic="orders",
        queue_id=0,
        body=body,
        properties=f"KEYS\x01k{number}\x02TAGS\x01red",
        flag=0,
        sys_flag=0,
        born_at_ms=1,
        born_host=V4,
        store_host=V4,
    )


def copy_all(pair: Pair) -> None:
    data = pair.master.log_bytes(pair.fast.max_position, LOG_FILE_BYTES)
    for store in pair.both:
        store.append_copied(data)


def test_plain_records_of_a_known_queue_are_planned_to_the_last_whole_one(pair: Pair) -> None:
    pair.master.put(plain(0))
    copy_all(pair)
    placed = [pair.master.put(plain(number)) for number in range(1, 11)]
    copies = pair.fast._copies
    assert copies is not None
    start = pair.fast.max_position
    data = pair.master.log_bytes(start, placed[-1].end - start - 1)
    assert copies.plan(data, start, LOG_FILE_BYTES, 100) == placed[-1].position - start
    assert copies.message_count == 9
    copies.drop()
    assert copies.message_count == 0


@pytest.mark.parametrize(
    ("room", "index_room", "count"), [(10_000, 3, 3), (10_000, 0, 0), (450, 100, 2), (0, 100, 0)]
)
def test_a_plan_ends_where_the_file_or_the_index_is_full(
    pair: Pair, room: int, index_room: int, count: int
) -> None:
    pair.master.put(plain(0))
    copy_all(pair)
    size = {pair.master.put(plain(number)).size for number in range(1, 6)}.pop()
    copies = pair.fast._copies
    assert copies is not None
    start = pair.fast.max_position
    data = pair.master.log_bytes(start, LOG_FILE_BYTES)
    assert copies.plan(data, start, room, index_room) == count * size
    copies.drop()


def test_bytes_that_are_no_record_drop_the_plan_before_them(pair: Pair) -> None:
    pair.master.put(plain(0))
    copy_all(pair)
    for number in range(1, 4):
        pair.master.put(plain(number))
    end = pair.fast.max_position
    data = pair.master.log_bytes(end, LOG_FILE_BYTES)
    for store in pair.both:
        with pytest.raises(CorruptRecord):
            store.append_copied(data + b"?" * 200)
        assert store.max_position == end
        assert store.max_offset("orders", 0) == 1
        store.append_copied(data)
        assert store.max_offset("orders", 0) == 4


@pytest.mark.parametrize("at", range(0, 240, 3))
def test_a_damaged_record_is_never_planned(pair: Pair, at: int) -> None:
    pair.master.put(plain(0))
    copy_all(pair)
    placed = pair.master.put(plain(1))
    data = bytearray(pair.master.log_bytes(placed.position, placed.size))
    data[at % placed.size] ^= 0x80
    outcomes = []
    for store in pair.both:
        try:
            store.append_copied(bytes(data))
            outcomes.append((store.max_position, store.max_offset("orders", 0)))
        except CorruptRecord as error:
            outcomes.append((str(error), store.max_position))
    assert outcomes[0] == outcomes[1]


def test_whoever_listens_to_queues_hears_of_many_messages_at_once(pair: Pair) -> None:
    grown: Told = []
    pair.fast.on_grown = lambda queues: grown.extend(
        (queue.topic, queue.queue_id, first, queue.end) for queue, first in queues
    )
    pair.master.put(plain(0))
    copy_all(pair)
    for number in range(1, 9):
        pair.master.put(plain(number))
    copy_all(pair)
    assert grown == [("orders", 0, 1, 9)]
