"""The replicas of a group, as 9203 (ours) lists them."""

import msgspec

from pyromq.errors import BodyError


class ReplicaState(msgspec.Struct, kw_only=True, rename="camel"):
    """One replica. What only a master knows of the others is None elsewhere.

    `is_present` says that it keeps its lease at etcd; `acked_position` up to where it has the master's log.
    """

    address: str
    broker_id: int
    is_master: bool
    is_in_sync: bool
    is_present: bool
    is_connected: bool | None = None
    acked_position: int | None = None
    behind_ms: int | None = None


class ReplicaList(msgspec.Struct, kw_only=True, rename="camel"):
    """A group as one of its replicas sees it. `is_known` is False while etcd has not been reached."""

    broker_name: str
    cluster: str
    answered_by: str
    is_known: bool
    epoch: int = 0
    master: str | None = None
    max_position: int = 0
    confirmed_position: int | None = None
    replicas: list[ReplicaState] = []


def encode_replicas(replicas: ReplicaList) -> bytes:
    """Return the body of an answer."""
    return msgspec.json.encode(replicas)


def decode_replicas(body: bytes) -> ReplicaList:
    """Read the body of an answer. Raises BodyError."""
    try:
        return msgspec.json.decode(body, type=ReplicaList)
    except msgspec.DecodeError as error:
        raise BodyError(f"the list of replicas does not read: {error}") from error
