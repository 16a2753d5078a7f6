"""Names of topics and groups that an application gives: the rules of `name_rules`, in a client's words."""

from typing import Final

from pyromq.codes import ResponseCode
from pyromq.errors import ConfigError, MessageIllegal
from pyromq.name_rules import (
    GROUP_CHARACTERS_MAX,
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
    has_legal_characters,
    shortened,
)
from pyromq.system_names import FORBIDDEN_TOPICS

RETRY_TOPIC_PREFIX: Final = RETRY_PREFIX
#: RocketMQ's default groups, which everybody would share by mistake.
DEFAULT_GROUPS: Final = frozenset({"DEFAULT_PRODUCER", "DEFAULT_CONSUMER"})

_LETTERS: Final = "letters, digits, and the signs % | _ -"


def check_topic(topic: str) -> None:
    """Raise MessageIllegal unless a topic may have this name."""
    if not topic or topic.isspace():
        raise MessageIllegal(ResponseCode.MESSAGE_ILLEGAL, "the topic's name is empty; give it one")
    if len(topic) > TOPIC_CHARACTERS_MAX:
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL,
            f"the topic's name has {len(topic)} characters; {TOPIC_CHARACTERS_MAX} are the limit: "
            f"{shortened(topic)}",
        )
    if not has_legal_characters(topic):
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL, f"the topic's name {topic!r} may have only {_LETTERS}"
        )


def check_sendable_topic(topic: str) -> None:
    """Raise MessageIllegal unless clients may send to a topic of this name."""
    check_topic(topic)
    if topic in FORBIDDEN_TOPICS:
        raise MessageIllegal(
            ResponseCode.MESSAGE_ILLEGAL, f"topic {topic} is the broker's own; send to another one"
        )


def check_group(group: str) -> None:
    """Raise ConfigError unless a group may have this name."""
    if not group or group.isspace():
        raise ConfigError("the group's name is empty; give it one")
    if len(group) > GROUP_CHARACTERS_MAX:
        raise ConfigError(
            f"the group's name has {len(group)} characters; {GROUP_CHARACTERS_MAX} are the limit: "
            f"{shortened(group)}"
        )
    if not has_legal_characters(group):
        raise ConfigError(f"the group's name {group!r} may have only {_LETTERS}")
    if group in DEFAULT_GROUPS:
        raise ConfigError(f"{group!r} is RocketMQ's default group, not for use; give this client its own")
