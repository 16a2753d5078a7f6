"""The members of a consumer group: the answer to 203.

{"connectionSet":[{"clientAddr":…,"clientId":…,"language":"JAVA","version":409}],"consumeFromWhere":…,
 "consumeType":…,"messageModel":…,"subscriptionTable":{"orders":{…}}}

`subscriptionConflict` is ours, and there only while members subscribe differently. Its `refused` are clients
that want to be in the group and are not let in.
"""

import msgspec

from pyromq.wire.bodies.body import Body, read_body
from pyromq.wire.bodies.heartbeat_bodies import Subscription
from pyromq.wire.header import Int32, Int64


class MemberConnection(Body, kw_only=True, frozen=True):
    """One member's connection to the broker that answers."""

    client_id: str
    client_addr: str = ""
    language: str = ""
    version: Int32 = 0


class RefusedMember(MemberConnection, kw_only=True, frozen=True):
    """A client that is not let into the group, and what it wants, in words."""

    subscriptions: list[str] = msgspec.field(default_factory=list)


class SubscriptionConflict(Body, kw_only=True, frozen=True):
    """The difference between members, in words, and since when, in milliseconds since 1970."""

    difference: str
    since: Int64 = 0
    refused: list[RefusedMember] = msgspec.field(default_factory=list)


class ConsumerConnections(Body, kw_only=True, frozen=True):
    """The answer to 203."""

    connections: list[MemberConnection] = msgspec.field(default_factory=list, name="connectionSet")
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""
    subscriptions: dict[str, Subscription] = msgspec.field(default_factory=dict, name="subscriptionTable")
    conflict: SubscriptionConflict | None = msgspec.field(default=None, name="subscriptionConflict")


def decode_consumer_connections(data: bytes) -> ConsumerConnections:
    """Return what 203's answer says."""
    return read_body(ConsumerConnections, data)
