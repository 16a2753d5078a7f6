"""How far consumer groups are behind, for metrics: messages, and how old the oldest of them is.

Thousands of groups in thousands of topics are looked at in small steps, which `net/metrics.py` spreads over
turns of the loop. A group is behind in the topics where it has progress; what it never committed counts from
where a queue begins.
"""

from collections.abc import Generator
from typing import Final

from pyromq.broker.offsets import OffsetTable
from pyromq.broker.topic_names import RETRY_PREFIX
from pyromq.broker.topics import TopicTable
from pyromq.clock import Clock
from pyromq.net.metrics import Figure
from pyromq.store.store import MessageStore

LABELS: Final = ("consumer_group", "topic", "is_retry")


class Lags:
    """The lag of each group in each topic, as it was at the last look."""

    def __init__(self, offsets: OffsetTable, topics: TopicTable, store: MessageStore, clock: Clock) -> None:
        self._offsets = offsets
        self._topics = topics
        self._store = store
        self._clock = clock
        self._messages: dict[tuple[str, ...], float] = {}
        self._latency_ms: dict[tuple[str, ...], float] = {}

    def figures(self) -> list[Figure]:
        """Return what there is to see of it."""
        return [
            Figure(
                "rocketmq_consumer_lag_messages",
                "Messages that a group has not confirmed yet.",
                LABELS,
                lambda: self._messages,
            ),
            Figure(
                "rocketmq_consumer_lag_latency",
                "Milliseconds since the oldest message was stored that a group has not confirmed yet.",
                LABELS,
                lambda: self._latency_ms,
            ),
        ]

    def look(self) -> Generator[None, None, None]:
        """Look at all groups; each step is one queue's worth of work."""
        messages: dict[tuple[str, ...], float] = {}
        latency_ms: dict[tuple[str, ...], float] = {}
        now_ms = self._clock.now_ms()
        for topic, group in self._offsets.pairs():
            config = self._topics.get(topic)
            if config is None:
                continue
            labels = (group, topic, str(topic.startswith(RETRY_PREFIX)).lower())
            behind, oldest_ms = 0, now_ms
            for queue_id in range(config.read_queue_nums):
                count, stored_ms = self._behind(group, topic, queue_id)
                behind += count
                oldest_ms = min(oldest_ms, stored_ms or now_ms)
                yield
            messages[labels], latency_ms[labels] = behind, now_ms - oldest_ms
        self._messages, self._latency_ms = messages, latency_ms

    def _behind(self, group: str, topic: str, queue_id: int) -> tuple[int, int | None]:
        """Return how many messages of a queue are unconfirmed, and when the oldest of them was stored."""
        store = self._store
        begin = store.min_offset(topic, queue_id)
        progress = self._offsets.progress(group, topic, queue_id)
        reached = begin if progress is None else max(progress, begin)
        count = store.max_offset(topic, queue_id) - reached
        if count <= 0:
            return 0, None
        stored_ms = store.stored_time(topic, queue_id, reached)
        return count, stored_ms if stored_ms > 0 else None
