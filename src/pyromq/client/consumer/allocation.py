"""Allocation of a topic's queues to the members of a group: RocketMQ's six strategies, with the same results.

There is no leader. Every member sorts the topic's queues and the group's client ids, and calculates its own
share; because all calculate alike, no queue is read twice or left out. So a group may only mix clients, ours
and Java's, whose strategies agree to the last queue.

A strategy is any `Allocate`. A queue that a strategy gives to nobody is not read.
"""

import logging
from bisect import bisect_left
from collections.abc import Callable, Collection, Iterable, Sequence
from hashlib import md5
from typing import Final, TypeAlias

from pyromq.errors import ConfigError
from pyromq.model import MessageQueue
from pyromq.queue_shares import block, dealt

_log = logging.getLogger("pyromq.client")

#: (group, client id, all queues of the topic in order, all client ids of the group in order) → its share.
Allocate: TypeAlias = Callable[[str, str, Sequence[MessageQueue], Sequence[str]], list[MessageQueue]]

VIRTUAL_NODES: Final = 10
#: What stands between room and broker in a broker's name, for `by_machine_room`.
_ROOM_END: Final = "@"


def average(
    group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Give each member a block of neighbours; the first members get one more when it does not divide."""
    if not _is_member(group, client_id, queues, client_ids):
        return []
    return block(queues, client_ids.index(client_id), len(client_ids))


def average_by_circle(
    group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
) -> list[MessageQueue]:
    """Deal the queues out one by one, like cards."""
    if not _is_member(group, client_id, queues, client_ids):
        return []
    return dealt(queues, client_ids.index(client_id), len(client_ids))


def by_config(chosen: Iterable[MessageQueue]) -> Allocate:
    """Return a strategy that gives this member the queues it is told, whoever else is there."""
    own = list(chosen)

    def allocate(
        _group: str, _client_id: str, _queues: Sequence[MessageQueue], _client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        return list(own)

    return allocate


def by_machine_room(rooms: Collection[str]) -> Allocate:
    """Return a strategy that shares only queues whose broker is named "room@broker", of the given rooms.

    Each member gets a block, and the first members one more from the end.
    """

    def allocate(
        group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not _is_member(group, client_id, queues, client_ids):
            return []
        near = [queue for queue in queues if _named_room(queue.broker_name) in rooms]
        index = client_ids.index(client_id)
        share, remainder = divmod(len(near), len(client_ids))
        own = near[index * share : (index + 1) * share]
        if index < remainder:
            own.append(near[share * len(client_ids) + index])
        return own

    return allocate


def machine_room_nearby(
    inner: Allocate,
    room_of_queue: Callable[[MessageQueue], str],
    room_of_client: Callable[[str], str],
) -> Allocate:
    """Return a strategy that keeps queues in their machine room: `inner` shares them among its members.

    Queues of a room without members are shared among all. Raises ConfigError when a queue or a client has no
    room.
    """

    def allocate(
        group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not _is_member(group, client_id, queues, client_ids):
            return []
        queues_by_room: dict[str, list[MessageQueue]] = {}
        for queue in queues:
            queues_by_room.setdefault(_known_room(room_of_queue(queue), queue), []).append(queue)
        clients_by_room: dict[str, list[str]] = {}
        for other in client_ids:
            clients_by_room.setdefault(_known_room(room_of_client(other), other), []).append(other)
        own_room = room_of_client(client_id)
        near = queues_by_room.pop(own_room, [])
        own = inner(group, client_id, near, clients_by_room[own_room]) if near else []
        for room in sorted(queues_by_room, key=_java_order):
            if room not in clients_by_room:
                own += inner(group, client_id, queues_by_room[room], client_ids)
        return own

    return allocate


def consistent_hash(virtual_nodes: int = VIRTUAL_NODES) -> Allocate:
    """Return a strategy that moves few queues when members come and go, for shares that are less even.

    Each member stands at `virtual_nodes` places of a ring; a queue belongs to the next place.
    """
    if virtual_nodes < 0:
        raise ConfigError(f"a member cannot stand at {virtual_nodes} places of the ring; give 0 or more")

    def allocate(
        group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]
    ) -> list[MessageQueue]:
        if not _is_member(group, client_id, queues, client_ids):
            return []
        owners = _ring(client_ids, virtual_nodes)
        places = sorted(owners)
        return [queue for queue in queues if places and owners[_next_place(places, queue)] == client_id]

    return allocate


def _ring(client_ids: Sequence[str], virtual_nodes: int) -> dict[int, str]:
    owners: dict[int, str] = {}
    for client_id in client_ids:
        # An id that is there twice goes on counting, and of two with one hash the later has the place.
        first = sum(1 for owner in owners.values() if owner == client_id)
        for number in range(first, first + virtual_nodes):
            owners[_hash(f"{client_id}-{number}")] = client_id
    return owners


def _next_place(places: Sequence[int], queue: MessageQueue) -> int:
    # The text is what Java's MessageQueue.toString gives; its hash decides.
    text = f"MessageQueue [topic={queue.topic}, brokerName={queue.broker_name}, queueId={queue.queue_id}]"
    return places[bisect_left(places, _hash(text)) % len(places)]


def _hash(text: str) -> int:
    return int.from_bytes(md5(text.encode(), usedforsecurity=False).digest()[:4])


def _named_room(broker_name: str) -> str | None:
    """Return the room in "room@broker"; like Java's `split`, do not count what is empty at the end."""
    parts = broker_name.split(_ROOM_END)
    while parts and not parts[-1]:
        parts.pop()
    return parts[0] if len(parts) == 2 else None


def _known_room(room: str, whose: MessageQueue | str) -> str:
    if not room:
        raise ConfigError(f"{whose} has no machine room; let the functions for rooms name one for each")
    return room


def _java_order(text: str) -> bytes:
    return text.encode("utf-16-be", "surrogatepass")


def _is_member(group: str, client_id: str, queues: Sequence[MessageQueue], client_ids: Sequence[str]) -> bool:
    if not client_id:
        raise ConfigError(f"no share of group {group} for a client without an id; give it one")
    if not queues:
        raise ConfigError(f"there are no queues to share in group {group}")
    if not client_ids:
        raise ConfigError(f"there are no clients in group {group} to share queues among")
    if client_id not in client_ids:
        # Soon after the start the broker may not have our heartbeat yet; the next rebalance will see us.
        _log.info("client %s is not among the members of group %s: %s", client_id, group, client_ids)
        return False
    return True
