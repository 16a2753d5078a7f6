"""Who waits for which queue.

A pull that finds nothing is held here until its queue grows by a message that it wants, or its time is up.
Held pulls cost nothing but their entry: no task, no timer. A put announces each message; the pulls that want
it are woken together at the end of the loop's turn, so that a burst of messages is one answer and not many.
Every few seconds a sweep answers those whose time is up, and those whose queue grew by what nobody
announced.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from pyromq.clock import Clock

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

    def is_met_by(self, offset: int, tags_code: int) -> bool:
        """Return whether a message that its queue just got is one to wake for."""
        return (
            offset >= self.offset
            and (self.wants is None or self.wants(tags_code))
            and (self.matches is None or self.matches(offset))
        )


class Arrivals:
    """The held pulls of all queues."""

    def __init__(self, max_offset: Callable[[str, int], int], clock: Clock) -> None:
        self._max_offset = max_offset
        self._clock = clock
        self._held: dict[tuple[str, int], list[HeldPull]] = {}
        self._woken: list[HeldPull] = []
        self._count = 0
        self._characters = 0
        #: Set when the broker stops: what finds nothing now must not wait here.
        self.is_over = False
        #: Told of each queue that a pull begins to wait for.
        self.on_hold: Callable[[str, int], None] = lambda _topic, _queue_id: None

    @property
    def held_count(self) -> int:
        """How many pulls are held."""
        return self._count

    @property
    def held_characters(self) -> int:
        """How many characters of subscriptions wait with the pulls."""
        return self._characters

    def has_room(self, pulls_max: int) -> bool:
        """Return whether one more pull may be held; one that may not is answered at once."""
        return self._count < pulls_max and self._characters < HELD_CHARACTERS_MAX

    def hold(self, topic: str, queue_id: int, pull: HeldPull) -> None:
        """Keep a pull until its queue grows or its time is up."""
        self._held.setdefault((topic, queue_id), []).append(pull)
        self._count += 1
        self._characters += pull.characters
        self.on_hold(topic, queue_id)

    def is_awaited(self, topic: str, queue_id: int) -> bool:
        """Return whether a pull waits for a queue."""
        return (topic, queue_id) in self._held

    def drop(self, topic: str, queue_id: int, pull: HeldPull) -> None:
        """Forget a pull whose client has gone; one that was woken already is no longer known."""
        held = self._held.get((topic, queue_id))
        if held is not None and pull in held:
            held.remove(pull)
            self._count -= 1
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
        for queue in list(self._held):
            self._wake_if(queue, lambda _pull: True)

    def _wake_if(self, queue: tuple[str, int], is_due: Callable[[HeldPull], bool]) -> None:
        stay: list[HeldPull] = []
        for pull in self._held[queue]:
            (self._woken if is_due(pull) else stay).append(pull)
        woken_count = len(self._held[queue]) - len(stay)
        if not woken_count:
            return
        if len(self._woken) == woken_count:
            asyncio.get_running_loop().call_soon(self._run_woken)
        self._count -= woken_count
        self._characters -= sum(pull.characters for pull in self._woken[-woken_count:])
        if stay:
            self._held[queue] = stay
        else:
            del self._held[queue]

    def _run_woken(self) -> None:
        woken, self._woken = self._woken, []
        for pull in woken:
            pull.wake()


def _is_due(end: int, now_ms: int, pull: HeldPull) -> bool:
    return end > pull.offset or now_ms >= pull.until_ms
