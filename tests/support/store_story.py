"""A store's life on a simulated disk, and what must be there whenever the power fails in it.

`Story` does to a store what a broker does, chosen by a seed, and puts into the disk's journal what was
promised: up to where the log is safe, what was swept away, which version of a table was saved. `examine`
opens the store on a disk as a power cut left it and looks whether all that holds.
"""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from pyromq.codes import SysFlag
from pyromq.config.settings import StoreSettings
from pyromq.errors import SyncFailed
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.store import Draft, MessageStore, Placed
from pyromq.testing.disk import Mark, SimulatedDisk, cuts_of, tears_anywhere, tears_at_sectors
from pyromq.testing.disk.journal import Write
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import Record, encode_host, iter_records

ROOT = Path("/store")
TABLES = (ROOT / "config" / "topics.json", ROOT / "config" / "consumerOffset.json")
SETTINGS = StoreSettings(
    store_path_root_dir=str(ROOT),
    mapped_file_size_commit_log=4096,
    mapped_file_size_consume_queue=240,
    max_hash_slot_num=20,
    max_index_num=40,
)
HOST = encode_host("127.0.0.1", 10911)
EVER_MS = 1 << 60
#: Topic and how many queues it has.
TOPICS = {"orders": 2, "payments": 1, "%RETRY%group": 1}
PREPARED = int(SysFlag.TRANSACTION_PREPARED)


@dataclass(frozen=True, slots=True)
class Sent:
    """A message that the store took."""

    topic: str
    queue_id: int
    offset: int
    position: int
    end: int
    body: bytes
    properties: str
    unique_id: str
    #: Messages of a story are counted, so that a promise does not speak of later ones.
    number: int
    is_in_queue: bool = True


@dataclass(frozen=True, slots=True)
class Safe:
    """The log was said to be safe up to a position.

    A restart may begin a little before it, where only the end of a file was, that no message had.
    """

    position: int
    messages: int
    is_restart: bool = False


@dataclass(frozen=True, slots=True)
class Swept:
    """Messages before a position may be gone."""

    before: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """A topic's messages before a position were given up."""

    topic: str
    before: int


@dataclass(frozen=True, slots=True)
class Saving:
    """A table is being saved, or was."""

    path: Path
    version: int
    is_done: bool = False


@dataclass(slots=True)
class Promise:
    """What must hold on a disk: messages by position, and what was said of them."""

    sent: dict[int, Sent] = field(default_factory=dict)
    safe: int = 0
    safe_messages: int = 0
    swept: int = 0
    deleted: dict[str, int] = field(default_factory=dict)
    saved: Counter[Path] = field(default_factory=Counter)
    begun: Counter[Path] = field(default_factory=Counter)

    def after(self, marks: "tuple[object, ...] | list[object]") -> "Promise":
        """Return the promise with what the marks add."""
        more = replace(self, deleted=dict(self.deleted), saved=Counter(self.saved), begun=Counter(self.begun))
        for mark in marks:
            if isinstance(mark, Safe):
                more.safe = mark.position if mark.is_restart else max(more.safe, mark.position)
                more.safe_messages = mark.messages
            elif isinstance(mark, Swept):
                more.swept = max(more.swept, mark.before)
            elif isinstance(mark, Deleted):
                more.deleted[mark.topic] = mark.before
            elif isinstance(mark, Saving):
                (more.saved if mark.is_done else more.begun)[mark.path] = mark.version
        return more

    def of_survivor(self, survivor: "Survivor") -> "Promise":
        """Return what the next life begins with: what is in the log now, and the tables that were read."""
        end = survivor.end
        sent = {position: sent for position, sent in self.sent.items() if sent.end <= end}
        # A sweep that the power cut undid is still one: the queues may know of it.
        saved = Counter(survivor.tables)
        return Promise(sent, end, self.next_number, self.swept, dict(self.deleted), saved, Counter(saved))

    @property
    def next_number(self) -> int:
        """The number of the next message."""
        return 1 + max((sent.number for sent in self.sent.values()), default=-1)

    def is_safe(self, sent: Sent) -> bool:
        """Return whether a message was acknowledged."""
        return sent.number < self.safe_messages and sent.end <= self.safe

    @property
    def end(self) -> int:
        """The end of the newest message."""
        return max((sent.end for sent in self.sent.values()), default=0)

    def is_wanted(self, sent: Sent) -> bool:
        """Return whether consumers must see a message if it is there."""
        return sent.is_in_queue and sent.position >= self.deleted.get(sent.topic, 0)


