"""The one door of POP: messages are popped, acknowledged, hidden for longer, given back and buried.

    ask ─► PopTaking: reads queues, hands out ─► answered at once
                 └► nothing there ─► HeldPops: woken by a message, a retry, a queue that is free again
    due ─► Reviving: renewed, stored again, or free to be popped again
    all of it ─► PopChanges: the table now, the journal when the turn ends

What `pop` hands out may be answered at once, for answers leave behind the journal's record. Acknowledgements,
changes and burials wait as sends do: for the disk under synchronous flush, for replicas, for the lease.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from pyromq.broker.delivery.arrivals import Arrivals
from pyromq.broker.durability.acknowledgement import Durability, NotSafe, no_longer_master
from pyromq.broker.end_of_turn import BrokerTurn
from pyromq.broker.groups.group_room import Groups
from pyromq.broker.pop.held_pops import HeldPops
from pyromq.broker.pop.journal_ops import GroupForgotten, TopicForgotten
from pyromq.broker.pop.pop_asks import ALL_QUEUES, COUNT_MAX, AckResult, Done, PopAsk, Popped, PopStatus
from pyromq.broker.pop.pop_changes import PopChanges
from pyromq.broker.pop.pop_counts import PopCounts
from pyromq.broker.pop.pop_names import plain_topic_of, retry_topics_of
from pyromq.broker.pop.pop_replay import queues_of
from pyromq.broker.pop.pop_table import PopQueue
from pyromq.broker.pop.pop_taking import PopTaking
from pyromq.broker.pop.popped_messages import PoppedMessages
from pyromq.broker.pop.renewal import Renewal
from pyromq.broker.pop.reviving import Reviving
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.pop_settings import PopSettings
from pyromq.errors import Refused, ServiceNotAvailable, StoreError
from pyromq.store.store import MessageStore
from pyromq.wire.receipt_handle import ReceiptHandle

if TYPE_CHECKING:
    from pyromq.broker.pop.in_flight import DeliveryEnding

log = logging.getLogger(__name__)

T = TypeVar("T")
Tried = tuple[Popped | None, bool]

#: A message is not visible again sooner than this after a pop or a change: a client that asks for no time at
#: all would use up all attempts in a moment.
INVISIBLE_MS_MIN: Final = 1_000
#: What is kept of an attempt's id; SDKs send 36 characters.
_ATTEMPT_CHARACTERS_MAX: Final = 255


class Pop:
    """POP on a master.

    Each awaitable ends when the operation may be answered. `topic` is the one that the client named, or the
    retry topic itself where a client names that: handles say which of them is meant. What changes something
    raises Refused when the store takes nothing now.

    """

    def __init__(
        self,
        popped: PoppedMessages,
        store: MessageStore,
        clock: Clock,
        settings: PopSettings,
        *,
        topics: TopicTable,
        groups: Groups,
        arrivals: Arrivals,
        turn: BrokerTurn,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._topics = topics
        self._groups = groups.table
        self._offsets = offsets = groups.offsets
        self._table = popped.table
        #: What was done since the start.
        self.counts = PopCounts()
        self._changes = PopChanges(popped.table, store, offsets, clock, turn=turn)
        self._renewal = Renewal(clock, groups.table)
        self._reviving = Reviving(store, self._changes, clock, settings, topics=topics, renewal=self._renewal)
        self._reviving.on_free = self._queue_is_free
        self._reviving.counts = self.counts
        self._taking = PopTaking(
            store,
            self._changes,
            clock,
            settings,
            topics=topics,
            groups=groups.table,
            offsets=offsets,
            burial=self._reviving,
        )
        self._held = HeldPops(
            arrivals,
            clock,
            ends_at=store.waiting_end,
            queues_of=self._taking.places.of,
            nothing=self._nothing,
            wake=turn.journal.due,
        )
        self._changes.before_flush = self._held.run_due
        self._changes.after_flush = self._after_flush
        self._durability: Durability | None = None
        self._popped = popped
        self._turn = turn

    @property
    def is_there(self) -> Callable[[str, str], bool]:
        """Tells whether a client of a group is there: its messages are renewed then."""
        return self._renewal.is_there

    @is_there.setter
    def is_there(self, is_there: Callable[[str, str], bool]) -> None:
        self._renewal.is_there = is_there

    # A life

    def lead(self, durability: Durability, *, store_host: bytes) -> None:
        """Serve from now on: operations are acknowledged so, and what the broker stores has this host."""
        self._durability = durability
        self._popped.leader = self
        self._changes.lead(durability, store_host=store_host)
        self._reviving.store_host = store_host

    def start(self) -> None:
        """Let what is due come again."""
        for queue in self._table:
            progress = self._offsets.progress(*queue.name)
            if progress is not None:
                # What an acknowledged offset says is true, whichever of the two files is older.
                self._table.raise_floor(queue, progress)
            self._changes.touch(queue)
        self._reviving.start()

    def stop(self) -> None:
        """Answer all that wait, and let nothing come again."""
        self._held.stop()
        self._reviving.stop()

    def _after_flush(self) -> None:
        acknowledged = self._table.tally.take_acknowledged()
        if acknowledged:
            self.counts.acknowledgements[AckResult.OK] += acknowledged
        self._reviving.set_alarm()

    def flush(self) -> None:
        """Append what happened so far to the log. Raises StoreError."""
        self._changes.flush()

    # Pops

    def pop(self, ask: PopAsk, wait_ms: int) -> Awaitable[Popped]:
        """Pop messages, waiting so long for the first; who is cancelled while it waits popped nothing."""
        return self._ask(ask, wait_ms, self._take)

    async def has_message(self, ask: PopAsk, wait_ms: int) -> PopStatus:
        """Say FOUND as soon as a pop would find something, NOTHING when time is up, or HELD_FULL."""
        return (await self._ask(ask, wait_ms, self._taking.look)).status

    def _take(self, ask: PopAsk) -> Tried:
        tried = self._taking.take(ask)
        if tried[0] is not None:
            self.counts.pops[tried[0].status] += 1
        return tried

    def _nothing(self, ask: PopAsk) -> Popped:
        self.counts.pops[PopStatus.NOTHING] += 1
        return self._taking.nothing(ask)

    def _ask(self, ask: PopAsk, wait_ms: int, attempt: Callable[[PopAsk], Tried]) -> Awaitable[Popped]:
        self._check_writable()
        is_odd = ask.invisible_ms < INVISIBLE_MS_MIN or ask.count_max > COUNT_MAX
        if is_odd or len(ask.attempt_id or "") > _ATTEMPT_CHARACTERS_MAX:
            ask = msgspec.structs.replace(
                ask,
                invisible_ms=max(ask.invisible_ms, INVISIBLE_MS_MIN),
                count_max=min(ask.count_max, COUNT_MAX),
                attempt_id=None if ask.attempt_id is None else ask.attempt_id[:_ATTEMPT_CHARACTERS_MAX],
            )
        if ask.wanted.matches is not None and not self._turn.take():
            return self._ask_in_turn(ask, wait_ms, attempt)
        return self._ask_now(ask, wait_ms, attempt)

    async def _ask_in_turn(self, ask: PopAsk, wait_ms: int, attempt: Callable[[PopAsk], Tried]) -> Popped:
        """Look at records for a filter in a turn of its own, as a pull by SQL does."""
        await self._turn.wait()
        return await self._ask_now(ask, wait_ms, attempt)

    def _ask_now(self, ask: PopAsk, wait_ms: int, attempt: Callable[[PopAsk], Tried]) -> Awaitable[Popped]:
        # Who waits already asks for the same, and was there before.
        popped, is_more = attempt(ask) if ask.count_max > 0 else (None, False)
        if popped is not None:
            return Done(popped)
        if wait_ms <= 0:
            return Done(self._nothing(ask))
        settings = self._settings
        is_full = self._held.count >= settings.max_pop_polling_size or not self._held.has_room
        if is_full or self._held.held(ask.group, ask.topic, ask.queue_id) >= settings.pop_polling_size:
            self.counts.pops[PopStatus.HELD_FULL] += 1
            return Done(self._taking.full(ask))
        found = self._held.hold(ask, wait_ms, attempt)
        if is_more:
            self._held.line_is_due(ask.group, ask.topic)
        return self._when_found(found, ask)

    async def _when_found(self, found: "asyncio.Future[Popped]", ask: PopAsk) -> Popped:
        try:
            return await found
        except asyncio.CancelledError:
            if found.done() and not found.cancelled() and found.exception() is None:
                # It was found in the moment in which the client went.
                self.give_back(found.result(), ask.group)
            raise

    def give_back(self, popped: Popped, group: str) -> None:
        """Let messages that could not be delivered be visible again in a second."""
        visible_ms = self._clock.now_ms() + INVISIBLE_MS_MIN
        for part in popped.parts:
            queue = self._table.find(group, part.real_topic, part.queue_id)
            if queue is None:
                continue
            offsets = [
                offset for offset in part.offsets if self._is_of_pop(queue, offset, popped.popped_at_ms)
            ]
            if offsets:
                self._changes.renew(queue, offsets, visible_ms, keeps_client=False)

    def _is_of_pop(self, queue: PopQueue, offset: int, popped_at_ms: int) -> bool:
        at = queue.in_flight.find(offset)
        if at >= 0:
            return queue.in_flight.popped_at_ms(at) == popped_at_ms
        batch = queue.find_ordered(offset)
        return batch is not None and batch.popped_at_ms == popped_at_ms

    # What becomes of a message

    def ack(self, group: str, topic: str, handles: Sequence[ReceiptHandle]) -> Awaitable[Sequence[AckResult]]:
        """End messages; the results are in the order of the handles."""
        self._check_writable()
        now_ms = self._clock.now_ms()
        results = [self._ack(group, topic, handle, now_ms) for handle in handles]
        self.counts.acknowledgements.update(results)
        return self._answer(results)

    def _ack(self, group: str, topic: str, handle: ReceiptHandle, now_ms: int) -> AckResult:
        real_topic = handle.real_topic(group, topic)
        queue = self._table.find(group, real_topic, handle.queue_id)
        if queue is None:
            return self._of_unknown(real_topic, handle, now_ms)
        at = queue.in_flight.find(handle.offset)
        if at >= 0 and queue.in_flight.popped_at_ms(at) == handle.popped_at_ms:
            self._changes.end_at(queue, at, handle.offset)
            return AckResult.OK
        if not self._is_valid(queue, handle):
            return self._of_gone(queue, handle, now_ms)
        self._changes.end(queue, handle.offset)
        if queue.ordered is not None and queue.ordered.is_done:
            self._queue_is_free(queue)
        return AckResult.OK

    def may_answer_at_once(self) -> bool:
        """Return whether acknowledgements may be answered at once; if so, the lease is looked at."""
        durability = self._durability
        if durability is None or not durability.is_immediate:
            return False
        if self._store.ailment or self._changes.why_refused:
            return False
        try:
            durability.vouch()
        except ServiceNotAvailable:
            return False
        return True

    def ending(self, group: str, real_topic: str, queue_id: int) -> "DeliveryEnding | None":
        """Return what ends messages of a queue by their handles; None: the group did not pop it."""
        queue = self._table.find(group, real_topic, queue_id)
        return None if queue is None else self._changes.ending(queue)

    def answers_in_this_turn(self) -> int | None:
        """Return the number of this turn, if acknowledgements may be answered at once in it."""
        if not self.may_answer_at_once():
            return None
        self._changes.will_end()
        return self._changes.turn_number

    @property
    def changes(self) -> PopChanges:
        """The changes of this turn, with its number."""
        return self._changes

    def _is_valid(self, queue: PopQueue, handle: ReceiptHandle) -> bool:
        """Return whether a handle is that of a message in flight."""
        return self._is_of_pop(queue, handle.offset, handle.popped_at_ms)

    def _of_unknown(self, real_topic: str, handle: ReceiptHandle, now_ms: int) -> AckResult:
        end = self._store.max_offset(real_topic, handle.queue_id)
        if handle.offset >= end:
            return AckResult.UNKNOWN
        return AckResult.OK if handle.visible_at_ms > now_ms else AckResult.EXPIRED

    def _of_gone(self, queue: PopQueue, handle: ReceiptHandle, now_ms: int) -> AckResult:
        """Return what is said of a handle that is of no message in flight.

        Within its own time it can only be that the message was acknowledged; but not when it is in flight by
        another handle.
        """
        if handle.offset >= queue.next:
            return AckResult.UNKNOWN
        batch = queue.ordered
        if batch is not None and batch.popped_at_ms == handle.popped_at_ms:
            is_known = batch.place(handle.offset) >= 0 or handle.offset < queue.committed
            return AckResult.OK if is_known else AckResult.UNKNOWN
        is_elsewhere = queue.in_flight.find(handle.offset) >= 0
        is_in_time = handle.visible_at_ms > now_ms
        return AckResult.OK if is_in_time and not is_elsewhere else AckResult.EXPIRED

    def change(
        self, group: str, topic: str, handle: ReceiptHandle, invisible_ms: int
    ) -> Awaitable[ReceiptHandle | AckResult]:
        """Let a message be invisible for so long from now on; the handle that is returned is valid then."""
        self._check_writable()
        now_ms = self._clock.now_ms()
        invisible_ms = max(invisible_ms, INVISIBLE_MS_MIN)
        real_topic = handle.real_topic(group, topic)
        queue = self._table.find(group, real_topic, handle.queue_id)
        changed: ReceiptHandle | AckResult
        if queue is None or not self._is_valid(queue, handle):
            is_unknown = handle.offset >= self._store.max_offset(real_topic, handle.queue_id)
            changed = AckResult.UNKNOWN if is_unknown else AckResult.EXPIRED
        elif queue.in_flight.find(handle.offset) < 0:
            self._changes.move_in_order(queue, handle.offset, now_ms + invisible_ms)
            changed = replace(handle, invisible_ms=now_ms + invisible_ms - handle.popped_at_ms)
        else:
            # In the same millisecond the old handle must be another one.
            popped_at_ms = max(now_ms, handle.popped_at_ms + 1)
            invisible_ms = max(now_ms + invisible_ms - popped_at_ms, 0)
            self._changes.move(queue, handle.offset, popped_at_ms, invisible_ms)
            changed = replace(
                handle,
                start_offset=handle.offset,
                popped_at_ms=popped_at_ms,
                invisible_ms=invisible_ms,
                position=handle.position or self._reviving.position(queue, handle.offset),
            )
        self.counts.changes[changed if isinstance(changed, AckResult) else AckResult.OK] += 1
        return self._answer(changed)

    def move(
        self, group: str, real_topic: str, queue_id: int, offset: int, popped_at_ms: int, invisible_ms: int
    ) -> None:
        """Give a message in flight, which is popped alone, another handle and another time; see `change`."""
        queue = self._table.find(group, real_topic, queue_id)
        assert queue is not None, "what is in flight has a queue"
        self._changes.move(queue, offset, popped_at_ms, invisible_ms)
        self.counts.changes[AckResult.OK] += 1

    def bury(self, group: str, topic: str, handle: ReceiptHandle) -> Awaitable[AckResult]:
        """Put a message into the group's dead letters, and end it."""
        self._check_writable()
        real_topic = handle.real_topic(group, topic)
        queue = self._table.find(group, real_topic, handle.queue_id)
        if queue is None:
            return self._answer(self._of_unknown(real_topic, handle, self._clock.now_ms()))
        if not self._is_valid(queue, handle):
            return self._answer(self._of_gone(queue, handle, self._clock.now_ms()))
        try:
            self._reviving.bury(queue, [handle.offset])
        except StoreError as error:
            raise _refused(str(error)) from error
        if queue.ordered is not None and queue.ordered.is_done:
            self._queue_is_free(queue)
        return self._answer_when_saved(self._answer(AckResult.OK))

    async def _answer_when_saved(self, answer: Awaitable[T]) -> T:
        """Return an answer when the topic of dead letters is on disk too; see `RetryHandlers`."""
        await self._topics.save()
        return await answer

    def _answer(self, value: T) -> Awaitable[T]:
        """Return what may be told once what happened so far is as safe as a send."""
        durability = self._durability
        assert durability is not None
        if durability.is_immediate:
            durability.vouch()
            return Done(value)
        answered: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(error: Exception | None) -> None:
            if answered.done():
                return
            if isinstance(error, NotSafe):
                answered.set_exception(_refused(str(error)))
            elif error is not None:
                answered.set_exception(error)
            else:
                answered.set_result(value)

        self._changes.when_kept(settle)
        return answered

    def _check_writable(self) -> None:
        durability = self._durability
        why = self._store.ailment or self._changes.why_refused
        if why is None and durability is not None and durability.why_shut is None:
            return
        if why is None and durability is not None:
            raise no_longer_master()
        raise _refused(why or "this broker is no master yet")

    def _queue_is_free(self, queue: PopQueue) -> None:
        topic = plain_topic_of(queue.group, queue.topic, self._topics.configs)
        self._held.line_is_due(queue.group, topic)

    # Clients, operators

    def client_left(self, client_id: str, group: str) -> None:
        """Let what is renewed for a client be visible in a second."""
        number = self._table.known_client(client_id, group)
        if number is None:
            return
        visible_ms = self._clock.now_ms() + INVISIBLE_MS_MIN
        for queue in self._table:
            if queue.group != group:
                continue
            offsets = queue.in_flight.of_client(number)
            if offsets:
                self._changes.renew(queue, offsets, visible_ms, keeps_client=False)
            batch = queue.ordered
            if batch is not None and batch.client == number and not batch.is_done:
                self._changes.renew(queue, batch.open_offsets, visible_ms, keeps_client=False)

    def held_count(self, group: str, topic: str, queue_id: int = ALL_QUEUES) -> int:
        """Return how many pops of a group wait that asked for this queue of a topic, or for all of them."""
        return self._held.held(group, topic, queue_id)

    @property
    def all_held_count(self) -> int:
        """The number of pops that wait for messages."""
        return self._held.count

    @property
    def has_popped(self) -> bool:
        """Whether any group popped a queue that is still there."""
        return not self._table.is_empty

    def in_flight(self, group: str, real_topic: str, queue_id: int) -> int:
        """Return how many messages of a queue are in flight."""
        queue = self._table.find(group, real_topic, queue_id)
        return 0 if queue is None else queue.count

    @property
    def in_flight_count(self) -> int:
        """The number of messages in flight, but for those in order."""
        return self._table.count

    def next_offset(self, group: str, real_topic: str, queue_id: int) -> int | None:
        """Return the offset that is handed out next; None for a queue that the group never popped."""
        queue = self._table.find(group, real_topic, queue_id)
        return None if queue is None else queue.next

    def popped_topics(self, group: str) -> set[str]:
        """Return the topics, retry topics too, that a group popped here."""
        return {queue.topic for queue in self._table if queue.group == group}

    def reset(self, group: str, topic: str, queue_id: int, offset: int) -> None:
        """Let a group go on with an offset of a queue; what is in flight there is forgotten."""
        queue = self._table.find(group, topic, queue_id)
        self._offsets.commit(group, topic, queue_id, offset)
        if queue is not None:
            self._changes.reset(queue, offset)
            queue.told = offset
            self._queue_is_free(queue)

    def forget_topic(self, topic: str) -> None:
        """Forget a topic that is deleted, and the groups' retry topics for it; a slave copies that."""
        if self._durability is None:
            return
        op = TopicForgotten(topic)
        queues = queues_of(self._table, op)
        groups = {*self._groups.configs, *self._offsets.groups_of(topic), *(queue.group for queue in queues)}
        self._changes.forget(queues, op)
        for group in groups:
            self._forget_retries(group, topic)

    def forget_group(self, group: str) -> None:
        """Forget a group that is deleted, with its retry topics; a slave copies that."""
        if self._durability is None:
            return
        op = GroupForgotten(group)
        self._changes.forget(queues_of(self._table, op), op)
        for topic in list(self._topics.configs):
            self._forget_retries(group, topic)

    def _forget_retries(self, group: str, topic: str) -> None:
        for retry in set(retry_topics_of(group, topic)) - {topic}:
            if self._topics.remove(retry):
                self._store.delete_topic(retry)
                self._offsets.remove_topic(retry)
                log.info("retry topic %s is deleted", retry)

    def sweep(self) -> None:
        """Forget what waits for nobody, and try to append what the store refused."""
        self._held.sweep()
        self._changes.try_again()


def _refused(why: str) -> Refused:
    return ServiceNotAvailable(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {why}")
