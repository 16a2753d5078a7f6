"""Groups and their members: 34, 35, 38, 41, 42, 46; 40, 307 and 309 from the broker."""

import msgspec

from pyromq.wire.header import Header


class HeartBeat(Header, kw_only=True):
    """34: the heartbeat is the body."""


class UnregisterClient(Header, kw_only=True):
    """35: a member leaves its groups."""

    client_id: str = msgspec.field(name="clientID")
    producer_group: str | None = None
    consumer_group: str | None = None


class UnregisterClientAnswer(Header, kw_only=True):
    """No fields; 4.9.8 sends an empty map of them."""


class GetConsumerListByGroup(Header, kw_only=True):
    """38: who is in a consumer group."""

    consumer_group: str


class GetConsumerListByGroupAnswer(Header, kw_only=True):
    """No fields; 4.9.8 sends an empty map of them."""


class NotifyConsumerIdsChanged(Header, kw_only=True):
    """40: the broker tells a member that its group changed."""

    consumer_group: str


class LockBatch(Header, kw_only=True):
    """41: the queues to lock are the body."""


class UnlockBatch(Header, kw_only=True):
    """42: the queues to unlock are the body."""


class CheckClientConfig(Header, kw_only=True):
    """46: the subscription to check is the body."""


class GetConsumerRunningInfo(Header, kw_only=True):
    """307: what a consumer is doing; the broker relays question and answer."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


class ConsumeMessageDirectly(Header, kw_only=True):
    """309: let one consumer consume one message; the broker adds the message as the body."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
    topic: str | None = None
