"""RocketMQ's own topics and groups, and whose a name is: an application's, or the system's.

Every other module takes these names from here, so that broker, client, dashboard, doctor and Spark agree on
what a user's topic is. Two kinds of system topics depend on the cluster: each broker has a topic with its own
name and one with its cluster's, which only somebody who knows the cluster can tell.
"""

from typing import Final

from pyromq.name_rules import DEAD_LETTER_PREFIX, RETRY_PREFIX

#: The template of the topics that a first send creates.
AUTO_CREATE: Final = "TBW102"
SCHEDULE: Final = "SCHEDULE_TOPIC_XXXX"
WHEEL_TIMER: Final = "rmq_sys_wheel_timer"
BENCHMARK: Final = "BenchmarkTest"
TRANSACTION_HALF: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_HALF: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_MAX_TIME: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE: Final = "RMQ_SYS_TRACE_TOPIC"
#: A topic that every broker has, with both permissions, and that nobody sends to.
SELF_TEST: Final = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT: Final = "OFFSET_MOVED_EVENT"
STAGED: Final = "rmq_sys_staged"
STAGED_OP: Final = "rmq_sys_staged_op"
#: What happened to popped messages.
POP_JOURNAL: Final = "rmq_sys_PYROMQ_POP"

#: The group that reads the topics of transactions.
TRANSACTION_GROUP: Final = "CID_RMQ_SYS_TRANS"

TOPIC_PREFIX: Final = "rmq_sys_"
GROUP_PREFIX: Final = "CID_RMQ_SYS_"
_REPLY_SUFFIX: Final = "_REPLY_TOPIC"

#: System topics of every 4.9.8 broker, in its order; those named after its cluster and itself come on top.
SYSTEM_TOPICS: Final = (
    AUTO_CREATE,
    SCHEDULE,
    BENCHMARK,
    TRANSACTION_HALF,
    TRACE,
    TRANSACTION_OP_HALF,
    TRANSACTION_CHECK_MAX_TIME,
    SELF_TEST,
    OFFSET_MOVED_EVENT,
)
#: Topics that 4.9.8's brokers write to and its clients may not.
FORBIDDEN_TOPICS: Final = frozenset(
    {
        SCHEDULE,
        TRANSACTION_HALF,
        TRANSACTION_OP_HALF,
        TRANSACTION_CHECK_MAX_TIME,
        SELF_TEST,
        OFFSET_MOVED_EVENT,
    }
)
#: Topics that only the broker itself writes to.
BROKERS_OWN: Final = FORBIDDEN_TOPICS | {WHEEL_TIMER, STAGED, STAGED_OP, POP_JOURNAL}

_SYSTEM_GROUPS: Final = frozenset(
    {
        "TOOLS_CONSUMER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "CLIENT_INNER_PRODUCER",
    }
)
_TOPIC_PREFIXES: Final = (TOPIC_PREFIX, "RMQ_SYS_")
_GROUP_PREFIXES: Final = (TOPIC_PREFIX, "RMQ_SYS_", GROUP_PREFIX, "CID_ONS", "CID_SYS")


def reply_topic(cluster: str) -> str:
    """Return the topic of a cluster's replies."""
    return f"{cluster}{_REPLY_SUFFIX}"


def is_system_topic(topic: str) -> bool:
    """Whether a topic is RocketMQ's own, in every cluster."""
    return topic in SYSTEM_TOPICS or topic.startswith(_TOPIC_PREFIXES) or topic.endswith(_REPLY_SUFFIX)


def is_system_group(group: str) -> bool:
    """Whether a group is RocketMQ's own."""
    return group in _SYSTEM_GROUPS or group.startswith(_GROUP_PREFIXES)


def is_users_topic(topic: str) -> bool:
    """Whether a topic is an application's: no group's retries or dead letters, and none of brokers' own."""
    return not (topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)) or is_system_topic(topic))


def is_users_group(group: str) -> bool:
    """Whether a group is an application's."""
    return not is_system_group(group)
