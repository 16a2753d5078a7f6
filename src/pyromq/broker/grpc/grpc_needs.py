"""The permissions that RPCs need, by what their requests name; the accounts are those of remoting."""

from collections.abc import Callable
from typing import Any

from pyromq.broker.access.accounts import Need
from pyromq.broker.access.needs import to_publish
from pyromq.broker.topics.topic_names import retry_topic
from pyromq.config.account_rules import Permission
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.proto_numbers import ClientType

#: Returns what a request needs.
GrpcNeeds = Callable[[Any], Need]

NO_NEED = Need()


def need_of_send(request: pb.SendMessageRequest) -> Need:
    """PUB for the topic of each message."""
    resources: dict[str, Permission] = {}
    for message in request.messages:
        resources.update(to_publish(message.topic.name).resources)
    return Need(resources=_named(resources))


def need_to_publish(request: pb.EndTransactionRequest | pb.RecallMessageRequest) -> Need:
    """PUB for the topic."""
    return Need(resources=_named(to_publish(request.topic.name).resources))


def need_of_route(request: pb.QueryRouteRequest) -> Need:
    """PUB or SUB for the topic."""
    return Need(resources=_named({request.topic.name: Permission.ANY}))


def need_to_consume(
    request: pb.QueryAssignmentRequest
    | pb.AckMessageRequest
    | pb.ForwardMessageToDeadLetterQueueRequest
    | pb.SyncLiteSubscriptionRequest,
) -> Need:
    """SUB for the group and for the topic."""
    return need_of_names(request.group.name, request.topic.name)


def need_to_read(
    request: pb.ReceiveMessageRequest | pb.PullMessageRequest | pb.UpdateOffsetRequest | pb.GetOffsetRequest,
) -> Need:
    """SUB for the group and for the topic of the queue."""
    return need_of_names(request.group.name, request.message_queue.topic.name)


def need_to_look(request: pb.QueryOffsetRequest) -> Need:
    """SUB for the topic of the queue."""
    return Need(resources=_named({request.message_queue.topic.name: Permission.SUB}))


def need_of_group(
    request: pb.ChangeInvisibleDurationRequest | pb.NotifyClientTerminationRequest,
) -> Need:
    """SUB for the group, if there is one."""
    return need_of_names(request.group.name)


def need_of_heartbeat(request: pb.HeartbeatRequest) -> Need:
    """SUB for the group of a consumer; a producer's heartbeat needs nothing but a signature."""
    if request.client_type == ClientType.PRODUCER:
        return NO_NEED
    return need_of_names(request.group.name)


def need_of_telemetry(command: pb.TelemetryCommand) -> Need:
    """PUB for each topic that settings name to publish; SUB for the group and each topic subscribed to."""
    settings = command.settings
    resources: dict[str, Permission] = {}
    for topic in settings.publishing.topics:
        resources.update(to_publish(topic.name).resources)
    subscription = settings.subscription
    if settings.HasField("subscription"):
        resources.update(need_of_names(subscription.group.name).resources)
        for entry in subscription.subscriptions:
            resources[entry.topic.name] = Permission.SUB
    return Need(resources=_named(resources))


def need_of_names(group: str, topic: str = "") -> Need:
    """SUB for a group and a topic, of those that have a name."""
    resources = {topic: Permission.SUB}
    if group:
        resources[retry_topic(group)] = Permission.SUB
    return Need(resources=_named(resources))


def _named(resources: Any) -> dict[str, Permission]:
    """Return the resources that have a name; whether a name may be missing is looked at later."""
    return {name: permission for name, permission in resources.items() if name}
