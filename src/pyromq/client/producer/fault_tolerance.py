"""Keeping away from slow brokers, which is off unless a setting asks for it.

`sendLatencyFaultEnable` (RocketMQ 4.9.8: MQFaultStrategy): a try that took long keeps its broker out for a
while, and a try that failed counts as one of 30 seconds.

| took at least (ms) | 50 | 100 | 550    | 1,000  | 2,000   | 3,000   | 15,000  |
| ------------------ | -- | --- | ------ | ------ | ------- | ------- | ------- |
| out for (ms)       | 0  | 0   | 30,000 | 60,000 | 120,000 | 180,000 | 600,000 |

When all brokers are out, one of the better half is taken all the same.

`sendLeastLatencyEnable` is ours: the queue whose last send took least, in turn among those that are equal.
"""

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyromq.client.producer.queue_choice import RoundRobin
from pyromq.clock import Clock
from pyromq.model import MessageQueue

LATENCY_MAX_MS: Final = (50, 100, 550, 1_000, 2_000, 3_000, 15_000)
NOT_AVAILABLE_MS: Final = (0, 0, 30_000, 60_000, 120_000, 180_000, 600_000)
#: What a try that failed counts as.
ISOLATED_LATENCY_MS: Final = 30_000
#: A measured latency holds for this long: a queue that was slow once gets another chance.
MEASURED_MS_MAX: Final = 30_000


def out_for_ms(latency_ms: int) -> int:
    """Return for how long a broker is kept out after a try that took so long."""
    at = sum(1 for limit in LATENCY_MAX_MS if latency_ms >= limit)
    return NOT_AVAILABLE_MS[at - 1] if at else 0


@dataclass(frozen=True, slots=True)
class FaultItem:
    """A broker's last try: how long it took, and from when on the broker is available again."""

    broker_name: str
    latency_ms: int
    available_at_ms: int


class Faults:
    """The last try of every broker. Safe to use from many threads: entries are replaced whole."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._faults: dict[str, FaultItem] = {}
        self._turn = itertools.count(random.randrange(1 << 31))

    def note(self, broker_name: str, latency_ms: int, *, is_failure: bool) -> None:
        """Note how long a try took, whether it succeeded or not."""
        out_ms = out_for_ms(ISOLATED_LATENCY_MS if is_failure else latency_ms)
        self._faults[broker_name] = FaultItem(broker_name, latency_ms, self._clock.now_ms() + out_ms)

    def is_available(self, broker_name: str) -> bool:
        """Whether a broker is not kept out now; one that was never tried is available."""
        fault = self._faults.get(broker_name)
        return fault is None or self._clock.now_ms() >= fault.available_at_ms

    def choose(self, turn: RoundRobin, queues: Sequence[MessageQueue]) -> MessageQueue:
        """Return the next queue of an available broker; if there is none, one of the better brokers'."""
        for _ in queues:
            queue = turn.choose(queues)
            if self.is_available(queue.broker_name):
                return queue
        broker_name = self._at_least()
        if broker_name is not None:
            of_broker = [queue for queue in queues if queue.broker_name == broker_name]
            if of_broker:
                return turn.choose(of_broker)
            # The topic is not on that broker any more.
            self._faults.pop(broker_name, None)
        return turn.choose(queues)

    def _at_least(self) -> str | None:
        now_ms = self._clock.now_ms()
        ranked = sorted(
            self._faults.copy().values(),
            key=lambda fault: (now_ms < fault.available_at_ms, fault.latency_ms, fault.available_at_ms),
        )
        if not ranked:
            return None
        better_half = ranked[: max(1, len(ranked) // 2)]
        return better_half[next(self._turn) % len(better_half)].broker_name


class Latencies:
    """The latency of the last send to each queue. Safe to use from many threads."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._measured: dict[MessageQueue, tuple[float, int]] = {}

    def note(self, queue: MessageQueue, latency_ms: int, *, is_failure: bool) -> None:
        """Note how long a try took; one that failed is worse than any that did not."""
        took_ms = math.inf if is_failure else latency_ms
        self._measured[queue] = (took_ms, self._clock.now_ms() + MEASURED_MS_MAX)

    def choose(
        self, turn: RoundRobin, queues: Sequence[MessageQueue], *, avoid: str | None = None
    ) -> MessageQueue:
        """Return the fastest queue, away from the broker named `avoid` if there is any other.

        A queue that was not measured lately counts as the fastest, so that it is measured.
        """
        candidates = [queue for queue in queues if queue.broker_name != avoid] or queues
        now_ms = self._clock.now_ms()
        latencies = [self._latency_ms(queue, now_ms) for queue in candidates]
        least = min(latencies)
        return turn.choose(
            [queue for queue, latency in zip(candidates, latencies, strict=True) if latency == least]
        )

    def _latency_ms(self, queue: MessageQueue, now_ms: int) -> float:
        latency_ms, until_ms = self._measured.get(queue, (0, 0))
        return latency_ms if now_ms < until_ms else 0
