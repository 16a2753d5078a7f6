"""The end of a message's time in flight: it is renewed, or comes again.

    due ─► renewed for a client that is there ─► invisible for longer; the handle stays
        ├► popped in order                    ─► its queue is free: held pops are tried
        └► else                               ─► stored in the group's retry topic, one failure more

A message that comes again names the record that was in flight, as the records of its kinds do
(`kinds/stored_again.py`): the retry and the end of the delivery are one write. What the journal says of the
same turn stands before it in the log.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Final

from pyromq.broker.kinds.alarm import Alarm
from pyromq.broker.kinds.dead_letter_queue import bury
from pyromq.broker.kinds.stored_again import draft_of, name_of
from pyromq.broker.pop.in_flight import NO_CLIENT
from pyromq.broker.pop.pop_changes import PopChanges
from pyromq.broker.pop.pop_counts import PopCounts
from pyromq.broker.pop.pop_names import RETRY_TOPIC_BYTES_MAX, plain_topic_of, retry_topics_of
from pyromq.broker.pop.pop_table import PopQueue
from pyromq.broker.pop.renewal import Renewal
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.config.pop_settings import PopSettings
from pyromq.errors import CorruptRecord, MessageTooLarge, StoreError
from pyromq.store.store import Draft, MessageStore
from pyromq.wire import properties as names
from pyromq.wire.message_id import offset_message_id
from pyromq.wire.properties import NAME_VALUE_SEPARATOR, PROPERTY_SEPARATOR
from pyromq.wire.record import Record

log = logging.getLogger(__name__)

#: What comes again in one turn of the loop: some milliseconds of its time.
_TURN_MESSAGES_MAX: Final = 64
_TURN_BYTES_MAX: Final = 256 << 10
#: How long messages wait on when the store refuses them, and when one can never be stored.
_PAUSE_MS: Final = 1_000
_LONG_PAUSE_MS: Final = 60_000
RETRY_QUEUE_COUNT: Final = 1

#: A message in flight: its queue and offset.
_Entry = tuple[PopQueue, int]


class Reviving:
    """Lets messages come again when their time is up, and buries those that failed too often."""

    def __init__(
        self,
        store: MessageStore,
        changes: PopChanges,
        clock: Clock,
        settings: PopSettings,
        *,
        topics: TopicTable,
        renewal: Renewal,
    ) -> None:
        self._store = store
        self._changes = changes
        self._table = changes.table
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._renewal = renewal
        self.counts = PopCounts()
        #: The host of what is stored; known once the broker has an address.
        self.store_host = b""
        self._alarm: Alarm | None = None
        self._not_before_ms = 0
        self._last_error = ""
        #: Told that a queue that is popped in order is free again.
        self.on_free: Callable[[PopQueue], None] = lambda _queue: None

    def start(self) -> None:
        """Begin; what came due while nobody did comes again now."""
        self._alarm = Alarm(self._clock, self._rung)
        self.set_alarm()

    def stop(self) -> None:
        """Let nothing come again any more."""
        if self._alarm is not None:
            self._alarm.end()
            self._alarm = None

    def set_alarm(self) -> None:
        """Look again when the next message is due."""
        due_ms = self._table.next_due_ms
        if self._alarm is not None and due_ms is not None:
            self._alarm.set(max(due_ms, self._not_before_ms))

    # What is due

    def _rung(self) -> None:
        now_ms = self._clock.now_ms()
        try:
            if not now_ms < self._not_before_ms <= now_ms + _PAUSE_MS:
                # It is over, or the clock was set back.
                self._not_before_ms = 0
                self._take_due(now_ms)
        finally:
            self.set_alarm()

    def _take_due(self, now_ms: int) -> None:
        # Dues overlap: one may be found by two of them.
        entries: dict[_Entry, None] = {}
        size = looked_at = 0
        while len(entries) < _TURN_MESSAGES_MAX and size < _TURN_BYTES_MAX and looked_at < _TURN_MESSAGES_MAX:
            due = self._table.take_due(now_ms)
            if due is None:
                break
            queue, offsets = due
            looked_at += 1
            if not offsets:
                self._free(queue, now_ms)
                continue
            for offset in self._not_renewed(queue, offsets, now_ms):
                entries[queue, offset] = None
                size += self._size(queue, offset)
        if entries:
            self._revive(list(entries), now_ms)

    def _free(self, queue: PopQueue, now_ms: int) -> None:
        """Let a queue that is popped in order go on, if its time is up."""
        batch = queue.ordered
        if batch is None or batch.is_done:
            return
        until_ms = batch.blocked_until_ms
        if until_ms > now_ms:
            self._table.put_back_ordered(queue, until_ms)
            return
        if batch.client != NO_CLIENT:
            visible_ms, keeps = self._renewal.next_time(
                self._table.clients[batch.client], batch.popped_at_ms, max(batch.attempts) - 1, now_ms
            )
            if visible_ms:
                self._changes.renew(queue, batch.open_offsets, visible_ms, keeps_client=keeps)
                return
        self.on_free(queue)

    def _not_renewed(self, queue: PopQueue, offsets: Sequence[int], now_ms: int) -> Sequence[int]:
        """Renew those of a pop whose clients are there; return the others."""
        in_flight = queue.in_flight
        left: list[int] = []
        renewed: dict[tuple[int, bool], list[int]] = {}
        for offset in offsets:
            at = in_flight.find(offset)
            client = in_flight.client(at)
            if client == NO_CLIENT:
                left.append(offset)
                continue
            visible_ms, keeps = self._renewal.next_time(
                self._table.clients[client], in_flight.popped_at_ms(at), self._failures(queue, offset), now_ms
            )
            if visible_ms:
                renewed.setdefault((visible_ms, keeps), []).append(offset)
            else:
                left.append(offset)
        for (visible_ms, keeps), same in renewed.items():
            self._changes.renew(queue, same, visible_ms, keeps_client=keeps)
        return left

    def _failures(self, queue: PopQueue, offset: int) -> int:
        record = self._record(queue, offset, with_body=False)
        return 0 if record is None else record.reconsume_times

    # Retries

    def _revive(self, entries: Sequence[_Entry], now_ms: int) -> None:
        try:
            # What the journal says of them stands before what ends it.
            self._changes.flush()
        except StoreError as error:
            self._pause(entries, error, now_ms)
            return
        drafts: list[Draft] = []
        revived: list[_Entry] = []
        for queue, offset in entries:
            record = self._record(queue, offset)
            if record is None or self._topics.get(queue.topic) is None:
                # It is gone, or its topic is.
                self._changes.end(queue, offset)
                continue
            drafts.append(self._retry(queue, record))
            revived.append((queue, offset))
        self._put(drafts, revived, now_ms)

    def _put(self, drafts: list[Draft], entries: Sequence[_Entry], now_ms: int) -> None:
        try:
            self._store.put_batch(drafts)
            self._last_error = ""
        except (MessageTooLarge, CorruptRecord) as error:
            if len(drafts) > 1:
                for draft, entry in zip(drafts, entries, strict=True):
                    self._put([draft], [entry], now_ms)
                return
            queue, offset = entries[0]
            log.warning("offset %d of %s cannot be stored for its retry: %s", offset, queue.topic, error)
            self._table.put_back(queue, offset, now_ms + _LONG_PAUSE_MS)
            return
        except StoreError as error:
            self._pause(entries, error, now_ms)
            return
        self.counts.revived += len(entries)
        for queue, offset in entries:
            self._changes.ended_by_record(queue, offset)

    def _pause(self, entries: Sequence[_Entry], error: StoreError, now_ms: int) -> None:
        if str(error) != self._last_error:
            log.warning("popped messages wait for their retries, the store refuses them: %s", error)
        self._last_error = str(error)
        self._not_before_ms = now_ms + _PAUSE_MS
        for queue, offset in entries:
            self._table.put_back(queue, offset, now_ms)

    def _retry(self, queue: PopQueue, record: Record) -> Draft:
        """Return a message as it comes again."""
        draft = draft_of(record)
        v1, v2 = retry_topics_of(queue.group, queue.topic)
        draft.topic = v2 if self._settings.enable_retry_topic_v2 else v1
        self._topics.ensure(draft.topic, queue_count=RETRY_QUEUE_COUNT)
        self._changes.begin_retries(queue.group, draft.topic)
        draft.queue_id, draft.topic_bytes_max = 0, RETRY_TOPIC_BYTES_MAX
        draft.born_host = draft.store_host = self.store_host
        draft.reconsume_times += 1
        draft.prepared_position = name_of(record.position)
        if names.find_text(record.properties, names.FIRST_POP_TIME) is None:
            at = queue.in_flight.find(record.queue_offset)
            popped_at_ms = queue.in_flight.popped_at_ms(at)
            first = f"{names.FIRST_POP_TIME}{NAME_VALUE_SEPARATOR}{popped_at_ms}{PROPERTY_SEPARATOR}"
            draft.properties = names.joined(record.properties, first)
        return draft

    # Dead letters

    def bury_handed(self, queue: PopQueue, offsets: Sequence[int]) -> set[int]:
        """Put messages that were just handed out among the dead letters; return which are there now."""
        try:
            self.bury(queue, offsets)
        except StoreError as error:
            log.warning("dead letters of %s wait, the store refuses them: %s", queue.group, error)
            return set()
        return set(offsets)

    def bury(self, queue: PopQueue, offsets: Sequence[int]) -> int:
        """Put messages in flight among the dead letters, and end them; return where the log ends behind that.

        Raises StoreError when the store takes none. What is in flight stays so then.
        """
        self._changes.flush()
        records = [(offset, self._record(queue, offset)) for offset in offsets]
        drafts = [self._dead(queue, record) for _, record in records if record is not None]
        if drafts:
            self._store.put_batch(drafts)
        for offset, record in records:
            if record is None:
                self._changes.end(queue, offset)
            else:
                self._changes.ended_by_record(queue, offset)
        return self._store.max_position

    def _dead(self, queue: PopQueue, record: Record) -> Draft:
        draft = draft_of(record)
        properties = names.decode(record.properties)
        topic = plain_topic_of(queue.group, queue.topic, self._topics.configs)
        unique_id = properties.get(names.UNIQ_KEY) or offset_message_id(record.store_host, record.position)
        properties.setdefault(names.RETRY_TOPIC, topic)
        properties.setdefault(names.ORIGIN_MESSAGE_ID, offset_message_id(record.store_host, record.position))
        properties[names.WAIT] = "false"
        properties[names.DLQ_ORIGIN_TOPIC] = topic
        properties[names.DLQ_ORIGIN_MESSAGE_ID] = unique_id
        bury(draft, properties, queue.group, self._topics)
        draft.topic_bytes_max = RETRY_TOPIC_BYTES_MAX
        draft.reconsume_times += 1
        draft.properties = names.encode(properties)
        draft.prepared_position = name_of(record.position)
        return draft

    # Records

    def _size(self, queue: PopQueue, offset: int) -> int:
        place = self._place(queue, offset)
        return 0 if place is None else place[1]

    def _place(self, queue: PopQueue, offset: int) -> tuple[int, int] | None:
        entries = self._store.queue(queue.topic, queue.queue_id)
        if entries is None or not entries.min_offset <= offset < entries.end:
            return None
        return entries.place(offset)

    def position(self, queue: PopQueue, offset: int) -> int:
        """Return where the record of a message is in the log; 0 when it is gone."""
        place = self._place(queue, offset)
        return 0 if place is None else place[0]

    def _record(self, queue: PopQueue, offset: int, *, with_body: bool = True) -> Record | None:
        place = self._place(queue, offset)
        if place is None:
            return None
        log_ = self._store.log
        record = self._store.record_at(place[0]) if with_body else log_.record_head(place[0])
        is_it = record is not None and (record.topic, record.queue_offset) == (queue.topic, offset)
        return record if is_it else None
