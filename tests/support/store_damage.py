"""One damaged place in a store's files, and what must still hold; see `tests/crash/test_damage.py`."""

import logging
import random
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from store_story import EVER_MS, HOST, ROOT, SETTINGS, Sent, Story, queues

from pyromq.errors import CorruptRecord
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.consumequeue import ENTRY as QUEUE_ENTRY
from pyromq.store.delay_levels import parse_delay_levels
from pyromq.store.index.indexfile import ENTRY as KEY_ENTRY
from pyromq.store.index.indexfile import HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.findings import StoreFinding
from pyromq.store.inspect.store_survey import Layout
from pyromq.store.inspect.store_verification import Verification
from pyromq.store.store import Draft, MessageStore
from pyromq.testing.disk import Image, SimulatedDisk
from pyromq.testing.manual_clock import ManualClock
from pyromq.wire.bodies.offset_bodies import decode_group_offsets, encode_group_offsets
from pyromq.wire.record import Record, decode_record, iter_records

#: Behind the header and the slots of an index file.
ENTRIES_AT = HEADER_BYTES + SETTINGS.max_hash_slot_num * SLOT_BYTES
KINDS = ("commitlog", "consumequeue", "index", "checkpoint", "config")
TABLE = ROOT / "config" / "consumerOffset.json"
OLD_TABLE = {"orders@group": {0: 12, 1: 3}}
NEW_TABLE = {"orders@group": {0: 14, 1: 5}}


@dataclass(frozen=True, slots=True)
class Damage:
    """A seed's choice of a place, in one kind of file."""

    seed: int
    kind: str
    how: str
    was_clean: bool
    #: The seed of what was stored.
    story: int = 4711


@dataclass(frozen=True, slots=True)
class Stored:
    """A store's files, and what is in them."""

    image: Image
    sent: dict[int, Sent]
    begin: int
    end: int
    #: Up to where the checkpoint says that all is safe: behind it, damage is a torn end.
    safe: int


@lru_cache(maxsize=2)
def stored(seed: int, *, was_clean: bool) -> Stored:
    """Return a store with messages in many files, some of them swept away already."""
    story = Story(seed)
    for number in range(120):
        story.put()
        if number == 40:
            story.sync_queues()
            story.sweep()
        if number == 110:
            story.sync_queues()
            safe = story.store.max_position
    story.sync()
    replace_file(TABLE, encode_group_offsets(OLD_TABLE, pretty=True), files=story.disk)
    replace_file(TABLE, encode_group_offsets(NEW_TABLE, pretty=True), files=story.disk)
    begin, end = story.store.min_position, story.store.max_position
    if was_clean:
        story.store.close()
        safe = end
    image = story.disk.image()
    return Stored(image, dict(story.promise.sent), begin, end, safe)


def damaged_image(damage: Damage, before: Stored) -> tuple[Image, Path, int]:
    """Return the files with one bit flipped or one file cut, and the file and byte of it."""
    chance = random.Random(f"{damage.seed} {damage.kind} {damage.how}")
    files = [
        path
        for path, data in before.image.items()
        if data and ROOT / damage.kind in (path, *path.parents) and path.suffix != ".bak"
    ]
    path = chance.choice(files)
    data = bytearray(before.image[path] or b"")
    written = len(data.rstrip(b"\0"))
    at = chance.randrange(written)
    if damage.how == "flip":
        data[at] ^= 1 << chance.randrange(8)
    else:
        del data[at:]
    return {**before.image, path: bytes(data)}, path, at


def examine(damage: Damage, folder: Path) -> None:
    """Damage a store, open it, and see that it is told and that what was not hit is served."""
    before = stored(damage.story, was_clean=damage.was_clean)
    image, path, at = damaged_image(damage, before)
    try:
        told = _examine(damage, before, SimulatedDisk(image), path, at)
        if not any(str(path) in what for what in told) and is_knowable(damage, before, path, at):
            faults = verify(image, path, folder)
            assert faults, f"nobody told of it; the store said {told}"
    except Exception as error:
        error.add_note(f"{damage}: {path} at byte {at}")
        raise


def verify(image: Image, path: Path, folder: Path) -> list[StoreFinding]:
    """Return what `pyromq store verify` says of a file."""
    SimulatedDisk(image).copy_to(folder)
    root = folder / ROOT.relative_to("/")
    layout = Layout(
        root,
        root / "commitlog",
        slots=SETTINGS.max_hash_slot_num,
        entries_max=SETTINGS.max_index_num,
        delays_ms=parse_delay_levels(SETTINGS.message_delay_level),
    )
    listed = Verification(layout).run().listed
    shutil.rmtree(folder)
    return [finding for finding in listed if finding.file == str(folder / path.relative_to("/"))]