class Story:
    """One life of a store, from one disk as it was found to its end."""

    def __init__(self, seed: int, disk: SimulatedDisk | None = None, promise: Promise | None = None) -> None:
        self.chance = random.Random(seed)
        self.disk = disk or SimulatedDisk()
        #: What held at the beginning; `sent` grows, the rest is in the journal's marks.
        self.promise = promise or Promise()
        self.clock = ManualClock()
        self.number = 0
        self.sent_count = self.promise.next_number
        self.versions = Counter(self.promise.begun)
        self.steps: Counter[str] = Counter()
        self.open()

    def open(self) -> None:
        """Open the store on the disk as it is."""
        self.store = MessageStore(SETTINGS, clock=self.clock, files=self.disk)
        self.store.open()

    def run(self, steps: int) -> None:
        """Do that many things."""
        weights = {
            self.put: 40,
            self.put_batch: 12,
            self.put_half: 4,
            self.sync: 14,
            self.sync_queues: 5,
            self.sync_queues_while_messages_come: 3,
            self.fail_a_sync: 2,
            self.delete_topic: 1,
            self.settle: 3,
            self.save_table: 6,
            self.sweep: 4,
            self.stop_and_start: 3,
            self.kill_and_start: 3,
        }
        for step in self.chance.choices(list(weights), list(weights.values()), k=steps):
            self.steps[step.__name__] += 1
            step()
            self.clock.advance(self.chance.choice((1, 20, 1500)))

    # The steps

    def put(self) -> None:
        """Store one message."""
        draft = self.draft()
        self.remember(draft, self.store.put(draft))

    def put_half(self) -> None:
        """Store the half of a transaction, which no queue shows."""
        draft = self.draft()
        draft.sys_flag = PREPARED
        self.remember(draft, self.store.put(draft))

    def put_batch(self) -> None:
        """Store several messages with one write."""
        drafts = [self.draft(400) for _ in range(self.chance.randint(2, 5))]
        for draft, placed in zip(drafts, self.store.put_batch(drafts), strict=True):
            self.remember(draft, placed)

    def draft(self, body_bytes_max: int = 1500) -> Draft:
        """Return a message to a random queue, of random size, with a unique id and keys."""
        self.number += 1
        topic = self.chance.choice(list(TOPICS))
        size = min(self.chance.choice((0, 7, 60, 60, 300, 700, 1500)), body_bytes_max)
        unique_id = f"ID{self.chance.getrandbits(32):08X}{self.number:04d}"
        properties = f"UNIQ_KEY\x01{unique_id}\x02KEYS\x01{self.chance.choice(('', 'a', 'a b'))}\x02TAGS\x01t"
        queue_id = self.chance.randrange(TOPICS[topic])
        return Draft(topic, queue_id, self.chance.randbytes(size), properties, 0, 0, 0, HOST, HOST)

    def remember(self, draft: Draft, placed: Placed) -> None:
        """Note a message that the store took."""
        self.promise.sent[placed.position] = Sent(
            draft.topic,
            draft.queue_id,
            placed.queue_offset,
            placed.position,
            placed.end,
            draft.body,
            draft.properties,
            draft.properties.split("\x02")[0].partition("\x01")[2],
            self.sent_count,
            not draft.sys_flag,
        )
        self.sent_count += 1

    def mark_safe(self, position: int, *, is_restart: bool = False) -> None:
        """Note that everything up to a position is promised."""
        self.disk.mark(Safe(position, self.sent_count, is_restart))

    def sync(self) -> None:
        """Make the log safe; senders that waited for it are answered."""
        self.mark_safe(self.store.sync())

    def sync_queues(self) -> None:
        """Make everything safe and write a checkpoint."""
        self.store.sync_queues()
        self.mark_safe(self.store.flushed_position)

    def sync_queues_while_messages_come(self) -> None:
        """Write a checkpoint as a broker does: prepared here, carried out in a thread meanwhile."""
        queue_sync = self.store.queue_sync()
        for _ in range(self.chance.randint(1, 4)):
            self.put()
        queue_sync.run()
        self.mark_safe(self.store.flushed_position)

    def fail_a_sync(self) -> None:
        """Let the disk fail a sync; nothing is taken any more, and the broker is started again."""
        self.disk.fail_syncs(under=self.chance.choice(("commitlog", "consumequeue", "index", "checkpoint")))
        try:
            self.sync_queues()
        except SyncFailed:
            with pytest.raises(SyncFailed):
                self.store.put(self.draft())
            with pytest.raises(SyncFailed):
                self.store.sync()
            self.kill_and_start()
        self.disk.mend()

    def delete_topic(self) -> None:
        """Give a topic up; the next message to it makes it again."""
        topic = self.chance.choice(list(TOPICS))
        self.disk.mark(Deleted(topic, self.store.max_position))
        self.store.delete_topic(topic)

    def settle(self) -> None:
        """Let the followers write, without a sync."""
        self.store.queue_sync()

    def save_table(self) -> None:
        """Replace a configuration table."""
        path = self.chance.choice(TABLES)
        self.versions[path] += 1
        self.disk.mark(Saving(path, self.versions[path]))
        replace_file(path, encode_table(self.versions[path]), files=self.disk)
        self.disk.mark(Saving(path, self.versions[path], is_done=True))

    def sweep(self) -> None:
        """Let the oldest files go, as on a disk that is 87 % full."""
        self.chance.choice((self.sync, self.sync_queues))()
        self.disk.capacity_bytes = self.disk.used_bytes * 100 // 87
        swept = self.store.sweep()
        self.disk.capacity_bytes = 1 << 50
        self.disk.mark(Swept(self.store.min_position))
        swept.remove()

    def stop_and_start(self) -> None:
        """Stop cleanly, and start again."""
        self.store.close()
        self.mark_safe(self.store.max_position)
        self.open()

    def kill_and_start(self) -> None:
        """Kill the process; the machine goes on, and so does the next process on what it finds."""
        self.disk.kill_processes()
        self.open()
        assert self.store.max_position >= self.promise.end
        self.mark_safe(self.store.flushed_position, is_restart=True)


