"""The messages that all groups have in flight: a function of journal records and done records.

    (group, real topic, queue) ─► PopQueue: next offset, messages in flight or the batch in order
    dues                       ─► a heap of (visible time, queue, offset), a number for each pop of a queue

The same calls change it on a running master, at a start and on a replica (`popped_messages.py`). A due in the
heap says only where to look: what was acknowledged or moved meanwhile is passed over, and when most dues are
such the heap is made anew.
"""

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Final

from pyromq.broker.pop.in_flight import NO_CLIENT
from pyromq.broker.pop.ordered import OrderedBatch
from pyromq.broker.pop.pop_asks import COUNT_MAX
from pyromq.kernel import IS_COMPILED

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.broker.pop.in_flight import InFlight, Tally
else:
    from pyromq._kernel.storage.in_flight import InFlight, Tally

_OFFSET_BITS: Final = 44
_QUEUE_BITS: Final = 24
_OFFSET_MASK: Final = (1 << _OFFSET_BITS) - 1
_QUEUE_MASK: Final = (1 << _QUEUE_BITS) - 1
#: In the place of an offset: the batch that is popped in order.
_ORDERED: Final = _OFFSET_MASK
_STALE_MAX: Final = 4_096
#: With so many clients, those are looked for that have nothing in flight.
_CLIENTS_MAX: Final = 4_096


class PopQueue:
    """One queue of a topic, as one group pops it."""

    __slots__ = ("group", "in_flight", "next", "number", "ordered", "queue_id", "told", "topic")

    def __init__(
        self, group: str, topic: str, queue_id: int, number: int, next_offset: int, tally: Tally
    ) -> None:
        self.group = group
        #: The topic that the records lie in.
        self.topic = topic
        self.queue_id = queue_id
        self.number = number
        #: The offset that is handed out next.
        self.next = next_offset
        self.in_flight = InFlight(tally)
        self.ordered: OrderedBatch | None = None
        #: The progress that others were told.
        self.told: int | None = None

    @property
    def name(self) -> tuple[str, str, int]:
        """The name of the queue in the journal."""
        return self.group, self.topic, self.queue_id

    @property
    def committed(self) -> int:
        """Up to where all messages are finished."""
        first = self.in_flight.first
        if self.ordered is not None and not self.ordered.is_done:
            return self.ordered.next_offset if first is None else min(first, self.ordered.next_offset)
        return self.next if first is None else first

    @property
    def count(self) -> int:
        """The number of messages in flight."""
        ordered = 0 if self.ordered is None else len(self.ordered.offsets) - len(self.ordered.acknowledged)
        return self.in_flight.count + ordered

    def find_ordered(self, offset: int) -> OrderedBatch | None:
        """Return the batch in order in which a message is open."""
        return self.ordered if self.ordered is not None and self.ordered.is_open(offset) else None


