"""Queues that an orderly consumer locks (41) and unlocks (42), and who is in a group (38).

`queueLocks.json`, which RocketMQ does not have, is {"lockTable":{"group":{"client id":[queue, …]}}}.
"""

from collections.abc import Iterable, Mapping

import msgspec

from pyromq.model import MessageQueue
from pyromq.wire.bodies.body import Body, convert, read_map, read_object, read_queues
from pyromq.wire.header import ClientId, GroupName
from pyromq.wire.java_json import dumps


class LockBatch(Body, kw_only=True, frozen=True):
    """The queues that one member of a group wants locked or unlocked. `only_this_broker` is 5.x's."""

    consumer_group: str
    client_id: str
    queues: list[MessageQueue]
    only_this_broker: bool | None = None


class _LockFields(Body, kw_only=True, frozen=True):
    consumer_group: GroupName
    client_id: ClientId
    only_this_broker: bool | None = None


class _ConsumerIds(Body, kw_only=True, frozen=True):
    consumer_id_list: list[str] = msgspec.field(default_factory=list)


def encode_lock_batch(batch: LockBatch) -> bytes:
    """Return the body of 41 and 42."""
    return dumps(
        {
            "clientId": batch.client_id,
            "consumerGroup": batch.consumer_group,
            "mqSet": batch.queues,
            "onlyThisBroker": batch.only_this_broker,
        }
    )


def decode_lock_batch(data: bytes) -> LockBatch:
    """Return what the body of 41 or 42 asks for."""
    fields = read_object(data)
    queues = read_queues(fields.get("mqSet", []))
    known = convert(_LockFields, fields)
    return LockBatch(
        consumer_group=known.consumer_group,
        client_id=known.client_id,
        queues=queues,
        only_this_broker=known.only_this_broker,
    )


def encode_locked_queues(queues: Iterable[MessageQueue]) -> bytes:
    """Return the answer to 41: the queues that are now the asker's."""
    return dumps({"lockOKMQSet": list(queues)})


def decode_locked_queues(data: bytes) -> list[MessageQueue]:
    """Return the queues of the answer to 41."""
    return read_queues(read_object(data).get("lockOKMQSet", []))


def encode_lock_table(table: Mapping[str, Mapping[str, list[MessageQueue]]]) -> bytes:
    """Return the JSON of all locks, by group and client id."""
    return dumps({"lockTable": table}, pretty=True)


def decode_lock_table(data: bytes) -> dict[str, dict[str, list[MessageQueue]]]:
    """Return all locks, by group and client id."""
    table = read_map(read_object(data).get("lockTable", {}), "lockTable")
    return {
        str(group): {
            str(client_id): read_queues(queues) for client_id, queues in read_map(held, str(group)).items()
        }
        for group, held in table.items()
    }


def encode_consumer_ids(client_ids: Iterable[str]) -> bytes:
    """Return the answer to 38."""
    return dumps({"consumerIdList": list(client_ids)})


def decode_consumer_ids(data: bytes) -> list[str]:
    """Return the client ids of the answer to 38."""
    return convert(_ConsumerIds, read_object(data)).consumer_id_list
