"""The settings of RocketMQ 5's gRPC services, under the names that RocketMQ's proxy has for them."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from pyromq.config.field import PORT_MAX, setting

#: Where SDKs look when nobody tells them a port.
DEFAULT_GRPC_PORT: Final = 8081


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcSettings:
    """The settings of the gRPC services of a broker."""

    grpc_server_port: int = setting(
        DEFAULT_GRPC_PORT, "TCP port for RocketMQ 5's SDKs; 0: none.", at_most=PORT_MAX
    )
    grpc_advertise: str = setting(
        "", "Address that SDKs are told, host:port; empty: the one they came by. Ours.", form="addresses"
    )
    grpc_auto_create_topic: bool = setting(
        False,
        "Create a topic when an SDK asks for its route, if autoCreateTopicEnable is true. Ours.",
        live=True,
    )
    enable_topic_message_type_check: bool = setting(
        True, "Refuse messages of SDKs whose kind is not the type of their topic.", live=True
    )
    enable_message_body_empty_check: bool = setting(
        True, "Refuse messages of SDKs that have no body.", live=True
    )
    user_property_max_num: int = setting(
        128, "Properties that a message of an SDK may have.", at_least=1, live=True
    )
    max_user_property_size: int = setting(
        16_384, "Bytes that properties, tag and keys of a message of an SDK may have.", at_least=1, live=True
    )
    max_message_group_size: int = setting(
        64, "A message group of an SDK has fewer bytes than this.", at_least=1, live=True
    )
    max_delay_time_mills: int = setting(
        86_400_000, "Milliseconds that a delivery time of an SDK may be ahead.", at_least=1, live=True
    )
    max_transaction_recovery_second: int = setting(
        3_600,
        "Seconds that a producer may have before it is asked about a transaction.",
        at_least=1,
        live=True,
    )
    recall_message_enable: bool = setting(
        True, "Let SDKs take back messages that wait for their delivery time.", live=True
    )
    grpc_client_producer_max_attempts: int = setting(
        3, "Times that producers try a send.", at_least=1, live=True
    )
    grpc_client_producer_backoff_initial_millis: int = setting(
        10, "Milliseconds before a producer's second try, when the broker is busy.", at_least=1, live=True
    )
    grpc_client_producer_backoff_max_millis: int = setting(
        1_000, "Most milliseconds between two tries of a producer.", at_least=1, live=True
    )
    grpc_client_producer_backoff_multiplier: int = setting(
        2, "How much longer each pause of a producer is.", at_least=1, live=True
    )
    grpc_client_consumer_long_polling_batch_size: int = setting(
        32, "Messages that consumers ask for at once.", at_least=1, at_most=32, live=True
    )
    grpc_client_consumer_min_long_polling_timeout_millis: int = setting(
        5_000, "Milliseconds that a receive waits at least when it finds nothing.", live=True
    )
    grpc_client_consumer_max_long_polling_timeout_millis: int = setting(
        20_000, "Milliseconds that a receive waits at most when it finds nothing.", at_least=1, live=True
    )
    grpc_strict_polling_time: bool = setting(
        False, "Refuse receives whose deadline is too short for the shortest wait. Ours.", live=True
    )
    default_invisible_time_mills: int = setting(
        60_000,
        "Milliseconds until messages of push consumers are renewed first.",
        at_least=1_000,
        live=True,
    )
    min_invisible_time_mills_for_recv: int = setting(
        10_000, "Least milliseconds that received messages are invisible.", live=True
    )
    max_invisible_time_mills: int = setting(
        12 * 3_600_000, "Most milliseconds that messages are invisible.", at_least=1_000, live=True
    )


GRPC_UNCHANGED: Final = GrpcSettings()


class GrpcOpening(StrEnum):
    """The condition under which a broker opens a port for gRPC."""

    #: When the settings name another port than RocketMQ's: nobody who embeds a broker has one by surprise.
    IF_NAMED = "if named"
    #: Any port that the settings say, RocketMQ's only if it is free and protobuf is there.
    IF_FREE = "if free"
    #: What the settings say, or the broker does not start.
    AS_SET = "as set"
