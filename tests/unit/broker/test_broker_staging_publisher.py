"""From a staged chunk to messages: one meaning, two speeds, and what a crash leaves is counted."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pyromq.broker.delivery.arrivals import Announcements, Arrivals, HeldPull
from pyromq.broker.kinds.staging.batches import StagedBatches
from pyromq.broker.kinds.staging.ledger import Chunk
from pyromq.broker.kinds.staging.ops import Decided
from pyromq.broker.kinds.staging.publishing import SLICE_MESSAGES, Publisher
from pyromq.broker.kinds.staging.records import ChunkNote, chunk_draft, op_draft
from pyromq.broker.topics.intake import Intake
from pyromq.config.settings import BrokerSettings, StoreSettings
from pyromq.errors import CorruptRecord, MessageIllegal
from pyromq.kernel import IS_COMPILED
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.manual_clock import ManualClock
from pyromq.testing.waiting import aeventually
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.bodies.staging_bodies import PartChunks
from pyromq.wire.record import decode_record, encode_host

HOST = encode_host("127.0.0.1", 10911)
SPEEDS = [False, True] if IS_COMPILED else [False]

UNITS = st.lists(
    st.builds(
        BatchUnit,
        flag=st.integers(-(2**31), 2**31 - 1),
        body=st.binary(max_size=40),
        properties=st.sampled_from(
            [
                "",
                "TAGS\x01paid",
                "UNIQ_KEY\x01a\x02KEYS\x01k1 k2\x02",
                "WAIT\x01true",
                "\x02\x01",
                "TAGS\x01süß",
                "z\0",
            ]
        ),
    ),
    min_size=1,
    max_size=8,
)


class Bench:
    """A store, and who publishes into it."""

    def __init__(self, folder: Path, *, use_kernel: bool) -> None:
        clock = ManualClock()
        self.store = MessageStore(
            StoreSettings(
                store_path_root_dir=str(folder),
                mapped_file_size_commit_log=1 << 17,
                mapped_file_size_consume_queue=2000,
                max_hash_slot_num=10,
                max_index_num=50,
            ),
            clock=clock,
        )
        self.store.open()
        self.arrivals = Arrivals(self.store.max_offset, clock)
        self.store.on_append = self.arrivals.announce
        self.appended = 0
        announcements = Announcements(self.store, self.arrivals)
        announcements.log_grew = self._note_append
        self.publisher = Publisher(
            store=self.store,
            intake=Intake(self.store, message_bytes_max=1 << 20),
            announcements=announcements,
            sys_flag_of=lambda _topic: 0,
            store_host=HOST,
            cluster="DefaultCluster",
            clock=clock,
            use_kernel=use_kernel,
        )

    def _note_append(self, _write_s: float) -> None:
        self.appended += 1

    def stage(self, messages: bytes, *, born_host: bytes = HOST, sequence: int = 0) -> Chunk:
        measured = self.publisher.measure("orders", 1, messages)
        note = ChunkNote(
            query="q", batch=0, home="broker-a", part=0, attempt="0", sequence=sequence, topic="orders",
            queue_id=1, sys_flag=0, **measured._asdict(),
        )  # fmt: skip
        draft = chunk_draft(note, messages, born_at_ms=7, born_host=born_host, store_host=HOST)
        return Chunk(self.store.put(draft).position, measured.message_count, measured.record_bytes)

    def publish(self, chunk: Chunk) -> int:
        """Publish a chunk and return in how many turns."""
        turns = 0
        while chunk.out_count < chunk.message_count:
            self.publisher.publish_some(chunk)
            turns += 1
        return turns

    def published(self) -> list[bytes]:
        count = self.store.max_offset("orders", 1)
        found = [
            self.store.read_at(entry.position)
            for offset in range(count)
            for entry in self.store.entries("orders", 1, offset, 1)
        ]
        return [record for record in found if record is not None]


@pytest.fixture
def benches(tmp_path: Path) -> Iterator[list[Bench]]:
    benches = [Bench(tmp_path / str(use_kernel), use_kernel=use_kernel) for use_kernel in SPEEDS]
    yield benches
    for bench in benches:
        bench.store.close()


@pytest.fixture(params=SPEEDS, ids=lambda use_kernel: "kernel" if use_kernel else "python")
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    bench = Bench(tmp_path, use_kernel=request.param)
    yield bench
    bench.store.close()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(chunks=st.lists(UNITS, min_size=1, max_size=3))
def test_both_speeds_publish_the_same_records(benches: list[Bench], chunks: list[list[BatchUnit]]) -> None:
    for units in chunks:
        messages = encode_batch(units)
        for bench in benches:
            bench.publish(bench.stage(messages))

    first = [record[84:] for record in benches[0].published()]
    for bench in benches:
        assert [record[84:] for record in bench.published()] == first
        assert len(first) == bench.store.max_offset("orders", 1)


def test_a_record_says_what_the_message_was_and_which_chunk_it_came_from(bench: Bench) -> None:
    bench.store.put(chunk_like())
    chunk = bench.stage(encode_batch([BatchUnit(3, b"body", "TAGS\x01paid")]))

    bench.publish(chunk)

    record = decode_record(bench.published()[0])
    assert (record.topic, record.queue_id, record.body, record.flag) == ("orders", 1, b"body", 3)
    assert record.properties == "TAGS\x01paid\x02CLUSTER\x01DefaultCluster"
    assert (record.born_at_ms, record.born_host, record.prepared_position) == (7, HOST, chunk.position + 1)


def chunk_like() -> Draft:
    return chunk_draft(
        ChunkNote(
            query="x", batch=0, home="x", part=0, attempt="x", sequence=0, topic="x", queue_id=0, sys_flag=0,
            message_count=1, record_bytes=1, is_plain=False,
        ),
        b"x",
        born_at_ms=0,
        born_host=HOST,
        store_host=HOST,
    )  # fmt: skip


@pytest.mark.skipif(not IS_COMPILED, reason="the pure version runs")
def test_a_chunk_of_plain_messages_is_one_write_with_the_kernel(tmp_path: Path) -> None:
    bench = Bench(tmp_path, use_kernel=True)
    units = [BatchUnit(0, b"x", "") for _ in range(100)]
    # The first message of a queue, and of an index file, takes the long way.
    bench.publish(bench.stage(encode_batch([BatchUnit(0, b"x", "UNIQ_KEY\x01a")])))

    assert bench.publish(bench.stage(encode_batch(units))) == 1
    assert bench.appended == 1
    bench.store.close()


def test_python_publishes_in_slices(tmp_path: Path) -> None:
    bench = Bench(tmp_path, use_kernel=False)
    chunk = bench.stage(encode_batch([BatchUnit(0, b"", "") for _ in range(SLICE_MESSAGES + 1)]))

    assert bench.publish(chunk) == 2
    assert len(bench.published()) == SLICE_MESSAGES + 1
    bench.store.close()


def test_publishing_goes_on_behind_what_is_out(bench: Bench) -> None:
    chunk = bench.stage(encode_batch([BatchUnit(0, b"%d" % number, "") for number in range(5)]))
    bench.publish(chunk)
    again = Chunk(chunk.position, chunk.message_count, chunk.record_bytes, out_count=3)

    bench.publish(again)

    bodies = [decode_record(record).body for record in bench.published()]
    assert bodies == [b"0", b"1", b"2", b"3", b"4", b"3", b"4"]


def test_what_is_out_is_counted_from_the_log(bench: Bench, tmp_path: Path) -> None:
    units = encode_batch([BatchUnit(0, b"x", "")] * 4)
    chunks = [bench.stage(units, sequence=sequence) for sequence in range(3)]
    parts = [PartChunks(part=0, attempt="0", chunks={"broker-a": 3})]
    decided = Decided(query="q", batch=0, home="broker-a", parts=parts)
    bench.store.put(op_draft(decided, now_ms=0, store_host=HOST))
    bench.publish(chunks[0])
    bench.publish(chunks[1])

    batches = StagedBatches(
        bench.store, ManualClock(), BrokerSettings(broker_name="broker-a"), path=tmp_path / "never-there"
    )
    batches.load()

    batch = batches.ledger.batch("q", 0)
    assert batch is not None
    assert [chunk.out_count for chunk in batch.decided_chunks()] == [4, 4, 0]


def test_a_chunk_that_does_not_fit_into_the_file_begins_the_next(bench: Bench) -> None:
    messages = encode_batch([BatchUnit(0, bytes(900), "") for _ in range(20)])
    for _ in range(5):
        bench.publish(bench.stage(messages))

    assert len(bench.published()) == 100


async def test_a_held_pull_is_woken(bench: Bench) -> None:
    woken: list[str] = []
    bench.publish(bench.stage(encode_batch([BatchUnit(0, b"x", "UNIQ_KEY\x01a")])))
    bench.arrivals.hold("orders", 1, HeldPull(1, 1 << 60, None, lambda: woken.append("pull")))

    bench.publish(bench.stage(encode_batch([BatchUnit(0, b"x", "")] * 3)))

    await aeventually(lambda: woken == ["pull"])


def test_a_chunk_from_an_address_of_ipv6_is_published(bench: Bench) -> None:
    chunk = bench.stage(encode_batch([BatchUnit(0, b"x", "")]), born_host=encode_host("::1", 7))

    bench.publish(chunk)

    assert decode_record(bench.published()[0]).born_host == encode_host("::1", 7)


@pytest.mark.parametrize(
    "units",
    [
        [BatchUnit(0, b"x", "a\x01" + "b" * 32_750)],
        [BatchUnit(0, b"x", "n\x01" + "\0" * 600)],
        [BatchUnit(0, bytes(14_000), "")] * 10,
    ],
)
def test_what_could_not_be_published_is_not_staged(bench: Bench, units: list[BatchUnit]) -> None:
    with pytest.raises(MessageIllegal):
        bench.publisher.measure("orders", 1, encode_batch(units))


def test_a_chunk_that_is_gone_says_so(bench: Bench) -> None:
    with pytest.raises(CorruptRecord, match="is gone"):
        bench.publisher.publish_some(Chunk(1 << 40, 1, 1))
