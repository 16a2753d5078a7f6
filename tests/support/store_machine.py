"""A store against a dictionary: whatever is done to it, it holds what the dictionary says.

Hypothesis chooses what is done: sends, reads, syncs, retention, topics that are given up, stops, kills and
power cuts at any operation of the disk, also in the middle of a stop or of a recovery. While a store is open
it and the dictionary are the same. When it is opened again, `adopt` compares what came back with what had to,
and with what could: a topic that was given up, or a file that was swept, may come back after a crash, and the
dictionary then takes it in.

Run by tests/crash/test_store_machine.py, and for longer by tests/crash/test_store_seeds.py.
"""

import logging
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar

import hypothesis.strategies as st
import pytest
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from store_story import EVER_MS, HOST, PREPARED, SETTINGS, queues, read_all, tears_at

from pyromq.errors import SyncFailed
from pyromq.store.retention import Swept
from pyromq.store.store import Draft, GetStatus, MessageStore, Placed
from pyromq.testing.disk import SimulatedDisk, cuts_of
from pyromq.testing.disk.journal import Change, Write
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.record import Record, iter_records

HOUR_MS = 3_600_000
FILE_BYTES = SETTINGS.mapped_file_size_commit_log
FILES_PER_ROUND = 10
#: Messages of this size have twice as many bytes of properties, so that a power cut can tear those too.
WIDE = 700
SECTOR_BYTES = 512
#: Files may go at any hour, an hour after their end.
KEEPING = replace(SETTINGS, file_reserved_time=1, delete_when=";".join(map(str, range(24))))
QUEUES = st.sampled_from(queues())
TOPICS = st.sampled_from(sorted({topic for topic, _ in queues()}))
KEYS = ("red", "blue")
PAUSES_MS = st.sampled_from((0, 1, 20, 1500))
SEEDS = st.integers(0, (1 << 32) - 1)
SYNCED = st.sampled_from(("everything", "the log", "nothing"))
FOLDERS = st.sampled_from(("commitlog", "consumequeue", "index", "checkpoint"))
Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Message:
    """A message that the store took."""

    queue: Queue
    offset: int
    position: int
    end: int
    stored_at_ms: int
    body: bytes
    properties: str
    keys: tuple[str, ...]
    is_in_queue: bool


@dataclass(slots=True)
class Row:
    """A queue as it must be: its messages, one behind the other, and the offset of the first."""

    first: int = 0
    messages: list[Message] = field(default_factory=list)

    @property
    def end(self) -> int:
        """The offset of the next message."""
        return self.first + len(self.messages)


@dataclass(frozen=True, slots=True)
class Shape:
    """A message as it is drawn."""

    queue: Queue
    size: int
    keys: tuple[str, ...]
    is_half: bool = False


SHAPES = st.builds(
    Shape,
    QUEUES,
    st.sampled_from((0, 1, 60, 300, WIDE, 1500)),
    st.sampled_from(((), ("red",), ("blue",), KEYS)),
    st.sampled_from((False, False, False, True)),
)
SMALL_SHAPES = st.builds(Shape, QUEUES, st.integers(0, 400), st.sampled_from(((), ("red",), KEYS)))


