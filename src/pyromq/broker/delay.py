"""Messages that are due later: into the schedule topic, and back into their own when their time has come.

A delayed message is stored in SCHEDULE_TOPIC_XXXX, in the queue of its level, with its real topic and queue
in its properties. All messages of a level wait equally long, so the queue is in the order of delivery, and
its entries hold the time of delivery where others hold the hash of the tags:

    queue 2 (level 3, 10 s)   due 17:04:09 │ due 17:04:09 │ due 17:04:12 │ …
                              ▲ progress: what is before it was delivered

Only the head of each level is ever looked at. However many wait, what is kept in memory is one offset and
one time for each level, and one alarm for the earliest of those times.

Progress is written to `delayOffset.json` every ten seconds and at the stop, after a sync of the log: a
message that was delivered as the file says is on the disk. The file says too where the log ended then. What
was delivered after the last write is found behind that place when the broker starts (`delivered.py`), so a
crash at any moment makes no message come twice, and none is lost. Only over a file that RocketMQ wrote, which
does not know the place, is what was delivered since then delivered once more.
"""

import logging
from collections.abc import Mapping
from pathlib import Path

from pyromq import system_names
from pyromq.broker.alarm import Alarm
from pyromq.broker.delivered import due_draft, progress_in_log
from pyromq.broker.durability import Durability
from pyromq.broker.intake import Diversion
from pyromq.broker.json_table import JsonTable
from pyromq.clock import Clock
from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.errors import MessageTooLarge, StoreError
from pyromq.store.files import Files
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.bodies.offsets import (
    decode_delay_log_position,
    decode_delay_offsets,
    encode_delay_offsets,
)

log = logging.getLogger(__name__)

#: Messages of one level that are delivered before other work of the loop gets its turn.
TURN_MESSAGES_MAX = 32
#: Java's int has no more.
LEVEL_DIGITS_MAX = 10
#: How long a level waits after the store refused one of its messages.
PAUSE_MS = 1_000
#: While messages wait, the file is written again when the log has grown so much since: a start walks no more.
WALKED_BYTES_MAX = 16 << 20


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
        draft.topic = system_names.SCHEDULE
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
        #: Where the log ended when the safe progress was the progress; None when nobody noted it.
        self._safe_position: int | None = None
        #: While nothing is delivered here: where the log ended when the progress was so.
        self._known_at = 0
        self._file = JsonTable(path, self._encode_file, files=files)
        #: When the head of each level is due, for the levels in which messages wait.
        self._due_ms: dict[int, int] = {}
        self._alarm: Alarm | None = None

    def load(self) -> None:
        """Read the progress, bring it within what the store has, and add what the log says."""
        loaded = self._file.load(
            lambda data: (decode_delay_offsets(data), decode_delay_log_position(data)), field="offsetTable"
        )
        # Without a file nothing was delivered before the oldest message began to wait.
        self._progress, position = loaded or ({}, self._oldest_position())
        self._safe_progress, self._safe_position = dict(self._progress), position
        for level in self._levels_ms.keys() & self._progress.keys():
            self._next_offset(level)
        if position is not None:
            self._add_from_log(position)
        self._known_at = self._store.whole_position

    def _add_from_log(self, position: int) -> None:
        before = sum(self._progress.values())
        self._progress = progress_in_log(self._store, position, self._progress)
        count = sum(self._progress.values()) - before
        if count:
            log.info("%d delayed messages were delivered after their progress was saved", count)

    def start(self) -> None:
        """Begin to deliver; what came due while nobody did is delivered now."""
        self._alarm = Alarm(self._clock, self._deliver_due)
        for level in self._levels_ms:
            if self._store.max_offset(system_names.SCHEDULE, level - 1) > self._progress.get(level, 0):
                self._due_ms[level] = 0
        self._set_alarm()

    def stop(self) -> None:
        """Deliver no more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None
            self._known_at = self._store.whole_position

    def arrived(self, queue_id: int, due_ms: int) -> None:
        """Note a message that was stored in a queue of the schedule topic."""
        level = queue_id + 1
        if self._alarm is not None and level in self._levels_ms and level not in self._due_ms:
            self._due_ms[level] = due_ms
            self._alarm.set(due_ms)

    async def save(self, durability: Durability) -> None:
        """Bring the progress to the disk, and before it the messages that were delivered."""
        progress = dict(self._progress)
        position = self._known_at if self._alarm is None else self._store.max_position
        is_far = bool(self._due_ms) and position - (self._safe_position or 0) >= WALKED_BYTES_MAX
        if progress == self._safe_progress and not is_far:
            return
        await durability.sync_now()
        self._safe_progress, self._safe_position = progress, position
        self._file.changed_unsaved()
        await self._file.save()

    async def follow(self, progress: Mapping[int, int], position: int, durability: Durability) -> None:
        """Take over a master's progress; the log has all that it delivered before it was so.

        `position` is a place where the log ended before: what was delivered since is found behind it.
        """
        self._progress, self._known_at = dict(progress), position
        is_far = position - (self._safe_position or 0) >= WALKED_BYTES_MAX
        if is_far or self._progress != self._safe_progress:
            await durability.sync_now()
            self._safe_progress, self._safe_position = dict(progress), position
            self._file.changed_unsaved()
            await self._file.save()

    @property
    def progress(self) -> Mapping[int, int]:
        """How many messages of each level were delivered, of the levels that delivered some."""
        return _in_order(self._progress)

    def encode(self) -> bytes:
        """Return the progress of the levels that delivered something, as RocketMQ writes it."""
        return encode_delay_offsets(_in_order(self._progress))

    def _encode_file(self) -> bytes:
        return encode_delay_offsets(
            _in_order(self._safe_progress), log_position=self._safe_position, pretty=True
        )

    def _oldest_position(self) -> int | None:
        """Return where in the log the oldest message of any level is."""
        heads = [
            entry.position
            for level in self._levels_ms
            for entry in self._store.entries(
                system_names.SCHEDULE, level - 1, self._store.min_offset(system_names.SCHEDULE, level - 1), 1
            )
        ]
        return min(heads, default=None)

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
        entries = self._store.entries(system_names.SCHEDULE, level - 1, offset, TURN_MESSAGES_MAX)
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
        return now_ms if offset < self._store.max_offset(system_names.SCHEDULE, level - 1) else None

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
        low = self._store.min_offset(system_names.SCHEDULE, level - 1)
        high = self._store.max_offset(system_names.SCHEDULE, level - 1)
        within = max(min(offset, high), low)
        if within != offset:
            log.error("delay level %d goes on at %d instead of %d: the queue was cut", level, within, offset)
            self._progress[level] = within
        return within


def _in_order(progress: Mapping[int, int]) -> dict[int, int]:
    return {level: progress[level] for level in sorted(progress)}
