"""What a subscribing pull consumer has pulled and not yet handed out, and how far it got in each queue.

    pulls ──put──► batches, in the order in which they came ──take──► the application

    committed ≤ finished ≤ handed out ≤ next

A message is finished when the application asks for more, or says so by a commit. What was handed out but is
not finished is never committed, and comes again to whoever has the queue next.

There is no I/O here and no lock: all is called on one thread, but for the methods of a `Batch`, which belongs
to whoever took it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pyromq.client.incoming import held_bytes
from pyromq.errors import ConfigError, PyroError
from pyromq.model import MessageQueue, PullResult, ReceivedMessage

_MIB = 1 << 20


@dataclass(slots=True, eq=False)
class ReadQueue:
    """A queue that this consumer has; a seek makes a new one of it."""

    queue: MessageQueue
    next_offset: int = -1
    handed_out: int = -1
    finished: int = -1
    committed: int | None = None
    #: Where the last batch ends: when it is handed out, all is.
    batch_end: int = -1
    is_placed: bool = False
    is_paused: bool = False
    #: Taken away, or replaced by a seek: nothing of it is handed out or committed any more.
    is_dropped: bool = False
    waiting_count: int = 0
    waiting_bytes: int = 0
    #: Why the last pull failed.
    failure: PyroError | None = None

    def place(self, offset: int, committed: int | None) -> None:
        """Begin to read at an offset."""
        self.next_offset = self.batch_end = self.handed_out = self.finished = offset
        self.committed = committed
        self.is_placed = True

    def finish(self) -> None:
        """Note that the application is through with all that it was given."""
        self.finished = self.handed_out


@dataclass(slots=True, eq=False)
class Batch:
    """What one pull brought; whoever took it hands its messages out one by one, or all."""

    reader: ReadQueue
    messages: deque[ReceivedMessage]
    next_offset: int
    #: Whether somebody has it; on the shelf, it is nobody's.
    is_lent: bool = False

    def next_message(self) -> ReceivedMessage | None:
        """Hand out a message, if one is left and may be handed out; the one before is finished."""
        reader = self.reader
        if reader.is_dropped:
            return None
        reader.finish()
        if not self.messages or reader.is_paused or not self.is_lent:
            return None
        message = self.messages.popleft()
        reader.handed_out = message.queue_offset + 1 if self.messages else self.next_offset
        return message

    def rest(self) -> list[ReceivedMessage]:
        """Hand out all that are left."""
        messages = list(self.messages)
        self.messages.clear()
        self.reader.handed_out = self.next_offset
        return messages


@dataclass(slots=True)
class Shelf:
    """All queues of a consumer, and all batches that wait."""

    count_max: int = 1_000
    mib_max: int = 100
    _readers: dict[MessageQueue, ReadQueue] = field(default_factory=dict)
    _ready: deque[Batch] = field(default_factory=deque)

    @property
    def queues(self) -> list[MessageQueue]:
        """The queues that this consumer has, in order."""
        return sorted(self._readers)

    @property
    def readers(self) -> list[ReadQueue]:
        """The same, with how far it got."""
        return list(self._readers.values())

    def reader(self, queue: MessageQueue) -> ReadQueue:
        """Return a queue that this consumer has; raise ConfigError when it has not."""
        reader = self._readers.get(queue)
        if reader is None:
            raise ConfigError(
                f"{queue} is not assigned to this consumer: it may be another member's, or the queues are "
                "not shared out yet; assignment() says which are"
            )
        return reader

    def add(self, queues: Iterable[MessageQueue]) -> list[ReadQueue]:
        """Take queues on, and return those that are new."""
        new = [ReadQueue(queue) for queue in dict.fromkeys(queues) if queue not in self._readers]
        self._readers.update((reader.queue, reader) for reader in new)
        return new

    def drop(self, queues: Iterable[MessageQueue]) -> list[ReadQueue]:
        """Let queues go, with what waits of them, and return those that were there."""
        gone = [self._readers.pop(queue) for queue in set(queues) if queue in self._readers]
        for reader in gone:
            reader.is_dropped = True
        self._ready = deque(batch for batch in self._ready if not batch.reader.is_dropped)
        return gone

    def seek(self, queue: MessageQueue, offset: int) -> ReadQueue:
        """Begin anew in a queue, at an offset; what waits of it is forgotten."""
        (old,) = self.drop([self.reader(queue).queue])
        (new,) = self.add([queue])
        new.place(offset, old.committed)
        new.is_paused = old.is_paused
        return new

    def pause(self, queues: Iterable[MessageQueue], *, is_paused: bool) -> None:
        """Hold queues back, or let them go on; those of others are passed over, as in RocketMQ."""
        for queue in queues:
            if queue in self._readers:
                self._readers[queue].is_paused = is_paused

    def may_pull(self, reader: ReadQueue) -> bool:
        """Whether there is room for more of a queue."""
        return (
            not reader.is_paused
            and reader.waiting_count <= self.count_max
            and reader.waiting_bytes <= self.mib_max * _MIB
        )

    def put(self, reader: ReadQueue, result: PullResult) -> None:
        """Keep what a pull brought; of a queue that was let go meanwhile, nothing."""
        if reader.is_dropped:
            return
        reader.next_offset = result.next_offset
        if result.messages:
            reader.batch_end = result.next_offset
            self._count(reader, result.messages, 1)
            self._ready.append(Batch(reader, deque(result.messages), result.next_offset))
        elif reader.finished == reader.handed_out == reader.batch_end:
            # Nothing is under way, so what filters passed over is finished too.
            reader.batch_end = reader.handed_out = reader.finished = result.next_offset

    def take(self, batches_max: int = 1) -> list[Batch]:
        """Return the batches that came first, of queues that are not paused."""
        taken = list(islice((batch for batch in self._ready if not batch.reader.is_paused), batches_max))
        for batch in taken:
            # Mostly the first, so this is no search.
            self._ready.remove(batch)
            batch.is_lent = True
            self._count(batch.reader, batch.messages, -1)
        return taken

    def give_back(self, batches: Sequence[Batch]) -> None:
        """Take batches back of which messages are left; they are the next to be taken, in the same order."""
        for batch in reversed(batches):
            batch.is_lent = False
            if batch.messages and not batch.reader.is_dropped:
                self._count(batch.reader, batch.messages, 1)
                self._ready.appendleft(batch)

    def finish(self) -> None:
        """Note that the application is through with all that it was given."""
        for reader in self._readers.values():
            reader.finish()

    def note_committed(self, queue: MessageQueue, offset: int) -> None:
        """Note what a broker remembers now."""
        reader = self._readers.get(queue)
        if reader is not None:
            reader.committed = offset

    def refusal(self) -> PyroError | None:
        """Return why nothing can come, when the last pull of every queue failed."""
        failures = [reader.failure for reader in self._readers.values() if not reader.is_paused]
        return failures[-1] if failures and all(failures) else None

    def _count(self, reader: ReadQueue, messages: Iterable[ReceivedMessage], sign: int) -> None:
        for message in messages:
            reader.waiting_count += sign
            reader.waiting_bytes += sign * held_bytes(message)


def to_commit(readers: Iterable[ReadQueue]) -> list[ReadQueue]:
    """Return the queues whose finished offset the broker does not know."""
    return [reader for reader in readers if reader.is_placed and reader.finished != reader.committed]
