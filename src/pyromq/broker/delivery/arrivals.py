"""New messages, and the pulls that wait for them.

A pull that finds nothing is held here until its queue grows by a message that it wants, or its time is up.
Held pulls cost nothing but their entry: no task, no timer. The store tells of each message that it has
(`Announcements.appended`); the pulls that want it are woken together at the end of the loop's turn, so that
a burst of messages is one answer and not many. Every few seconds a sweep answers those whose time is up, and
those whose queue grew by what nobody announced.

Where the kernel runs it holds most pulls itself (`compiled`), by the same rules. Here are those that take the
long way, by a filter of properties for one.

A message is announced once it may be read. Under asynchronous flush that is at once. Under synchronous flush
a master lets nobody read what its disk does not have yet. With failover a master that waits for its slaves
lets nobody read what they do not have yet, and a slave what its master has not confirmed. With a write buffer
a master lets nobody read what is not committed to its file. If the power failed, or the master were lost, the
same offset would be given to another message, and whoever had read the first would never see the second.
"""

from collections import deque
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from pyromq.clock import Clock
from pyromq.net.turn import Turn, TurnStep
from pyromq.store.consumequeue import ConsumeQueue
from pyromq.store.store import MessageStore

#: The subscriptions of held pulls have so many characters in all; mostly they have one each.
HELD_CHARACTERS_MAX = 32 * 1024 * 1024


@dataclass(slots=True, eq=False)
class HeldPull:
    """A pull that waits for its queue to pass `offset`.

    `wants` tests a message's tag code, `matches` the message at an offset; None wants all. `wake` runs the
    pull again; it must cope with being called after the client has gone.
    """

    offset: int
    until_ms: int
    wants: Callable[[int], bool] | None
    wake: Callable[[], None]
    matches: Callable[[int], bool] | None = None
    #: How much of what the client sent waits with it.
    characters: int = 0
    #: Whether a client waits for it; else somebody here wants to know that the queue grew.
    is_request: bool = True

    def is_met_by(self, offset: int, tags_code: int) -> bool:
        """Return whether a message that its queue just got is one to wake for."""
        return (
            offset >= self.offset
            and (self.wants is None or self.wants(tags_code))
            and (self.matches is None or self.matches(offset))
        )


#: Queues that got messages, each with the offset of the first.
Grown = Sequence[tuple[ConsumeQueue, int]]


class CompiledHolds(Protocol):
    """The pulls that the kernel holds."""

    @property
    def held_count(self) -> int:
        """The number of held pulls."""
        ...

    def grew(self, grown: Grown) -> tuple[Sequence[ConsumeQueue], bool]:
        """Note queues that got messages; return those without a held pull, and whether there are others."""
        ...

    def wake(self) -> None:
        """Answer the pulls that want what came."""
        ...

    def sweep(self) -> None:
        """Answer the pulls whose time is up or whose queue has grown."""
        ...

    def wake_all(self) -> None:
        """Answer every pull, for the broker stops."""
        ...


