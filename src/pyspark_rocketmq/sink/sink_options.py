"""The options of `format("rocketmq")` for writing: read once, each bad one named, with the next step."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pyromq.client.names import check_sendable_topic
from pyromq.errors import ConfigError, MessageIllegal
from pyspark_rocketmq.given import GivenOptions, given_options
from pyspark_rocketmq.source.source_options import NAMES as SOURCE_NAMES
from pyspark_rocketmq.source.source_options import ClusterConnection, read_connection

#: Options that say how to reach a cluster, which are those of a read.
_CONNECTION: Final = (
    "nameServer",
    "accessKey",
    "secretKey",
    "securityToken",
    "tls",
    "tlsTrustCertPath",
    "tlsCertPath",
    "tlsKeyPath",
    "tlsKeyPassword",
    "namespace",
)
#: All options, each with the other names it is known by.
NAMES: Final[dict[str, tuple[str, ...]]] = {name: SOURCE_NAMES[name] for name in _CONNECTION} | {
    "topic": (),
    "createTopics": (),
    "delivery": (),
    "txnAppId": (),
    "txnVersion": (),
    "sendTimeoutMs": ("kafka.delivery.timeout.ms",),
    # Spark's own, which it hands on.
    "checkpointLocation": (),
    "queryName": (),
}


class DeliveryGuarantee(StrEnum):
    """The delivery guarantee of each row."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"


@dataclass(frozen=True, slots=True)
class SinkOptions:
    """The options of a write. With a `topic` the column of that name is ignored.

    `timeout_ms` is how long one request may take, with its repetitions: a broker may be restarted meanwhile.
    A batch write under a `transaction`, a name and a number, is done once: repeated, it changes nothing.
    """

    connection: ClusterConnection
    topic: str | None
    delivery: DeliveryGuarantee
    timeout_ms: int
    transaction: tuple[str, int] | None = None


def read_sink_options(options: Mapping[str, str]) -> SinkOptions:
    """Return the options; raise ConfigError that names what is missing, unknown or wrong."""
    given = given_options(options, NAMES)
    topic = given.text("topic")
    if topic is not None:
        try:
            check_sendable_topic(topic)
        except MessageIllegal as error:
            raise ConfigError(f"topic is {topic!r}: {error}") from error
    return SinkOptions(
        connection=replace(read_connection(given), creates_topics=given.flag("createTopics", default=False)),
        topic=topic,
        delivery=given.member("delivery", DeliveryGuarantee, DeliveryGuarantee.EXACTLY_ONCE),
        timeout_ms=given.milliseconds("sendTimeoutMs", 60_000),
        transaction=_transaction(given),
    )


def _transaction(given: GivenOptions) -> tuple[str, int] | None:
    """Return the name and the number of a write that is done once; Delta's sink has the same two options."""
    name = given.text("txnAppId")
    if name is None:
        given.refuse(("txnVersion",), "was given without txnAppId, which it is a number of")
        return None
    given.required("txnVersion", "0")
    return name, given.count("txnVersion", 0, at_least=0)
