"""The options of `format("rocketmq")` for reading: read once, each bad one named, with the next step.

Names are taken without regard to case, and under the names that Spark's Kafka source has for the same thing.
`given.py` reads the single values; which of them go together is said here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pyromq.client.names import RETRY_TOPIC_PREFIX, check_group
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.client.producer.compression import BODY_BYTES_MAX
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError
from pyromq.filter.tags import ALL
from pyspark_rocketmq.given import GivenOptions, given_options
from pyspark_rocketmq.source.places import (
    Offsets,
    QueueChoice,
    Times,
    read_assigned,
    read_offsets,
    read_times,
)

#: All options, each with the other names it is known by.
NAMES: Final[dict[str, tuple[str, ...]]] = {
    "nameServer": ("rocketmq.nameServer", "namesrvAddr", "kafka.bootstrap.servers"),
    "subscribe": ("topic",),
    "subscribePattern": (),
    "assign": (),
    "dlq": (),
    "retry": (),
    "keys": (),
    "archive": (),
    "startingOffsets": (),
    "endingOffsets": (),
    "startingTimestamp": (),
    "endingTimestamp": (),
    "startingOffsetsByTimestamp": (),
    "endingOffsetsByTimestamp": (),
    "failOnDataLoss": (),
    "maxMessagesPerTrigger": ("maxOffsetsPerTrigger",),
    "minMessagesPerTrigger": ("minOffsetsPerTrigger",),
    "maxBytesPerTrigger": (),
    "maxTriggerDelay": (),
    "minPartitions": (),
    "maxPartitions": (),
    "groupId": ("kafka.group.id", "consumerGroup"),
    "tags": (),
    "sql": (),
    "schema": (),
    "includeProperties": ("includeHeaders",),
    "accessKey": (),
    "secretKey": (),
    "securityToken": (),
    "tls": ("useTLS",),
    "tlsTrustCertPath": (),
    "tlsCertPath": (),
    "tlsKeyPath": (),
    "tlsKeyPassword": (),
    "namespace": (),
    "decompressedBytesMax": (),
    "pullTimeoutMs": ("kafkaConsumer.pollTimeoutMs",),
    "retries": ("fetchOffset.numRetries",),
    "retryIntervalMs": ("fetchOffset.retryIntervalMs",),
}
#: Each says what to read; a read has one of them.
_CHOICES: Final = ("subscribe", "subscribePattern", "assign", "dlq", "retry")
_STARTS: Final = ("startingOffsets", "startingTimestamp", "startingOffsetsByTimestamp")
_ENDS: Final = ("endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp")
_FOR_STREAMS: Final = (
    "maxMessagesPerTrigger",
    "minMessagesPerTrigger",
    "maxBytesPerTrigger",
    "maxTriggerDelay",
)


class End(StrEnum):
    """A place in every queue that has a name."""

    EARLIEST = "earliest"
    LATEST = "latest"
    GROUP = "group"


#: Where a read starts or ends: at a named place, at the offsets of queues, or at times (also one for all).
Bound = End | Offsets | Times


class OnLoss(StrEnum):
    """The action when messages are gone that should have been read."""

    FAIL = "true"
    IGNORE = "false"
    REPORT = "report"


class ColumnSet(StrEnum):
    """Whose columns a read has."""

    ROCKETMQ = "rocketmq"
    KAFKA = "kafka"


@dataclass(frozen=True, slots=True)
class ClusterConnection:
    """The access to a cluster. Equal ones share their connections in a process."""

    name_server: str
    timeout_ms: int = 10_000
    access_key: str = ""
    secret_key: str = field(default="", repr=False)
    security_token: str = field(default="", repr=False)
    is_tls: bool = False
    tls_trust_cert_path: str = ""
    tls_cert_path: str = ""
    tls_key_path: str = ""
    tls_key_password: str = field(default="", repr=False)
    namespace: str = ""
    body_bytes_max: int = BODY_BYTES_MAX
    #: Whether a message to a topic that is not there creates it, where brokers allow that.
    creates_topics: bool = True

    def settings(self) -> ClientSettings:
        """Return the same as a client's settings."""
        return ClientSettings(
            access_key=self.access_key,
            secret_key=self.secret_key,
            security_token=self.security_token,
            use_tls=self.is_tls,
            tls_client_auth_server=bool(self.tls_trust_cert_path),
            tls_client_trust_cert_path=self.tls_trust_cert_path,
            tls_client_cert_path=self.tls_cert_path,
            tls_client_key_path=self.tls_key_path,
            tls_client_key_password=self.tls_key_password,
            namespace=self.namespace,
            consumer_pull_timeout_millis=self.timeout_ms,
            decompressed_bytes_max=self.body_bytes_max,
            create_topic_key=ClientSettings().create_topic_key if self.creates_topics else "",
        )


