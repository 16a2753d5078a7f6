"""`pyromq store dump`: the records that a store holds, one by one, chosen by topic, queue, position or key.

A topic is read along its queues, a key of a topic along the index, and both then look at the end of the log
for messages that a running broker did not enter there yet. Everything else is a walk over the whole log.
Where the log does not read, that is said, and the walk goes on with the next record.
"""

import heapq
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pyromq.store.follower import entry_of
from pyromq.store.index.index import key_hash
from pyromq.store.index.indexfile import ENTRY, ENTRY_BYTES, HEADER_BYTES, SLOT, SLOT_BYTES
from pyromq.store.inspect.piece import LogLook, look_at, next_record
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import IndexSurvey, QueueSurvey, RowFile, StoreSurvey
from pyromq.wire.properties import index_keys
from pyromq.wire.record import Record

_BLOCK_BYTES: Final = 1 << 20
_ENTRIES_AT_ONCE: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The conditions of the records to dump; None sets no condition."""

    topic: str | None = None
    queue_id: int | None = None
    #: Begin with the record at this position of the log.
    position: int | None = None
    #: A word of KEYS, or the unique id.
    key: str | None = None
    #: Queue offsets: the first, and the one behind the last.
    first: int | None = None
    end: int | None = None
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Dumped:
    """A record and where it stands, or why there is none; `faults` is what is wrong with the record."""

    file: RowFile
    place: int
    record: Record | None
    faults: tuple[str, ...] = ()

    @property
    def position(self) -> int:
        """The position of the record in the log."""
        return self.file.base + self.place


def dump(survey: StoreSurvey, selection: Selection) -> Iterator[Dumped]:
    """Yield the records that are wanted, in the order of the log, and what does not read between them."""
    if selection.position is not None:
        found = _walk(survey, selection.position)
    elif selection.topic is not None and selection.key is not None and _can_search(survey):
        found = _by_key(survey, selection.topic, selection.key)
    elif selection.topic is not None:
        found = _by_topic(survey, selection.topic, selection)
    else:
        found = _walk(survey, survey.min_position)
    wanted = (one for one in found if one.record is None or _matches(one.record, selection))
    return islice(wanted, selection.limit)


def _matches(record: Record, selection: Selection) -> bool:
    offset = record.queue_offset
    return (
        selection.topic in (None, record.topic)
        and selection.queue_id in (None, record.queue_id)
        and (selection.first is None or offset >= selection.first)
        and (selection.end is None or offset < selection.end)
        and (selection.key is None or selection.key in keys_of(record))
    )


def keys_of(record: Record) -> list[str]:
    """Return what the message can be found by: its unique id and its keys."""
    entry = entry_of(record, record.size, {})
    return index_keys(entry.unique_id, entry.keys)


# Walking the log


def _walk(survey: StoreSurvey, start: int) -> Iterator[Dumped]:
    """Yield all records from a position on, to the end of the log as it is then."""
    for file in survey.log:
        if file.end > start:
            try:
                with ReadOnlyFile(file.path) as opened:
                    yield from _walk_file(survey, opened, file, max(start - file.base, 0))
            except FileGone:
                continue


def _walk_file(survey: StoreSurvey, opened: ReadOnlyFile, file: RowFile, place: int) -> Iterator[Dumped]:
    end = opened.last_byte_but_zeros(file.length)
    block, block_at = b"", place
    while place < end:
        if place - block_at + _BLOCK_BYTES // 2 > len(block):
            block, block_at = opened.read(_BLOCK_BYTES, place), place
        look = look_at(opened, file, place, block, place - block_at)
        if look.is_blank:
            return
        if look.record is not None:
            yield Dumped(file, place, look.record, tuple(look.faults))
            place += look.record.size
            continue
        found = next_record(opened, file, place + 1)
        if found is not None or _is_known(survey, file.base + place):
            yield Dumped(file, place, None, (look.why,))
        if found is None:
            return
        place = found


def _is_known(survey: StoreSurvey, position: int) -> bool:
    """Return whether a message was surely stored at a position or behind it, and is not being written."""
    return position < max(survey.safe_position or 0, survey.reach)


def _record_at(survey: StoreSurvey, position: int) -> Dumped | None:
    file = survey.log_file_of(position)
    if file is None:
        return None
    try:
        with ReadOnlyFile(file.path) as opened:
            look: LogLook = look_at(opened, file, position - file.base)
    except FileGone:
        return None
    if look.is_blank:
        return None
    faults = look.faults if look.record is not None else [look.why]
    return Dumped(file, position - file.base, look.record, tuple(faults))


# Along the queues


def _by_topic(survey: StoreSurvey, topic: str, selection: Selection) -> Iterator[Dumped]:
    queues = [
        queue
        for queue in survey.queues.values()
        if queue.topic == topic and selection.queue_id in (None, queue.queue_id)
    ]
    ends = {queue.queue_id: queue.end for queue in queues}
    positions = heapq.merge(*[_positions(survey, queue, selection) for queue in queues])
    yield from _records(survey, positions)
    yield from _from_unsettled(survey, lambda record: record.queue_offset >= ends.get(record.queue_id, 0))


def _positions(survey: StoreSurvey, queue: QueueSurvey, selection: Selection) -> Iterator[int]:
    first = max(queue.first, selection.first or 0)
    end = queue.end if selection.end is None else min(queue.end, selection.end)
    for low in range(first, end, _ENTRIES_AT_ONCE):
        try:
            for _, position, size, _ in queue.entries(low, min(low + _ENTRIES_AT_ONCE, end)):
                if size > 0 and position >= survey.min_position:
                    yield position
        except FileGone:
            continue


def _records(survey: StoreSurvey, positions: Iterator[int]) -> Iterator[Dumped]:
    for position in positions:
        found = _record_at(survey, position)
        if found is not None:
            yield found


def _from_unsettled(survey: StoreSurvey, is_new: Callable[[Record], bool]) -> Iterator[Dumped]:
    """Yield what may be in the log and not yet in what follows it."""
    if survey.is_clean or not survey.log:
        return
    start = survey.safe_position if survey.safe_position is not None else survey.log[-1].base
    for one in _walk(survey, max(start, survey.min_position)):
        if one.record is not None and is_new(one.record):
            yield one


# Along the index


def _can_search(survey: StoreSurvey) -> bool:
    return bool(survey.index) and all(head.length == survey.index_bytes for head in survey.index)


def _by_key(survey: StoreSurvey, topic: str, key: str) -> Iterator[Dumped]:
    hashed = key_hash(topic, key)
    positions = sorted({position for head in survey.index for position in _chain(survey, head, hashed)})
    yield from _records(survey, (position for position in positions if position >= survey.min_position))
    known = max((head.end_position for head in survey.index), default=-1)
    yield from _from_unsettled(survey, lambda record: record.position > known)


def _chain(survey: StoreSurvey, head: IndexSurvey, hashed: int) -> Iterator[int]:
    """Yield the positions of one index file's entries that have a hash, newest first."""
    entries_at = HEADER_BYTES + SLOT_BYTES * survey.slots
    with ReadOnlyFile(head.path) as file:
        slot = file.read(SLOT_BYTES, HEADER_BYTES + hashed % survey.slots * SLOT_BYTES)
        number, before = SLOT.unpack(slot)[0], survey.entries_max
        # Numbers fall along a chain; one that does not is damaged, and `verify` says so.
        while 0 < number < before:
            entry = file.read(ENTRY_BYTES, entries_at + number * ENTRY_BYTES)
            its_hash, position, _, following = ENTRY.unpack(entry)
            if its_hash == hashed:
                yield position
            number, before = following, number
