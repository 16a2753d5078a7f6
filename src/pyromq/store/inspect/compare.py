"""Comparison of the files of queues and index with the entries that the log demands, as bytes.

Equal stretches cost one comparison. Single entries are looked at only where something differs, and even
then this module only names the entries: `queues` and `keys`, which know the rest of the store, say what is
wrong with them.
"""

import struct
from array import array
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple

from pyromq.kernel import IS_COMPILED
from pyromq.store.consumequeue import ENTRY, ENTRY_BYTES
from pyromq.store.index.indexfile import ENTRY as KEY_ENTRY
from pyromq.store.index.indexfile import ENTRY_BYTES as KEY_BYTES
from pyromq.store.index.indexfile import HEADER_BYTES, SLOT_BYTES
from pyromq.store.inspect.facts import KEY, Facts, Run
from pyromq.store.inspect.read_only_files import FileGone, ReadOnlyFile
from pyromq.store.inspect.store_survey import QueueName, StoreSurvey

#: Differences that one piece keeps of one queue or of the index; the others are counted.
KEPT_MAX: Final = 200
_SECONDS_AT: Final = 12
_SECONDS_MAX: Final = 0x7FFFFFFF
#: Codes below this are addresses in RocketMQ's extension of the queues (ConsumeQueueExt.java, MAX_ADDR).
EXTENSION_ADDRESS_MAX: Final = -(1 << 31) - 1


class Wrong(NamedTuple):
    """A queue entry that is not what the log says, and the position of the record that it should be of."""

    offset: int
    position: int


@dataclass(slots=True)
class RunCompared:
    """A stretch of a queue, as the log has it, and where the queue's file differs."""

    name: QueueName
    first: int
    #: The offset behind the last.
    end: int
    first_position: int
    last_position: int
    wrong: list[Wrong] = field(default_factory=list)
    wrong_count: int = 0
    #: Positions of records whose entries would be behind the end of the queue.
    beyond: list[int] = field(default_factory=list)
    beyond_count: int = 0


class KeyRange(NamedTuple):
    """Entries `low` to `high` of one index file."""

    file_number: int
    low: int
    high: int


@dataclass(slots=True)
class KeysCompared:
    """Index entries that no record explains, and records that have keys which are not in the index."""

    wrong: list[tuple[int, int]] = field(default_factory=list)
    wrong_count: int = 0
    missing: list[int] = field(default_factory=list)
    missing_count: int = 0


def compare_run(survey: StoreSurvey, run: Run) -> RunCompared:
    """Compare a stretch of a queue with the queue's files."""
    entries = bytes(run.entries)
    name = (run.topic, run.queue_id)
    compared = RunCompared(
        name,
        run.first,
        run.next_offset,
        ENTRY.unpack_from(entries)[0],
        ENTRY.unpack_from(entries, len(entries) - ENTRY_BYTES)[0],
    )
    queue = survey.queues.get(name)
    end = min(max(queue.end if queue is not None else 0, run.first), run.next_offset)
    inside = (end - run.first) * ENTRY_BYTES
    if queue is not None and inside:
        try:
            actual = queue.read(run.first, end)
        except FileGone:
            actual = entries[:inside]
        if actual != entries[:inside]:
            _compare_entries(entries[:inside], actual, compared, has_extension=survey.has_queue_extension)
    beyond = entries[inside : inside + KEPT_MAX * ENTRY_BYTES]
    compared.beyond = [position for position, _, _ in ENTRY.iter_unpack(beyond)]
    compared.beyond_count = run.next_offset - end
    return compared


