"""The name server: routes 105; brokers 103, 104, 322; key values 100 to 102, 219; lists and permissions."""

from pyromq.wire.header import Header, Int32, Int64, ServerName, Text, TopicName, Word


class GetRouteInfo(Header, kw_only=True):
    """105: who serves a topic. Clients before 4.9.4 may ask for standard JSON."""

    topic: TopicName
    accept_standard_json_only: bool | None = None


class RegisterBroker(Header, kw_only=True):
    """103: a broker says what it serves; the topics are the body."""

    broker_name: ServerName
    broker_addr: ServerName
    cluster_name: ServerName
    ha_server_addr: ServerName
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

    broker_name: ServerName
    broker_addr: ServerName
    cluster_name: ServerName
    broker_id: Int64


class QueryDataVersion(Header, kw_only=True):
    """322: whether a broker's topics (their version is the body) are news to this name server."""

    broker_name: ServerName
    broker_addr: ServerName
    cluster_name: ServerName
    broker_id: Int64


class QueryDataVersionAnswer(Header, kw_only=True):
    """Whether the broker should register again."""

    changed: bool


class PutKvConfig(Header, kw_only=True):
    """100: set one key of a namespace."""

    namespace: Word
    key: Word
    value: Text


class GetKvConfig(Header, kw_only=True):
    """101: read one key of a namespace."""

    namespace: Word
    key: Word


class GetKvConfigAnswer(Header, kw_only=True):
    """The value."""

    value: str | None = None


class DeleteKvConfig(Header, kw_only=True):
    """102: remove one key of a namespace."""

    namespace: Word
    key: Word


class GetKvListByNamespace(Header, kw_only=True):
    """219: all keys of a namespace."""

    namespace: Word


class WipeWritePermOfBroker(Header, kw_only=True):
    """205: let no producer choose this broker."""

    broker_name: ServerName


class WipeWritePermOfBrokerAnswer(Header, kw_only=True):
    """The number of topics that changed."""

    wipe_topic_count: Int32


class AddWritePermOfBroker(Header, kw_only=True):
    """327: let producers choose this broker again."""

    broker_name: ServerName


class AddWritePermOfBrokerAnswer(Header, kw_only=True):
    """The number of topics that changed."""

    add_topic_count: Int32


class DeleteTopicInNamesrv(Header, kw_only=True):
    """216: forget a topic's route, in one cluster or in all."""

    topic: TopicName
    cluster_name: ServerName | None = None


class GetTopicsByCluster(Header, kw_only=True):
    """224: the topics of a cluster's brokers."""

    cluster: ServerName


class NoFields(Header, kw_only=True):
    """A header without fields: of an answer, 4.9.8 sends an empty map."""
