"""Groups and their members: 35, 38; 40, 307 and 309 from the broker. 34, 41, 42 and 46 have only bodies."""

import msgspec

from pyromq.wire.header import ClientId, GroupName, Header, ServerName, TopicName, Word


class UnregisterClient(Header, kw_only=True):
    """35: a member leaves its groups."""

    client_id: ClientId = msgspec.field(name="clientID")
    producer_group: GroupName | None = None
    consumer_group: GroupName | None = None


class UnregisterClientAnswer(Header, kw_only=True):
    """No fields; 4.9.8 sends an empty map of them."""


class GetConsumerListByGroup(Header, kw_only=True):
    """38: who is in a consumer group."""

    consumer_group: GroupName


class GetConsumerListByGroupAnswer(Header, kw_only=True):
    """No fields; 4.9.8 sends an empty map of them."""


class NotifyConsumerIdsChanged(Header, kw_only=True):
    """40: the broker tells a member that its group changed."""

    consumer_group: str


class GetConsumerRunningInfo(Header, kw_only=True):
    """307: what a consumer is doing; the broker relays question and answer."""

    consumer_group: GroupName
    client_id: ClientId
    jstack_enable: bool = False


class ConsumeMessageDirectly(Header, kw_only=True):
    """309: let one consumer consume one message; the broker adds the message as the body."""

    consumer_group: GroupName
    client_id: ClientId | None = None
    msg_id: Word | None = None
    broker_name: ServerName | None = None
    topic: TopicName | None = None
