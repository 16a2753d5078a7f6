"""The name server: routes 105; brokers 103, 104, 322; key values 100 to 102, 219; lists and permissions."""

from pyromq.wire.header import Header, Int32, Int64


class GetRouteInfo(Header, kw_only=True):
    """105: who serves a topic. Clients before 4.9.4 may ask for standard JSON."""

    topic: str
    accept_standard_json_only: bool | None = None


class RegisterBroker(Header, kw_only=True):
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


class RegisterBrokerAnswer(Header, kw_only=True):
    """A slave learns where its master is."""

    ha_server_addr: str | None = None
    master_addr: str | None = None


class UnregisterBroker(Header, kw_only=True):
    """104: a broker leaves."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersion(Header, kw_only=True):
    """322: whether a broker's topics (their version is the body) are news to this name server."""

    broker_name: str
    broker_addr: str
    cluster_name: str
    broker_id: Int64


class QueryDataVersionAnswer(Header, kw_only=True):
    """Whether the broker should register again."""

    changed: bool


class PutKvConfig(Header, kw_only=True):
    """100: set one key of a namespace."""

    namespace: str
    key: str
    value: str


class GetKvConfig(Header, kw_only=True):
    """101: read one key of a namespace."""

    namespace: str
    key: str


class GetKvConfigAnswer(Header, kw_only=True):
    """The value."""

    value: str | None = None


class DeleteKvConfig(Header, kw_only=True):
    """102: remove one key of a namespace."""

    namespace: str
    key: str


class GetKvListByNamespace(Header, kw_only=True):
    """219: all keys of a namespace."""

    namespace: str


class WipeWritePermOfBroker(Header, kw_only=True):
    """205: let no producer choose this broker."""

    broker_name: str


class WipeWritePermOfBrokerAnswer(Header, kw_only=True):
    """How many topics changed."""

    wipe_topic_count: Int32


class AddWritePermOfBroker(Header, kw_only=True):
    """327: let producers choose this broker again."""

    broker_name: str


class AddWritePermOfBrokerAnswer(Header, kw_only=True):
    """How many topics changed."""

    add_topic_count: Int32


class DeleteTopicInNamesrv(Header, kw_only=True):
    """216: forget a topic's route, in one cluster or in all."""

    topic: str
    cluster_name: str | None = None


class GetTopicsByCluster(Header, kw_only=True):
    """224: the topics of a cluster's brokers."""

    cluster: str


class NoFields(Header, kw_only=True):
    """106, 206, 304, 311 to 313, 318, 319: the code, and at most a body, say it all."""