class Arrivals:
    """The held pulls of all queues."""

    def __init__(
        self, max_offset: Callable[[str, int], int], clock: Clock, *, step: TurnStep | None = None
    ) -> None:
        self._max_offset = max_offset
        self._clock = clock
        #: The step of a turn in which pulls are woken.
        self._step = step or Turn().step()
        self._step.run = self._run_woken
        self._held: dict[tuple[str, int], list[HeldPull]] = {}
        self._woken: list[HeldPull] = []
        self._count = 0
        #: How many of them are no requests.
        self._watch_count = 0
        self._characters = 0
        #: Set when the broker stops: what finds nothing now must not wait here.
        self.is_over = False
        #: Told of each queue that a pull begins to wait for.
        self.on_hold: Callable[[str, int], None] = lambda _topic, _queue_id: None
        #: The pulls that the kernel holds; None without it.
        self.compiled: CompiledHolds | None = None

    @property
    def held_count(self) -> int:
        """The number of held pulls."""
        return self.request_count if self.compiled is None else self.request_count + self.compiled.held_count

    @property
    def request_count(self) -> int:
        """The number of held pulls that are requests under way: those that are held here."""
        return self._count - self._watch_count

    @property
    def has_any(self) -> bool:
        """Whether somebody waits here for any queue."""
        return self._count > 0

    @property
    def is_anyone_waiting(self) -> bool:
        """Whether somebody waits for any queue, here or in the kernel."""
        return self._count > 0 or (self.compiled is not None and self.compiled.held_count > 0)

    @property
    def held_characters(self) -> int:
        """The number of characters in the subscriptions of all held pulls."""
        return self._characters

    def room(self, pulls_max: int) -> int:
        """Return how many more pulls may be held; one that may not is answered at once."""
        if self._characters >= HELD_CHARACTERS_MAX:
            return 0
        compiled = self.compiled
        held_count = self._count - self._watch_count + (0 if compiled is None else compiled.held_count)
        return max(pulls_max - held_count, 0)

    def has_room(self, pulls_max: int) -> bool:
        """Return whether one more pull may be held."""
        return self.room(pulls_max) > 0

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> None:
        """Keep a pull until its queue grows or its time is up."""
        self._held.setdefault((topic, queue_id), []).append(pull)
        self._count += 1
        self._watch_count += not pull.is_request
        self._characters += pull.characters
        self.on_hold(topic, queue_id)

    def is_awaited(self, topic: str, queue_id: int) -> bool:
        """Return whether a pull that is held here waits for a queue."""
        return (topic, queue_id) in self._held

    def grew(self, grown: Grown) -> Sequence[ConsumeQueue]:
        """Let the kernel know of queues that grew; return those that no pull waits for there."""
        if self.compiled is None:
            return [queue for queue, _ in grown]
        others, is_awaited = self.compiled.grew(grown)
        if is_awaited:
            self._step.due()
        return others

    def drop(self, topic: str, queue_id: int, pull: HeldPull) -> None:
        """Forget a pull whose client has gone; one that was woken already is no longer known."""
        held = self._held.get((topic, queue_id))
        if held is not None and pull in held:
            held.remove(pull)
            self._count -= 1
            self._watch_count -= not pull.is_request
            self._characters -= pull.characters
            if not held:
                del self._held[topic, queue_id]

    def announce(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        """Wake, at the end of this turn, the pulls that want a message which made the queue `end` long."""
        held = self._held.get((topic, queue_id))
        if held is None:
            return
        self._wake_if((topic, queue_id), lambda pull: pull.is_met_by(end - 1, tags_code))

    def sweep(self) -> None:
        """Wake the pulls whose time is up or whose queue has grown, wanted or not.

        A pull that wakes for nothing it wants is told so and moves on past it, as with RocketMQ.
        """
        if self.compiled is not None:
            self.compiled.sweep()
        now_ms, max_offset = self._clock.now_ms(), self._max_offset
        grown = []
        for queue, held in self._held.items():
            end = max_offset(*queue)
            for pull in held:
                if end > pull.offset or now_ms >= pull.until_ms:
                    grown.append((queue, end))
                    break
        for queue, end in grown:
            self._wake_if(queue, partial(_is_due, end, now_ms))

    def wake_all(self) -> None:
        """Wake every pull, for the broker stops."""
        self.is_over = True
        if self.compiled is not None:
            self.compiled.wake_all()
        for queue in list(self._held):
            self._wake_if(queue, lambda _pull: True)

    def _wake_if(self, queue: tuple[str, int], is_due: Callable[[HeldPull], bool]) -> None:
        stay: list[HeldPull] = []
        for pull in self._held[queue]:
            (self._woken if is_due(pull) else stay).append(pull)
        woken_count = len(self._held[queue]) - len(stay)
        if not woken_count:
            return
        self._step.due()
        self._count -= woken_count
        self._watch_count -= sum(not pull.is_request for pull in self._woken[-woken_count:])
        self._characters -= sum(pull.characters for pull in self._woken[-woken_count:])
        if stay:
            self._held[queue] = stay
        else:
            del self._held[queue]

    def _run_woken(self) -> None:
        woken, self._woken = self._woken, []
        for pull in woken:
            pull.wake()
        if self.compiled is not None:
            self.compiled.wake()


class Announcements:
    """Tells of messages that were stored, and holds back what may not be read yet."""

    def __init__(self, store: MessageStore, arrivals: Arrivals) -> None:
        self._store = store
        self._log = store.log
        self._arrivals = arrivals
        #: Queues that grew by what may not be read yet: the log's end then, the queues, and their ends.
        self._held: deque[tuple[int, Grown, Sequence[int]]] = deque()
        #: Up to where messages may be read, by each of the reasons that matter here.
        self._limits: dict[str, int] = {}
        #: Where the log must be confirmed before an end is told: what stands before was told by others.
        self.ends_known_from = 0
        #: The topics that the broker knows, and who is told of a message of another, with its queue.
        self.topics: Container[str] = ()
        self.on_unknown: Callable[[str, int], None] = lambda _topic, _queue_id: None
        #: Told when the log was written, and how long that took.
        self.log_grew: Callable[[float], object] = lambda _write_s: None

    @property
    def are_held_back(self) -> bool:
        """Whether messages are announced later than they are stored, to pulls that may come meanwhile."""
        return self._store.readable_position is not None

    def appended(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        """Tell everybody of a message that made its queue `end` long; the store calls this."""
        self.stored(topic, queue_id, end, tags_code)
        if topic not in self.topics:
            self.on_unknown(topic, queue_id)
        self.log_grew(self._log.write_s)

    def stored(self, topic: str, queue_id: int, end: int, tags_code: int) -> None:
        """Announce a message that made its queue `end` long, now or when it may be read."""
        if not self._is_readable():
            self.grew(topic, queue_id, end - 1, end)
            return
        self._arrivals.announce(topic, queue_id, end, tags_code)
        if self._arrivals.compiled is not None:
            queue = self._store.queue(topic, queue_id)
            if queue is not None and queue.watched:
                self._arrivals.grew(((queue, end - 1),))

    def watch(self, queue: ConsumeQueue) -> None:
        """Have the kernel say of a queue when it grows, if somebody waits for it, or may do so."""
        # Where a pull that the kernel holds waits, it is watched already.
        queue.watched = queue.watched or self._is_watched(queue)

    def grew(self, topic: str, queue_id: int, first: int, end: int) -> None:
        """Announce the messages from one offset of a queue up to another; see `stored`."""
        queue = self._store.queue(topic, queue_id)
        if queue is None:
            return
        if self._is_readable():
            self._announce(((queue, first),), (end,))
        else:
            self._held.append((self._store.max_position, ((queue, first),), (end,)))

    def grew_planned(self, grown: Grown) -> None:
        """Announce the messages from one offset of each queue up to its end; see `stored`.

        A queue that nobody waits for any more is watched no longer.
        """
        if self._is_readable():
            self._announce(grown, None)
        else:
            self._held.append((self._store.max_position, grown, [queue.end for queue, _ in grown]))

    def copied(self, grown: Grown) -> None:
        """Announce messages that a slave copied, all queues at once; see `grew_planned`.

        Nobody has said which of the queues are waited for, but most of the time none is.
        """
        if self._arrivals.is_anyone_waiting or not self._is_readable():
            self.grew_planned(grown)

    def confirmed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as the other replicas are concerned."""
        self._store.ends_are_unknown = position < self.ends_known_from
        self._limit("replicas", position)

    def flushed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as the disk is concerned."""
        self._limit("disk", position)

    def committed_up_to(self, position: int) -> None:
        """Let messages be read up to a position of the log, as far as its files are concerned."""
        self._limit("files", position)

    def _is_watched(self, queue: ConsumeQueue) -> bool:
        return self.are_held_back or self._arrivals.is_awaited(queue.topic, queue.queue_id)

    def _is_readable(self) -> bool:
        """Return whether the newest message may be read: the write buffer may have been committed with it."""
        readable = self._store.readable_position
        return readable is None or readable >= self._store.max_position

    def _limit(self, reason: str, limit: int) -> None:
        self._limits[reason] = limit
        position = self._store.readable_position = min(self._limits.values())
        held = self._held
        while held and held[0][0] <= position:
            _, grown, ends = held.popleft()
            self._announce(grown, ends)

    def _announce(self, grown: Grown, ends: Sequence[int] | None) -> None:
        """Announce messages that may be read; without `ends` all that the queues have."""
        arrivals = self._arrivals
        if arrivals.has_any:
            for at, (queue, first) in enumerate(grown):
                self._announce_each(queue, first, queue.end if ends is None else ends[at])
        for queue in arrivals.grew(grown):
            queue.watched = self._is_watched(queue)

    def _announce_each(self, queue: ConsumeQueue, first: int, end: int) -> None:
        topic, queue_id = queue.topic, queue.queue_id
        while first < end and self._arrivals.is_awaited(topic, queue_id):
            entries = self._store.entries(topic, queue_id, first, end - first)
            if not entries:
                return
            for entry in entries:
                first += 1
                self._arrivals.announce(topic, queue_id, first, entry.tags_code)


def _is_due(end: int, now_ms: int, pull: HeldPull) -> bool:
    return end > pull.offset or now_ms >= pull.until_ms
