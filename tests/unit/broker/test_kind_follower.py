"""What a kind of waiting messages knows is the same, live, after a start and on a replica."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.staging.ops import Decided, Opened
from pyromq.broker.kinds.staging.records import op_draft
from pyromq.broker.kinds.stored_again import name_of
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.staging_bodies import PartChunks
from pyromq.wire.record import Record, encode_host

HOST = encode_host("127.0.0.1", 10911)
WAITS, OPS = "rmq_sys_toys", "rmq_sys_toy_ops"


class Toys(KindFollower):
    """The smallest kind that can be: it keeps the bodies of its records, and which of them are done."""

    name = "toys"
    topics = (WAITS, OPS)

    def __init__(self, store: MessageStore) -> None:
        super().__init__(store)
        self.seen: list[bytes] = []
        self.waiting: dict[int, bytes] = {}
        self.saves = 0

    def load(self) -> None:
        """Without a checkpoint, from the beginning."""
        self.catch_up()

    def apply(self, record: Record) -> None:
        """Keep it."""
        self.seen.append(record.body)
        if record.topic == WAITS:
            self.waiting[record.position] = record.body

    def _done_from(self) -> int | None:
        return min(self.waiting, default=None)

    def apply_done(self, _done_at: int, position: int) -> None:
        """It waits no more."""
        self.waiting.pop(position, None)

    async def save(self, _durability: object) -> None:
        """Count."""
        self.saves += 1


@pytest.fixture
def store(tmp_path: Path) -> Iterator[MessageStore]:
    settings = StoreSettings(
        store_path_root_dir=str(tmp_path),
        mapped_file_size_commit_log=4096,
        mapped_file_size_consume_queue=20 * 50,
        max_hash_slot_num=10,
        max_index_num=50,
    )
    store = MessageStore(settings, clock=ManualClock())
    store.open()
    yield store
    store.close()


def put(store: MessageStore, topic: str, body: bytes, *, ends: int | None = None) -> Placed:
    prepared_position = 0 if ends is None else name_of(ends)
    draft = Draft(topic, 0, body, "", 0, 0, 0, HOST, HOST, prepared_position=prepared_position)
    return store.put(draft)


def tell(store: MessageStore) -> list[bytes]:
    """Store records of both topics among others, over several files of the log; return theirs in order."""
    told = []
    for number in range(60):
        put(store, "orders", bytes(100))
        topic = OPS if number % 3 == 0 else WAITS
        told.append(b"%s %d" % (topic.encode(), number))
        put(store, topic, told[-1])
    return told


def test_live_and_a_start_apply_the_same_in_the_order_of_the_log(store: MessageStore) -> None:
    live = Toys(store)
    store.follow_topics(dict.fromkeys(live.topics, live))
    told = tell(store)

    started = Toys(store)
    started.load()

    assert live.seen == told
    assert started.seen == told
    assert started.waiting == live.waiting


async def test_a_replica_applies_what_is_new_and_saves(store: MessageStore) -> None:
    replica = Toys(store)
    replica.load()
    told = []
    for times in range(1, 4):
        told += tell(store)
        await replica.follow(None)  # type: ignore[arg-type]
        assert replica.seen == told
        assert replica.saves == times


def test_a_start_finds_the_names_of_what_is_done_in_any_topic(store: MessageStore) -> None:
    first = put(store, WAITS, b"first")
    second = put(store, WAITS, b"second")
    third = put(store, WAITS, b"third")
    tell_plain(store)
    put(store, "orders", b"first", ends=first.position)
    put(store, OPS, b"third is done", ends=third.position)
    tell_plain(store)

    toys = Toys(store)
    toys.load()

    assert toys.waiting == {second.position: b"second"}


def tell_plain(store: MessageStore) -> None:
    for _ in range(60):
        put(store, "orders", bytes(100))


def test_a_record_that_is_lost_is_said_and_passed_over(
    store: MessageStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    told = [put(store, WAITS, b"toy %d" % number) for number in range(3)]
    store.close()
    path = tmp_path / "commitlog" / f"{0:020d}"
    data = bytearray(path.read_bytes())
    data[data.index(b"toy 1")] ^= 1
    path.write_bytes(data)
    again = MessageStore(store.settings, clock=ManualClock())
    again.open()

    toys = Toys(again)
    toys.load()

    assert toys.seen == [b"toy 0", b"toy 2"]
    assert f"position {told[1].position}, of {WAITS}, is lost" in caplog.text
    again.close()


class _AlwaysSynced:
    async def sync_now(self) -> None:
        """Nothing: what a test does not lose is safe."""


async def test_a_replica_writes_down_staged_batches_and_the_next_master_goes_on_from_there(
    store: MessageStore, tmp_path: Path
) -> None:
    def batches() -> StagedBatches:
        made = StagedBatches(store, ManualClock(), BrokerSettings(), path=tmp_path / "stagedBatches.json")
        made.load()
        return made

    replica = batches()
    for op in (
        Opened(query="q", batch=0, home="broker-a"),
        Decided(query="q", batch=0, home="broker-a", parts=[PartChunks(part=0, attempt="x", chunks={})]),
    ):
        store.put(op_draft(op, now_ms=0, store_host=HOST))
    await replica.follow(_AlwaysSynced())  # type: ignore[arg-type]
    written = (tmp_path / "stagedBatches.json").read_bytes()
    # All that a master learns after this is in the log.
    store.put(op_draft(Opened(query="q", batch=1, home="broker-a"), now_ms=0, store_host=HOST))

    master = batches()

    assert b'"decided":[{"batch":0' in written
    assert {number: batch.decision for number, batch in master.ledger.queries["q"].batches.items()} == {
        0: (PartChunks(part=0, attempt="x", chunks={}),),
        1: None,
    }
