"""Batches between the pulls and the application that polls or iterates.

    pulls ──put──► batches, in the order in which they came ──take──► the application

A message is finished when the application asks for more, or says so by a commit (`QueueProgress.finish`).

There is no I/O here and no lock: all is called on one thread, but for the methods of a `PulledBatch`, which
belongs to whoever took it.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice

from pyromq.client.consumer.incoming import held_bytes
from pyromq.client.consumer.owned_queue import OwnedQueue
from pyromq.errors import PyroError
from pyromq.model import PullResult, ReceivedMessage


class ReadQueue(OwnedQueue):
    """A queue that is read ahead of the application; `count` and `bytes` are of batches on the shelf."""

    __slots__ = ()

    @property
    def first_offset(self) -> int | None:
        """The smallest offset that waits, if any does."""
        return self.progress.handed_out if self.count else None

    @property
    def last_offset(self) -> int | None:
        """The largest offset that waits, if any does."""
        return self.progress.next_offset - 1 if self.count else None


@dataclass(slots=True, eq=False)
class PulledBatch:
    """The messages of one pull; whoever took it hands them out one by one, or all."""

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
        progress = reader.progress
        progress.finished = progress.handed_out
        if not self.messages or reader.is_paused or not self.is_lent:
            return None
        message = self.messages.popleft()
        progress.handed_out = message.queue_offset + 1 if self.messages else self.next_offset
        return message

    def rest(self) -> list[ReceivedMessage]:
        """Hand out all that are left."""
        messages = list(self.messages)
        self.messages.clear()
        self.reader.progress.handed_out = self.next_offset
        return messages


@dataclass(slots=True)
class BatchShelf:
    """The batches of all queues of a consumer."""

    _ready: deque[PulledBatch] = field(default_factory=deque)

    def put(self, reader: ReadQueue, result: PullResult) -> None:
        """Keep the messages of a pull; of a queue that was dropped meanwhile, none."""
        if reader.is_dropped:
            return
        reader.progress.pulled(result.next_offset, has_messages=bool(result.messages))
        if result.messages:
            self._count(reader, result.messages, 1)
            self._ready.append(PulledBatch(reader, deque(result.messages), result.next_offset))

    def take(self, batches_max: int = 1) -> list[PulledBatch]:
        """Return the batches that came first, of queues that are not paused."""
        taken = list(islice((batch for batch in self._ready if not batch.reader.is_paused), batches_max))
        for batch in taken:
            # Mostly the first, so this is no search.
            self._ready.remove(batch)
            batch.is_lent = True
            self._count(batch.reader, batch.messages, -1)
        return taken

    def give_back(self, batches: Sequence[PulledBatch]) -> None:
        """Take batches back of which messages are left; they are the next to be taken, in the same order."""
        for batch in reversed(batches):
            batch.is_lent = False
            if batch.messages and not batch.reader.is_dropped:
                self._count(batch.reader, batch.messages, 1)
                self._ready.appendleft(batch)

    def forget_dropped(self) -> None:
        """Forget the batches of queues that were dropped."""
        self._ready = deque(batch for batch in self._ready if not batch.reader.is_dropped)

    def _count(self, reader: ReadQueue, messages: Iterable[ReceivedMessage], sign: int) -> None:
        for message in messages:
            reader.count += sign
            reader.bytes += sign * held_bytes(message)


def common_refusal(readers: Iterable[ReadQueue]) -> PyroError | None:
    """Return why nothing can come, when the last pull of every queue that is not paused failed."""
    failures = [reader.failure for reader in readers if not reader.is_paused]
    return failures[-1] if failures and all(failures) else None
