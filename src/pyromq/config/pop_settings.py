"""A broker's settings for RocketMQ 5: types of topics, shares of members, and messages that are popped."""

from dataclasses import dataclass
from typing import Final

from pyromq.config.choices import MessageRequestMode
from pyromq.config.field import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PopSettings:
    """Settings of topic types, of consumers in POP mode, and of messages that are popped."""

    enable_mixed_message_type: bool = setting(
        False, "Let operators give a topic the type MIXED, which takes messages of every type.", live=True
    )
    server_load_balancer_enable: bool = setting(
        True, "Share queues out among members that ask for it; false: each is given all of them.", live=True
    )
    default_message_request_mode: MessageRequestMode = setting(
        MessageRequestMode.PULL,
        "How members consume that let the broker share queues out, where setConsumeMode says nothing.",
        live=True,
    )
    default_pop_share_queue_num: int = setting(
        -1,
        "Members whose queues a member pops beside its own, where setConsumeMode says nothing; -1: of all.",
        at_least=-1,
        live=True,
    )
    enable_retry_topic_v2: bool = setting(
        False, "Store popped messages that failed in %RETRY%group+topic, not %RETRY%group_topic.", live=True
    )
    retrieve_message_from_pop_retry_topic_v1: bool = setting(
        True, "With enableRetryTopicV2, deliver what is in the other retry topic too.", live=True
    )
    pop_from_retry_probability: int = setting(
        20, "Of a hundred pops, how many read messages that failed before all others.", at_most=100, live=True
    )
    pop_polling_size: int = setting(
        1_024, "Pops of one group and queue that may wait for messages; more are answered at once.", live=True
    )
    max_pop_polling_size: int = setting(
        100_000, "Pops that may wait for messages; more are answered at once.", live=True
    )
    enable_pop_message_threshold: bool = setting(
        True, "Pop no more of a queue of which popInflightMessageThreshold are in flight.", live=True
    )
    pop_inflight_message_threshold: int = setting(
        10_000, "Messages of a queue that may be in flight for a group.", at_least=1, live=True
    )
    pop_inflight_max: int = setting(
        2_000_000,
        "Messages that may be in flight in all; they cost some 100 bytes each. Ours.",
        at_least=1,
        live=True,
    )
    init_pop_offset_by_check_msg_in_mem: bool = setting(
        True,
        "Let a new group pop a young queue from its beginning, and not from its last message.",
        live=True,
    )


POP_UNCHANGED: Final = PopSettings()