def encode_table(version: int) -> bytes:
    """Return a table of some size that tells its version."""
    return json.dumps({"version": version, "fill": "x" * (version * 97 % 900)}).encode()


@dataclass(slots=True)
class Survivor:
    """A store that was opened on what a power cut left."""

    store: MessageStore
    disk: SimulatedDisk
    served: dict[tuple[str, int], list[Record]]
    end: int
    tables: dict[Path, int] = field(default_factory=dict)


def examine(disk: SimulatedDisk, promise: Promise, chance: random.Random) -> Survivor:
    """Open the store twice on a disk and check all that was promised; return it as it was the first time."""
    clock = ManualClock(1_700_010_000_000)
    store = MessageStore(SETTINGS, clock=clock, files=disk)
    store.open()
    served = {queue: read_all(store, *queue) for queue in queues()}
    survivor = Survivor(store, disk, served, store.max_position)
    check_messages(survivor, promise)
    check_keys(survivor, promise)
    survivor.tables = check_tables(disk, promise)
    new = check_writes(survivor)
    if chance.random() < 0.5:
        store.close()
        disk = disk.after_kill()
    else:
        disk = SimulatedDisk(disk.platter.image())
    again = MessageStore(SETTINGS, clock=clock, files=disk)
    recovered = again.open()
    assert not recovered.findings
    for queue in queues():
        assert read_all(again, *queue) == [*served[queue], new[queue]], queue
    again.close()
    store.close()
    return survivor


def queues() -> list[tuple[str, int]]:
    """Return every queue of the story."""
    return [(topic, queue_id) for topic, count in TOPICS.items() for queue_id in range(count)]


def read_all(store: MessageStore, topic: str, queue_id: int) -> list[Record]:
    """Return all messages of a queue, checksums checked, and see that the offsets have no gap."""
    records: list[Record] = []
    first = offset = store.min_offset(topic, queue_id)
    end = store.max_offset(topic, queue_id)
    while offset < end:
        got = store.get(topic, queue_id, offset, count_max=32)
        assert got.next_offset > offset, got
        records += iter_records(got.body)
        offset = got.next_offset
    assert [record.queue_offset for record in records] == list(range(first, end)), (topic, queue_id)
    return records


