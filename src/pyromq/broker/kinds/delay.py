"""Messages that are due later: into the schedule topic, and back into their own when their time has come.

A delayed message is stored in SCHEDULE_TOPIC_XXXX, in the queue of its level, with its real topic and queue
in its properties. All messages of a level wait equally long, so the queue is in the order of delivery, and
its entries hold the time of delivery where others hold the hash of the tags:

    queue 2 (level 3, 10 s)   due 17:04:09 │ due 17:04:09 │ due 17:04:12 │ …
                              ▲ progress: what is before it was delivered

Only the head of each level is ever looked at. However many wait, what is kept in memory is one offset and
one time for each level, and one alarm for the earliest of those times.

The checkpoint is `delayOffset.json`, written every ten seconds and at the stop, after a sync of the log. It
says where the log ended then, and what was delivered after that is found behind that place at a start. A
delivered message is stored as RocketMQ 4.9 stores it, which says nowhere which record of the schedule topic
it came from. But it has all that record's properties, DELAY and REAL_TOPIC among them, and messages of a
level are delivered in the order in which they wait. So the first one behind the progress is looked for; when
it is found, the next:

    level 3       A  B  C │ D  E  F                    progress 3, as the file says
    log           … A  b  B  C │ x  D  y  E  z         the copies of D and E are behind: the progress is 5
                  log position ┘

Only deliveries leave such a record: whatever else is sent with a DELAY goes to the schedule topic itself, and
what is sent back gets another DELAY, and another REAL_TOPIC, before it waits again. So a crash at any moment
makes no message come twice, and none is lost. Only over a file that RocketMQ wrote, which does not know the
place, is what was delivered since then delivered once more.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyromq import system_names
from pyromq.broker.durability.acknowledgement import Durability
from pyromq.broker.kinds.alarm import Alarm
from pyromq.broker.kinds.checkpoint_file import CheckpointFile
from pyromq.broker.kinds.deliveries import Deliveries
from pyromq.broker.kinds.kind_follower import KindFollower
from pyromq.broker.kinds.stored_again import divert, draft_of, due_draft
from pyromq.broker.topics.intake import Diversion, PlainDiversion
from pyromq.clock import Clock
from pyromq.codes import TRANSACTION_MASK, SysFlag
from pyromq.errors import CorruptRecord, MessageTooLarge, StoreError
from pyromq.store.files import Files
from pyromq.store.follower import entry_of
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.bodies.offset_bodies import (
    decode_delay_log_position,
    decode_delay_offsets,
    encode_delay_offsets,
)
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: A message that was delivered has it in its properties.
_MARK = (names.REAL_TOPIC + names.NAME_VALUE_SEPARATOR).encode()
#: Messages of one level that are delivered one by one before other work of the loop gets its turn.
TURN_MESSAGES_MAX = 32
#: Messages of one level that are looked at together, and bytes of all levels after which a turn ends.
TOGETHER_MAX = 2_048
TURN_BYTES_MAX = 1 << 20
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

    def divert_delayed(draft: Draft, properties: dict[str, str]) -> bool:
        kind = draft.sys_flag & TRANSACTION_MASK
        level = min(level_of(properties), level_max)
        if level <= 0 or kind not in (0, SysFlag.TRANSACTION_COMMIT):
            return False
        properties[names.DELAY] = str(level)
        divert(draft, properties, system_names.SCHEDULE, level - 1)
        return True

    return divert_delayed


class DelayedMessages(KindFollower):
    """Delivers delayed messages when they are due."""

    name = "the delay levels' progress"
    topics = (system_names.SCHEDULE,)

    def __init__(
        self,
        store: MessageStore,
        clock: Clock,
        *,
        path: Path,
        files: Files | None = None,
    ) -> None:
        super().__init__(store)
        self._clock = clock
        self._levels_ms = store.delays_ms
        self._progress: dict[int, int] = {}
        self._safe_progress: dict[int, int] = {}
        #: Where the log ended when the safe progress was the progress; None when nobody noted it.
        self._safe_position: int | None = None
        #: While nothing is delivered here: where the log ended when the progress was so.
        self._known_at = 0
        self._file = CheckpointFile(path, files=files)
        #: When the head of each level is due, for the levels in which messages wait.
        self._due_ms: dict[int, int] = {}
        self._alarm: Alarm | None = None
        #: What stores many with one write, where there is a kernel.
        self.deliveries: Deliveries | None = None

    def load(self) -> None:
        """Read the progress, bring it within what the store has, and add what the log says."""
        loaded = self._file.load(
            lambda data: (decode_delay_offsets(data), decode_delay_log_position(data)), field="offsetTable"
        )
        # Without a file nothing was delivered before the oldest message began to wait.
        self._progress, position = loaded or ({}, self._oldest_position())
        self._safe_progress, self._safe_position = dict(self._progress), position
        for level in self._levels_ms:
            self._next_offset(level)
        if position is not None:
            self._apply_copies(position)
        self._known_at = self._store.whole_position

    def _apply_copies(self, position: int) -> None:
        """Count what was delivered behind a position of the log, where the progress was as it is now."""
        # The diversion writes the level it chose into DELAY.
        levels = {str(level): level for level in self._levels_ms}
        awaited: dict[int, Draft | None] = {}
        count = 0
        for record in self._store.log.walk_marked(max(position, self._store.min_position), _MARK):
            level = levels.get(names.find_text(record.properties, names.DELAY) or "", 0)
            if not level or record.topic == system_names.SCHEDULE:
                continue
            if level not in awaited:
                awaited[level] = self._next_deliverable(level)
            if draft_of(record) == awaited[level]:
                self._progress[level] = self._progress.get(level, 0) + 1
                count += 1
                del awaited[level]
        if count:
            log.info("%d delayed messages were delivered after their progress was saved", count)

    def _next_deliverable(self, level: int) -> Draft | None:
        """Return the next that can be delivered at all; the others were passed over when they were due."""
        offset = self._progress.get(level, 0)
        while entries := self._store.entries(system_names.SCHEDULE, level - 1, offset, 1):
            record = self._store.record_at(entries[0].position)
            draft = None if record is None else due_draft(record)
            if draft is not None:
                return draft
            offset += 1
            self._progress[level] = offset
        return None

    def diversions(self, _broker_ip: str) -> Mapping[str, Diversion]:
        """Return what sends delayed messages to the schedule topic."""
        return {names.DELAY: delay_diversion(self._levels_ms)}

    def plain_diversions(self) -> Sequence[PlainDiversion]:
        """Return that a level is a queue of the schedule topic."""
        delays_ms = tuple(self._levels_ms[level] for level in sorted(self._levels_ms))
        if not delays_ms:
            return ()
        return [PlainDiversion(name=names.DELAY, topic=system_names.SCHEDULE, delays_ms=delays_ms)]

    def start(self, _durability: Durability) -> None:
        """Begin to deliver; what came due while nobody did is delivered now."""
        self._alarm = Alarm(self._clock, self._deliver_due)
        for level in self._levels_ms:
            if self._store.max_offset(system_names.SCHEDULE, level - 1) > self._progress.get(level, 0):
                self._due_ms[level] = 0
        self._set_alarm()

    @property
    def next_due_ms(self) -> int | None:
        """The time at which the first that is waited for is due."""
        return min(self._due_ms.values(), default=None) if self._alarm is not None else None

    def stop(self) -> None:
        """Deliver no more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None
            self._known_at = self._store.whole_position

    def apply(self, record: Record) -> None:
        """Note a message that begins to wait: of each level, the first is waited for."""
        level = record.queue_id + 1
        if self._alarm is not None and level in self._levels_ms and level not in self._due_ms:
            self._wait(level, entry_of(record, record.size, self._levels_ms).tags_code)

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Note messages that begin to wait; the queue's entry says when the first is due."""
        level = queue_id + 1
        if self._alarm is not None and level in self._levels_ms and level not in self._due_ms:
            for _position, _size, due_ms in self._store.entries(topic, queue_id, first, 1):
                self._wait(level, due_ms)

    def _wait(self, level: int, due_ms: int) -> None:
        self._due_ms[level] = due_ms
        if self._alarm is not None:
            self._alarm.set(due_ms)

    async def save(self, durability: Durability) -> None:
        """Bring the progress to the disk, and before it the messages that were delivered."""
        position = self._known_at if self._alarm is None else self._store.max_position
        await self._write(position, durability, is_waited_for=bool(self._due_ms))

    async def _write(self, position: int, durability: Durability, *, is_waited_for: bool) -> None:
        """Write the progress, which was so where the log ended at a position, if it is new or that is far."""
        progress = dict(self._progress)
        is_far = is_waited_for and position - (self._safe_position or 0) >= WALKED_BYTES_MAX
        if is_far or progress != self._safe_progress:
            text = encode_delay_offsets(_in_order(progress), log_position=position, pretty=True)
            await self._file.write(text, durability)
            self._safe_progress, self._safe_position = progress, position

    def forget_beyond(self, cut_at: int) -> None:
        """Remove the file if the log was longer when it was written, or if it does not say."""
        try:
            position = self._file.load(decode_delay_log_position, field="offsetTable")
        except CorruptRecord:
            position = None
        if position is None or position > cut_at:
            self._file.remove()

    async def follow(self, _durability: Durability) -> None:
        """Nothing is to be done: a replica takes over its master's progress."""

    async def take_over(self, progress: Mapping[int, int], position: int, durability: Durability) -> None:
        """Take over a master's progress; the log has all that it delivered before it was so.

        `position` is a place where the log ended before: what was delivered since is found behind it.
        """
        self._progress, self._known_at = dict(progress), position
        await self._write(position, durability, is_waited_for=True)

    @property
    def upkeep_s(self) -> float:
        """The interval in seconds at which the progress is written."""
        return self._store.settings.flush_delay_offset_interval / 1000

    @property
    def progress(self) -> Mapping[int, int]:
        """The number of delivered messages by delay level, without levels that delivered none."""
        return _in_order(self._progress)

    def encode(self) -> bytes:
        """Return the progress of the levels that delivered something, as RocketMQ writes it."""
        return encode_delay_offsets(_in_order(self._progress))

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
        began_at = self._store.max_position
        for level in tuple(self._due_ms):
            due_ms = self._deliver_level(level)
            # Levels that have not had their turn yet come first in the next.
            del self._due_ms[level]
            if due_ms is not None:
                self._due_ms[level] = due_ms
            if self._store.max_position - began_at >= TURN_BYTES_MAX:
                break
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
        if count := self._deliver_together(level, offset, now_ms):
            self._progress[level] = offset + count
            return now_ms
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

    def _deliver_together(self, level: int, offset: int, now_ms: int) -> int:
        """Deliver due messages of a level from an offset on with one write; return how many that were.

        There are none where the first is for Python to deliver, or not due.
        """
        queue = self._store.queue(system_names.SCHEDULE, level - 1)
        if self.deliveries is None or queue is None:
            return 0
        entries = queue.read(offset, TOGETHER_MAX)
        return len(self.deliveries.deliver_due(entries, now_ms, now_ms + self._levels_ms[level]))

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
        if self.deliveries is not None:
            self.deliveries.learn(draft.topic, draft.queue_id)

    def _next_offset(self, level: int) -> int:
        """Return the offset of the level's oldest message that was not delivered.

        Progress outside the queue is brought to its nearer end: messages expire, and logs are cut.
        """
        offset = self._progress.get(level, 0)
        low = self._store.min_offset(system_names.SCHEDULE, level - 1)
        high = self._store.max_offset(system_names.SCHEDULE, level - 1)
        within = max(min(offset, high), low)
        if within != offset and level in self._progress:
            log.error("delay level %d goes on at %d instead of %d: the queue was cut", level, within, offset)
        if within != offset:
            self._progress[level] = within
        return within


def _in_order(progress: Mapping[int, int]) -> dict[int, int]:
    return {level: progress[level] for level in sorted(progress)}
