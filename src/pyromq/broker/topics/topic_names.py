"""Checks of the names of topics and groups, with RocketMQ's remarks; the rules are in `name_rules`."""

from pyromq import name_rules
from pyromq.codes import ResponseCode
from pyromq.errors import NoPermission, ServerFailed
from pyromq.name_rules import (
    GROUP_CHARACTERS_MAX,
    INNER_TOPIC_CHARACTERS_MAX,
    LEGAL_CHARACTERS,
    has_legal_characters,
    is_group,
    is_topic,
)
from pyromq.system_names import BROKERS_OWN

RETRY_PREFIX = name_rules.RETRY_PREFIX
DEAD_LETTER_PREFIX = name_rules.DEAD_LETTER_PREFIX


def retry_topic(group: str) -> str:
    """Return the topic of the messages that a group failed to consume."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of the messages that a group gave up."""
    return DEAD_LETTER_PREFIX + group


def check_name(topic: str) -> None:
    """Raise ServerFailed unless a topic may have this name."""
    if is_topic(topic):
        return
    _check_characters(topic)
    raise _too_long()


def check_inner_name(topic: str) -> None:
    """Raise ServerFailed unless a topic may have this name, be it one that is made of a group's."""
    # RocketMQ 5 joins a group and its topic by a plus sign.
    _check_characters(topic.replace("+", "_", 1) if topic.startswith(RETRY_PREFIX) else topic)
    if len(topic) > INNER_TOPIC_CHARACTERS_MAX:
        raise _too_long()


def check_group(group: str) -> None:
    """Raise ServerFailed unless a group may have this name. The remarks are those of 4.9.8's clients."""
    if is_group(group):
        return
    if not group.strip():
        raise ServerFailed(ResponseCode.SYSTEM_ERROR, "the specified group is blank")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"the specified group is longer than group max length {GROUP_CHARACTERS_MAX}.",
        )
    raise ServerFailed(
        ResponseCode.SYSTEM_ERROR,
        f"the specified group[{group}] contains illegal characters, allowing only {LEGAL_CHARACTERS}",
    )


def _too_long() -> ServerFailed:
    return ServerFailed(ResponseCode.SYSTEM_ERROR, "The specified topic is longer than topic max length.")


def _check_characters(topic: str) -> None:
    """Raise ServerFailed when a name has characters that no topic may have.

    Topics become folders, and those of groups are made from names that clients send: this is what keeps
    `%RETRY%../..` from becoming a path.
    """
    if not topic.strip():
        raise ServerFailed(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
    if not has_legal_characters(topic):
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            f"The specified topic contains illegal characters, allowing only {LEGAL_CHARACTERS}",
        )


def is_brokers_own(topic: str) -> bool:
    """Return whether only the broker itself writes to a topic."""
    return topic in BROKERS_OWN


def check_sendable(topic: str) -> None:
    """Raise NoPermission for the topics that only the broker itself writes to."""
    if topic in BROKERS_OWN:
        raise NoPermission(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
