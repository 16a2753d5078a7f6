"""Topics and groups of one namespace: `namespace%name` on the wire, `name` in the application.

The prefixes of retry and dead-letter topics stay in front, and RocketMQ's own topics and groups belong to no
namespace (RocketMQ 4.9.8: NamespaceUtil).
"""

from typing import Final

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.model import MessageQueue
from pyromq.name_rules import DEAD_LETTER_PREFIX
from pyromq.system_names import GROUP_PREFIX, SYSTEM_TOPICS, TOPIC_PREFIX

SEPARATOR: Final = "%"
DEAD_LETTER_TOPIC_PREFIX: Final = DEAD_LETTER_PREFIX


def wrap(namespace: str, name: str) -> str:
    """Return a topic's or a group's name on the wire; wrapping twice changes nothing."""
    if not namespace or not name or _is_system_name(name):
        return name
    prefix, bare = _split(name)
    mark = namespace + SEPARATOR
    return name if bare.startswith(mark) else f"{prefix}{mark}{bare}"


def unwrap(namespace: str, name: str) -> str:
    """Return a topic's or a group's name in the application; a name of another namespace stays as it is."""
    if not namespace:
        return name
    prefix, bare = _split(name)
    mark = namespace + SEPARATOR
    return prefix + bare.removeprefix(mark) if bare.startswith(mark) else name


def wrap_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue with its topic's name on the wire."""
    if not namespace:
        return queue
    return MessageQueue(wrap(namespace, queue.topic), queue.broker_name, queue.queue_id)


def unwrap_queue(namespace: str, queue: MessageQueue) -> MessageQueue:
    """Return a queue with its topic's name in the application."""
    if not namespace:
        return queue
    return MessageQueue(unwrap(namespace, queue.topic), queue.broker_name, queue.queue_id)


def _is_system_name(name: str) -> bool:
    return name in SYSTEM_TOPICS or name.startswith((TOPIC_PREFIX, GROUP_PREFIX))


def _split(name: str) -> tuple[str, str]:
    """Return the prefix of a retry or dead-letter topic, if there is one, and what follows."""
    for prefix in (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX):
        if name.startswith(prefix):
            return prefix, name.removeprefix(prefix)
    return "", name
