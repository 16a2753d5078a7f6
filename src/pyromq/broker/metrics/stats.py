"""Counts of a broker's traffic, as RocketMQ's BrokerStatsManager and StoreStatsService tell them.

Nothing is counted while messages pass. What came in is how much longer the queues are than at the last look;
their bytes are those of the newest entries, times how many there are. What went out the kernel counts with
each kind of pull, and is asked every ten seconds; the pulls that take the long way are counted one by one.

    minute  the last 60 s, a sample every 10 s      hour  60 min, every 10 min      day  24 h, every hour
"""

import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyromq.broker.groups.offsets import SEPARATOR
from pyromq.clock import Clock
from pyromq.store.consumequeue import ENTRY, ConsumeQueue
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.operation_bodies import Rate, Rates

SAMPLE_S: Final = 10.0
#: Samples of ten seconds from one of the hour, and of the day, to the next.
_HOUR_EVERY: Final = 60
_DAY_EVERY: Final = 360
_SAMPLE_MS: Final = 10_000
#: Entries of a queue whose sizes stand for all new ones.
_SIZED_ENTRIES: Final = 64
#: Seconds between looks at all queues, however often somebody asks.
_LOOK_S: Final = 1.0

TOPIC_PUT_NUMS: Final = "TOPIC_PUT_NUMS"
TOPIC_PUT_SIZE: Final = "TOPIC_PUT_SIZE"
GROUP_GET_NUMS: Final = "GROUP_GET_NUMS"
GROUP_GET_SIZE: Final = "GROUP_GET_SIZE"
BROKER_PUT_NUMS: Final = "BROKER_PUT_NUMS"
BROKER_GET_NUMS: Final = "BROKER_GET_NUMS"

#: (messages, bytes, pulls) by group, topic and queue.
Served = Mapping[tuple[str, str, int], tuple[int, int, int]]
#: When, and what the sum and the number of times were then.
_Sample = tuple[int, int, int]


def _samples(count: int) -> Callable[[], "deque[_Sample]"]:
    return lambda: deque(maxlen=count)


@dataclass(slots=True)
class _Counted:
    """A number that only grows, and what it was before."""

    value: int = 0
    times: int = 0
    minute: "deque[_Sample]" = field(default_factory=_samples(7))
    hour: "deque[_Sample]" = field(default_factory=_samples(7))
    day: "deque[_Sample]" = field(default_factory=_samples(25))

    def begin(self, now_ms: int) -> "_Counted":
        """Let each period begin with nothing, one sample ago."""
        self.minute.append((now_ms - _SAMPLE_MS, 0, 0))
        self.hour.append((now_ms - _HOUR_EVERY * _SAMPLE_MS, 0, 0))
        self.day.append((now_ms - _DAY_EVERY * _SAMPLE_MS, 0, 0))
        return self

    def rate(self, samples: "deque[_Sample]", now_ms: int) -> Rate:
        """Return how much came since the oldest of some samples."""
        at_ms, value, times = samples[0]
        total, count = self.value - value, self.times - times
        return Rate(
            sum=total,
            tps=total * 1000 / max(now_ms - at_ms, 1),
            avgpt=total / count if count > 0 else 0.0,
        )


@dataclass(frozen=True, slots=True)
class MessageTotals:
    """All messages since the start: stored, given out, and pulls that found some or none; bytes stored."""

    put: int = 0
    put_bytes: int = 0
    got: int = 0
    found: int = 0
    missed: int = 0