class PopTable:
    """The messages in flight of all groups."""

    def __init__(self) -> None:
        self._queues: dict[tuple[str, str, int], PopQueue] = {}
        self._by_number: dict[int, PopQueue] = {}
        self._by_place: dict[tuple[str, int], list[PopQueue]] = {}
        self._numbers = 0
        self._dues: list[int] = []
        #: Clients for which messages are renewed, by their numbers.
        self.clients: list[tuple[str, str]] = []
        self._client_numbers: dict[tuple[str, str], int] = {}
        #: Counts messages in flight, and is raised by each change.
        self.tally = Tally()

    def __iter__(self) -> Iterator[PopQueue]:
        return iter(list(self._queues.values()))

    @property
    def is_empty(self) -> bool:
        """Whether no group has popped."""
        return not self._queues

    @property
    def count(self) -> int:
        """The number of messages in flight, but for those in order."""
        return self.tally.count

    @property
    def revision(self) -> int:
        """A number that each change raises."""
        return self.tally.revision

    # Queues

    def find(self, group: str, topic: str, queue_id: int) -> PopQueue | None:
        """Return a queue that the group has popped."""
        return self._queues.get((group, topic, queue_id))

    def make(self, group: str, topic: str, queue_id: int, next_offset: int) -> PopQueue:
        """Return a queue that the group pops from an offset on."""
        self._numbers = (self._numbers + 1) & _QUEUE_MASK
        while self._numbers in self._by_number:
            self._numbers = (self._numbers + 1) & _QUEUE_MASK
        queue = PopQueue(group, topic, queue_id, self._numbers, next_offset, self.tally)
        self._queues[queue.name] = self._by_number[queue.number] = queue
        self._by_place.setdefault((topic, queue_id), []).append(queue)
        return queue

    def at_place(self, topic: str, queue_id: int) -> Sequence[PopQueue]:
        """Return the queue as all groups pop it."""
        return self._by_place.get((topic, queue_id), ())

    def forget(self, queue: PopQueue) -> None:
        """Forget a queue, and what is in flight there."""
        self.tally.revision += 1
        # Who still knows the queue finds nothing there.
        queue.in_flight.clear()
        del self._queues[queue.name]
        del self._by_number[queue.number]
        place = self._by_place[queue.topic, queue.queue_id]
        place.remove(queue)
        if not place:
            del self._by_place[queue.topic, queue.queue_id]

    def clear(self) -> None:
        """Forget everything."""
        self.__init__()  # type: ignore[misc]

    # Clients

    def client_number(self, client_id: str, group: str) -> int:
        """Return the number of a client for which messages are renewed."""
        if not client_id:
            return NO_CLIENT
        number = self._client_numbers.get((client_id, group))
        if number is None:
            number = self._client_numbers[client_id, group] = len(self.clients)
            self.clients.append((client_id, group))
        return number

    def known_client(self, client_id: str, group: str) -> int | None:
        """Return the number of a client, None when nothing was ever renewed for it."""
        return self._client_numbers.get((client_id, group))

    def forget_clients(self) -> None:
        """Forget clients for which nothing is renewed any more, when there are many."""
        if len(self.clients) <= _CLIENTS_MAX:
            return
        used: set[int] = set()
        for queue in self._queues.values():
            used |= queue.in_flight.clients()
            if queue.ordered is not None:
                used.add(queue.ordered.client)
        used.discard(NO_CLIENT)
        numbers = {old: new for new, old in enumerate(sorted(used))}
        self.clients = [self.clients[old] for old in sorted(used)]
        self._client_numbers = {client: number for number, client in enumerate(self.clients)}
        for queue in self._queues.values():
            queue.in_flight.renumber(numbers)
            if queue.ordered is not None:
                queue.ordered.client = numbers.get(queue.ordered.client, NO_CLIENT)

    # What happens

    def hand_out(
        self, queue: PopQueue, offsets: Sequence[int], popped_at_ms: int, visible_at_ms: int, client: int
    ) -> None:
        """Note that messages were handed out."""
        self.tally.revision += 1
        queue.ordered = None
        in_flight = queue.in_flight
        in_flight.add(offsets, popped_at_ms, visible_at_ms, client)
        for at in range(0, len(offsets), COUNT_MAX):
            self._push(visible_at_ms, queue, offsets[at])

    def end(self, queue: PopQueue, offset: int) -> bool:
        """Note that a message is finished; return whether it was in flight."""
        self.tally.revision += 1
        at = queue.in_flight.find(offset)
        if at >= 0:
            self.end_at(queue, at)
            return True
        batch = queue.find_ordered(offset)
        if batch is not None:
            batch.acknowledged.add(batch.place(offset))
        return batch is not None

    def end_at(self, queue: PopQueue, at: int) -> None:
        """Note that the message at a place of a queue's columns is finished."""
        self.tally.revision += 1
        queue.in_flight.end(at)

    def move(self, queue: PopQueue, offset: int, popped_at_ms: int, visible_at_ms: int) -> None:
        """Note that a message has another handle and another visible time."""
        self.tally.revision += 1
        at = queue.in_flight.find(offset)
        if at >= 0:
            queue.in_flight.move(at, popped_at_ms, visible_at_ms)
            self._push(visible_at_ms, queue, offset)

    def renew(
        self, queue: PopQueue, offsets: Sequence[int], visible_at_ms: int, *, keeps_client: bool
    ) -> None:
        """Note that messages have another visible time and keep their handles; in order, all of the batch."""
        self.tally.revision += 1
        batch = queue.ordered
        if batch is not None and any(batch.place(offset) >= 0 for offset in offsets):
            batch.visible_at_ms = visible_at_ms
            batch.client = batch.client if keeps_client else NO_CLIENT
            self._push(batch.blocked_until_ms, queue, _ORDERED)
            return
        for offset in offsets:
            at = queue.in_flight.find(offset)
            if at >= 0:
                queue.in_flight.renew(at, visible_at_ms, keeps_client=keeps_client)
                self._push(visible_at_ms, queue, offset)

    def hand_out_in_order(self, queue: PopQueue, batch: OrderedBatch) -> None:
        """Note that a batch was handed out in order; it takes the place of the one before."""
        self.tally.revision += 1
        queue.ordered = batch
        queue.next = batch.offsets[-1] + 1
        self._push(batch.visible_at_ms, queue, _ORDERED)

    def move_in_order(self, queue: PopQueue, offset: int, visible_at_ms: int) -> None:
        """Note that a message of a batch has a visible time of its own."""
        self.tally.revision += 1
        batch = queue.find_ordered(offset)
        if batch is not None:
            batch.moved[offset] = visible_at_ms
            self._push(batch.blocked_until_ms, queue, _ORDERED)

    def reset(self, queue: PopQueue, offset: int) -> None:
        """Note that a group goes on somewhere else; nothing is in flight there any more."""
        self.tally.revision += 1
        queue.in_flight.clear()
        queue.ordered = None
        queue.next = offset

    def raise_floor(self, queue: PopQueue, offset: int) -> None:
        """Note that everything before an offset is finished."""
        queue.in_flight.end_before(offset)
        if queue.ordered is not None and queue.ordered.next_offset < offset:
            queue.ordered = None
        queue.next = max(queue.next, offset)

    # What is due

    @property
    def next_due_ms(self) -> int | None:
        """The time at which a message may be due; it may have been finished since."""
        return self._dues[0] >> (_OFFSET_BITS + _QUEUE_BITS) if self._dues else None

    def take_due(self, now_ms: int) -> tuple[PopQueue, list[int]] | None:
        """Return a queue and what is due of its next pop; no offsets when it is popped in order.

        None when nothing is due. What is returned is not returned again before `put_back`.
        """
        dues = self._dues
        while dues and dues[0] >> (_OFFSET_BITS + _QUEUE_BITS) <= now_ms:
            due = heappop(dues)
            queue = self._by_number.get(due >> _OFFSET_BITS & _QUEUE_MASK)
            if queue is None:
                continue
            offset = due & _OFFSET_MASK
            if offset == _ORDERED:
                if queue.ordered is not None:
                    return queue, []
                continue
            offsets = queue.in_flight.due_from(offset, now_ms, COUNT_MAX)
            if offsets:
                return queue, offsets
        return None

    def put_back(self, queue: PopQueue, offset: int, at_ms: int) -> None:
        """Have messages taken again at a time, from an offset on."""
        self._push(at_ms, queue, offset)

    def put_back_ordered(self, queue: PopQueue, at_ms: int) -> None:
        """Have the batch in order of a queue taken again at a time."""
        self._push(at_ms, queue, _ORDERED)

    def _push(self, at_ms: int, queue: PopQueue, offset: int) -> None:
        heappush(self._dues, (max(at_ms, 0) << _QUEUE_BITS | queue.number) << _OFFSET_BITS | offset)
        if len(self._dues) > 2 * self.count + 2 * len(self._queues) + _STALE_MAX:
            self.remake_dues()

    def remake_dues(self) -> None:
        """Make the heap of what is in flight now."""
        dues: list[int] = []
        for queue in self._queues.values():
            if queue.ordered is not None and not queue.ordered.is_done:
                until = queue.ordered.blocked_until_ms
                dues.append((until << _QUEUE_BITS | queue.number) << _OFFSET_BITS | _ORDERED)
            in_flight, last_ms, last_at = queue.in_flight, -1, 0
            for at in in_flight.open_places():
                visible_ms = max(in_flight.visible_at_ms(at), 0)
                if visible_ms != last_ms or at - last_at >= COUNT_MAX:
                    offset = in_flight.offset(at)
                    dues.append((visible_ms << _QUEUE_BITS | queue.number) << _OFFSET_BITS | offset)
                    last_ms, last_at = visible_ms, at
        heapify(dues)
        self._dues = dues
