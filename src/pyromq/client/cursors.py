"""How far a consumer got in each queue: pulled, handed out, finished, committed.

    committed ≤ finished ≤ handed out ≤ next

A message is finished when the next one is asked for: the application is back, so it is through with it. What
was handed out but is not finished is never committed, and comes again after a crash.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from pyromq.model import MessageQueue, ReceivedMessage


@dataclass(slots=True)
class Cursor:
    """Queue offsets of one queue; each is the first that is not yet in that state."""

    next_offset: int
    handed_out: int
    finished: int
    committed: int | None


class Cursors:
    """The cursors of all queues that a consumer reads by `poll_topic` or `messages`.

    Unless it `is_committed`, no time is due for commits.
    """

    def __init__(self, *, is_committed: bool = True) -> None:
        self._by_queue: dict[MessageQueue, Cursor] = {}
        self._last_queue: dict[str, MessageQueue] = {}
        self.commit_at = float("-inf") if is_committed else float("inf")

    def get(self, queue: MessageQueue) -> Cursor | None:
        """Return a queue's cursor, if the queue was read before."""
        return self._by_queue.get(queue)

    def place(self, queue: MessageQueue, offset: int, committed: int | None) -> Cursor:
        """Begin to read a queue at an offset."""
        cursor = Cursor(offset, offset, offset, committed)
        self._by_queue[queue] = cursor
        return cursor

    def in_turn(self, topic: str, queues: tuple[MessageQueue, ...]) -> tuple[MessageQueue, ...]:
        """Return the queues, beginning after the one that gave messages last, so that none starves."""
        last = self._last_queue.get(topic)
        if last not in queues:
            return queues
        after = queues.index(last) + 1
        return queues[after:] + queues[:after]

    def pulled(self, queue: MessageQueue, next_offset: int, messages: list[ReceivedMessage]) -> None:
        """Note what a pull brought; without messages there is nothing to finish before `next_offset`."""
        cursor = self._by_queue[queue]
        cursor.next_offset = next_offset
        if messages:
            self._last_queue[queue.topic] = queue
        else:
            cursor.handed_out = cursor.finished = next_offset

    def hand_out(self, message: ReceivedMessage) -> None:
        """Note that the application has a message now."""
        cursor = self._by_queue[message.queue]
        cursor.handed_out = max(cursor.handed_out, message.queue_offset + 1)

    def hand_out_rest(self, queue: MessageQueue) -> None:
        """Note that the application has all that was pulled, or that filters took the rest."""
        cursor = self._by_queue[queue]
        cursor.handed_out = cursor.next_offset

    def take_back(self) -> None:
        """Note that what was pulled but not handed out, by an iteration that was left, is pulled again."""
        for cursor in self._by_queue.values():
            cursor.next_offset = cursor.handed_out

    def finish(self) -> None:
        """Note that the application is through with all that it was given."""
        for cursor in self._by_queue.values():
            cursor.finished = cursor.handed_out

    def committed(self, queue: MessageQueue, offset: int) -> None:
        """Note what a broker remembers now."""
        cursor = self._by_queue.get(queue)
        if cursor is not None:
            cursor.committed = offset
            cursor.finished = max(cursor.finished, min(offset, cursor.handed_out))

    def to_commit(self) -> Iterable[tuple[MessageQueue, int]]:
        """Return the queues whose finished offset the broker does not know."""
        return [
            (queue, cursor.finished)
            for queue, cursor in self._by_queue.items()
            if cursor.finished != cursor.committed
        ]
