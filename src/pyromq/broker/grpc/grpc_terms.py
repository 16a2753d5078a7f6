"""The terms on which settings of clients are taken: names, filters, sizes; and what a consumer's ask for."""

import re
from dataclasses import dataclass
from typing import Final

from pyromq.broker.delivery.sql_filters import SQL92, FilterTable
from pyromq.broker.groups.groups import GroupTable
from pyromq.errors import Refused
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.name_rules import EXPRESSION_CHARACTERS_MAX
from pyromq.wire.bodies.heartbeat_bodies import ConsumerPart, ConsumeType, Subscription
from pyromq.wire.grpc import grpc_messages as pb
from pyromq.wire.grpc.grpc_codes import GrpcCode, GrpcRefused
from pyromq.wire.grpc.grpc_names import check_grpc_group, check_grpc_topic
from pyromq.wire.grpc.proto_numbers import ClientType, FilterType
from pyromq.wire.java_hash import java_hash

SETTINGS_BYTES_MAX: Final = 256 * 1024
TOPICS_MAX: Final = 10_000
PROPERTIES_MAX: Final = 32
PROPERTY_VALUE_MAX: Final = 256
PROPERTIES_BYTES_MAX: Final = 4 * 1024
_is_property_name: Final = re.compile("[a-zA-Z][a-zA-Z0-9_.-]{0,63}").fullmatch
_CONSUME_TYPES: Final = {
    ClientType.PUSH_CONSUMER: ConsumeType.CONSUME_PASSIVELY,
    ClientType.SIMPLE_CONSUMER: ConsumeType.CONSUME_ACTIVELY,
}


@dataclass(frozen=True, slots=True)
class SettingsTerms:
    """Says no to settings that cannot be."""

    groups: GroupTable
    filters: FilterTable

    def check(self, settings: pb.Settings) -> None:
        """Raise GrpcRefused unless the settings are a producer's or a consumer's, and may be."""
        if settings.ByteSize() > SETTINGS_BYTES_MAX:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"the settings have {settings.ByteSize()} bytes, and {SETTINGS_BYTES_MAX} are the limit",
            )
        _check_client_properties(settings)
        kind = settings.WhichOneof("pub_sub")
        if kind == "publishing":
            _check_producer(settings)
        elif kind == "subscription":
            self._check_consumer(settings)
        else:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                "the settings say neither what the client publishes nor to what it subscribes",
            )

    def part_of(self, settings: pb.Settings) -> ConsumerPart:
        """Return the part in its group that a consumer's settings ask for."""
        subscription = settings.subscription
        return ConsumerPart(
            group_name=subscription.group.name,
            consume_type=_CONSUME_TYPES.get(ClientType(settings.client_type), ConsumeType.CONSUME_PASSIVELY),
            subscriptions=[_subscription_of(entry) for entry in subscription.subscriptions],
        )

    def _check_consumer(self, settings: pb.Settings) -> None:
        if settings.client_type not in _CONSUME_TYPES:
            raise GrpcRefused(
                GrpcCode.BAD_REQUEST,
                f"a client with subscriptions is a push or a simple consumer, not {_type_name(settings)}",
            )
        subscription = settings.subscription
        check_grpc_group(subscription.group.name)
        for entry in subscription.subscriptions:
            check_grpc_topic(entry.topic.name)
            self._check_expression(entry.expression)
        if self.groups.find(subscription.group.name) is None:
            raise GrpcRefused(
                GrpcCode.CONSUMER_GROUP_NOT_FOUND,
                f"group not found: {subscription.group.name}; create it, or set autoCreateSubscriptionGroup",
            )

    def _check_expression(self, expression: pb.FilterExpression) -> None:
        text = expression.expression
        if len(text) > EXPRESSION_CHARACTERS_MAX:
            raise _illegal(f"it has {len(text)} characters, and {EXPRESSION_CHARACTERS_MAX} are the limit")
        if expression.type == FilterType.SQL:
            if not text.strip():
                raise _illegal("SQL needs an expression")
            try:
                self.filters.check(SQL92)
                self.filters.test(text)
            except Refused as refused:
                raise _illegal(refused.remark or "it cannot be read") from refused
            return
        if not wants_all(text.strip()) and not parse_tags(text):
            raise _illegal("it names no tag; write * for all")


def _check_producer(settings: pb.Settings) -> None:
    if settings.client_type not in (ClientType.UNSPECIFIED, ClientType.PRODUCER):
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST, f"a client that publishes is a producer, not {_type_name(settings)}"
        )
    topics = settings.publishing.topics
    if len(topics) > TOPICS_MAX:
        raise GrpcRefused(
            GrpcCode.BAD_REQUEST, f"a producer has {len(topics)} topics, and {TOPICS_MAX} are the limit"
        )
    for topic in topics:
        check_grpc_topic(topic.name)


def _check_client_properties(settings: pb.Settings) -> None:
    properties = settings.client_properties
    size = sum(len(name) + len(value) for name, value in properties.items())
    if (
        len(properties) > PROPERTIES_MAX
        or size > PROPERTIES_BYTES_MAX
        or not all(_is_property_name(name) for name in properties)
        or any(len(value) > PROPERTY_VALUE_MAX for value in properties.values())
    ):
        raise GrpcRefused(
            GrpcCode.INVALID_CLIENT_PROPERTIES,
            f"client properties are at most {PROPERTIES_MAX}, {PROPERTIES_BYTES_MAX} characters in all; a "
            f"name has letters, digits and _.-, 64 at most, and a value {PROPERTY_VALUE_MAX} characters",
        )


def _subscription_of(entry: pb.SubscriptionEntry) -> Subscription:
    topic, expression = entry.topic.name, entry.expression
    if expression.type == FilterType.SQL:
        return Subscription(topic=topic, sub_string=expression.expression, expression_type=SQL92)
    text = expression.expression.strip() or "*"
    tags = [] if text == "*" else [word.strip() for word in text.split("||") if word.strip()]
    return Subscription(topic=topic, sub_string=text, tags=tags, tag_codes=[java_hash(tag) for tag in tags])


def _illegal(why: str) -> GrpcRefused:
    return GrpcRefused(GrpcCode.ILLEGAL_FILTER_EXPRESSION, f"the filter expression cannot be used: {why}")


def _type_name(settings: pb.Settings) -> str:
    known = {int(kind): kind.name for kind in ClientType}
    return known.get(settings.client_type, str(settings.client_type))