def check_messages(survivor: Survivor, promise: Promise) -> None:
    """See that what is served was sent as it is, and that what was safe is served."""
    for (topic, queue_id), records in survivor.served.items():
        for record in records:
            sent = promise.sent.get(record.position)
            assert sent is not None, f"nobody sent what is served at {record.position}"
            assert (sent.topic, sent.queue_id) == (topic, queue_id)
            assert (record.topic, record.queue_id, record.queue_offset, record.body, record.properties) == (
                topic,
                queue_id,
                sent.offset,
                sent.body,
                sent.properties,
            ), f"another message is served at {record.position}"
    found = {record.position for records in survivor.served.values() for record in records}
    swept = max(promise.swept, survivor.store.min_position)
    assert survivor.store.min_position <= promise.swept, (survivor.store.min_position, promise.swept)
    for sent in promise.sent.values():
        is_there = swept <= sent.position and sent.end <= survivor.store.max_position
        assert not promise.is_safe(sent) or sent.position < swept or is_there, f"lost: {sent}"
        if is_there and promise.is_wanted(sent):
            assert sent.position in found, f"not served: {sent}"
        if is_there:
            assert survivor.store.read_at(sent.position) is not None, f"not in the log: {sent}"
        if promise.is_safe(sent) and promise.is_wanted(sent):
            end = survivor.store.max_offset(sent.topic, sent.queue_id)
            assert end > sent.offset, f"its offset {end} is given out again: {sent}"


def check_keys(survivor: Survivor, promise: Promise) -> None:
    """See that each message that is there is found by its id."""
    store = survivor.store
    for sent in promise.sent.values():
        if max(promise.swept, store.min_position) <= sent.position and sent.end <= store.max_position:
            found = store.query(sent.topic, sent.unique_id, count_max=64, begin_ms=0, end_ms=EVER_MS)
            positions = [next(iter_records(record)).position for record in found.records]
            assert sent.position in positions, f"not found by its id: {sent}"


def check_tables(disk: SimulatedDisk, promise: Promise) -> dict[Path, int]:
    """See that each table is whole, and the one saved last or one begun since; return their versions."""
    versions = {}
    for path in TABLES:
        table = read_with_backup(path, json.loads, files=disk)
        version = 0 if table is None else table["version"]
        assert promise.saved[path] <= version <= promise.begun[path], path
        assert table is None or encode_table(version) == json.dumps(table).encode()
        versions[path] = version
    return versions


def check_writes(survivor: Survivor) -> dict[tuple[str, int], Record]:
    """See that each queue takes a message at its end, and keeps it."""
    store = survivor.store
    new: dict[tuple[str, int], Record] = {}
    for topic, queue_id in queues():
        end = store.max_offset(topic, queue_id)
        placed = store.put(Draft(topic, queue_id, b"after", "UNIQ_KEY\x01after", 0, 0, 0, HOST, HOST))
        assert placed.queue_offset == end
        got = store.get(topic, queue_id, end, count_max=1)
        new[topic, queue_id] = next(iter_records(got.body))
    store.sync()
    return new


@dataclass(frozen=True, slots=True)
class Tried:
    """How much was looked at."""

    states: int
    operations: int
    messages: int


def tears_at(write: Write) -> Sequence[int]:
    """Return where a write tears: anywhere, but in the index only where disks tear."""
    return tears_at_sectors(write) if "/index/" in write.node.path else tears_anywhere(write)


def try_all_cuts(seed: int, *, steps: int, each_max: int | None, random_cuts: int) -> Tried:
    """Let a store live, and examine it after a power cut at each moment of that life."""
    story = Story(seed)
    story.run(steps)
    story.store.close()
    chance = random.Random(seed)
    states = 0
    for cut in cuts_of(
        story.disk.journal, chance, each_max=each_max, random_cuts=random_cuts, tears_at=tears_at
    ):
        states += 1
        try:
            examine(SimulatedDisk(cut.image), story.promise.after(cut.marks), chance)
        except Exception as error:
            error.add_note(f"seed {seed}, power cut behind operation {cut.at}: {cut.story}")
            raise
    return Tried(states, len(story.disk.journal), len(story.promise.sent))


def live_through_cuts(seed: int, *, lives: int, steps: int) -> Tried:
    """Let a store live on after each power cut, on what that left."""
    chance = random.Random(seed)
    disk, promise = SimulatedDisk(), Promise()
    operations = 0
    for life in range(lives):
        story = Story(chance.randrange(1 << 32), disk, promise)
        story.run(steps)
        operations += len(story.disk.journal)
        disk = story.disk.after_power_cut(chance, tears_at)
        promise = story.promise.after([mark.value for mark in story.disk.journal if isinstance(mark, Mark)])
        story.store.close()
        image = disk.image()
        try:
            survivor = examine(disk, promise, chance)
        except Exception as error:
            error.add_note(f"seed {seed}, life {life}")
            raise
        promise = promise.of_survivor(survivor)
        disk = SimulatedDisk(image)
    return Tried(lives, operations, len(promise.sent))
