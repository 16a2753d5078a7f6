"""The rules for names of topics, groups, clients and servers: RocketMQ 4.9.8's Validators and TopicValidator.

Servers and clients ask here, each says no in its own words. A topic of an application has 127 characters at
most. The topics that brokers make of a group's name, for retries and dead letters, may be longer, because a
group's name may have 255.
"""

import re
from typing import Final

RETRY_PREFIX: Final = "%RETRY%"
DEAD_LETTER_PREFIX: Final = "%DLQ%"

TOPIC_CHARACTERS_MAX: Final = 127
GROUP_CHARACTERS_MAX: Final = 255
#: The longest name that a topic can have: the retry topic of a group.
INNER_TOPIC_CHARACTERS_MAX: Final = GROUP_CHARACTERS_MAX + max(len(RETRY_PREFIX), len(DEAD_LETTER_PREFIX))
#: RocketMQ has no limit for these: an id is an address, an instance and a unit; brokers and clusters are
#: topics too, and an address is a host and a port.
CLIENT_ID_CHARACTERS_MAX: Final = 1_024
SERVER_CHARACTERS_MAX: Final = 255
#: Ids of messages and transactions, and other words that a request is about.
WORD_CHARACTERS_MAX: Final = 1_024
#: A list of permissions, a value of the name server's KV table, settings that are changed.
TEXT_CHARACTERS_MAX: Final = 65_536
#: A subscription's tags or SQL; a longer text takes so long to read that other clients would notice.
EXPRESSION_CHARACTERS_MAX: Final = 32_768

#: What RocketMQ says that names of topics and groups may have.
LEGAL_CHARACTERS: Final = "^[%|a-zA-Z0-9_-]+$"

has_legal_characters: Final = re.compile(r"[%|a-zA-Z0-9_-]+").fullmatch
is_topic: Final = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{TOPIC_CHARACTERS_MAX}}}").fullmatch
is_group: Final = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{GROUP_CHARACTERS_MAX}}}").fullmatch


def why_no_stored_topic(name: str) -> str | None:
    """Return why a table that is read from a file or another server may not have a topic of this name.

    Only what does harm counts: older brokers let topics have other characters, and topics are folders.
    """
    if not name.strip() or name in (".", ".."):
        return "it is no name"
    if len(name) > INNER_TOPIC_CHARACTERS_MAX:
        return f"it has {len(name)} characters, and {INNER_TOPIC_CHARACTERS_MAX} are the limit"
    if "/" in name or "\0" in name:
        return "it would be another folder"
    return None


def why_no_stored_group(name: str) -> str | None:
    """Return why a table that is read from a file or another server may not have a group of this name."""
    if not name.strip():
        return "it is no name"
    if len(name) > GROUP_CHARACTERS_MAX:
        return f"it has {len(name)} characters, and {GROUP_CHARACTERS_MAX} are the limit"
    return None


def shortened(name: str) -> str:
    """Return a name as a log shows it, whatever somebody sent as one."""
    return repr(name) if len(name) <= 80 else f"{name[:80]!r}… ({len(name)} characters)"
