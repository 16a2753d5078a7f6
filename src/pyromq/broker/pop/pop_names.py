"""The topics of a group that pops a topic: where its messages come again, and where they end."""

from collections.abc import Container
from functools import lru_cache

from pyromq.broker.topics.topic_names import RETRY_PREFIX, dead_letter_topic
from pyromq.wire.receipt_handle import MARK_RETRY_V1, MARK_RETRY_V2, MARK_TOPIC, pop_retry_topic

#: A topic may not have a longer name in the log.
RETRY_TOPIC_BYTES_MAX = 255


@lru_cache(maxsize=4_096)
def retry_topics_of(group: str, topic: str) -> tuple[str, str]:
    """Return the retry topics of a group for a topic, of both versions; a retry topic is its own."""
    if topic.startswith(RETRY_PREFIX):
        return topic, topic
    return pop_retry_topic(group, topic), pop_retry_topic(group, topic, is_v2=True)


@lru_cache(maxsize=4_096)
def longest_retry_topic(group: str, topic: str) -> int:
    """Return how many bytes the longer name of a group's retry topics for a topic has."""
    return max(len(name.encode()) for name in retry_topics_of(group, topic))


def is_topic_or_retry(group: str, real_topic: str, topic: str) -> bool:
    """Return whether a topic is another one, or the group's retry topic for that."""
    return real_topic == topic or real_topic in retry_topics_of(group, topic)


def ends_wait(group: str, real_topic: str, done_topic: str) -> bool:
    """Return whether a record of one topic, which names one of another, ends that for a group."""
    return done_topic in retry_topics_of(group, real_topic) or done_topic == dead_letter_topic(group)


def mark_of(group: str, topic: str, real_topic: str) -> int:
    """Return what a handle says of the topic that a record lies in."""
    if real_topic == topic:
        return MARK_TOPIC
    return MARK_RETRY_V1 if real_topic == pop_retry_topic(group, topic) else MARK_RETRY_V2


def plain_topic_of(group: str, real_topic: str, topics: Container[str]) -> str:
    """Return the topic that a retry topic is for, by the topics that there are; another is its own.

    Group and topic may both have underscores, so the name alone does not say it; the group is known.
    """
    for separator in ("_", "+"):
        prefix = f"{RETRY_PREFIX}{group}{separator}"
        if real_topic.startswith(prefix) and real_topic.removeprefix(prefix) in topics:
            return real_topic.removeprefix(prefix)
    return real_topic
