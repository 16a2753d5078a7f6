"""A change of a group's offsets by an operator: shown before, done, and checked after.

look    begin and end of each queue, where the group is, where it will be        nothing is changed
reset   nobody is connected   the brokers are told the new offsets (15)
        members are there     they hold offsets of their own, and would write them over ours: the broker
                              tells each of them where to go on (220). PyroMQ's brokers do that for any
                              offsets of any queues (9301); Apache's for a time, of all queues (222)
look again                    what the brokers say now
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.names import check_group
from pyromq.client.namespaces import unwrap_queue, wrap, wrap_queue
from pyromq.client.plans.admin.stored_times import offsets_at
from pyromq.client.plans.admin.targets import BrokerPlace, ask_lots, places_of, timeout_s
from pyromq.client.plans.route_plans import fetch_route
from pyromq.client.steps import Deadline, Plan, ask, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import ConfigError, NetworkError, PyroError, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.connection_bodies import decode_consumer_connections
from pyromq.wire.bodies.offset_bodies import decode_reset_offsets, encode_reset_offsets
from pyromq.wire.bodies.route_bodies import TopicRoute
from pyromq.wire.header import read_header
from pyromq.wire.headers.admin_headers import (
    GetConsumerConnectionList,
    ResetGroupOffsets,
    ResetOffset,
)
from pyromq.wire.headers.offset_headers import (
    GetMaxOffset,
    GetMaxOffsetAnswer,
    GetMinOffset,
    GetMinOffsetAnswer,
    QueryConsumerOffset,
    QueryConsumerOffsetAnswer,
    UpdateConsumerOffset,
)

#: The time that stands for the end of a queue in 222.
TO_THE_END: Final = -1


class GroupOnline(PyroError):
    """Members are connected, and their broker cannot tell them where to go on; stop them first."""


class To(StrEnum):
    """The kind of place that a group is set to."""

    FIRST = "first"
    LAST = "last"
    TIME = "time"
    OFFSET = "offset"


@dataclass(frozen=True, slots=True)
class Target:
    """The place where a group is to go on: the first or the last message, a time (ms), or an offset."""

    to: To
    at: int = 0


@dataclass(frozen=True, slots=True)
class ResetQuery:
    """The offsets to change, and the place to change them to."""

    group: str
    topic: str
    target: Target
    #: Only these queues, as (broker name, queue id); empty: all.
    queues: Collection[tuple[str, int]] = ()
    #: Never forward: a queue in which the group is before the target stays as it is.
    only_back: bool = False
    #: Tell the brokers even if members are there, who will go on as they were until they start again.
    past_members: bool = False


@dataclass(frozen=True, slots=True)
class Move:
    """The change of one queue. `before` is None when the group never read it."""

    queue: MessageQueue
    first: int
    last: int
    before: int | None
    after: int
    #: What the broker says after the change.
    now: int | None = None
    failure: str | None = None

    @property
    def start(self) -> int:
        """The offset where the group would have gone on: the first message, if it never read."""
        return self.first if self.before is None else max(self.before, self.first)

    @property
    def skipped(self) -> int:
        """The number of messages that the change makes the group skip; below zero: read again."""
        return self.after - self.start


@dataclass(frozen=True, slots=True)
class Reset:
    """A change of a group's progress: as it would be, or as it was done."""

    query: ResetQuery
    moves: Sequence[Move]
    #: Members that are connected, by the address of their broker.
    members: Mapping[str, Sequence[str]]
    is_done: bool = False

    @property
    def is_online(self) -> bool:
        """Whether anybody is connected."""
        return any(self.members.values())

    @property
    def is_whole(self) -> bool:
        """Whether nothing failed."""
        return all(move.failure is None for move in self.moves)


def look_at_reset(session: Session, query: ResetQuery, deadline: Deadline) -> Plan[Reset]:
    """Return what a reset would do to each queue; nothing is changed."""
    check_group(query.group)
    topic = wrap(session.settings.namespace, query.topic)
    route = yield from fetch_route(session, topic, deadline)
    moves: list[Move] = []
    members: dict[str, list[str]] = {}
    for place in places_of(route):
        queues = _queues_of(route, topic, place, query)
        if queues:
            members[place.address] = yield from _members(session, place.address, query.group)
            moves += yield from _moves(session, place.address, queues, query)
    _check_queues(query, moves, route)
    return Reset(query, sorted(moves, key=lambda move: move.queue), members)


