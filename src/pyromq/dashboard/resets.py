"""Where a group goes on reading: shown first, then moved.

A group whose members are connected is told by its brokers (222), and its members move themselves; that knows
times, the beginning and the end. A group that is not connected has its offsets written (15), any of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.names import check_group, check_topic
from pyromq.client.plans import progress
from pyromq.codes import RequestCode, ResponseCode
from pyromq.dashboard.changes import text_of, whole
from pyromq.dashboard.picture import Broker, Picture
from pyromq.errors import ConfigError, NoRoute, PyroError, QueryNotFound, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connections import decode_consumer_connections
from pyromq.wire.bodies.offsets import TopicOffset, decode_reset_offsets, decode_topic_stats
from pyromq.wire.header import read_header
from pyromq.wire.headers.admin import GetConsumerConnectionList, GetTopicStats, ResetOffset
from pyromq.wire.headers.offset import QueryConsumerOffset, QueryConsumerOffsetAnswer, UpdateConsumerOffset

Shown = dict[str, Any]
#: Java's largest number.
_MOST: Final = 2**63 - 1
_TO_THE_END: Final = -1


class Where(StrEnum):
    """Where to go on: at the first message that is there, behind the last, at a time, at an offset."""

    FIRST = "first"
    LAST = "last"
    TIME = "time"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One queue: where the group is, where it would be, and what is there."""

    queue: MessageQueue
    at: int | None
    to: int
    edge: TopicOffset

    def shown(self) -> Shown:
        """Return it for a page."""
        return {
            "broker": self.queue.broker_name,
            "id": self.queue.queue_id,
            "at": self.at,
            "to": self.to,
            "min": self.edge.min_offset,
            "max": self.edge.max_offset,
            "change": None if self.at is None else self.to - self.at,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What is asked for."""

    group: str
    topic: str
    where: Where
    at_ms: int
    offset: int
    #: «broker:queue» of those that are meant; none: all.
    queues: frozenset[str]


def read_order(order: Mapping[str, Any]) -> Order:
    """Return an order as it was sent; raise ConfigError with what is wrong."""
    group, topic = text_of(order, "group"), text_of(order, "topic")
    check_group(group)
    check_topic(topic)
    try:
        where = Where(str(order.get("where", "")))
    except ValueError:
        raise ConfigError("say where to go on: first, last, time or offset") from None
    if where is Where.TIME and "time" not in order:
        raise ConfigError("say the time to go on at")
    if where is Where.OFFSET and "offset" not in order:
        raise ConfigError("say the offset to go on at")
    return Order(
        group=group,
        topic=topic,
        where=where,
        at_ms=whole(order, "time", 0, 0, _MOST),
        offset=whole(order, "offset", 0, 0, _MOST),
        queues=frozenset(map(str, order.get("queues") or ())),
    )


async def preview(asker: Asker, picture: Picture, order: Order) -> Shown:
    """Return what would move, and how; nothing does."""
    members = await _members(asker, picture, order.group)
    moves = await _moves(asker, picture, order)
    again = sum(max(0, move.at - move.to) for move in moves if move.at is not None)
    skipped = sum(max(0, move.to - move.at) for move in moves if move.at is not None)
    return {
        "members": sorted(members),
        "moves": [move.shown() for move in moves],
        "again": again,
        "skipped": skipped,
        "how": _how(order, members),
        "refusal": _refusal(order, members),
    }


async def move(asker: Asker, picture: Picture, order: Order) -> Shown:
    """Move the group, and return for each queue what it was, what it is to be, and whether that was taken."""
    members = await _members(asker, picture, order.group)
    refusal = _refusal(order, members)
    if refusal is not None:
        raise ConfigError(refusal)
    moves = await _moves(asker, picture, order)
    results = (
        await _tell_members(asker, picture, order, moves)
        if members
        else [await _write(asker, picture, order, one) for one in moves]
    )
    return {"members": sorted(members), "moves": results, "how": _how(order, members)}


def _how(order: Order, members: set[str]) -> str:
    if members:
        return f"members are connected ({len(members)}): the brokers tell them, and they move within seconds"
    return f"nobody of {order.group} is connected: the brokers note the new offsets"


def _refusal(order: Order, members: set[str]) -> str | None:
    if not members:
        return None
    if order.where is Where.OFFSET or order.queues:
        return (
            f"group {order.group} has {len(members)} members connected, which would write their own offsets "
            "over it: stop them first, or choose all queues and first, last or a time"
        )
    return None


async def _members(asker: Asker, picture: Picture, group: str) -> set[str]:
    found: set[str] = set()
    for broker in picture.masters:
        header = GetConsumerConnectionList(consumer_group=group)
        try:
            answer = await asker.ask(broker.address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        except Refused as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                continue
            raise
        found |= {one.client_id for one in decode_consumer_connections(answer.body).connections}
    return found


async def _moves(asker: Asker, picture: Picture, order: Order) -> list[Move]:
    queues = await asker.run(progress.subscribe_queues, order.topic)
    meant = [one for one in queues if not order.queues or f"{one.broker_name}:{one.queue_id}" in order.queues]
    if not meant:
        raise ConfigError(f"topic {order.topic} has none of the queues {', '.join(sorted(order.queues))}")
    edges: dict[MessageQueue, TopicOffset] = {}
    for name in sorted({queue.broker_name for queue in meant}):
        header = GetTopicStats(topic=order.topic)
        answer = await asker.ask(_master(picture, name).address, RequestCode.GET_TOPIC_STATS_INFO, header)
        edges |= decode_topic_stats(answer.body)
    return [
        await _move_of(asker, picture, order, queue, edges.get(queue, TopicOffset()))
        for queue in sorted(meant)
    ]


async def _move_of(
    asker: Asker, picture: Picture, order: Order, queue: MessageQueue, edge: TopicOffset
) -> Move:
    at = await _committed(asker, picture, order.group, queue)
    if order.where is Where.FIRST:
        to = edge.min_offset
    elif order.where is Where.LAST:
        to = edge.max_offset
    elif order.where is Where.OFFSET:
        to = max(edge.min_offset, min(order.offset, edge.max_offset))
    else:
        to = await asker.run(progress.offset_by_time, queue, order.at_ms)
    return Move(queue=queue, at=at, to=max(0, to), edge=edge)


async def _committed(asker: Asker, picture: Picture, group: str, queue: MessageQueue) -> int | None:
    header = QueryConsumerOffset(consumer_group=group, topic=queue.topic, queue_id=queue.queue_id)
    address = _master(picture, queue.broker_name).address
    try:
        answer = await asker.ask(address, RequestCode.QUERY_CONSUMER_OFFSET, header)
    except QueryNotFound:
        return None
    return read_header(QueryConsumerOffsetAnswer, answer.ext).offset


async def _write(asker: Asker, picture: Picture, order: Order, move: Move) -> Shown:
    header = UpdateConsumerOffset(
        consumer_group=order.group,
        topic=move.queue.topic,
        queue_id=move.queue.queue_id,
        commit_offset=move.to,
    )
    try:
        address = _master(picture, move.queue.broker_name).address
        await asker.ask(address, RequestCode.UPDATE_CONSUMER_OFFSET, header)
        now = await _committed(asker, picture, order.group, move.queue)
    except PyroError as error:
        return {**move.shown(), "failure": str(error)}
    failure = None if now == move.to else f"the broker says {now}; is a member connected again?"
    return {**move.shown(), "failure": failure}


async def _tell_members(asker: Asker, picture: Picture, order: Order, moves: list[Move]) -> list[Shown]:
    timestamps = {Where.FIRST: 0, Where.LAST: _TO_THE_END, Where.TIME: order.at_ms}
    header = ResetOffset(
        topic=order.topic, group=order.group, timestamp=timestamps[order.where], is_force=True
    )
    told: dict[MessageQueue, int] = {}
    failures: dict[str, str] = {}
    for name in sorted({move.queue.broker_name for move in moves}):
        try:
            answer = await asker.ask(
                _master(picture, name).address, RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header
            )
            told |= decode_reset_offsets(answer.body)
        except PyroError as error:
            failures[name] = str(error)
    return [
        {
            **one.shown(),
            "to": told.get(one.queue, one.to),
            "failure": failures.get(one.queue.broker_name),
        }
        for one in moves
    ]


def _master(picture: Picture, name: str) -> Broker:
    broker = picture.master(name)
    if broker is None:
        raise NoRoute(f"{name} has no master to ask; start it, or let a slave take over")
    return broker
