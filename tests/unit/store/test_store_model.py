"""The store against a model: a list for each queue, whatever happens in between.

Between puts, reads and syncs the store is closed, killed, or loses power. A kill leaves all bytes that were
written. A power cut leaves the synced ones, and of the others any: here each small chunk of each file is, by
the toss of a coin, as it was at the last sync or as it is now.
"""

import logging
import random
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pyromq.config.settings import StoreSettings
from pyromq.store.files import DiskUse, SystemFile, SystemFiles
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.clock import ManualClock
from pyromq.wire.record import encode_host, iter_records

HOST = encode_host("127.0.0.1", 10911)
HUGE = 1 << 60
CHUNK = 64
TOPICS = st.sampled_from(["orders", "other"])
QUEUES = st.integers(0, 1)
BODIES = st.binary(max_size=700)
KEYS = st.sampled_from(["", "k1", "k2", "k1 k2"])


class UnsyncedFile(SystemFile):
    """A file whose syncs are only remembered."""

    def __init__(self, disk: "UnsyncedFiles", path: Path, size: int) -> None:
        super().__init__(path, size)
        self._disk = disk

    def sync(self) -> None:
        self._disk.synced[self.path.relative_to(self._disk.root)] = self.path.read_bytes()


class UnsyncedFiles(SystemFiles):
    """A disk that knows what each file was like when it was synced."""

    def __init__(self, root: Path, boot_id: str) -> None:
        self.root = root
        self.boot = boot_id
        self.synced: dict[Path, bytes] = {}
        self.use = DiskUse(10, 90)

    def open(self, path: Path, size: int) -> UnsyncedFile:
        return UnsyncedFile(self, path, size)

    def sync_folder(self, path: Path) -> None:
        """Names are kept at once here."""

    def disk_use(self, path: Path) -> DiskUse:
        return self.use

    def boot_id(self) -> str:
        return self.boot


@dataclass(slots=True)
class Sent:
    """A message that the store took."""

    topic: str
    queue_id: int
    body: bytes
    keys: str
    position: int
    end: int
    offset: int