def reset_offsets(session: Session, query: ResetQuery, deadline: Deadline) -> Plan[Reset]:
    """Change a group's progress, and return what happened to each queue, and what brokers say after it."""
    seen = yield from look_at_reset(session, query, deadline)
    topic = wrap(session.settings.namespace, query.topic)
    route = yield from fetch_route(session, topic, deadline)
    by_broker: dict[str, list[Move]] = {}
    for move in seen.moves:
        by_broker.setdefault(move.queue.broker_name, []).append(move)
    done: list[Move] = []
    for place in places_of(route):
        moves = by_broker.get(place.broker_name, [])
        try:
            if seen.is_online and not query.past_members:
                moves = yield from _tell_members(session, place.address, moves, query)
            else:
                moves = yield from _commit(session, place.address, moves, query.group)
            done += yield from _look_again(session, place.address, moves, query.group)
        except (NetworkError, Refused) as error:
            done += [replace(move, failure=str(error)) for move in moves]
    return replace(seen, moves=sorted(done, key=lambda move: move.queue), is_done=True)


def clone_offsets(
    session: Session, source: str, target: str, topic: str, deadline: Deadline
) -> Plan[list[Move]]:
    """Let a group go on where another is, in one topic; return what happened to each queue.

    Queues that the other never read are left as they are.
    """
    query = ResetQuery(source, topic, Target(To.FIRST))
    seen = yield from look_at_reset(session, query, deadline)
    wrapped = wrap(session.settings.namespace, topic)
    route = yield from fetch_route(session, wrapped, deadline)
    done: list[Move] = []
    for place in places_of(route):
        sources = [
            move
            for move in seen.moves
            if move.queue.broker_name == place.broker_name and move.before is not None
        ]
        own = yield from _progress(session, place.address, [move.queue for move in sources], target)
        moves = [
            replace(move, before=before, after=move.before or 0)
            for move, before in zip(sources, own, strict=True)
        ]
        moves = yield from _commit(session, place.address, moves, target)
        done += yield from _look_again(session, place.address, moves, target)
    return sorted(done, key=lambda move: move.queue)


# What is there ----------------------------------------------------------------------------------------


def _queues_of(route: TopicRoute, topic: str, place: BrokerPlace, query: ResetQuery) -> list[MessageQueue]:
    return [
        MessageQueue(topic, place.broker_name, queue_id)
        for part in route.queue_datas
        if part.broker_name == place.broker_name
        for queue_id in range(max(part.read_queue_nums, part.write_queue_nums))
        if not query.queues or (place.broker_name, queue_id) in query.queues
    ]


def _moves(session: Session, address: str, queues: list[MessageQueue], query: ResetQuery) -> Plan[list[Move]]:
    firsts = yield from _numbers(session, address, RequestCode.GET_MIN_OFFSET, queues)
    lasts = yield from _numbers(session, address, RequestCode.GET_MAX_OFFSET, queues)
    found = yield from _progress(session, address, queues, query.group)
    target = query.target
    if target.to is To.TIME:
        wanted = yield from offsets_at(session, address, queues, (firsts, lasts), target.at)
    else:
        fixed = {To.FIRST: firsts, To.LAST: lasts, To.OFFSET: [target.at] * len(queues)}
        wanted = fixed[target.to]
    namespace = session.settings.namespace
    moves = []
    for queue, first, last, before, after in zip(queues, firsts, lasts, found, wanted, strict=True):
        after = min(max(after, first), last)
        if query.only_back and before is not None:
            after = min(after, before)
        moves.append(Move(unwrap_queue(namespace, queue), first, last, before, after))
    return moves


def _numbers(
    session: Session, address: str, code: RequestCode, queues: list[MessageQueue]
) -> Plan[list[int]]:
    if code == RequestCode.GET_MIN_OFFSET:
        commands = [
            request(code, GetMinOffset(topic=queue.topic, queue_id=queue.queue_id)) for queue in queues
        ]
        answers = yield from ask_lots(session, address, commands)
        return [max(read_header(GetMinOffsetAnswer, must_succeed(one).ext).offset, 0) for one in answers]
    commands = [request(code, GetMaxOffset(topic=queue.topic, queue_id=queue.queue_id)) for queue in queues]
    answers = yield from ask_lots(session, address, commands)
    return [max(read_header(GetMaxOffsetAnswer, must_succeed(one).ext).offset, 0) for one in answers]


def _progress(
    session: Session, address: str, queues: Sequence[MessageQueue], group: str
) -> Plan[list[int | None]]:
    namespace = session.settings.namespace
    commands = [
        request(
            RequestCode.QUERY_CONSUMER_OFFSET,
            QueryConsumerOffset(
                consumer_group=wrap(namespace, group),
                topic=wrap(namespace, queue.topic),
                queue_id=queue.queue_id,
                set_zero_if_not_found=False,
            ),
        )
        for queue in queues
    ]
    answers = yield from ask_lots(session, address, commands)
    return [
        None
        if answer.code == ResponseCode.QUERY_NOT_FOUND
        else read_header(QueryConsumerOffsetAnswer, must_succeed(answer).ext).offset
        for answer in answers
    ]


