"""The name server: routes 105; brokers 103, 104, 322; key values 100 to 102, 219; lists and permissions."""

from pyromq.wire.header import Header, Int32, Int64


class GetRouteInfo(Header):
    """105: who serves a topic. Clients before 4.9.4 may ask for standard JSON."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBroker(Header):
    """103: a broker says what it serves; the topics are the body."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    ha_server_addr: str
    broker_id: Int64
    compressed: bool = False
    body_crc32: Int64 = 0
    heartbeat_timeout_millis: Int64 | None = None
    enable_acting_master: bool | None = None


class RegisterBrokerAnswer(Header):
    """A slave learns where its master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header):
    """104: a broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersion(Header):
    """322: whether a broker's topics (their version is the body) are news to this name server."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionAnswer(Header):
    """Whether the broker should register again."""

    changed: bool


class PutKvConfig(Header):
    """100: set one key of a namespace."""

    namespace: str
    key: str
    value: str


class GetKvConfig(Header):
    """101: read one key of a namespace."""

    namespace: str
    key: str


class GetKvConfigAnswer(Header):
    """The value."""

    value: str | None = None


class DeleteKvConfig(Header):
    """102: remove one key of a namespace."""

    namespace: str
    key: str


class GetKvListByNamespace(Header):
    """219: all keys of a namespace."""

    namespace: str


class WipeWritePermOfBroker(Header):
    """205: let no producer choose this broker."""

    broker_name: str


class WipeWritePermOfBrokerAnswer(Header):
    """How many topics changed."""

    wipe_topic_count: Int32


class AddWritePermOfBroker(Header):
    """327: let producers choose this broker again."""

    broker_name: str


class AddWritePermOfBrokerAnswer(Header):
    """How many topics changed."""

    add_topic_count: Int32


class DeleteTopicInNamesrv(Header):
    """216: forget a topic's route, in one cluster or in all."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByCluster(Header):
    """224: the topics of a cluster's brokers."""

    cluster: str


class NoFields(Header):
    """106, 206, 304, 311 to 313, 318, 319: the code, and at most a body, say it all."""
