"""The topics of a log that grew by copying, when a broker starts with it.

The log is the truth, and what stands beside it follows: queues and index by the store, messages that wait by
their kinds (`broker/kinds/`). Only the table of topics is not made from the log; what it lacks is added here.
"""

import logging
from collections.abc import Callable
from typing import Final

from pyromq import system_names
from pyromq.broker.topics.topics import TopicTable
from pyromq.codes import Perm
from pyromq.store.store import MessageStore
from pyromq.wire.bodies.topic_bodies import TopicConfig

log = logging.getLogger(__name__)

#: Topics of the broker's own that are in no table.
_UNLISTED: Final = frozenset(system_names.SYSTEM_TOPICS)


def adopt_topics(store: MessageStore, topics: TopicTable) -> list[str]:
    """Add the topics that the store has messages of and the table does not know; return their names.

    A master may have created a topic, taken its messages and been lost before its slave copied the table. The
    topic may be read and written. It gets as many queues as have messages, and at least those that its first
    send may have created: a broker that is killed right then has its message and not yet its table, and
    producers go on sending to all queues. Adopted topics are on disk after the table's next `save`. A topic
    whose messages are all older than the table was deleted, and stays so.
    """
    counts = queue_counts(store, lambda topic: is_lost(topic, topics), since_ms=topics.as_of_ms)
    for topic, count in sorted(counts.items()):
        topics.adopt(_adopted(topic, count, topics))
    return sorted(counts)


def adopt_delivered(topic: str, queue_id: int, topics: TopicTable) -> None:
    """Add the topic of a message that was stored just now, if the table does not know it.

    Only what waited comes so: its topic was lost like the others, and nothing of it was in the store.
    """
    if is_lost(topic, topics):
        topics.put(_adopted(topic, queue_id + 1, topics))


def _adopted(topic: str, count: int, topics: TopicTable) -> TopicConfig:
    if system_names.is_users_topic(topic):
        count = max(count, topics.first_send_queues)
    log.warning("topic %s has messages and was in no table: it has %d queues now", topic, count)
    return TopicConfig(
        topic_name=topic, read_queue_nums=count, write_queue_nums=count, perm=Perm.READ | Perm.WRITE
    )


def queue_counts(store: MessageStore, is_wanted: Callable[[str], bool], *, since_ms: int) -> dict[str, int]:
    """Return how many queues topics have that got a message since a time, by the highest id with messages."""
    counts: dict[str, int] = {}
    newest_ms: dict[str, int] = {}
    for queue in store.queues:
        topic, end = queue.topic, queue.end
        if end > queue.min_offset and is_wanted(topic):
            counts[topic] = max(counts.get(topic, 0), queue.queue_id + 1)
            stored_ms = store.stored_time(topic, queue.queue_id, end - 1)
            newest_ms[topic] = max(newest_ms.get(topic, 0), stored_ms)
    return {topic: count for topic, count in counts.items() if newest_ms[topic] >= since_ms}


def is_lost(topic: str, topics: TopicTable) -> bool:
    """Return whether a topic of the log should be in the table, and is not."""
    return (
        topics.get(topic) is None
        and topic not in _UNLISTED
        and not topic.startswith(system_names.TOPIC_PREFIX)
    )
