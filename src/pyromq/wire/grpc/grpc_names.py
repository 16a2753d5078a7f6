"""The rules for names and texts of RocketMQ 5's gRPC protocol; each breach has its code."""

import re
from typing import Final

from pyromq.name_rules import (
    DEAD_LETTER_PREFIX,
    LEGAL_CHARACTERS,
    RETRY_PREFIX,
    TOPIC_CHARACTERS_MAX,
    has_legal_characters,
    is_topic,
    shortened,
)
from pyromq.system_names import BROKERS_OWN, GROUP_PREFIX, SYSTEM_TOPICS, TOPIC_PREFIX
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused

#: Shorter than a group of remoting may be.
GROUP_CHARACTERS_MAX: Final = 120
CLIENT_ID_CHARACTERS_MAX: Final = 1_024

has_control_character: Final = re.compile("[\x00-\x1f\x7f-\x9f]").search


def check_grpc_topic(topic: str) -> None:
    """Raise GrpcRefused unless a client may name a topic so."""
    if not topic.strip():
        raise GrpcRefused(GrpcCode.ILLEGAL_TOPIC, "the topic has no name")
    if not is_topic(topic):
        if has_legal_characters(topic) and topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX)):
            return
        raise GrpcRefused(
            GrpcCode.ILLEGAL_TOPIC,
            f"topic {shortened(topic)}: a name has at most {TOPIC_CHARACTERS_MAX} characters, and only those "
            f"of {LEGAL_CHARACTERS}",
        )
    if topic in SYSTEM_TOPICS or topic in BROKERS_OWN or topic.startswith(TOPIC_PREFIX):
        raise GrpcRefused(GrpcCode.ILLEGAL_TOPIC, f"topic {topic} is the broker's own")


def check_grpc_group(group: str) -> None:
    """Raise GrpcRefused unless a client may name a consumer group so."""
    if not group.strip():
        raise GrpcRefused(GrpcCode.ILLEGAL_CONSUMER_GROUP, "the consumer group has no name")
    if len(group) > GROUP_CHARACTERS_MAX or not has_legal_characters(group):
        raise GrpcRefused(
            GrpcCode.ILLEGAL_CONSUMER_GROUP,
            f"consumer group {shortened(group)}: a name has at most {GROUP_CHARACTERS_MAX} characters, and "
            f"only those of {LEGAL_CHARACTERS}",
        )
    if group.startswith(GROUP_PREFIX):
        raise GrpcRefused(GrpcCode.ILLEGAL_CONSUMER_GROUP, f"consumer group {group} is the broker's own")


def check_word(text: str, code: GrpcCode, what: str) -> None:
    """Raise GrpcRefused for a text of blanks only, or one with a control character; an empty one is fine."""
    if text and not text.strip():
        raise GrpcRefused(code, f"the {what} is blank")
    if has_control_character(text):
        raise GrpcRefused(code, f"the {what} has a control character")
