"""The fields and bodies of the commonest requests, with what a test does not care about filled in."""

from collections.abc import Iterable, Mapping

from pyromq.codes import PullFlag
from pyromq.wire import properties as names
from pyromq.wire.batch import BatchUnit, encode_batch
from pyromq.wire.bodies.heartbeat_bodies import (
    ConsumerPart,
    Heartbeat,
    MessageModel,
    ProducerPart,
    Subscription,
    encode_heartbeat,
)

BORN_AT_MS = 1_700_000_000_000


def send_fields(
    topic: str, properties: Mapping[str, str] | None = None, **changes: object
) -> dict[str, object]:
    """Return the fields of SEND_MESSAGE, by their long names."""
    fields: dict[str, object] = {
        "producerGroup": "senders",
        "topic": topic,
        "defaultTopic": "TBW102",
        "defaultTopicQueueNums": 4,
        "queueId": 0,
        "sysFlag": 0,
        "bornTimestamp": BORN_AT_MS,
        "flag": 0,
        "properties": names.encode(properties or {}),
        "reconsumeTimes": 0,
        "unitMode": False,
        "batch": False,
    }
    return fields | changes


_SHORT = {
    "producerGroup": "a",
    "topic": "b",
    "defaultTopic": "c",
    "defaultTopicQueueNums": "d",
    "queueId": "e",
    "sysFlag": "f",
    "bornTimestamp": "g",
    "flag": "h",
    "properties": "i",
    "reconsumeTimes": "j",
    "unitMode": "k",
    "maxReconsumeTimes": "l",
    "batch": "m",
}


def send_v2_fields(
    topic: str, properties: Mapping[str, str] | None = None, **changes: object
) -> dict[str, object]:
    """Return the fields of SEND_MESSAGE_V2; changes are given by their long names."""
    return {_SHORT[name]: value for name, value in send_fields(topic, properties, **changes).items()}


def batch_body(bodies: Iterable[bytes], properties: Mapping[str, str] | None = None) -> bytes:
    """Return the body of a batch of messages that all have the same properties."""
    return encode_batch(BatchUnit(0, body, names.encode(properties or {})) for body in bodies)


def pull_fields(topic: str, group: str = "readers", **changes: object) -> dict[str, object]:
    """Return the fields of a pull from the begin of queue 0, of all tags, that is not held."""
    fields: dict[str, object] = {
        "consumerGroup": group,
        "topic": topic,
        "queueId": 0,
        "queueOffset": 0,
        "maxMsgNums": 32,
        "sysFlag": int(PullFlag.SUBSCRIPTION),
        "commitOffset": 0,
        "suspendTimeoutMillis": 0,
        "subscription": "*",
        "subVersion": 0,
        "expressionType": "TAG",
    }
    return fields | changes


def held_pull_fields(topic: str, group: str = "readers", **changes: object) -> dict[str, object]:
    """Return the fields of a pull that is held up to 15 seconds."""
    flags = int(PullFlag.SUBSCRIPTION | PullFlag.SUSPEND)
    return pull_fields(topic, group, **{"sysFlag": flags, "suspendTimeoutMillis": 15_000} | changes)


def heartbeat_body(
    client_id: str,
    group: str | None = None,
    topics: Mapping[str, str] | None = None,
    *,
    producer_group: str | None = None,
    model: MessageModel = MessageModel.CLUSTERING,
    version: int = 1,
) -> bytes:
    """Return a heartbeat of a member that subscribes to `topics` by their tag expressions."""
    subscriptions = [
        Subscription(topic=topic, sub_string=expression, sub_version=version)
        for topic, expression in (topics or {}).items()
    ]
    consumers = (
        []
        if group is None
        else [ConsumerPart(group_name=group, message_model=model, subscriptions=subscriptions)]
    )
    return encode_heartbeat(
        Heartbeat(
            client_id=client_id,
            producers=[] if producer_group is None else [ProducerPart(group_name=producer_group)],
            consumers=consumers,
        )
    )