@dataclass(frozen=True, slots=True)
class TopicChoice:
    """The choice of topics: by name, by pattern, or some queues; `option` says which option.

    With `keys` only the messages with one of them, found by the brokers' index.
    """

    option: str
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    queues: QueueChoice | None = None
    keys: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Filter:
    """The filter that brokers apply."""

    tags: str = ALL
    sql: str | None = None


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """The limit of a stream's batch; None is no limit."""

    messages_max: int | None = None
    messages_min: int | None = None
    bytes_max: int | None = None
    delay_ms_max: int = 15 * 60_000

    @property
    def is_limited(self) -> bool:
        """Whether a batch may have less than everything."""
        return not (self.messages_max is self.messages_min is self.bytes_max is None)


@dataclass(frozen=True, slots=True)
class Tasks:
    """The number of tasks that a read may have; None is up to us."""

    count_min: int | None = None
    count_max: int | None = None


@dataclass(frozen=True, slots=True)
class Retries:
    """The retries of a failed request: how often, and after how long."""

    count: int = 10
    interval_ms: int = 1_000


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """The options of a read."""

    connection: ClusterConnection
    choice: TopicChoice
    start: Bound
    end: Bound = End.LATEST
    only: Filter = Filter()
    group: str | None = None
    on_loss: OnLoss = OnLoss.FAIL
    admission: BatchLimits = BatchLimits()
    tasks: Tasks = Tasks()
    retries: Retries = Retries()
    #: Where messages are that brokers no longer have; without a name server, all that are read.
    archive: str | None = None


