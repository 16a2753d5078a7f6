"""Followers of the log: consume queues and key index, to which each record's entry is applied in order.

The commit log is the only truth. Consume queues and key index are made from it by `apply`, and it does not
matter who calls: a put right after its append, recovery while it walks the log, or a slave that received
the bytes. A follower may hold its newest entries in memory, because after a crash recovery cuts each
follower back to the last checkpoint and applies the log from there.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import msgspec

from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.system_names import POP_JOURNAL, SCHEDULE, STAGED, STAGED_OP, TRANSACTION_OP_HALF, WHEEL_TIMER
from pyromq.wire.java_hash import java_hash
from pyromq.wire.properties import (
    DELAY,
    KEYS,
    NAME_VALUE_SEPARATOR,
    PROPERTY_SEPARATOR,
    TAGS,
    TIMER_DEL_UNIQKEY,
    TIMER_OUT_MS,
    UNIQ_KEY,
    find_text,
    finder,
)
from pyromq.wire.record import Record

#: The topics whose queues hold times of delivery where others hold the hash of the tags.
TIMED_TOPICS: Final = frozenset({SCHEDULE, WHEEL_TIMER})
#: Topics whose queues stay when no topic table knows them (DefaultMessageStore.java, cleanUnusedTopic).
KEPT_TOPICS: Final = TIMED_TOPICS | {TRANSACTION_OP_HALF, STAGED, STAGED_OP, POP_JOURNAL}
_RECALL: Final = f"{PROPERTY_SEPARATOR}{TIMER_DEL_UNIQKEY}{NAME_VALUE_SEPARATOR}"
_find_tags, _find_keys, _find_unique_id = finder(TAGS), finder(KEYS), finder(UNIQ_KEY)
_PREPARED: Final = int(SysFlag.TRANSACTION_PREPARED)
_ROLLBACK: Final = int(SysFlag.TRANSACTION_ROLLBACK)
#: What RocketMQ adds when the delay table does not have the level (ScheduleMessageService.java).
_UNKNOWN_LEVEL_MS: Final = 1000
#: A time of more digits is none; it must fit into the eight bytes of a queue's entry.
_TIME_DIGITS_MAX: Final = 18


class LogEntry(msgspec.Struct, gc=False):
    """The facts of one record that the followers need."""

    topic: str
    queue_id: int
    queue_offset: int
    position: int
    size: int
    tags_code: int
    stored_at_ms: int
    sys_flag: int
    unique_id: str | None
    keys: str | None


class StoreFile(Protocol):
    """A file of a follower: it is synced while it lives, and removed when nothing needs it."""

    @property
    def path(self) -> Path:
        """The path of the file."""
        ...

    def sync(self) -> object:
        """Put what was written on the disk; may be called from another thread."""
        ...


class Follower(Protocol):
    """Something that is made from the log, and can be made again."""

    def apply(self, entry: LogEntry) -> None:
        """Take the next record in. One that was taken in before changes nothing."""
        ...

    def settle(self) -> Sequence[StoreFile]:
        """Write what is held in memory, and return the files that have unsynced bytes."""
        ...

    def expire(self, min_position: int) -> Sequence[StoreFile]:
        """Forget what points before `min_position`; return the files that nothing needs any more."""
        ...


class TopicFollower(Protocol):
    """Something that is told of each message of certain topics when the other followers have it."""

    def apply(self, record: Record) -> None:
        """Take in a message that was just stored."""
        ...

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Take in what a queue just got with one write: its messages from `first` up to before `end`."""
        ...


def has_queue_entry(sys_flag: int) -> bool:
    """Return whether consumers see the message: a prepared or rolled-back one has no place in a queue."""
    kind = sys_flag & TRANSACTION_MASK
    return kind not in (_PREPARED, _ROLLBACK)


def has_index_entry(sys_flag: int) -> bool:
    """Return whether the message can be found by its keys: a rolled-back one cannot."""
    return sys_flag & TRANSACTION_MASK != _ROLLBACK


def entry_of(record: Record, size: int, delays_ms: Mapping[int, int]) -> LogEntry:
    """Return what the followers need of a record.

    The tags code is the hash of the tags; in the topics of delayed messages it is the time of delivery, so
    that their queues can be read without reading the log.
    """
    properties = record.properties
    if record.topic == WHEEL_TIMER:
        tags_code = _due_ms(properties)
    else:
        tags = _find_tags(properties)
        tags_code = java_hash(tags) if tags else 0
        if record.topic == SCHEDULE:
            tags_code = _delivery_ms(properties, record.stored_at_ms, delays_ms) or tags_code
    return LogEntry(
        record.topic,
        record.queue_id,
        record.queue_offset,
        record.position,
        size,
        tags_code,
        record.stored_at_ms,
        record.sys_flag,
        _find_unique_id(properties),
        _find_keys(properties),
    )


def timer_due_ms(record: Record) -> int:
    """Return when a record of the timer topic is due, 0 when it is none that waits."""
    return _due_ms(record.properties)


def _delivery_ms(properties: str, stored_at_ms: int, delays_ms: Mapping[int, int]) -> int:
    text = find_text(properties, DELAY)
    if text is None or not text.isdecimal():
        return 0
    level = min(int(text), max(delays_ms, default=0))
    return stored_at_ms + delays_ms.get(level, _UNKNOWN_LEVEL_MS) if level > 0 else 0


def _due_ms(properties: str) -> int:
    text = find_text(properties, TIMER_OUT_MS) or ""
    is_time = text.isascii() and text.isdecimal() and len(text) <= _TIME_DIGITS_MAX
    return int(text) if is_time and _RECALL not in PROPERTY_SEPARATOR + properties else 0