class BrokerStats:
    """Counts of one broker since its start. `cluster` is what RocketMQ calls the broker's own numbers."""

    def __init__(self, store: MessageStore, clock: Clock, *, cluster: str) -> None:
        self._store = store
        self._clock = clock
        self._cluster = cluster
        #: Asked for what the kernel gave out since it was asked last.
        self.take_served: Callable[[], Served] = dict
        #: Asked then how many of its pulls found nothing.
        self.take_missed: Callable[[], int] = int
        #: Told the sizes of a queue's newest messages, and for how many new ones they stand.
        self.on_sizes: Callable[[list[int], int], None] | None = None
        self.started_at_ms = clock.now_ms()
        self._ends: dict[ConsumeQueue, int] = {}
        self._counted: dict[tuple[str, str], _Counted] = {}
        self._totals = MessageTotals()
        self._found = 0
        self._missed = 0
        self._samples: deque[tuple[float, MessageTotals]] = deque(maxlen=62)
        self._sample_count = 0
        self._looked_at = float("-inf")
        self._day = 0
        #: What the totals were in the morning of today, and of yesterday.
        self.this_morning = MessageTotals()
        self.yesterday_morning = MessageTotals()
        #: At a slave, its master's brokerRole by the master's own word; empty while that is not known.
        self.master_role = ""
        #: Where RocketMQ 5's SDKs connect, and why they cannot where somebody wants it; both may be empty.
        self.grpc_address = self.why_no_grpc = ""

    def note_grpc(self, address: str | None, why_not: str | None) -> None:
        """Note where RocketMQ 5's SDKs connect, or why they cannot."""
        self.grpc_address, self.why_no_grpc = address or "", why_not or ""

    def note_master_role(self, role: str) -> None:
        """Note what a slave's master says of its role."""
        self.master_role = role

    def start(self) -> None:
        """Count from now on; the store is open."""
        self.started_at_ms = self._clock.now_ms()
        self._ends = {queue: queue.end for queue in self._store.queues}
        self._day = _day_of(self.started_at_ms)
        self._samples.append((self._clock.monotonic(), self._totals))

    # Counting

    def pulled(self, group: str, topic: str, count: int, size: int) -> None:
        """Count a pull that took the long way, by what it found."""
        if count:
            self._found += 1
            self._add_got(group, topic, count, size, 1)
        else:
            self._missed += 1

    def sample(self) -> None:
        """Look, and remember it; to be called every ten seconds."""
        self.look()
        now_ms = self._clock.now_ms()
        self._sample_count += 1
        for counted in self._counted.values():
            sample = (now_ms, counted.value, counted.times)
            counted.minute.append(sample)
            if self._sample_count % _HOUR_EVERY == 0:
                counted.hour.append(sample)
            if self._sample_count % _DAY_EVERY == 0:
                counted.day.append(sample)
        self._samples.append((self._clock.monotonic(), self._totals))
        if _day_of(now_ms) != self._day:
            self._day = _day_of(now_ms)
            self.yesterday_morning, self.this_morning = self.this_morning, self._totals

    def forget_topic(self, topic: str) -> None:
        """Forget the rates of a topic that is deleted."""
        self._forget(lambda key: key.partition(SEPARATOR)[0] == topic)

    def forget_group(self, group: str) -> None:
        """Forget the rates of a group that is deleted."""
        self._forget(lambda key: key.partition(SEPARATOR)[2] == group)

    def _forget(self, is_gone: Callable[[str], bool]) -> None:
        for name, key in [each for each in self._counted if is_gone(each[1])]:
            del self._counted[name, key]

    def _look_if_due(self) -> None:
        if self._clock.monotonic() - self._looked_at >= _LOOK_S:
            self.look()

    def look(self) -> None:
        """Take in what happened since the last look."""
        self._looked_at = self._clock.monotonic()
        put, put_bytes = self._look_at_queues()
        found = 0
        for (group, topic, _queue_id), (count, size, pulls) in self.take_served().items():
            self._add_got(group, topic, count, size, pulls)
            found += pulls
        self._found += found
        self._missed += self.take_missed()
        before = self._totals
        own_got = self._counted.get((BROKER_GET_NUMS, self._cluster))
        self._totals = MessageTotals(
            put=before.put + put,
            put_bytes=before.put_bytes + put_bytes,
            got=0 if own_got is None else own_got.value,
            found=self._found,
            missed=self._missed,
        )

    def _look_at_queues(self) -> tuple[int, int]:
        ends: dict[ConsumeQueue, int] = {}
        grown: dict[str, tuple[int, int]] = {}
        for queue in self._store.queues:
            end = ends[queue] = queue.end
            before = self._ends.get(queue)
            count = end - (queue.min_offset if before is None else before)
            if count > 0:
                of_topic = grown.get(queue.topic, (0, 0))
                grown[queue.topic] = of_topic[0] + count, of_topic[1] + self._size_of_new(queue, count)
        self._ends = ends
        for topic, (count, size) in grown.items():
            self._add(TOPIC_PUT_NUMS, topic, count, count)
            self._add(TOPIC_PUT_SIZE, topic, size, count)
            self._add(BROKER_PUT_NUMS, self._cluster, count, count)
        return sum(count for count, _ in grown.values()), sum(size for _, size in grown.values())

    def _size_of_new(self, queue: ConsumeQueue, count: int) -> int:
        """Return how many bytes the newest messages of a queue have, by the newest few of them."""
        sized = min(count, _SIZED_ENTRIES)
        sizes: list[int] = [size for _, size, _ in ENTRY.iter_unpack(queue.read(queue.end - sized, sized))]
        if not sizes:
            return 0
        if self.on_sizes is not None:
            self.on_sizes(sizes, count)
        return round(sum(sizes) * count / len(sizes))

    def _add_got(self, group: str, topic: str, count: int, size: int, pulls: int) -> None:
        key = f"{topic}{SEPARATOR}{group}"
        self._add(GROUP_GET_NUMS, key, count, pulls)
        self._add(GROUP_GET_SIZE, key, size, pulls)
        self._add(BROKER_GET_NUMS, self._cluster, count, pulls)

    def _add(self, name: str, key: str, value: int, times: int) -> None:
        counted = self._counted.get((name, key))
        if counted is None:
            counted = self._counted[name, key] = _Counted().begin(self._clock.now_ms())
        counted.value += value
        counted.times += times

    # What is known

    @property
    def now_ms(self) -> int:
        """The time by the broker's clock."""
        return self._clock.now_ms()

    @property
    def totals(self) -> MessageTotals:
        """The totals since the start, at most a second old."""
        self._look_if_due()
        return self._totals

    def counts(self, name: str) -> dict[str, int]:
        """Return all sums of one kind since the start, by their keys: topics, or `topic@group`."""
        self._look_if_due()
        return {key: counted.value for (of, key), counted in self._counted.items() if of == name}

    def rates(self, name: str, key: str) -> Rates | None:
        """Return the rates of one thing, None when there was nothing of it since the start."""
        self._look_if_due()
        counted = self._counted.get((name, key))
        if counted is None:
            return None
        now_ms = self._clock.now_ms()
        return Rates(
            stats_minute=counted.rate(counted.minute, now_ms),
            stats_hour=counted.rate(counted.hour, now_ms),
            stats_day=counted.rate(counted.day, now_ms),
        )

    def consume_tps(self, group: str, topic: str) -> float:
        """Return how many messages of a topic a group took in a second, in the last minute."""
        rates = self.rates(GROUP_GET_NUMS, f"{topic}{SEPARATOR}{group}")
        return 0.0 if rates is None else rates.stats_minute.tps

    def tps(self, of: Callable[[MessageTotals], int], window_s: int) -> float | None:
        """Return how much of something there was in a second for a while; None before there was a while."""
        back = int(window_s // SAMPLE_S) + 1
        if len(self._samples) < back:
            return None
        at, then = self._samples[-back]
        return (of(self.totals) - of(then)) / max(self._clock.monotonic() - at, 1e-3)


def _day_of(now_ms: int) -> int:
    return time.localtime(now_ms // 1000).tm_yday