def read_batch_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a batch read; raise ConfigError that names what is missing, unknown or wrong."""
    given = given_options(options, NAMES)
    given.refuse(_FOR_STREAMS, "is for streams; end a batch read with endingOffsets or endingTimestamp")
    return _read(given, start=End.EARLIEST)


def read_stream_options(options: Mapping[str, str]) -> SourceOptions:
    """Return the options of a stream; raise ConfigError that names what is missing, unknown or wrong."""
    given = given_options(options, NAMES)
    given.refuse(_ENDS, "is for batch reads; a stream goes on: leave it out, or use spark.read")
    given.refuse(("archive",), "is for batch reads; a stream begins with what brokers have: use spark.read")
    given.refuse(("keys",), "is for batch reads; use spark.read, or filter the stream by the column keys")
    return _read(given, start=End.LATEST)


def read_column_set(options: Mapping[str, str]) -> tuple[ColumnSet, bool]:
    """Return whose columns a read has, and whether properties are among them."""
    given = given_options(options, NAMES)
    return given.member("schema", ColumnSet, ColumnSet.ROCKETMQ), given.flag(
        "includeProperties", default=True
    )


def _read(given: GivenOptions, start: End) -> SourceOptions:
    only = Filter(given.text("tags") or ALL, given.text("sql"))
    if only.sql is not None and only.tags != ALL:
        raise ConfigError("tags and sql were both given; choose one: in SQL, TAGS is a name too")
    archive = given.text("archive")
    read = SourceOptions(
        connection=read_connection(given, is_optional=archive is not None),
        choice=_choice(given),
        start=_bound(given, _STARTS, start),
        end=_bound(given, _ENDS, End.LATEST),
        only=only,
        group=_group(given, "groupId"),
        on_loss=given.member("failOnDataLoss", OnLoss, OnLoss.FAIL),
        admission=_admission(given),
        tasks=_tasks(given),
        retries=Retries(given.count("retries", 10, at_least=0), given.milliseconds("retryIntervalMs", 1_000)),
        archive=archive,
    )
    _check_together(given, read)
    return read


def read_connection(given: GivenOptions, *, is_optional: bool = False) -> ClusterConnection:
    """Return how to reach the cluster; a sink is given the same options."""
    name_server = given.text("nameServer") or ""
    if not is_optional:
        name_server = given.required("nameServer", "127.0.0.1:9876")
    connection = ClusterConnection(
        name_server=name_server.replace(",", ";"),
        timeout_ms=given.milliseconds("pullTimeoutMs", 10_000),
        access_key=given.text("accessKey") or "",
        secret_key=given.text("secretKey") or "",
        security_token=given.text("securityToken") or "",
        is_tls=given.flag("tls", default=False),
        tls_trust_cert_path=given.text("tlsTrustCertPath") or "",
        tls_cert_path=given.text("tlsCertPath") or "",
        tls_key_path=given.text("tlsKeyPath") or "",
        tls_key_password=given.text("tlsKeyPassword") or "",
        namespace=given.text("namespace") or "",
        body_bytes_max=given.size("decompressedBytesMax") or BODY_BYTES_MAX,
    )
    if bool(connection.access_key) != bool(connection.secret_key):
        missing = "secretKey" if connection.access_key else "accessKey"
        raise ConfigError(f"accessKey and secretKey go together; give {missing} too")
    if not connection.is_tls:
        paths = ("tlsTrustCertPath", "tlsCertPath", "tlsKeyPath", "tlsKeyPassword")
        given.refuse(paths, "was given without TLS; add .option('tls', 'true')")
    return connection


def _choice(given: GivenOptions) -> TopicChoice:
    named = given.one_of(_CHOICES)
    if named is None:
        raise ConfigError(
            "format('rocketmq') needs .option('subscribe', 'orders') to know what to read; or one of "
            f"{', '.join(_CHOICES[1:])}"
        )
    value = given.required(named, "orders")
    keys = tuple(_parts(given.text("keys") or ""))
    if named == "subscribePattern":
        return TopicChoice(named, pattern=given.pattern(named), keys=keys)
    if named == "assign":
        queues = read_assigned(named, value)
        return TopicChoice(named, topics=queues.topics, queues=queues, keys=keys)
    if named == "subscribe":
        return TopicChoice(named, topics=tuple(_parts(value)), keys=keys)
    prefix = DEAD_LETTER_TOPIC_PREFIX if named == "dlq" else RETRY_TOPIC_PREFIX
    group = _group(given, named)
    return TopicChoice(named, topics=(f"{prefix}{group}",), keys=keys)


def _bound(given: GivenOptions, names: tuple[str, ...], default: End) -> Bound:
    named = given.one_of(names)
    if named is None:
        return default
    value = given.required(named, str(default))
    if not named.endswith("Offsets"):
        return read_times(named, value)
    if value.lstrip().startswith("{"):
        return read_offsets(named, value)
    return given.member(named, End, default)


def _group(given: GivenOptions, name: str) -> str | None:
    group = given.text(name)
    if group is not None:
        try:
            check_group(group)
        except ConfigError as error:
            raise ConfigError(f"{name} is {group!r}: {error}") from error
    return group


def _admission(given: GivenOptions) -> BatchLimits:
    most, least = given.limit("maxMessagesPerTrigger"), given.limit("minMessagesPerTrigger")
    if most is not None and least is not None and least > most:
        raise ConfigError(
            f"minMessagesPerTrigger is {least} and maxMessagesPerTrigger {most}; no batch can have both"
        )
    if least is None:
        given.refuse(("maxTriggerDelay",), "was given without minMessagesPerTrigger, which it belongs to")
    return BatchLimits(
        most, least, given.size("maxBytesPerTrigger"), given.duration("maxTriggerDelay", "15m")
    )


def _tasks(given: GivenOptions) -> Tasks:
    least, most = given.limit("minPartitions"), given.limit("maxPartitions")
    if least is not None and most is not None and least > most:
        raise ConfigError(f"minPartitions is {least} and maxPartitions {most}; minPartitions is the smaller")
    return Tasks(least, most)


def _check_together(given: GivenOptions, read: SourceOptions) -> None:
    if End.GROUP in (read.start, read.end) and read.group is None:
        name = "startingOffsets" if read.start is End.GROUP else "endingOffsets"
        raise ConfigError(f"{name} is 'group'; say whose progress with .option('groupId', 'billing')")
    if read.choice.keys:
        refused = ("startingOffsets", "endingOffsets", "tags", "sql", "minPartitions", "maxPartitions")
        given.refuse(refused, "does not go with keys; narrow the search with startingTimestamp")
        given.refuse(("assign",), "does not go with keys; use subscribe")
        given.refuse(("archive",), "does not go with keys; filter by the column keys")


def _parts(value: str) -> list[str]:
    return [part.strip() for part in value.split(",") if part.strip()]
