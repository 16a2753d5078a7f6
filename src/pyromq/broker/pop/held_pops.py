"""Pops that wait: a line for each group and topic, in the order in which they came.

    message ─► its queue grew ──┐
    retry   ─► its queue grew ──┼─► the line is due ─► its pops are tried in their order when the turn ends:
    last ack of an ordered one ─┘   who finds something is answered, who finds nothing waits on, and nobody
                                    else asks for the same

So a message wakes one pop, whoever else waits. A line watches its queues as a held pull does (`Arrivals`),
which knows from when on a message may be read.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Final

from pyromq.broker.delivery.arrivals import HELD_CHARACTERS_MAX, Arrivals, HeldPull
from pyromq.broker.kinds.alarm import Alarm
from pyromq.broker.pop.pop_asks import PopAsk, Popped
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.errors import Refused, ServiceNotAvailable

#: Later than any pop waits.
_NEVER_MS: Final = 1 << 60
_STALE_MAX: Final = 4_096
#: Tries a pop, and says whether a queue may have more that nobody looked at; None: nothing yet.
Try = Callable[[PopAsk], tuple[Popped | None, bool]]


class HeldPop:
    """A pop that waits. What it gets is given to `found`."""

    __slots__ = ("ask", "attempt", "found", "number")

    def __init__(self, ask: PopAsk, number: int, attempt: Try, found: "asyncio.Future[Popped]") -> None:
        self.ask = ask
        self.number = number
        self.attempt = attempt
        self.found = found

    @property
    def want(self) -> tuple[object, ...]:
        """Equal for pops of which all find nothing when one does."""
        ask = self.ask
        return ask.queue_id, ask.wanted.expression or ask.wanted, ask.is_fifo and ask.attempt_id, self.attempt


class PopLine:
    """The pops of one group that wait for one topic."""

    __slots__ = ("counts", "group", "pops", "topic", "watches")

    def __init__(self, group: str, topic: str) -> None:
        self.group = group
        self.topic = topic
        #: In the order in which they came.
        self.pops: dict[HeldPop, None] = {}
        #: How many of them ask for each queue.
        self.counts: Counter[int] = Counter()
        #: What watches each queue, until it grows.
        self.watches: dict[tuple[str, int], HeldPull] = {}


class HeldPops:
    """All pops that wait. `queues_of` tells which queues a group pops for a topic."""

    def __init__(
        self,
        arrivals: Arrivals,
        clock: Clock,
        *,
        ends_at: Callable[[str, int], int],
        queues_of: Callable[[str, str], Sequence[tuple[str, int]]],
        nothing: Callable[[PopAsk], Popped],
        wake: Callable[[], None],
    ) -> None:
        self._arrivals = arrivals
        self._clock = clock
        self._ends_at = ends_at
        self._queues_of = queues_of
        self._nothing = nothing
        #: Has `run_due` called when this turn ends.
        self._wake = wake
        self._lines: dict[tuple[str, str], PopLine] = {}
        self._due: dict[PopLine, None] = {}
        #: When their times are up, by number; some of them wait no more.
        self._until: list[tuple[int, int]] = []
        self._waiting: dict[int, HeldPop] = {}
        self._numbers = count()
        self._alarm: Alarm | None = None
        #: The length of all their filters.
        self._characters = 0
        self.is_over = False

    @property
    def count(self) -> int:
        """The number of pops that wait."""
        return len(self._waiting)

    @property
    def has_room(self) -> bool:
        """Whether the filters of those that wait leave room for another."""
        return self._characters < HELD_CHARACTERS_MAX

    def held(self, group: str, topic: str, queue_id: int | None = None) -> int:
        """Return how many pops of a group wait for a topic, or for one of its queues."""
        line = self._lines.get((group, topic))
        if line is None:
            return 0
        return len(line.pops) if queue_id is None else line.counts[queue_id]

    def hold(self, ask: PopAsk, wait_ms: int, attempt: Try) -> "asyncio.Future[Popped]":
        """Let a pop wait that found nothing."""
        self.check_not_over()
        found: asyncio.Future[Popped] = asyncio.get_running_loop().create_future()
        pop = HeldPop(ask, next(self._numbers), attempt, found)
        line = self._lines.get((ask.group, ask.topic))
        if line is None:
            line = self._lines[ask.group, ask.topic] = PopLine(ask.group, ask.topic)
        line.pops[pop] = None
        line.counts[ask.queue_id] += 1
        self._characters += len(ask.wanted.expression)
        self._waiting[pop.number] = pop
        found.add_done_callback(partial(self._forget_cancelled, line, pop))
        heappush(self._until, (self._clock.now_ms() + wait_ms, pop.number))
        if len(self._until) > 2 * len(self._waiting) + _STALE_MAX:
            self._until = sorted(until for until in self._until if until[1] in self._waiting)
        self._set_alarm()
        self._watch(line)
        return found

    def check_not_over(self) -> None:
        """Refuse a pop that found nothing when the broker stops; see `PullHandlers`."""
        if self.is_over:
            raise ServiceNotAvailable(
                ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; pop again in some seconds"
            )

    def line_is_due(self, group: str, topic: str) -> None:
        """Have the pops of a line tried when this turn ends."""
        line = self._lines.get((group, topic))
        if line is not None and line.pops:
            self._due[line] = None
            self._wake()

    def run_due(self) -> None:
        """Try the pops of the lines that are due."""
        due, self._due = self._due, {}
        for line in due:
            self._run(line)

    def stop(self) -> None:
        """Refuse all that wait, for the broker stops."""
        self.is_over = True
        if self._alarm is not None:
            self._alarm.end()
        for line in list(self._lines.values()):
            for pop in list(line.pops):
                self._leave(line, pop)
                if not pop.found.done():
                    pop.found.set_exception(
                        ServiceNotAvailable(
                            ResponseCode.SERVICE_NOT_AVAILABLE, "the broker stops; pop again in some seconds"
                        )
                    )
            self._drop(line)

    # Inside

    def _run(self, line: PopLine) -> None:
        empty: set[tuple[object, ...]] = set()
        has_more = False
        for pop in list(line.pops):
            if pop.found.done() or pop.want in empty:
                continue
            try:
                popped, is_more = pop.attempt(pop.ask)
            except Refused as refusal:
                self._leave(line, pop)
                pop.found.set_exception(refusal)
                continue
            has_more = has_more or is_more
            if popped is None:
                empty.add(pop.want)
            else:
                self._leave(line, pop)
                pop.found.set_result(popped)
        if has_more:
            # They go on behind what they passed over, in the next turn.
            self.line_is_due(line.group, line.topic)
        self._watch(line)

    def _watch(self, line: PopLine) -> None:
        """Watch all queues that are not watched, from their ends on."""
        if not line.pops:
            return
        for queue in self._queues_of(line.group, line.topic):
            if queue not in line.watches:
                watch = HeldPull(
                    self._ends_at(*queue), _NEVER_MS, None, partial(self._grew, line, queue), is_request=False
                )
                line.watches[queue] = watch
                self._arrivals.hold(*queue, watch)

    def _grew(self, line: PopLine, queue: tuple[str, int]) -> None:
        line.watches.pop(queue, None)
        if line.pops:
            self._due[line] = None
            self._wake()
        elif not line.watches:
            self._lines.pop((line.group, line.topic), None)

    def _leave(self, line: PopLine, pop: HeldPop) -> None:
        if self._waiting.pop(pop.number, None) is not None:
            del line.pops[pop]
            line.counts[pop.ask.queue_id] -= 1
            self._characters -= len(pop.ask.wanted.expression)

    def _forget_cancelled(self, line: PopLine, pop: HeldPop, found: "asyncio.Future[Popped]") -> None:
        if found.cancelled():
            self._leave(line, pop)

    def _drop(self, line: PopLine) -> None:
        for queue, watch in line.watches.items():
            self._arrivals.drop(*queue, watch)
        line.watches.clear()
        self._lines.pop((line.group, line.topic), None)

    def sweep(self) -> None:
        """Forget lines in which nobody waits."""
        for line in [line for line in self._lines.values() if not line.pops]:
            self._drop(line)

    # Time

    def _set_alarm(self) -> None:
        if self._alarm is None:
            self._alarm = Alarm(self._clock, self._rung)
        while self._until and self._until[0][1] not in self._waiting:
            heappop(self._until)
        if self._until:
            self._alarm.set(self._until[0][0])

    def _rung(self) -> None:
        now_ms = self._clock.now_ms()
        while self._until and self._until[0][0] <= now_ms:
            pop = self._waiting.get(heappop(self._until)[1])
            line = None if pop is None else self._lines.get((pop.ask.group, pop.ask.topic))
            if pop is not None and line is not None:
                self._leave(line, pop)
                if not pop.found.done():
                    pop.found.set_result(self._nothing(pop.ask))
        self._set_alarm()
