"""The lag of consumer groups, for metrics: messages behind, and the age of the oldest of them.

    committed ──────────────► pulled ──────────────► end of the queue
               in flight               ready
              └───────────────── lag ───────────────┘

A group that pops has in flight what was handed out and is not finished; what is acknowledged between that is
no lag.

Thousands of groups in thousands of topics are looked at in small steps, which `net/metrics.py` spreads over
turns of the loop. A group is behind in the topics where it has progress; what it never committed counts from
where a queue begins, and what it never pulled from here as not pulled.
"""

from collections.abc import Generator
from dataclasses import dataclass
from typing import Final

from pyromq.broker.groups.offsets import OffsetTable
from pyromq.broker.topics.topic_names import RETRY_PREFIX
from pyromq.broker.topics.topics import TopicTable
from pyromq.clock import Clock
from pyromq.net.metrics import Figure
from pyromq.store.store import MessageStore

LABELS: Final = ("consumer_group", "topic", "is_retry")


@dataclass(slots=True)
class _Behind:
    """The lag of a group in a topic; the ages are in milliseconds."""

    in_flight: int = 0
    ready: int = 0
    oldest_age_ms: int = 0
    oldest_ready_age_ms: int = 0


class Lags:
    """The lag of each group in each topic, as it was at the last look."""

    def __init__(self, offsets: OffsetTable, topics: TopicTable, store: MessageStore, clock: Clock) -> None:
        self._offsets = offsets
        self._topics = topics
        self._store = store
        self._clock = clock
        self._behind: dict[tuple[str, ...], _Behind] = {}

    def figures(self) -> list[Figure]:
        """Return what there is to see of it."""
        return [
            Figure(
                "rocketmq_consumer_lag_messages",
                "Messages that a group has not confirmed yet.",
                LABELS,
                lambda: {labels: one.in_flight + one.ready for labels, one in self._behind.items()},
            ),
            Figure(
                "rocketmq_consumer_lag_latency",
                "Milliseconds since the oldest message was stored that a group has not confirmed yet.",
                LABELS,
                lambda: {labels: one.oldest_age_ms for labels, one in self._behind.items()},
            ),
            Figure(
                "rocketmq_consumer_inflight_messages",
                "Messages that a group has pulled and not confirmed yet.",
                LABELS,
                lambda: {labels: one.in_flight for labels, one in self._behind.items()},
            ),
            Figure(
                "rocketmq_consumer_ready_messages",
                "Messages that a group has not pulled yet.",
                LABELS,
                lambda: {labels: one.ready for labels, one in self._behind.items()},
            ),
            Figure(
                "rocketmq_consumer_queueing_latency",
                "Milliseconds since the oldest message was stored that a group has not pulled yet.",
                LABELS,
                lambda: {labels: one.oldest_ready_age_ms for labels, one in self._behind.items()},
            ),
        ]

    def look(self) -> Generator[None, None, None]:
        """Look at all groups; each step is one queue's worth of work."""
        all_behind: dict[tuple[str, ...], _Behind] = {}
        now_ms = self._clock.now_ms()
        for topic, group in self._offsets.pairs():
            config = self._topics.get(topic)
            if config is None:
                continue
            behind = _Behind()
            for queue_id in range(config.read_queue_nums):
                self._add(behind, group, topic, queue_id, now_ms)
                yield
            all_behind[(group, topic, str(topic.startswith(RETRY_PREFIX)).lower())] = behind
        self._behind = all_behind

    def _add(self, behind: _Behind, group: str, topic: str, queue_id: int, now_ms: int) -> None:
        """Add what a group has before it in a queue."""
        begin, end = self._store.min_offset(topic, queue_id), self._store.waiting_end(topic, queue_id)
        committed = max(self._offsets.progress(group, topic, queue_id) or begin, begin)
        if committed >= end:
            return
        pulled = self._offsets.pulled.reached(group, topic, queue_id)
        popped = self._offsets.popped(group, topic, queue_id)
        if popped is not None:
            pulled = popped.next_offset
        # Whoever was set forward, or lost what was at the queue's beginning, goes on from there.
        pulled = committed if pulled is None else min(max(pulled, committed), end)
        behind.in_flight += pulled - committed if popped is None else popped.in_flight
        behind.ready += end - pulled
        age_ms = self._age_ms(topic, queue_id, committed, now_ms)
        behind.oldest_age_ms = max(behind.oldest_age_ms, age_ms)
        if pulled < end:
            if pulled > committed:
                age_ms = self._age_ms(topic, queue_id, pulled, now_ms)
            behind.oldest_ready_age_ms = max(behind.oldest_ready_age_ms, age_ms)

    def _age_ms(self, topic: str, queue_id: int, offset: int, now_ms: int) -> int:
        stored_ms = self._store.stored_time(topic, queue_id, offset)
        return max(now_ms - stored_ms, 0) if stored_ms > 0 else 0
