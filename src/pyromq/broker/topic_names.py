"""Which names a topic may have, and which of them the broker keeps for itself. Remarks are RocketMQ's."""

import re

from pyromq.codes import ResponseCode
from pyromq.errors import NoPermission, ServerFailed

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

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"
SYSTEM_PREFIX = "rmq_sys_"
TOPIC_CHARACTERS_MAX = 127

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
_LEGAL = re.compile(r"[%|a-zA-Z0-9_-]+")
_GOOD = re.compile(rf"[%|a-zA-Z0-9_-]{{1,{TOPIC_CHARACTERS_MAX}}}")


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
    if _GOOD.fullmatch(topic):
        return
    check_characters(topic)
    raise ServerFailed(ResponseCode.SYSTEM_ERROR, "The specified topic is longer than topic max length.")


def check_characters(topic: str) -> None:
    """Raise ServerFailed when a name has characters that no topic may have.

    Topics become folders, and those of groups are made from names that clients send: this is what keeps
    «%RETRY%../..» from becoming a path.
    """
    if not topic.strip():
        raise ServerFailed(ResponseCode.SYSTEM_ERROR, "The specified topic is blank.")
    if not _LEGAL.fullmatch(topic):
        raise ServerFailed(
            ResponseCode.SYSTEM_ERROR,
            "The specified topic contains illegal characters, allowing only ^[%|a-zA-Z0-9_-]+$",
        )


def is_brokers_own(topic: str) -> bool:
    """Return whether only the broker itself writes to a topic."""
    return topic in _BROKERS_OWN


def check_sendable(topic: str) -> None:
    """Raise NoPermission for the topics that only the broker itself writes to."""
    if topic in _BROKERS_OWN:
        raise NoPermission(ResponseCode.NO_PERMISSION, f"Sending message to topic[{topic}] is forbidden.")
