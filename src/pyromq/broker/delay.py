"""Messages that are due later: into the schedule topic, and back into their own when their time has come.

A delayed message is stored in SCHEDULE_TOPIC_XXXX, in the queue of its level, with its real topic and queue
in its properties. All messages of a level wait equally long, so the queue is in the order of delivery, and
its entries hold the time of delivery where others hold the hash of the tags:

    queue 2 (level 3, 10 s)   due 17:04:09 │ due 17:04:09 │ due 17:04:12 │ …
                              ▲ progress: what is before it was delivered

Only the head of each level is ever looked at. However many wait, what is kept in memory is one offset and
one time for each level, and one alarm for the earliest of those times.

Progress is written to `delayOffset.json` every ten seconds and at the stop, after a sync of the log: a
message that was delivered as the file says is on the disk. What was delivered after the last write is
delivered once more after a crash.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from pyromq.broker import topic_names
from pyromq.broker.alarm import Alarm
from pyromq.broker.durability import Durability
from pyromq.broker.intake import Diversion
from pyromq.broker.json_table import JsonTable
from pyromq.broker.stored_again import draft_of
from pyromq.clock import Clock
from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.errors import MessageTooLarge, StoreError
from pyromq.store.files import Files
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.bodies.offsets import decode_delay_offsets, encode_delay_offsets
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: Messages of one level that are delivered before other work of the loop gets its turn.
TURN_MESSAGES_MAX = 32
#: Java's int has no more.
LEVEL_DIGITS_MAX = 10
#: How long a level waits after the store refused one of its messages.
PAUSE_MS = 1_000


def level_of(properties: Mapping[str, str]) -> int:
    """Return the delay level that a message asks for; 0 when it asks for none, or for nonsense."""
    text = properties.get(names.DELAY, "0")
    is_number = text.isascii() and text.isdecimal() and len(text) <= LEVEL_DIGITS_MAX
    return int(text) if is_number else 0


def delay_diversion(levels_ms: Mapping[int, int]) -> Diversion:
    """Return what sends delayed messages to the schedule topic; a level above the highest is the highest."""
    level_max = max(levels_ms, default=0)

    def divert(draft: Draft, properties: dict[str, str]) -> bool:
        kind = draft.sys_flag & TRANSACTION_MASK
        level = min(level_of(properties), level_max)
        if level <= 0 or kind not in (0, SysFlag.TRANSACTION_COMMIT):
            return False
        properties[names.DELAY] = str(level)
        properties[names.REAL_TOPIC] = draft.topic
        properties[names.REAL_QUEUE_ID] = str(draft.queue_id)
        draft.topic = topic_names.SCHEDULE
        draft.queue_id = level - 1
        return True

    return divert


class DelayedMessages:
    """Delivers delayed messages when they are due."""

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        *,
        path: Path,
        files: Files | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._levels_ms = store.delays_ms
        self._progress: dict[int, int] = {}
        self._safe_progress: dict[int, int] = {}
        self._file = JsonTable(path, lambda: _encode(self._safe_progress, pretty=True), files=files)
        #: When the head of each level is due, for the levels in which messages wait.
        self._due_ms: dict[int, int] = {}
        self._alarm: Alarm | None = None

    def load(self) -> None:
        """Read the progress, and bring it within what the store has."""
        self._progress = self._file.load(decode_delay_offsets, field="offsetTable") or {}
        self._safe_progress = dict(self._progress)
        for level in self._levels_ms.keys() & self._progress.keys():
            self._next_offset(level)

    def start(self) -> None:
        """Begin to deliver; what came due while nobody did is delivered now."""
        self._alarm = Alarm(self._clock, self._deliver_due)
        for level in self._levels_ms:
            if self._store.max_offset(topic_names.SCHEDULE, level - 1) > self._progress.get(level, 0):
                self._due_ms[level] = 0
        self._set_alarm()

    def stop(self) -> None:
        """Deliver no more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None

    def arrived(self, queue_id: int, due_ms: int) -> None:
        """Note a message that was stored in a queue of the schedule topic."""
        level = queue_id + 1
        if self._alarm is not None and level in self._levels_ms and level not in self._due_ms:
            self._due_ms[level] = due_ms
            self._alarm.set(due_ms)

    async def save(self, durability: Durability) -> None:
        """Bring the progress to the disk, and before it the messages that were delivered."""
        progress = dict(self._progress)
        if progress == self._safe_progress:
            return
        await durability.sync_now()
        self._safe_progress = progress
        self._file.changed_unsaved()
        await self._file.save()

    def encode(self) -> bytes:
        """Return the progress of the levels that delivered something, as RocketMQ writes it."""
        return _encode(self._progress)

    def _deliver_due(self) -> None:
        """Deliver what is due, but only so much in one turn of the loop."""
        for level in tuple(self._due_ms):
            due_ms = self._deliver_level(level)
            if due_ms is None:
                del self._due_ms[level]
            else:
                self._due_ms[level] = due_ms
        self._set_alarm()

    def _set_alarm(self) -> None:
        if self._due_ms and self._alarm is not None:
            self._alarm.set(min(self._due_ms.values()))

    def _deliver_level(self, level: int) -> int | None:
        """Deliver the due messages of a level, not too many; return when to look again, None if it is empty.

        A message that is due later than its delay from now was stored before the clock was set back, or
        before the level was made shorter: it is delivered now, as with RocketMQ.
        """
        now_ms = self._clock.now_ms()
        due_ms_max = now_ms + self._levels_ms[level]
        offset = self._next_offset(level)
        entries = self._store.entries(topic_names.SCHEDULE, level - 1, offset, TURN_MESSAGES_MAX)
        for position, _size, due_ms in entries:
            if now_ms < due_ms <= due_ms_max:
                return due_ms
            try:
                self._deliver(position)
            except MessageTooLarge:
                log.exception("the delayed message at position %d can never be delivered", position)
            except StoreError as error:
                log.warning("delayed messages of level %d wait, the store refuses them: %s", level, error)
                return now_ms + PAUSE_MS
            offset += 1
            self._progress[level] = offset
        return now_ms if offset < self._store.max_offset(topic_names.SCHEDULE, level - 1) else None

    def _deliver(self, position: int) -> None:
        record = self._store.record_at(position)
        if record is None:
            log.warning("the delayed message at position %d is gone; the log was cleaned too early", position)
            return
        draft = due_draft(record)
        if draft is None:
            log.error("the delayed message at position %d does not say where it belongs", position)
            return
        self._store.put(draft)

    def _next_offset(self, level: int) -> int:
        """Return the offset of the level's oldest message that was not delivered.

        Progress outside the queue is brought to its nearer end: messages expire, and logs are cut.
        """
        offset = self._progress.get(level, 0)
        low = self._store.min_offset(topic_names.SCHEDULE, level - 1)
        high = self._store.max_offset(topic_names.SCHEDULE, level - 1)
        within = max(min(offset, high), low)
        if within != offset:
            log.error("delay level %d goes on at %d instead of %d: the queue was cut", level, within, offset)
            self._progress[level] = within
        return within


def due_draft(record: Record) -> Draft | None:
    """Return a delayed message as it is stored in its own topic, or None when it does not name it.

    Its properties stay, DELAY too: RocketMQ 4.9 and 5.x write them before they clear it.
    """
    topic = names.find_text(record.properties, names.REAL_TOPIC)
    queue_id = names.find_text(record.properties, names.REAL_QUEUE_ID)
    if topic is None or queue_id is None or not (queue_id.isascii() and queue_id.isdecimal()):
        return None
    if topic == topic_names.TRANSACTION_HALF:
        return None
    draft = draft_of(record)
    draft.topic, draft.queue_id = topic, int(queue_id)
    return draft


def _encode(progress: Mapping[int, int], *, pretty: bool = False) -> bytes:
    return encode_delay_offsets({level: progress[level] for level in sorted(progress)}, pretty=pretty)
