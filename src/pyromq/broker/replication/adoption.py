"""What a broker makes of a log that grew by copying, or was cut, when it starts.

The log is the truth, and what stands beside it follows: queues and index by the store, halves, delay levels,
timers and staged batches each from what the log says behind the place that they noted. Two things are not in
the log, or would be taken for true when they are not, and are seen to here.
"""

import logging
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, TypeVar

from pyromq import system_names
from pyromq.broker.offsets import SEPARATOR
from pyromq.broker.topics import TopicTable
from pyromq.codes import Perm
from pyromq.errors import BodyError, CorruptRecord
from pyromq.store.atomic_file import read_with_backup, replace_file
from pyromq.store.files import Files, SystemFiles
from pyromq.store.store import MessageStore
from pyromq.system_names import TRANSACTION_GROUP
from pyromq.wire.bodies.offsets import (
    decode_delay_log_position,
    decode_group_offsets,
    encode_group_offsets,
)
from pyromq.wire.bodies.topics import TopicConfig

log = logging.getLogger(__name__)

T = TypeVar("T")

#: Topics of the broker's own that are in no table.
_UNLISTED: Final = frozenset(system_names.SYSTEM_TOPICS)


def adopt_topics(store: MessageStore, topics: TopicTable) -> list[str]:
    """Add the topics that the store has messages of and the table does not know; return their names.

    A master may have created a topic, taken its messages and been lost before its slave copied the table. The
    topic gets as many queues as have messages, and may be read and written. They are on disk after the
    table's next `save`. A topic whose messages are all older than the table was deleted, and stays so.
    """
    counts = queue_counts(store, lambda topic: is_lost(topic, topics), since_ms=topics.as_of_ms)
    for topic, count in sorted(counts.items()):
        topics.adopt(_adopted(topic, count))
    return sorted(counts)


def adopt_delivered(topic: str, queue_id: int, topics: TopicTable) -> None:
    """Add the topic of a message that was stored just now, if the table does not know it.

    Only what waited comes so: its topic was lost like the others, and nothing of it was in the store.
    """
    if is_lost(topic, topics):
        topics.put(_adopted(topic, queue_id + 1))


def _adopted(topic: str, count: int) -> TopicConfig:
    log.warning("topic %s has messages and was in no table: it has %d queues now", topic, count)
    return TopicConfig(
        topic_name=topic, read_queue_nums=count, write_queue_nums=count, perm=Perm.READ | Perm.WRITE
    )


def queue_counts(store: MessageStore, is_wanted: Callable[[str], bool], *, since_ms: int) -> dict[str, int]:
    """Return how many queues topics have that got a message since a time, by the highest id with messages."""
    counts: dict[str, int] = {}
    newest_ms: dict[str, int] = {}
    for queue in store.queues:
        topic, end = queue.topic, queue.end
        if end > queue.min_offset and is_wanted(topic):
            counts[topic] = max(counts.get(topic, 0), queue.queue_id + 1)
            stored_ms = store.stored_time(topic, queue.queue_id, end - 1)
            newest_ms[topic] = max(newest_ms.get(topic, 0), stored_ms)
    return {topic: count for topic, count in counts.items() if newest_ms[topic] >= since_ms}


def is_lost(topic: str, topics: TopicTable) -> bool:
    """Return whether a topic of the log should be in the table, and is not."""
    return (
        topics.get(topic) is None
        and topic not in _UNLISTED
        and not topic.startswith(system_names.TOPIC_PREFIX)
    )


def forget_beyond(root: Path, cut_at: int, *, files: Files | None = None) -> None:
    """Remove what a broker noted of a log that is about to be cut, where it goes beyond the cut.

    To be called before the store is opened, and so cut: the next start may not know of the cut. What is
    removed is found again in the log. Halves are looked at from the oldest on, for the same reason.
    """
    files = files or SystemFiles()
    config = root / "config"
    position = _read(config / "delayOffset.json", decode_delay_log_position, files)
    if position is None or position > cut_at:
        _remove(config / "delayOffset.json", files)
    _remove(config / "stagedBatches.json", files)
    waiting = files.database(root / "timers" / "waiting.db")
    if waiting is not None and _noted_in(waiting) > cut_at:
        for ending in ("-wal", "-shm", ""):
            waiting.with_name(waiting.name + ending).unlink(missing_ok=True)
    offsets = _read(config / "consumerOffset.json", decode_group_offsets, files) or {}
    kept = {key: part for key, part in offsets.items() if key.partition(SEPARATOR)[2] != TRANSACTION_GROUP}
    if len(kept) < len(offsets):
        text = encode_group_offsets(kept, pretty=True)
        # Twice, so that the older twin does not know better.
        replace_file(config / "consumerOffset.json", text, files=files)
        replace_file(config / "consumerOffset.json", text, files=files)


def _read(path: Path, decode: Callable[[bytes], T], files: Files) -> T | None:
    try:
        return read_with_backup(path, decode, files=files)
    except (CorruptRecord, BodyError):
        # Whoever loads it refuses to start, and says why.
        return None


def _remove(path: Path, files: Files) -> None:
    for name in (path, path.with_name(path.name + ".bak")):
        if files.exists(name):
            files.remove(name)
    if files.exists(path.parent):
        files.sync_folder(path.parent)


def _noted_in(path: Path) -> int:
    """Return up to which position of the log a table of waiting messages goes; 0 when it does not say."""
    if not path.exists():
        return 0
    try:
        with closing(sqlite3.connect(path)) as connection:
            (position,) = connection.execute("SELECT position FROM progress").fetchone() or (0,)
    except sqlite3.Error:
        # It is damaged, and made again from the log anyway.
        return 0
    return int(position)
