"""Rates and differences of counts that brokers give: the ends of queues, and the offsets of groups.

The dashboard, `pyromq top` and the doctor compute all rates here, from the counts of two or more snapshots.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from pyromq.model import MessageQueue

Key = TypeVar("Key")

#: Milliseconds over which a series takes its rate: groups commit their offsets only every five seconds.
WINDOW_MS: Final = 12_000
#: Points of a chart that a series keeps.
POINTS_MAX: Final = 180


def grown(before: Mapping[Key, int], after: Mapping[Key, int]) -> int | None:
    """Return by how much the counts grew that both snapshots have; None if they have none in common."""
    common = before.keys() & after.keys()
    return sum(max(0, after[key] - before[key]) for key in common) if common else None


def per_second(count: float, seconds: float) -> float:
    """Return a count as a rate."""
    return count / max(seconds, 1e-3)


class CountSeries:
    """A count that grows, with its rate at each snapshot."""

    __slots__ = ("_recent", "points")

    def __init__(self, points_max: int = POINTS_MAX) -> None:
        self._recent: deque[tuple[int, int]] = deque()
        #: Time in milliseconds, and rate a second.
        self.points: deque[tuple[int, float]] = deque(maxlen=points_max)

    @property
    def rate(self) -> float | None:
        """The last rate; None while there is only one count."""
        return self.points[-1][1] if self.points else None

    def add(self, at_ms: int, count: int) -> None:
        """Add the count of a snapshot. A count that fell, as of a topic created anew, starts again."""
        recent = self._recent
        if recent and count < recent[-1][1]:
            recent.clear()
        recent.append((at_ms, count))
        while len(recent) > 2 and recent[1][0] <= at_ms - WINDOW_MS:
            recent.popleft()
        since_ms, before = recent[0]
        if at_ms > since_ms:
            self.points.append((at_ms, per_second(count - before, (at_ms - since_ms) / 1_000)))


@dataclass(frozen=True, slots=True)
class TopicFlow:
    """The messages of a topic between two snapshots: stored, read by a group, and not yet read."""

    topic: str
    came: int
    went: int
    lag_before: int
    lag: int
    #: The lag of each queue.
    lags: dict[MessageQueue, int]
    #: Seconds between the snapshots.
    seconds: float

    @property
    def broker_names(self) -> set[str]:
        """The names of the brokers that have the queues."""
        return {queue.broker_name for queue in self.lags}

    @property
    def is_growing(self) -> bool:
        """Whether the lag grew."""
        return self.lag > self.lag_before

    @property
    def in_rate(self) -> float:
        """Messages a second that were stored."""
        return per_second(self.came, self.seconds)

    @property
    def out_rate(self) -> float:
        """Messages a second that the group read."""
        return per_second(self.went, self.seconds)

    @property
    def catches_up_in_s(self) -> float | None:
        """The seconds until the lag is 0 at this speed; None if that never happens."""
        gain = self.lag_before - self.lag
        return self.lag * self.seconds / gain if gain > 0 else None


def topic_flows(
    reached: tuple[Mapping[MessageQueue, int], Mapping[MessageQueue, int]],
    ends: tuple[Mapping[MessageQueue, int], Mapping[MessageQueue, int]],
    seconds: float,
) -> dict[str, TopicFlow]:
    """Return the flow of each topic, by a reader's offsets and the ends of queues before and after."""
    queues: dict[str, list[MessageQueue]] = {}
    for queue in sorted(reached[0]):
        if queue in reached[1] and queue in ends[0] and queue in ends[1]:
            queues.setdefault(queue.topic, []).append(queue)
    found = {}
    for topic, own in queues.items():
        before, after = ({queue: each[queue] for queue in own} for each in reached)
        end_before, end_after = ({queue: each[queue] for queue in own} for each in ends)
        lags = {queue: max(0, end_after[queue] - after[queue]) for queue in own}
        found[topic] = TopicFlow(
            topic,
            came=grown(end_before, end_after) or 0,
            went=grown(before, after) or 0,
            lag_before=sum(_behind(end_before, before)),
            lag=sum(lags.values()),
            lags=lags,
            seconds=seconds,
        )
    return found


def _behind(ends: Mapping[MessageQueue, int], reached: Mapping[MessageQueue, int]) -> Iterable[int]:
    return (max(0, end - reached[queue]) for queue, end in ends.items())
