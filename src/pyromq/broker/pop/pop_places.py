"""The queues of a pop, in the order in which they are read.

    every fifth pop     retry topics, then the topic's queues from the next one on, in turn
    the others          the topic's queues, then the retry topics if there is room

So neither are messages that failed starved by a busy topic, nor the topic by many that fail.
"""

from collections.abc import Sequence
from typing import Final

from pyromq.broker.pop.pop_asks import ALL_QUEUES, PopAsk
from pyromq.broker.pop.pop_names import retry_topics_of
from pyromq.broker.topics.topic_names import RETRY_PREFIX
from pyromq.broker.topics.topics import TopicTable
from pyromq.config.pop_settings import PopSettings

#: Groups and topics whose pops are counted.
_TURNS_MAX: Final = 65_536
#: Queues that are kept, of all groups and topics.
_KEPT_MAX: Final = 65_536
#: A topic and a queue's number.
Place = tuple[str, int]
_Asked = tuple[str, str, int, bool]
_Places = tuple[Sequence[Place], Sequence[Place]]


class PopPlaces:
    """Says which queues a pop reads; what is kept of that is forgotten when a topic or a setting changes."""

    def __init__(self, topics: TopicTable, settings: PopSettings) -> None:
        self._topics = topics
        self._settings = settings
        #: How many pops a group made of a topic.
        self._turns: dict[tuple[str, str], int] = {}
        #: The topic's queues and the retry topics', by what was asked for.
        self._kept: dict[_Asked, _Places] = {}
        self._kept_for: tuple[int, bool, bool] | None = None
        self._kept_count = 0

    def of(self, group: str, topic: str, queue_id: int = ALL_QUEUES, *, is_fifo: bool = False) -> list[Place]:
        """Return the queues that a pop reads: the topic's, then the retry topics'."""
        own, retries = self._of((group, topic, queue_id, is_fifo))
        return [*own, *retries]

    def in_order(self, ask: PopAsk) -> list[Place]:
        """Return the queues of a pop in the order in which they are read now."""
        own, retries = self._of((ask.group, ask.topic, ask.queue_id, ask.is_fifo))
        key = (ask.group, ask.topic)
        turn = self._turns.get(key, 0)
        if len(self._turns) > _TURNS_MAX:
            self._turns.clear()
        self._turns[key] = turn + 1
        first = turn % len(own) if own else 0
        share = self._settings.pop_from_retry_probability
        if share > 0 and turn % max(100 // share, 1) == 0:
            return [*retries, *own[first:], *own[:first]]
        return [*own[first:], *own[:first], *retries]

    def _of(self, asked: _Asked) -> _Places:
        settings = self._settings
        kept_for = (
            self._topics.revision,
            settings.enable_retry_topic_v2,
            settings.retrieve_message_from_pop_retry_topic_v1,
        )
        if kept_for != self._kept_for or self._kept_count > _KEPT_MAX:
            self._kept.clear()
            self._kept_for, self._kept_count = kept_for, 0
        places = self._kept.get(asked)
        if places is None:
            places = self._kept[asked] = self._found(asked)
            self._kept_count += 1 + len(places[0])
        return places

    def _found(self, asked: _Asked) -> _Places:
        group, topic, queue_id, is_fifo = asked
        config = self._topics.get(topic)
        if config is None:
            return (), ()
        queue_ids = range(config.read_queue_nums) if queue_id == ALL_QUEUES else (queue_id,)
        own = tuple((topic, number) for number in queue_ids)
        if is_fifo or topic.startswith(RETRY_PREFIX):
            return own, ()
        return own, self._retries(group, topic)

    def _retries(self, group: str, topic: str) -> Sequence[Place]:
        v1, v2 = retry_topics_of(group, topic)
        settings = self._settings
        if not settings.enable_retry_topic_v2:
            # The other one has what came while the setting was another.
            return ((v1, 0), (v2, 0)) if v2 in self._topics.configs else ((v1, 0),)
        return ((v2, 0), (v1, 0)) if settings.retrieve_message_from_pop_retry_topic_v1 else ((v2, 0),)
