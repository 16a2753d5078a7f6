"""A pop: where a group begins, and what is handed out of the queues that `pop_places.py` names."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyromq.broker.groups.groups import GroupTable
from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_asks import PopAsk, Popped, PoppedPart, PopStatus
from pyromq.broker.pop.pop_changes import PopChanges
from pyromq.broker.pop.pop_names import RETRY_TOPIC_BYTES_MAX, longest_retry_topic, mark_of
from pyromq.broker.pop.pop_places import Place, PopPlaces
from pyromq.broker.pop.pop_reading import ReadMessages, read_messages
from pyromq.broker.pop.pop_table import PopQueue
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.pop_settings import PopSettings
from pyromq.errors import MessageIllegal
from pyromq.store.store import MessageStore
from pyromq.wire.receipt_handle import ORDERED_QUEUE_ID

#: Revive queues of RocketMQ, over which its pops are spread; here they are a word of a handle.
_REVIVE_QUEUES = 8
_RETRY_TIMES_DEFAULT = 16


class Burial(Protocol):
    """Buries messages that were just handed out."""

    def bury_handed(self, queue: PopQueue, offsets: Sequence[int]) -> set[int]:
        """Put messages among the dead letters of their group; return which of them are there now."""
        ...


@dataclass(slots=True)
class _Gathering:
    """The messages that a pop has so far."""

    now_ms: int
    left: int
    parts: list[PoppedPart] = field(default_factory=list)
    has_buried: bool = False
    is_full: bool = False
    #: Whether a queue may have more that nobody looked at.
    is_more: bool = False


class PopTaking:
    """Carries pops out."""

    def __init__(
        self,
        store: MessageStore,
        changes: PopChanges,
        clock: Clock,
        settings: PopSettings,
        *,
        topics: TopicTable,
        groups: GroupTable,
        offsets: OffsetTable,
        burial: Burial,
    ) -> None:
        self._store = store
        self._changes = changes
        self._table = changes.table
        self._clock = clock
        self._settings = settings
        self._groups = groups
        self._offsets = offsets
        self._burial = burial
        #: Which queues are read.
        self.places = PopPlaces(topics, settings)
        self._revive_queue = 0

    # Queues

    def queue(self, ask: PopAsk, place: Place) -> PopQueue:
        """Return a queue as the group pops it; a group that is new here begins where the ask says."""
        topic, queue_id = place
        queue = self._table.find(ask.group, topic, queue_id)
        progress = self._offsets.progress(ask.group, topic, queue_id)
        if queue is None:
            begin = self.first_offset(ask, place) if progress is None else progress
            queue = self._table.make(ask.group, topic, queue_id, begin)
            queue.told = progress
            self._changes.touch(queue)
        elif progress is None:
            queue.told = None
            self._changes.touch(queue)
        elif queue.told is None:
            self._table.raise_floor(queue, progress)
            self._changes.touch(queue)
        elif progress != queue.told:
            # Somebody else moved it: another kind of consumer, or an operator.
            self._changes.reset(queue, progress)
            queue.told = progress
        return queue

    def first_offset(self, ask: PopAsk, place: Place) -> int:
        """Return where a group begins that never read a queue."""
        store, (topic, queue_id) = self._store, place
        oldest = store.min_offset(topic, queue_id)
        if ask.from_min or topic != ask.topic:
            return oldest
        checks_memory = self._settings.init_pop_offset_by_check_msg_in_mem
        if checks_memory and oldest <= 0 and store.is_in_memory(topic, queue_id, 0):
            return 0
        return max(store.waiting_end(topic, queue_id) - 1, oldest, 0)

    # A pop

    def take(self, ask: PopAsk) -> tuple[Popped | None, bool]:
        """Return what a pop gets now, None when it gets nothing; and whether to look again soon."""
        gathering = _Gathering(self._clock.now_ms(), ask.count_max)
        places = self.places.in_order(ask)
        if self._store.ends_are_unknown or not places:
            return None, False
        self._check_name(ask)
        for place in places:
            if gathering.left <= 0 or (gathering.is_more and ask.wanted.matches is not None):
                # Of a filter that looks at records, one queue is enough for one turn of the loop.
                break
            queue = self.queue(ask, place)
            if self._is_full(queue):
                gathering.is_full = True
            elif ask.is_fifo:
                self._take_in_order(ask, queue, gathering)
            else:
                self._take_from(ask, queue, gathering)
        if gathering.parts:
            return self._popped(ask, PopStatus.FOUND, gathering, places), gathering.is_more
        if gathering.has_buried:
            return self._popped(ask, PopStatus.NO_MATCH, gathering, places), gathering.is_more
        if gathering.is_full:
            return self._popped(ask, PopStatus.IN_FLIGHT_FULL, gathering, places), gathering.is_more
        return None, gathering.is_more

    def nothing(self, ask: PopAsk) -> Popped:
        """Return the answer to a pop that got nothing in time."""
        gathering = _Gathering(self._clock.now_ms(), 0)
        places = self.places.of(ask.group, ask.topic, ask.queue_id, is_fifo=ask.is_fifo)
        return self._popped(ask, PopStatus.NOTHING, gathering, places)

    def full(self, ask: PopAsk) -> Popped:
        """Return the answer to a pop that would have to wait behind too many."""
        return self._popped(ask, PopStatus.HELD_FULL, _Gathering(self._clock.now_ms(), 0), [])

    def look(self, ask: PopAsk) -> tuple[Popped | None, bool]:
        """Return whether a pop would get something now, and change nothing."""
        gathering = _Gathering(self._clock.now_ms(), 0)
        is_more = False
        for place in self.places.of(ask.group, ask.topic, ask.queue_id, is_fifo=ask.is_fifo):
            queue = self._table.find(ask.group, *place)
            batch = None if queue is None else queue.ordered
            if ask.is_fifo and self._is_blocked(ask, batch, gathering.now_ms):
                continue
            if queue is None:
                progress = self._offsets.progress(ask.group, *place)
                start = self.first_offset(ask, place) if progress is None else progress
            else:
                start = queue.next if batch is None or batch.is_done else batch.next_offset
            read = read_messages(self._store, *place, start, 1, ask.wanted)
            is_more = is_more or read.is_more
            if read.offsets:
                return self._popped(ask, PopStatus.FOUND, gathering, []), False
        return None, is_more

    def _is_full(self, queue: PopQueue) -> bool:
        settings = self._settings
        if self._table.count >= settings.pop_inflight_max:
            return True
        return (
            settings.enable_pop_message_threshold
            and queue.in_flight.count >= settings.pop_inflight_message_threshold
        )

    def _take_from(self, ask: PopAsk, queue: PopQueue, gathering: _Gathering) -> None:
        if queue.ordered is not None and not queue.ordered.is_done:
            self._leave_order(queue)
        read = read_messages(self._store, queue.topic, queue.queue_id, queue.next, gathering.left, ask.wanted)
        gathering.is_more = gathering.is_more or read.is_more
        if not read.offsets:
            if read.next_offset != queue.next:
                queue.next = read.next_offset
                self._changes.touch(queue)
            return
        self._changes.hand_out(
            queue,
            read.offsets,
            read.next_offset,
            popped_at_ms=gathering.now_ms,
            invisible_ms=ask.invisible_ms,
            client_id=ask.renewed_for or "",
        )
        self._add(ask, queue, gathering, read, read.attempts)

    def _leave_order(self, queue: PopQueue) -> None:
        """Let a batch that was popped in order be in flight like others: the group pops without order now."""
        batch = queue.ordered
        assert batch is not None
        self._changes.hand_out(
            queue,
            batch.open_offsets,
            queue.next,
            popped_at_ms=batch.popped_at_ms,
            invisible_ms=batch.visible_at_ms - batch.popped_at_ms,
        )

    def _take_in_order(self, ask: PopAsk, queue: PopQueue, gathering: _Gathering) -> None:
        batch = queue.ordered
        if self._is_blocked(ask, batch, gathering.now_ms):
            return
        start = queue.next if batch is None or batch.is_done else batch.next_offset
        read = read_messages(self._store, queue.topic, queue.queue_id, start, gathering.left, ask.wanted)
        gathering.is_more = gathering.is_more or read.is_more
        if not read.offsets:
            if read.next_offset != start:
                self._changes.reset(queue, read.next_offset)
            return
        offsets = read.offsets
        attempts = [1] * len(offsets) if batch is None else batch.attempts_again(offsets, ask.attempt_id)
        new = OrderedBatch(
            gathering.now_ms, gathering.now_ms + ask.invisible_ms, offsets, attempts, ask.attempt_id
        )
        self._changes.hand_out_in_order(queue, new, ask.renewed_for or "")
        self._add(ask, queue, gathering, read, attempts)

    @staticmethod
    def _is_blocked(ask: PopAsk, batch: OrderedBatch | None, now_ms: int) -> bool:
        if batch is None or (ask.attempt_id is not None and ask.attempt_id == batch.attempt_id):
            return False
        return batch.blocked_until_ms > now_ms

    def _add(
        self,
        ask: PopAsk,
        queue: PopQueue,
        gathering: _Gathering,
        read: ReadMessages,
        attempts: Sequence[int],
    ) -> None:
        part = PoppedPart(
            queue.topic,
            mark_of(ask.group, ask.topic, queue.topic),
            queue.queue_id,
            read.offsets[0],
            read.offsets,
            read.positions,
            read.body,
            read.sizes,
            attempts,
        )
        limit = self.attempts_max(ask.group)
        if ask.buries and max(attempts) > limit:
            given_up = [
                offset for offset, attempt in zip(read.offsets, attempts, strict=True) if attempt > limit
            ]
            buried = self._burial.bury_handed(queue, given_up)
            gathering.has_buried = True
            left = _without(part, set(given_up) | buried)
            if left is None:
                return
            part = left
        gathering.left -= len(part.offsets)
        gathering.parts.append(part)

    def attempts_max(self, group: str) -> int:
        """Return how often a message is delivered to a group before it is among the dead letters."""
        config = self._groups.configs.get(group)
        return 1 + (_RETRY_TIMES_DEFAULT if config is None else max(config.retry_max_times, 0))

    def _check_name(self, ask: PopAsk) -> None:
        if longest_retry_topic(ask.group, ask.topic) > RETRY_TOPIC_BYTES_MAX:
            raise MessageIllegal(
                ResponseCode.MESSAGE_ILLEGAL,
                f"group {ask.group} cannot pop topic {ask.topic}: its retry topic's name would be longer "
                f"than {RETRY_TOPIC_BYTES_MAX} bytes; use a shorter group",
            )

    def _popped(
        self, ask: PopAsk, status: PopStatus, gathering: _Gathering, places: Sequence[Place]
    ) -> Popped:
        rest = 0
        for topic, queue_id in places if ask.tells_rest else ():
            queue = self._table.find(ask.group, topic, queue_id)
            # Nothing waits behind a batch in order but for those that have it.
            is_blocked = (
                queue is not None
                and status is PopStatus.NOTHING
                and self._is_blocked(ask, queue.ordered, gathering.now_ms)
            )
            if queue is not None and not is_blocked:
                rest += max(self._store.waiting_end(topic, queue_id) - queue.next, 0)
        if ask.is_fifo:
            revive_queue = ORDERED_QUEUE_ID
        else:
            revive_queue = self._revive_queue
            self._revive_queue = (revive_queue + 1) % _REVIVE_QUEUES
        return Popped(status, gathering.now_ms, ask.invisible_ms, revive_queue, rest, gathering.parts)


def _without(part: PoppedPart, gone: set[int]) -> PoppedPart | None:
    """Return a part without some offsets; None when nothing is left."""
    kept = [at for at, offset in enumerate(part.offsets) if offset not in gone]
    if not kept:
        return None
    records = part.records
    return PoppedPart(
        part.real_topic,
        part.mark,
        part.queue_id,
        part.offsets[kept[0]],
        [part.offsets[at] for at in kept],
        [part.positions[at] for at in kept],
        b"".join(records[at] for at in kept),
        [part.sizes[at] for at in kept],
        [part.attempts[at] for at in kept],
    )
