"""Whose a topic or a group is: an application's, or RocketMQ's own.

Each broker also has a topic with its own name, and one with its cluster's.
"""

from typing import Final

from pyromq.client.names import FORBIDDEN_TOPICS, RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX

_SYSTEM_TOPICS: Final = FORBIDDEN_TOPICS | {"TBW102", "BenchmarkTest"}
_SYSTEM_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "CLIENT_INNER_PRODUCER",
    }
)
_TOPIC_PREFIXES: Final = (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX, "rmq_sys_", "RMQ_SYS_")
_GROUP_PREFIXES: Final = ("rmq_sys_", "RMQ_SYS_", "CID_RMQ_SYS_", "CID_ONS", "CID_SYS")
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"


def is_users_topic(topic: str) -> bool:
    """Whether a topic is an application's: no group's retries or dead letters, and none of brokers' own."""
    return not (topic in _SYSTEM_TOPICS or topic.startswith(_TOPIC_PREFIXES) or topic.endswith(_REPLY_SUFFIX))


def is_users_group(group: str) -> bool:
    """Whether a group is an application's."""
    return group not in _SYSTEM_GROUPS and not group.startswith(_GROUP_PREFIXES)