def is_knowable(damage: Damage, before: Stored, path: Path, at: int) -> bool:
    """Return whether anything in the store could tell that these bytes are not what they were.

    A record's checksum covers its body, and its lengths, position and queue can be compared; its times, hosts
    and flags and most of its properties cannot. A table that still reads may say anything.
    """
    if damage.how == "cut":
        is_log = damage.kind == "commitlog"
        return damage.kind != "config" and (
            damage.was_clean or not is_log or int(path.name) + at < before.safe
        )
    if damage.kind == "commitlog":
        position = int(path.name) + at
        inside = [
            position - one.position for one in before.sent.values() if one.position <= position < one.end
        ]
        covers = inside and (inside[0] < 16 or 20 <= inside[0] < 36 or 84 <= inside[0] < 88)
        return bool(covers) and position < before.safe
    data = before.image[path] or b""
    if damage.kind == "consumequeue":
        # Entries of messages that were swept away are not looked at.
        position = QUEUE_ENTRY.unpack_from(data, at - at % 20)[0]
        return damage.was_clean and position >= before.begin
    if damage.kind == "index" and at >= ENTRIES_AT:
        number, inside = divmod(at - ENTRIES_AT, 20)
        position = KEY_ENTRY.unpack_from(data, ENTRIES_AT + number * 20)[1]
        # Entry 0 is not used, and the seconds of entry 1 count from the end of the file before.
        is_used = number > 1 or (number == 1 and not 12 <= inside < 16)
        return damage.was_clean and is_used and position >= before.begin
    return damage.kind == "index" and damage.was_clean


def _examine(damage: Damage, before: Stored, disk: SimulatedDisk, path: Path, at: int) -> list[str]:
    with listening() as told:
        store = MessageStore(SETTINGS, clock=ManualClock(1_800_000_000_000), files=disk)
        store.open()
        hit = hit_messages(damage, before, path, at)
        served = {queue: read_tolerant(store, *queue) for queue in queues()}
    check_served(before, store, served, hit)
    check_new_messages(before, store, hit)
    check_queries(before, store, hit)
    check_table(disk, damage)
    store.close()
    again = MessageStore(SETTINGS, clock=ManualClock(1_800_000_000_000), files=disk)
    again.open()
    for queue in queues():
        records = read_tolerant(again, *queue)
        assert [record.position for record in records[:-1]] == [record.position for record in served[queue]]
        assert records[-1].body == b"new"
    again.close()
    return told


def hit_messages(damage: Damage, before: Stored, path: Path, at: int) -> set[int]:
    """Return the positions of messages that the damage may take away, or change."""
    if damage.kind != "commitlog":
        return set()
    first = int(path.name) + at
    last = first if damage.how == "flip" else int(path.name) + 4096
    if first >= before.safe or (damage.how == "cut" and last >= before.safe):
        # Behind the checkpoint, and in the newest file when it was cut, the first bad record ends the log.
        last = before.end
    return {one.position for one in before.sent.values() if one.position <= last and one.end > first}


def check_served(before: Stored, store: MessageStore, served: dict, hit: set[int]) -> None:
    """See that all that was not hit is served, and nothing else."""
    found = set()
    for (topic, queue_id), records in served.items():
        offsets = [record.queue_offset for record in records]
        assert offsets == sorted(set(offsets))
        for record in records:
            sent = before.sent[record.position]
            assert (record.topic, record.queue_id, record.queue_offset) == (topic, queue_id, sent.offset)
            assert record.body == sent.body
            assert record.properties == sent.properties or record.position in hit
            found.add(record.position)
    lost = [
        sent
        for sent in before.sent.values()
        if sent.position >= before.begin and sent.position not in found | hit
    ]
    assert not lost, f"lost: {lost}"


def check_new_messages(before: Stored, store: MessageStore, hit: set[int]) -> None:
    """See that new messages get new offsets."""
    for topic, queue_id in queues():
        offset = 1 + max(
            sent.offset
            for sent in before.sent.values()
            if (sent.topic, sent.queue_id) == (topic, queue_id) and sent.position not in hit
        )
        placed = store.put(Draft(topic, queue_id, b"new", "UNIQ_KEY\x01new", 0, 0, 0, HOST, HOST))
        assert placed.queue_offset >= offset
        got = store.get(topic, queue_id, placed.queue_offset, count_max=1)
        assert next(iter_records(got.body)).body == b"new"
    store.sync()


def check_queries(before: Stored, store: MessageStore, hit: set[int]) -> None:
    """See that a query by key returns only whole messages."""
    for sent in before.sent.values():
        found = store.query(sent.topic, sent.unique_id, count_max=64, begin_ms=0, end_ms=EVER_MS)
        for record in found.records:
            decoded = decode_record(record)
            assert decoded.body in (b"new", before.sent.get(decoded.position, sent).body)


def check_table(disk: SimulatedDisk, damage: Damage) -> None:
    """See that the table is read, or its twin, or that the start is refused by name."""
    try:
        table = read_with_backup(TABLE, decode_group_offsets, files=disk)
    except CorruptRecord as error:
        raise AssertionError("the twin was not read") from error
    if damage.kind != "config":
        assert table == NEW_TABLE
    assert table is not None


def read_tolerant(store: MessageStore, topic: str, queue_id: int) -> list[Record]:
    """Return the messages of a queue; what is served must be whole."""
    records: list[Record] = []
    offset = store.min_offset(topic, queue_id)
    while offset < store.max_offset(topic, queue_id):
        got = store.get(topic, queue_id, offset, count_max=32)
        assert got.next_offset > offset
        records += iter_records(got.body)
        offset = got.next_offset
    return records


@contextmanager
def listening() -> Iterator[list[str]]:
    """Collect what the store logs."""
    messages: list[str] = []

    class Collecting(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    handler = Collecting(logging.WARNING)
    logger = logging.getLogger("pyromq.store")
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