class StoreMachine(RuleBasedStateMachine):
    """Does things to a store, and to a model of it."""

    @initialize()
    def begin(self) -> None:
        logging.getLogger("pyromq.store").setLevel(logging.CRITICAL)
        self.folder = Path(tempfile.mkdtemp(prefix="pyromq-model-"))
        self.clock = ManualClock()
        self.generation = 0
        self.boots = 0
        self.sent: list[Sent] = []
        self.open_in(self.folder / "0")

    def open_in(self, root: Path) -> None:
        self.root = root
        self.disk = UnsyncedFiles(root, f"boot {self.boots}")
        if root.exists():
            for path in root.rglob("*"):
                if path.is_file():
                    self.disk.synced[path.relative_to(root)] = path.read_bytes()
        self.store = MessageStore(
            StoreSettings(
                store_path_root_dir=str(root),
                mapped_file_size_commit_log=4096,
                mapped_file_size_consume_queue=200,
                max_hash_slot_num=20,
                max_index_num=30,
            ),
            clock=self.clock,
            files=self.disk,
        )
        self.store.open()

    def draft(self, topic: str, queue_id: int, body: bytes, keys: str) -> Draft:
        properties = f"KEYS\x01{keys}" if keys else ""
        return Draft(topic, queue_id, body, properties, 0, 0, 0, HOST, HOST)

    def remember(self, drafts, placed, keys) -> None:
        for one, place, words in zip(drafts, placed, keys, strict=True):
            assert place.queue_offset == len(self.queue(one.topic, one.queue_id))
            self.sent.append(
                Sent(one.topic, one.queue_id, one.body, words, place.position, place.end, place.queue_offset)
            )

    def queue(self, topic: str, queue_id: int) -> list[Sent]:
        return [one for one in self.sent if (one.topic, one.queue_id) == (topic, queue_id)]

    @rule(topic=TOPICS, queue_id=QUEUES, body=BODIES, keys=KEYS)
    def put(self, topic: str, queue_id: int, body: bytes, keys: str) -> None:
        one = self.draft(topic, queue_id, body, keys)
        self.remember([one], [self.store.put(one)], [keys])
        self.clock.advance(7)

    @rule(topic=TOPICS, queue_id=QUEUES, bodies=st.lists(BODIES, min_size=1, max_size=4), keys=KEYS)
    def put_batch(self, topic: str, queue_id: int, bodies: list[bytes], keys: str) -> None:
        drafts = [self.draft(topic, queue_id, body, keys) for body in bodies]
        placed = self.store.put_batch(drafts)
        for one, place in zip(drafts, placed, strict=True):
            self.remember([one], [place], [keys])

    @rule()
    def sync(self) -> None:
        self.store.sync()

    @rule()
    def sync_queues(self) -> None:
        self.store.sync_queues()

    @rule()
    def settle_only(self) -> None:
        """Followers write, and the sync never comes."""
        self.store.queue_sync()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.open_in(self.root)

    @rule()
    def kill(self) -> None:
        root = self.next_root()
        shutil.copytree(self.root, root)
        self.store.close()
        self.open_in(root)

    @rule(seed=st.integers(0, 1 << 32), kept=st.sampled_from([0.0, 0.1, 0.5, 0.9, 1.0]))
    def cut_power(self, seed: int, kept: float) -> None:
        safe = self.store.flushed_position
        root = self.next_root()
        shutil.copytree(self.root, root)
        synced = dict(self.disk.synced)
        self.store.close()
        self.boots += 1
        coin = random.Random(seed)
        for path in root.rglob("*"):
            if path.is_file() and path.name not in ("lock", "abort"):
                _lose_chunks(path, synced.get(path.relative_to(root), b""), coin, kept)

        self.open_in(root)

        end = self.store.max_position
        assert end >= safe
        self.sent = [one for one in self.sent if one.end <= end]

    @precondition(lambda self: self.sent)
    @rule()
    def sweep(self) -> None:
        self.store.sync()
        self.disk.use = DiskUse(86, 14)
        swept = self.store.sweep()
        self.disk.use = DiskUse(10, 90)
        swept.remove()
        for file in swept.files:
            self.disk.synced.pop(file.path.relative_to(self.root), None)

    def next_root(self) -> Path:
        self.generation += 1
        return self.folder / str(self.generation)

    @invariant()
    def queues_are_the_models(self) -> None:
        for topic in ("orders", "other"):
            for queue_id in (0, 1):
                expected = self.queue(topic, queue_id)
                assert self.store.max_offset(topic, queue_id) == len(expected)
                kept = [one for one in expected if one.position >= self.store.min_position]
                first = kept[0].offset if kept else len(expected)
                assert self.store.min_offset(topic, queue_id) == first
                got = self.read_from(topic, queue_id, first)
                assert got == [(one.offset, one.position, one.body) for one in kept]

    def read_from(self, topic: str, queue_id: int, offset: int) -> list[tuple[int, int, bytes]]:
        read = []
        while offset < self.store.max_offset(topic, queue_id):
            got = self.store.get(topic, queue_id, offset, count_max=5)
            read += [(record.queue_offset, record.position, record.body) for record in iter_records(got.body)]
            assert got.next_offset > offset
            offset = got.next_offset
        return read

    @invariant()
    def keys_find_their_messages(self) -> None:
        for topic in ("orders", "other"):
            expected = [
                one.position
                for one in self.sent
                if one.topic == topic and "k1" in one.keys.split() and one.position >= self.store.min_position
            ][-32:]
            found = self.store.query(topic, "k1", count_max=32, begin_ms=0, end_ms=HUGE)
            positions = [next(iter_records(record)).position for record in found.records]
            assert set(expected) <= set(positions)

    def teardown(self) -> None:
        logging.getLogger("pyromq.store").setLevel(logging.NOTSET)
        self.store.close()
        shutil.rmtree(self.folder)


def _lose_chunks(path: Path, synced: bytes, coin: random.Random, kept: float) -> None:
    now = path.read_bytes()
    before = synced.ljust(len(now), b"\0")
    path.write_bytes(
        b"".join(
            (now if coin.random() < kept else before)[at : at + CHUNK] for at in range(0, len(now), CHUNK)
        )
    )


TestStoreModel = StoreMachine.TestCase
TestStoreModel.settings = settings(
    max_examples=25, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