def with_holes(pending: list[Change]) -> Iterator[list[Change]]:
    """Yield choices in which all is kept but a sector in the middle of a large write, the newest ones."""
    large = [number for number, one in enumerate(pending) if isinstance(one, Write) and len(one.data) > 1024]
    for number in large[-2:]:
        write = pending[number]
        assert isinstance(write, Write)
        hole = (write.at + len(write.data) // 2) // SECTOR_BYTES * SECTOR_BYTES
        before, behind = hole - write.at, hole - write.at + SECTOR_BYTES
        parts = [
            Write(write.node, write.at, write.data[:before]),
            Write(write.node, write.at + behind, write.data[behind:]),
        ]
        yield [*pending[:number], *parts, *pending[number + 1 :]]


class StoreMachine(RuleBasedStateMachine):
    """Does things to a store on a simulated disk, and to a dictionary."""

    #: What was done by all machines of this process, for whoever asks whether it was much.
    done: ClassVar[Counter[str]] = Counter()

    @initialize()
    def begin(self) -> None:
        """Open a store on an empty disk."""
        self.logger = logging.getLogger("pyromq.store")
        self.level = self.logger.level
        self.logger.setLevel(logging.CRITICAL + 1)
        self.clock = ManualClock()
        self.disk = SimulatedDisk()
        self.number = 0
        self.rows = {queue: Row() for queue in queues()}
        #: Everything in the log, by position, also what no queue shows any more.
        self.log: dict[int, Message] = {}
        #: Up to where the log was promised, and how many operations of the disk that took.
        self.safe = 0
        self.safe_at = 0
        #: Before this position, messages may be gone.
        self.swept = 0
        self.store = self.opened()
        self.promise(self.store.flushed_position)

    def opened(self) -> MessageStore:
        """Open a store on the disk as it is."""
        store = MessageStore(KEEPING, clock=self.clock, files=self.disk)
        store.open()
        return store

    def promise(self, position: int) -> None:
        """Note up to where the log is safe from now on."""
        self.safe = position
        self.safe_at = len(self.disk.journal)

    # Sending

    @rule(shapes=st.lists(SHAPES, min_size=1, max_size=6), pause_ms=PAUSES_MS)
    def put(self, shapes: list[Shape], pause_ms: int) -> None:
        """Send messages one by one."""
        for shape in shapes:
            self.put_one(shape, pause_ms)

    def put_one(self, shape: Shape, pause_ms: int = 1) -> None:
        """Send one message."""
        self.clock.advance(pause_ms)
        draft = self.draft(shape)
        self.remember(shape, draft, self.store.put(draft))

    @rule(shapes=st.lists(SMALL_SHAPES, min_size=1, max_size=5), pause_ms=PAUSES_MS)
    def put_batch(self, shapes: list[Shape], pause_ms: int) -> None:
        """Send messages in one piece."""
        self.clock.advance(pause_ms)
        drafts = [self.draft(shape) for shape in shapes]
        for shape, draft, placed in zip(shapes, drafts, self.store.put_batch(drafts), strict=True):
            self.remember(shape, draft, placed)

    @rule(queue=QUEUES, count=st.integers(1, 3))
    def fill_files(self, queue: Queue, count: int) -> None:
        """Send until the log goes on some files further."""
        file = self.store.max_position // FILE_BYTES
        while self.store.max_position // FILE_BYTES < file + count:
            self.put_one(Shape(queue, 1500, ()))
        self.done["files filled"] += count

    def draft(self, shape: Shape) -> Draft:
        """Return a message like no other."""
        self.number += 1
        body = (b"%06d" % self.number * (shape.size // 6 + 1))[: shape.size]
        properties = f"UNIQ_KEY\x01{self.number:06d}\x02KEYS\x01{' '.join(shape.keys)}\x02TAGS\x01t"
        if shape.size == WIDE:
            properties += "\x02fill\x01" + "f" * 2 * WIDE
        sys_flag = PREPARED if shape.is_half else 0
        return Draft(*shape.queue, body, properties, 0, sys_flag, 0, HOST, HOST)

    def remember(self, shape: Shape, draft: Draft, placed: Placed) -> None:
        """Do to the dictionary what the store should have done."""
        row = self.rows[shape.queue]
        message = Message(
            shape.queue,
            0 if shape.is_half else row.end,
            placed.position,
            placed.end,
            self.clock.now_ms(),
            draft.body,
            draft.properties,
            (f"{self.number_of(draft):06d}", *shape.keys),
            not shape.is_half,
        )
        assert (placed.queue_offset, placed.stored_at_ms) == (message.offset, message.stored_at_ms)
        assert placed.position >= max((one.end for one in self.log.values()), default=0)
        assert placed.position // FILE_BYTES == (placed.end - 1) // FILE_BYTES
        self.log[placed.position] = message
        if message.is_in_queue:
            row.messages.append(message)
        self.done["messages"] += 1

    @staticmethod
    def number_of(draft: Draft) -> int:
        """Return the number that makes a message unique."""
        return int(draft.properties.split("\x02")[0].partition("\x01")[2])

    # Reading

    @rule(queue=QUEUES, at=st.integers(-3, 12), from_end=st.booleans(), count=st.integers(1, 32))
    def get(self, queue: Queue, at: int, from_end: bool, count: int) -> None:
        """Read from an offset, which may lie outside of the queue."""
        row = self.rows[queue]
        offset = row.end - at if from_end else row.first + at
        got = self.store.get(*queue, offset, count_max=count)
        records = list(iter_records(got.body))
        assert (got.min_offset, got.max_offset) == ((row.first, row.end) if row.end else (0, 0))
        if row.first <= offset < row.end:
            wanted = row.messages[offset - row.first :][:count]
            assert got.status is GetStatus.FOUND
            assert records
            assert got.next_offset == offset + len(records)
            self.compare(queue, records, wanted[: len(records)])
            return
        assert not records
        if row.end == 0:
            assert got.status is GetStatus.NO_MESSAGE_IN_QUEUE
        elif offset < row.first:
            assert (got.status, got.next_offset) == (GetStatus.OFFSET_TOO_SMALL, row.first)
        elif offset == row.end:
            assert (got.status, got.next_offset) == (GetStatus.OFFSET_OVERFLOW_ONE, row.end)
        else:
            assert (got.status, got.next_offset) == (GetStatus.OFFSET_OVERFLOW_BADLY, row.end)

    @rule(queue=QUEUES, part=st.floats(0, 1, exclude_max=True))
    def ask_for_times(self, queue: Queue, part: float) -> None:
        """Ask when a message was stored, and which one was stored then."""
        row = self.rows[queue]
        if not row.messages:
            assert self.store.earliest_time(*queue) == -1
            return
        message = row.messages[int(part * len(row.messages))]
        assert self.store.earliest_time(*queue) == row.messages[0].stored_at_ms
        assert self.store.stored_time(*queue, message.offset) == message.stored_at_ms
        offset = self.store.offset_by_time(*queue, message.stored_at_ms)
        assert row.messages[offset - row.first].stored_at_ms == message.stored_at_ms
        self.done["times asked for"] += 1

    @rule(topic=TOPICS, key=st.sampled_from(KEYS))
    def query(self, topic: str, key: str) -> None:
        """Ask for a key that many messages have."""
        wanted = [
            position
            for position, one in self.log.items()
            if one.queue[0] == topic and key in one.keys and position >= self.swept
        ]
        found = self.positions_of(topic, key)
        assert set(sorted(wanted)[-64:]) <= set(found)
        self.done["keys asked for"] += 1

    def positions_of(self, topic: str, key: str) -> list[int]:
        """Return where the messages are that a query finds, each of which must be one that was sent."""
        found = self.store.query(topic, key, count_max=64, begin_ms=0, end_ms=EVER_MS)
        records = [record for data in found.records for record in iter_records(data)]
        for record in records:
            self.compare(None, [record], [self.log[record.position]])
        return [record.position for record in records]

    # Syncing and forgetting

    @rule(what=st.sampled_from(("the log", "everything", "everything, slowly", "nothing yet")))
    def sync(self, what: str) -> None:
        """Make the log safe, or all of it with a checkpoint, or let the followers write only."""
        if what == "the log":
            self.promise(self.store.sync())
        elif what == "everything":
            self.sync_queues()
        elif what == "everything, slowly":
            queue_sync = self.store.queue_sync()
            self.put_one(Shape(queues()[self.number % len(queues())], 60, KEYS))
            queue_sync.run()
            self.promise(self.store.flushed_position)
        else:
            self.store.queue_sync()

    def sync_queues(self) -> None:
        """Make everything safe, and write a checkpoint."""
        self.store.sync_queues()
        self.promise(self.store.flushed_position)

    @rule(topic=TOPICS)
    def delete_topic(self, topic: str) -> None:
        """Give a topic up; the next message to it makes it again."""
        self.store.delete_topic(topic)
        for queue in queues():
            if queue[0] == topic:
                self.rows[queue] = Row()
        self.done["topics given up"] += 1

    @rule(seed=SEEDS, is_full=st.booleans(), synced=SYNCED, end=st.sampled_from(("none", "kill", "cut")))
    def sweep(self, seed: int, is_full: bool, synced: str, end: str) -> None:
        """Let files go, by age or because the disk is full; perhaps a crash comes before all are removed."""
        swept = self.sweep_only(is_full=is_full, synced=synced)
        if end == "kill":
            self.kill_and_start()
            return
        before = len(self.disk.journal)
        swept.remove()
        if end == "cut":
            self.cut_power_since(before, random.Random(seed))

    def sweep_only(self, *, is_full: bool, synced: str) -> Swept:
        """Let files go, and leave it to the caller to remove them."""
        if synced == "everything":
            self.sync_queues()
        elif synced == "the log":
            self.sync("the log")
        before = self.store.min_position
        if is_full:
            self.disk.capacity_bytes = self.disk.used_bytes * 100 // 87
        else:
            self.clock.advance(2 * HOUR_MS)
        swept = self.store.sweep()
        self.disk.capacity_bytes = 1 << 50
        self.forget_before(self.store.min_position)
        # Only what is safe may go.
        assert self.store.min_position <= max(self.safe, before)
        if synced == "everything":
            # All is older than it need be kept; only the newest file stays, and ten go in a round.
            newest = max((one.position for one in self.log.values()), default=0) // FILE_BYTES * FILE_BYTES
            assert self.store.min_position == max(before, min(newest, before + FILES_PER_ROUND * FILE_BYTES))
        self.done["files swept"] += (self.store.min_position - before) // FILE_BYTES
        return swept

    def forget_before(self, position: int) -> None:
        """Take messages out of the dictionary that went with their file."""
        self.swept = max(self.swept, position)
        for row in self.rows.values():
            gone = sum(message.position < position for message in row.messages)
            row.first += gone
            del row.messages[:gone]

    # Ending and beginning again

    @rule()
    def stop_and_start(self) -> None:
        """Stop in order: everything is safe then."""
        self.store.close()
        self.promise(self.store.max_position)
        self.adopt(loses_nothing=True)
        self.done["stops"] += 1

    @rule(under=st.one_of(st.none(), FOLDERS))
    def kill(self, under: str | None) -> None:
        """Kill the process, or fail a sync so that it must be started again."""
        if under is None:
            self.kill_and_start()
            return
        self.disk.fail_syncs(under=under)
        try:
            self.sync_queues()
        except SyncFailed:
            with pytest.raises(SyncFailed):
                self.store.put(self.draft(Shape(queues()[0], 1, ())))
            self.kill_and_start()
            self.done["failed syncs"] += 1
        self.disk.mend()

    def kill_and_start(self) -> None:
        """Kill the process; the machine goes on, and has all that was written."""
        self.disk.kill_processes()
        self.adopt(loses_nothing=True)
        self.done["kills"] += 1

    @rule(seed=SEEDS, when=st.sampled_from(("now", "before", "while stopping", "while starting")))
    def cut_power(self, seed: int, when: str) -> None:
        """Cut the power now, behind any operation since the last promise, in a stop, or in a start."""
        first = len(self.disk.journal)
        if when == "while stopping":
            self.store.close()
        elif when == "while starting":
            self.disk.kill_processes()
            self.opened()
        elif when == "before":
            first = self.safe_at
        self.done[f"power cuts {when}"] += 1
        self.cut_power_since(first, random.Random(seed))

    def cut_power_since(self, first: int, chance: random.Random) -> None:
        """Cut the power behind one of the operations since the first ones, and start again."""
        self.lose_power(chance.randint(first, len(self.disk.journal)), chance)
        self.adopt()
        self.done["power cuts"] += 1

    def lose_power(self, at: int, chance: random.Random) -> None:
        """Put a disk in the place of the old one, as the power cut behind an operation left it."""
        platter = self.disk.base.copy()
        for operation in self.disk.journal[: at - 1]:
            platter.apply(operation)
        last = self.disk.journal[at - 1 : at]
        cuts = cuts_of(last, chance, base=platter, each_max=3, random_cuts=1, tears_at=tears_at)
        images = [cut.image for cut in cuts]
        platter.apply(last[0])
        images += [platter.image(kept) for kept in with_holes(platter.pending)]
        self.store.close()
        self.disk = SimulatedDisk(chance.choice(images))
        self.safe_at = 0

    def adopt(self, *, loses_nothing: bool = False) -> None:
        """Open the store again, see that it has what was promised, and take in what else came back."""
        self.store = self.opened()
        end = self.store.max_position
        lost = [message for message in self.log.values() if message.end > end]
        assert not lost or not loses_nothing, f"lost: {lost}"
        assert not [message for message in lost if message.end <= self.safe], f"lost: {lost}"
        assert self.store.min_position <= self.swept
        self.log = {position: one for position, one in self.log.items() if one.end <= end}
        for queue, row in self.rows.items():
            self.rows[queue] = self.adopted(queue, row)
        self.check_log()
        self.promise(self.store.flushed_position)
        # It takes messages: the one that hypothesis would not send before the next crash.
        self.put_one(Shape(queues()[self.number % len(queues())], 9, ("red",)))

    def adopted(self, queue: Queue, row: Row) -> Row:
        """Return a queue as it came back, which has all that it had to, and nothing that nobody sent."""
        records = read_all(self.store, *queue)
        first, end = self.store.min_offset(*queue), self.store.max_offset(*queue)
        assert all(record.position in self.log for record in records), f"{queue} has what nobody sent"
        self.compare(queue, records, [self.log[record.position] for record in records])
        wanted = [one for one in row.messages if one.position in self.log]
        found = {record.position for record in records}
        missing = [one for one in wanted if one.position not in found]
        assert not missing, f"not served: {missing}"
        # An offset that was promised is not given out again; swept ones were safe before they went.
        safe_end = row.first + sum(one.end <= self.safe for one in row.messages)
        assert end >= safe_end, f"{queue} ends at {end}, and {safe_end} was promised"
        assert first <= row.first or not wanted, f"{queue} begins at {first} and not at {row.first}"
        return Row(first, [self.log[record.position] for record in records])

    def check_log(self) -> None:
        """See that each message of the log can be read, and is found by its id."""
        for position, message in self.log.items():
            if position >= self.swept:
                assert self.store.read_at(position) is not None, f"not in the log: {message}"
                assert position in self.positions_of(message.queue[0], message.keys[0]), message

    # Comparing

    @precondition(lambda self: hasattr(self, "store"))
    @invariant()
    def holds_what_the_dictionary_holds(self) -> None:
        """See that each queue is as it must be."""
        for queue, row in self.rows.items():
            assert (self.store.min_offset(*queue), self.store.max_offset(*queue)) == (row.first, row.end)
            self.compare(queue, read_all(self.store, *queue), row.messages)

    def compare(self, queue: Queue | None, records: list[Record], messages: list[Message]) -> None:
        """See that records, whose checksums were checked, are these messages."""
        assert [
            (
                (record.topic, record.queue_id),
                record.queue_offset,
                record.position,
                record.stored_at_ms,
                record.body,
                record.properties,
            )
            for record in records
        ] == [
            (
                queue or message.queue,
                message.offset,
                message.position,
                message.stored_at_ms,
                message.body,
                message.properties,
            )
            for message in messages
        ]

    def teardown(self) -> None:
        """Give everything back."""
        if hasattr(self, "store"):
            self.store.close()
            self.logger.setLevel(self.level)
