"""The progress of a consumer in one queue: pulled, handed out, finished, committed.

    committed ≤ finished ≤ handed out ≤ next

Each offset is the first one that is not yet in that state. Every consumer keeps one rule: the committed
offset is the first one that is not finished. A message that was handed out and is not finished is never
committed; after a crash it comes again, to the next owner of the queue.

Polls and iterations hand messages out in order, and a message is finished when the application asks for more
or commits (`finish`). Listeners end in any order; their outlet knows the first message that is not finished
(`finish_to`).
"""

from dataclasses import dataclass


@dataclass(slots=True, eq=False)
class QueueProgress:
    """The offsets of one queue. All methods are called on one thread at a time."""

    next_offset: int = -1
    handed_out: int = -1
    #: The group's progress; None until something of the queue is finished or was committed before.
    finished: int | None = None
    committed: int | None = None
    #: The end of the last pull that brought messages: everything is handed out when `handed_out` reaches it.
    pulled_to: int = -1

    @property
    def is_placed(self) -> bool:
        """Whether the offset of the first pull is known."""
        return self.next_offset >= 0

    @property
    def due(self) -> int | None:
        """The offset to commit, if it is not committed."""
        return None if self.finished == self.committed or not self.is_placed else self.finished

    def place(self, offset: int, *, finished: int | None, committed: int | None) -> None:
        """Begin to read at an offset."""
        self.next_offset = self.pulled_to = self.handed_out = offset
        self.finished, self.committed = finished, committed

    def pulled(self, next_offset: int, *, has_messages: bool) -> None:
        """Note where a pull ended. Offsets without messages are finished if all before them are."""
        self.next_offset = next_offset
        if has_messages:
            self.pulled_to = next_offset
        elif self.finished == self.handed_out == self.pulled_to:
            self.pulled_to = self.handed_out = self.finished = next_offset

    def finish(self) -> None:
        """Note that the application is done with everything that was handed out."""
        self.finished = self.handed_out

    def finish_to(self, offset: int) -> None:
        """Note the first offset that is not finished; progress never goes back."""
        if self.finished is None or offset > self.finished:
            self.finished = offset

    def take_back(self) -> None:
        """Pull again what was not handed out: the iteration that had it was left."""
        self.next_offset = self.pulled_to = self.handed_out

    def note_committed(self, offset: int) -> None:
        """Note the offset that the broker or the local file remembers now."""
        self.committed = offset
        if self.finished is not None:
            self.finished = max(self.finished, min(offset, self.handed_out))
