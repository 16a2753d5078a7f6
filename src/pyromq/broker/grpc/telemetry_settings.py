"""The settings that a client is told: what it said of itself, and what the broker decides.

SDKs stop or hang when a field is missing that they rely on, so each that the specification names is there.
"""

from dataclasses import dataclass

from pyromq.broker.groups.groups import GroupTable
from pyromq.config.grpc_settings import GrpcSettings
from pyromq.wire.bodies.group_bodies import SubscriptionGroupConfig
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_times import duration_of

#: What 5.5 tells every consumer of lite topics.
_LITE_QUOTA, _LITE_TOPIC_SIZE = 2000, 64


@dataclass(frozen=True, slots=True)
class SettingsOfClients:
    """Makes the settings that clients are told."""

    settings: GrpcSettings
    groups: GroupTable
    body_bytes_max: int
    #: How long consumers wait for messages.
    polling_ms: int

    def config_of(self, said: pb.Settings) -> SubscriptionGroupConfig | None:
        """Return the configuration of the group that settings name; another one after each change of it."""
        return self.groups.configs.get(said.subscription.group.name)

    def merged(self, said: pb.Settings, *, is_node: bool) -> pb.Settings:
        """Return what a client is told that said this; its group is as it is now."""
        told = pb.Settings()
        told.CopyFrom(said)
        # It must be there, and must not be on: there is nowhere to send metrics.
        told.metric.on = False
        told.metric.ClearField("endpoints")
        if said.WhichOneof("pub_sub") == "subscription":
            config = self.config_of(said)
            self._tell_consumer(told, config or SubscriptionGroupConfig(group_name=""), is_node=is_node)
        else:
            self._tell_producer(told)
        return told

    def _tell_producer(self, told: pb.Settings) -> None:
        own = self.settings
        told.publishing.max_body_size = self.body_bytes_max
        told.publishing.validate_message_type = own.enable_topic_message_type_check
        policy = told.backoff_policy
        policy.ClearField("strategy")
        policy.max_attempts = own.grpc_client_producer_max_attempts
        backoff = policy.exponential_backoff
        backoff.initial.CopyFrom(duration_of(own.grpc_client_producer_backoff_initial_millis))
        backoff.max.CopyFrom(duration_of(own.grpc_client_producer_backoff_max_millis))
        backoff.multiplier = own.grpc_client_producer_backoff_multiplier

    def _tell_consumer(self, told: pb.Settings, config: SubscriptionGroupConfig, *, is_node: bool) -> None:
        own, subscription = self.settings, told.subscription
        subscription.fifo = config.is_fifo
        subscription.receive_batch_size = own.grpc_client_consumer_long_polling_batch_size
        subscription.long_polling_timeout.CopyFrom(duration_of(self.polling_ms))
        subscription.lite_subscription_quota = _LITE_QUOTA
        subscription.max_lite_topic_size = _LITE_TOPIC_SIZE
        told.backoff_policy.CopyFrom(backoff_policy(config, is_node=is_node))


def backoff_policy(config: SubscriptionGroupConfig, *, is_node: bool) -> pb.RetryPolicy:
    """Return how often, and how long after a failure, members of a group try a message again.

    Node's SDK knows no lists: it would try again at once. It is told multiples near the list instead.
    """
    policy = pb.RetryPolicy(max_attempts=config.retry_max_times + 1)
    multiples = config.retry_policy.exponential
    if multiples is not None:
        backoff = policy.exponential_backoff
        backoff.initial.CopyFrom(duration_of(multiples.initial))
        backoff.max.CopyFrom(duration_of(multiples.max))
        backoff.multiplier = multiples.multiplier
    elif is_node:
        delays = config.retry_policy.delays_ms
        backoff = policy.exponential_backoff
        backoff.initial.CopyFrom(duration_of(_whole_seconds(delays[0])))
        backoff.max.CopyFrom(duration_of(_whole_seconds(delays[-1])))
        backoff.multiplier = 2
    else:
        policy.customized_backoff.next.extend(map(duration_of, config.retry_policy.delays_ms))
    return policy


def _whole_seconds(ms: int) -> int:
    return max(-(-ms // 1000), 1) * 1000