def _members(session: Session, address: str, group: str) -> Plan[list[str]]:
    header = GetConsumerConnectionList(consumer_group=wrap(session.settings.namespace, group))
    command = request(RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
    answer = yield from ask(address, command, timeout_s(session))
    if answer.code == ResponseCode.CONSUMER_NOT_ONLINE:
        return []
    found = decode_consumer_connections(must_succeed(answer).body)
    return sorted(one.client_id for one in found.connections)


def _check_queues(query: ResetQuery, moves: Sequence[Move], route: TopicRoute) -> None:
    found = {(move.queue.broker_name, move.queue.queue_id) for move in moves}
    missing = sorted(set(query.queues) - found)
    if missing:
        there = ", ".join(
            f"{part.broker_name}:0…{max(part.read_queue_nums, part.write_queue_nums) - 1}"
            for part in route.queue_datas
        )
        wanted = ", ".join(f"{name}:{queue_id}" for name, queue_id in missing)
        raise ConfigError(f"topic {query.topic!r} has no queue {wanted}; its queues are {there}")


# What is done -----------------------------------------------------------------------------------------


def _commit(session: Session, address: str, moves: Sequence[Move], group: str) -> Plan[list[Move]]:
    namespace = session.settings.namespace
    commands = [
        request(
            RequestCode.UPDATE_CONSUMER_OFFSET,
            UpdateConsumerOffset(
                consumer_group=wrap(namespace, group),
                topic=wrap(namespace, move.queue.topic),
                queue_id=move.queue.queue_id,
                commit_offset=move.after,
            ),
        )
        for move in moves
    ]
    answers = yield from ask_lots(session, address, commands)
    return [
        move
        if answer.code == ResponseCode.SUCCESS
        else replace(move, failure=answer.remark or f"code {answer.code}")
        for move, answer in zip(moves, answers, strict=True)
    ]


def _tell_members(
    session: Session, address: str, moves: Sequence[Move], query: ResetQuery
) -> Plan[list[Move]]:
    """Have a broker tell a group's members where to go on."""
    namespace = session.settings.namespace
    topic, group = wrap(namespace, query.topic), wrap(namespace, query.group)
    body = encode_reset_offsets({wrap_queue(namespace, move.queue): move.after for move in moves})
    command = request(RequestCode.RESET_GROUP_OFFSETS, ResetGroupOffsets(topic=topic, group=group), body)
    answer = yield from ask(address, command, timeout_s(session))
    if answer.code == ResponseCode.REQUEST_CODE_NOT_SUPPORTED:
        return (yield from _tell_members_time(session, address, moves, query))
    must_succeed(answer)
    return list(moves)


def _tell_members_time(
    session: Session, address: str, moves: Sequence[Move], query: ResetQuery
) -> Plan[list[Move]]:
    """Have one of Apache's brokers do it, which knows a time only, and all queues only."""
    target = query.target
    if target.to is To.OFFSET or query.queues:
        raise GroupOnline(
            f"members of group {query.group} are connected, and {address}, one of Apache's brokers, can tell "
            "them a time only, for all queues: stop them and do it again, or reset by time, to first or last"
        )
    unread = [replace(move, after=move.first) for move in moves if move.before is None]
    # 222 refuses a group that has no progress in one of the queues.
    yield from _commit(session, address, unread, query.group)
    at_ms = {To.FIRST: 0, To.LAST: TO_THE_END, To.TIME: target.at}[target.to]
    namespace = session.settings.namespace
    header = ResetOffset(
        topic=wrap(namespace, query.topic),
        group=wrap(namespace, query.group),
        timestamp=at_ms,
        is_force=not query.only_back,
    )
    command = request(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    answer = must_succeed((yield from ask(address, command, timeout_s(session) * 3)))
    told = {
        unwrap_queue(namespace, queue): offset for queue, offset in decode_reset_offsets(answer.body).items()
    }
    return [replace(move, after=told.get(move.queue, move.after)) for move in moves]


def _look_again(session: Session, address: str, moves: Sequence[Move], group: str) -> Plan[list[Move]]:
    now = yield from _progress(session, address, [move.queue for move in moves], group)
    return [replace(move, now=offset) for move, offset in zip(moves, now, strict=True)]