def _compare_entries(wanted: bytes, actual: bytes, compared: RunCompared, *, has_extension: bool) -> None:
    for at in range(0, len(wanted), ENTRY_BYTES):
        if wanted[at : at + ENTRY_BYTES] != actual[at : at + ENTRY_BYTES]:
            position, size, _ = ENTRY.unpack_from(wanted, at)
            its_position, its_size, code = ENTRY.unpack_from(actual, at)
            is_address = has_extension and code <= EXTENSION_ADDRESS_MAX
            if is_address and (position, size) == (its_position, its_size):
                continue
            compared.wrong_count += 1
            if len(compared.wrong) < KEPT_MAX:
                compared.wrong.append(Wrong(compared.first + at // ENTRY_BYTES, position))


def compare_keys(survey: StoreSurvey, ranges: Sequence[KeyRange], facts: Facts) -> KeysCompared:
    """Compare the keys of a piece with the index entries that point into it."""
    try:
        parts = [_read_range(survey, part) for part in ranges]
    except FileGone:
        return KeysCompared()
    if not survey.index or _are_equal(survey, ranges, parts, facts):
        return KeysCompared()
    return _compare_keys(survey, ranges, parts, facts)


def _read_range(survey: StoreSurvey, part: KeyRange) -> bytes:
    entries_at = HEADER_BYTES + SLOT_BYTES * survey.slots
    with ReadOnlyFile(survey.index[part.file_number].path) as file:
        return file.read((part.high - part.low) * KEY_BYTES, entries_at + part.low * KEY_BYTES)


def _are_equal(survey: StoreSurvey, ranges: Sequence[KeyRange], parts: Sequence[bytes], facts: Facts) -> bool:
    first = 0
    for part, entries in zip(ranges, parts, strict=True):
        if not are_keys(entries, facts, first, survey.index[part.file_number].begin_at_ms):
            return False
        first += len(entries) // KEY_BYTES
    return first == len(facts.times)


def pure_are_keys(entries: bytes, facts: Facts, first: int, begin_ms: int) -> bool:
    """Return whether index entries are of the facts' keys from number `first` on."""
    end = first + len(entries) // KEY_BYTES
    if end > len(facts.times):
        return False
    keys = facts.keys[first * KEY.size : end * KEY.size]
    # Byte by byte of all entries at once: the n-th bytes of the entries against the n-th bytes of the keys.
    if any(entries[lane::KEY_BYTES] != keys[lane :: KEY.size] for lane in range(KEY.size)):
        return False
    seconds = _seconds_of(begin_ms, facts.times[first:end])
    wanted = struct.pack(f">{len(seconds)}i", *seconds)
    return all(entries[_SECONDS_AT + lane :: KEY_BYTES] == wanted[lane::4] for lane in range(4))


if TYPE_CHECKING or not IS_COMPILED:
    are_keys = pure_are_keys
else:
    from pyromq._kernel.storage.facts import are_keys


def _seconds_of(begin_ms: int, times: "array[int]") -> list[int]:
    if times and 0 < begin_ms <= min(times) and max(times) - begin_ms < _SECONDS_MAX:
        return [(time_ms - begin_ms) // 1000 for time_ms in times]
    return [seconds_since(begin_ms, time_ms) for time_ms in times]


def seconds_since(begin_ms: int, time_ms: int) -> int:
    """Return the time of an index entry, in seconds since the first message of its file."""
    return min((time_ms - begin_ms) // 1000, _SECONDS_MAX) if 0 < begin_ms < time_ms else 0


def _compare_keys(
    survey: StoreSurvey, ranges: Sequence[KeyRange], parts: Sequence[bytes], facts: Facts
) -> KeysCompared:
    compared = KeysCompared()
    if not any(parts):
        positions = sorted({position for _, position in KEY.iter_unpack(facts.keys)})
        return KeysCompared(missing=positions[:KEPT_MAX], missing_count=len(positions))
    wanted: defaultdict[int, dict[int, int]] = defaultdict(dict)
    for (hashed, position), time_ms in zip(KEY.iter_unpack(facts.keys), facts.times, strict=True):
        wanted[position][hashed] = time_ms
    found: defaultdict[int, set[int]] = defaultdict(set)
    for part, entries in zip(ranges, parts, strict=True):
        begin_ms = survey.index[part.file_number].begin_at_ms
        for number, (hashed, position, seconds, _) in enumerate(KEY_ENTRY.iter_unpack(entries), part.low):
            found[position].add(hashed)
            stored_at_ms = wanted[position].get(hashed) if position in wanted else None
            # The first entry's time counts from the end of the file before it.
            if stored_at_ms is None or (number > 1 and seconds != seconds_since(begin_ms, stored_at_ms)):
                compared.wrong_count += 1
                if len(compared.wrong) < KEPT_MAX:
                    compared.wrong.append((part.file_number, number))
    missing = sorted(position for position, keys in wanted.items() if keys.keys() - found[position])
    compared.missing, compared.missing_count = missing[:KEPT_MAX], len(missing)
    return compared
