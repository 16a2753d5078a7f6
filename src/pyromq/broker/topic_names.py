"""Which names a topic may have, and which of them the broker keeps for itself. Remarks are RocketMQ's."""

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

AUTO_CREATE = "TBW102"
SCHEDULE = "SCHEDULE_TOPIC_XXXX"
WHEEL_TIMER = "rmq_sys_wheel_timer"
BENCHMARK = "BenchmarkTest"
TRANSACTION_HALF = "RMQ_SYS_TRANS_HALF_TOPIC"
TRANSACTION_OP_HALF = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
TRANSACTION_CHECK_MAX_TIME = "TRANS_CHECK_MAX_TIME_TOPIC"
TRACE = "RMQ_SYS_TRACE_TOPIC"
SELF_TEST = "SELF_TEST_TOPIC"
OFFSET_MOVED_EVENT = "OFFSET_MOVED_EVENT"
STAGED = "rmq_sys_staged"
STAGED_OP = "rmq_sys_staged_op"

RETRY_PREFIX = name_rules.RETRY_PREFIX
DEAD_LETTER_PREFIX = name_rules.DEAD_LETTER_PREFIX
SYSTEM_PREFIX = "rmq_sys_"

#: System topics of every broker; those named after its cluster and itself come on top.
SYSTEM_TOPICS = (
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

_BROKERS_OWN = frozenset(
    (
        SCHEDULE,
        WHEEL_TIMER,
        TRANSACTION_HALF,
        TRANSACTION_OP_HALF,
        TRANSACTION_CHECK_MAX_TIME,
        SELF_TEST,
        OFFSET_MOVED_EVENT,
        STAGED,
        STAGED_OP,
    )
)


def retry_topic(group: str) -> str:
    """Return the topic of the messages that a group failed to consume."""
    return RETRY_PREFIX + group


def dead_letter_topic(group: str) -> str:
    """Return the topic of the messages that a group gave up."""
    return DEAD_LETTER_PREFIX + group


def reply_topic(cluster: str) -> str:
    """Return the topic of a cluster's replies."""
    return f"{cluster}_REPLY_TOPIC"


def check_name(topic: str) -> None:
    """Raise ServerFailed unless a topic may have this name."""
    if is_topic(topic):
        return
    _check_characters(topic)
    raise _too_long()


def check_inner_name(topic: str) -> None:
    """Raise ServerFailed unless a topic may have this name, be it one that is made of a group's."""
    _check_characters(topic)
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
    «%RETRY%../..» from becoming a path.
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
    return topic in _BROKERS_OWN


def check_sendable(topic: str) -> None:
    """Raise NoPermission for the topics that only the broker itself writes to."""
    if topic in _BROKERS_OWN:
        raise NoPermission(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
