"""A broker's settings for RocketMQ 5: types of topics, and how messages are shared out among members."""

from dataclasses import dataclass
from typing import Final

from pyromq.config.choices import MessageRequestMode
from pyromq.config.field import setting


@dataclass(frozen=True, slots=True, kw_only=True)
class PopSettings:
    """Settings of topic types, and of consumers in POP mode."""

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


POP_UNCHANGED: Final = PopSettings()
