"""The messages that only this broker has: to be looked at before it is taken away.

Everything is asked of the brokers with RocketMQ's own requests, so it works with Apache's too:

    21, 201, 43, 45     all topics, groups, progress of groups, progress of delay levels
    203                 who is connected, for groups that have read nothing here yet
    202                 begin and end of each topic's queues
    208                 how far each group is in each topic
    30                  messages of transactions
    9001                messages that wait for their time (ours only)

A group that has read a topic anywhere in the cluster is taken for one that wants all of it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans.admin.scaling_plans import broker_of
from pyromq.client.plans.route_plans import cluster
from pyromq.client.route_cache import MASTER_ID
from pyromq.client.steps import Deadline, Plan, ask_all, must_succeed, request
from pyromq.codes import RequestCode, ResponseCode
from pyromq.errors import NetworkError, NoRoute, refusal
from pyromq.name_rules import DEAD_LETTER_PREFIX
from pyromq.system_names import (
    BENCHMARK,
    GROUP_PREFIX,
    SCHEDULE,
    TOPIC_PREFIX,
    TRANSACTION_CHECK_MAX_TIME,
    TRANSACTION_GROUP,
    TRANSACTION_HALF,
    TRANSACTION_OP_HALF,
)
from pyromq.wire.bodies.connection_bodies import decode_consumer_connections
from pyromq.wire.bodies.group_bodies import decode_group_table
from pyromq.wire.bodies.list_bodies import decode_topic_list
from pyromq.wire.bodies.offset_bodies import (
    TopicOffset,
    decode_consume_stats,
    decode_delay_offsets,
    decode_group_offsets,
    decode_topic_stats,
)
from pyromq.wire.bodies.topic_bodies import decode_topic_table
from pyromq.wire.command import Command
from pyromq.wire.header import read_header
from pyromq.wire.headers.admin_headers import GetConsumerConnectionList, GetConsumeStats, GetTopicStats
from pyromq.wire.headers.offset_headers import GetMaxOffset, GetMaxOffsetAnswer
from pyromq.wire.headers.timer_headers import ListWaiting, ListWaitingAnswer

#: Requests that are on their way to a broker together.
TOGETHER_MAX: Final = 200
#: Milliseconds that a broker has for each lot of them.
LOT_MS: Final = 10_000
_TRANSACTIONS_PROGRESS: Final = f"{TRANSACTION_HALF}@{TRANSACTION_GROUP}"
#: Topics of the broker's own whose messages lead to others, or to nothing.
_INSIDE: Final = frozenset({SCHEDULE, TRANSACTION_OP_HALF, TRANSACTION_CHECK_MAX_TIME})
_BROADCASTING: Final = "BROADCASTING"


@dataclass(frozen=True, slots=True)
class UnreadTopic:
    """The number of messages of a topic that a group has not read on the broker."""

    topic: str
    group: str
    count: int


@dataclass(slots=True)
class Leftovers:
    """The messages that are on one broker's master and would go with it."""

    broker_name: str
    address: str
    #: Every group's part of every topic, those that are done as well.
    unread: list[UnreadTopic] = field(default_factory=list)
    #: Messages that wait for their time or for the end of their transaction.
    waiting: int = 0
    #: Messages in topics that no group ever read.
    unclaimed: dict[str, int] = field(default_factory=dict)
    #: Dead letters by group.
    dead_letters: dict[str, int] = field(default_factory=dict)
    #: Groups whose members remember themselves how far they got.
    broadcasting: list[str] = field(default_factory=list)
    #: Topics that no other master of the cluster has.
    only_here: list[str] = field(default_factory=list)
    #: All messages that were ever stored here: it grows while somebody sends.
    stored: int = 0
    #: Other masters that did not answer, and why.
    silent: dict[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Seen:
    """The broker's answers about its topics and groups."""

    topics: list[str]
    groups: list[str]
    offsets: dict[str, dict[int, int]]
    delayed: dict[int, int]


def leftovers(session: Session, broker_name: str, deadline: Deadline) -> Plan[Leftovers]:
    """Return what a broker has left; raise NoRoute when it is not there or has no master."""
    table = yield from cluster(session, deadline)
    broker = broker_of(table, broker_name)
    address = broker.broker_addrs.get(MASTER_ID)
    if address is None:
        raise NoRoute(f"broker {broker_name!r} has no master now, and only a master knows what is unread")
    left = Leftovers(broker_name, address)
    seen = yield from _look(session, address)
    pairs = _pairs(seen.offsets)
    others = {
        name: other.broker_addrs[MASTER_ID]
        for name, other in sorted(table.broker_addr_table.items())
        if other.cluster == broker.cluster and name != broker_name and MASTER_ID in other.broker_addrs
    }
    elsewhere = yield from _look_elsewhere(session, left, others, pairs)
    yield from _look_at_members(session, left, seen.groups, pairs)
    topics = [topic for topic in seen.topics if not _is_inside(topic)]
    left.only_here = [topic for topic in topics if topic not in elsewhere and "%" not in topic]
    pairs |= {
        (topic, topic.removeprefix(RETRY_TOPIC_PREFIX))
        for topic in topics
        if topic.startswith(RETRY_TOPIC_PREFIX)
    }
    queues = yield from _look_at_queues(session, address, [*seen.topics, SCHEDULE, BENCHMARK])
    left.stored = sum(one.max_offset for topic in topics for one in queues.get(topic, {}).values())
    wanted = sorted(pair for pair in pairs if pair[0] in queues and not _is_inside(pair[0]))
    yield from _count_unread(session, left, wanted, queues)
    _count_unclaimed(left, topics, {topic for topic, _ in pairs}, queues)
    left.waiting += _count_delayed(queues.get(SCHEDULE, {}), seen.delayed)
    left.waiting += yield from _count_timed(session, address)
    left.waiting += yield from _count_open(session, address, seen.offsets.get(_TRANSACTIONS_PROGRESS, {}))
    return left


def _look(session: Session, address: str) -> Plan[_Seen]:
    codes = (
        RequestCode.GET_ALL_TOPIC_CONFIG,
        RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
        RequestCode.GET_ALL_CONSUMER_OFFSET,
        RequestCode.GET_ALL_DELAY_OFFSET,
        RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    )
    answers = yield from _ask_lots(session, address, [request(code) for code in codes])
    topics, groups, offsets, delayed, system = (must_succeed(answer).body for answer in answers)
    own = set(decode_topic_list(system).topic_list)
    return _Seen(
        topics=sorted(name for name in decode_topic_table(topics).topic_config_table if name not in own),
        groups=sorted(decode_group_table(groups).subscription_group_table),
        offsets=decode_group_offsets(offsets),
        delayed=decode_delay_offsets(delayed),
    )


def _look_elsewhere(
    session: Session, left: Leftovers, others: Mapping[str, str], pairs: set[tuple[str, str]]
) -> Plan[set[str]]:
    """Return the topics of the other masters, and add to `pairs` which groups have read what there."""
    topics: set[str] = set()
    commands = (RequestCode.GET_ALL_TOPIC_CONFIG, RequestCode.GET_ALL_CONSUMER_OFFSET)
    for name, address in others.items():
        try:
            table, offsets = yield from _ask_lots(session, address, [request(code) for code in commands])
        except NetworkError as error:
            left.silent[name] = str(error)
            continue
        topics |= set(decode_topic_table(must_succeed(table).body).topic_config_table)
        pairs |= _pairs(decode_group_offsets(must_succeed(offsets).body))
    return topics


def _look_at_members(
    session: Session, left: Leftovers, groups: Iterable[str], pairs: set[tuple[str, str]]
) -> Plan[None]:
    """Add what connected groups subscribe to; those that broadcast are only named."""
    asked = [group for group in groups if not group.startswith(GROUP_PREFIX)]
    answers = yield from _ask_lots(
        session,
        left.address,
        [
            request(RequestCode.GET_CONSUMER_CONNECTION_LIST, GetConsumerConnectionList(consumer_group=group))
            for group in asked
        ],
    )
    for group, answer in zip(asked, answers, strict=True):
        if answer.code != ResponseCode.SUCCESS:
            continue
        found = decode_consumer_connections(answer.body)
        if found.message_model == _BROADCASTING:
            left.broadcasting.append(group)
            pairs -= {pair for pair in pairs if pair[1] == group}
        else:
            pairs |= {(topic, group) for topic in found.subscriptions}


def _look_at_queues(
    session: Session, address: str, topics: Sequence[str]
) -> Plan[dict[str, dict[int, TopicOffset]]]:
    """Return begin and end of the queues of each topic that the broker has."""
    names = [*dict.fromkeys(topics)]
    answers = yield from _ask_lots(
        session,
        address,
        [request(RequestCode.GET_TOPIC_STATS_INFO, GetTopicStats(topic=topic)) for topic in names],
    )
    found = {}
    for topic, answer in zip(names, answers, strict=True):
        if answer.code != ResponseCode.TOPIC_NOT_EXIST:
            stats = decode_topic_stats(must_succeed(answer).body)
            found[topic] = {queue.queue_id: offset for queue, offset in stats.items()}
    return found


def _count_unread(
    session: Session,
    left: Leftovers,
    pairs: Sequence[tuple[str, str]],
    queues: Mapping[str, Mapping[int, TopicOffset]],
) -> Plan[None]:
    answers = yield from _ask_lots(
        session,
        left.address,
        [
            request(RequestCode.GET_CONSUME_STATS, GetConsumeStats(consumer_group=group, topic=topic))
            for topic, group in pairs
        ],
    )
    for (topic, group), answer in zip(pairs, answers, strict=True):
        if answer.code != ResponseCode.SUCCESS:
            raise refusal(answer.code, answer.remark)
        count = 0
        for queue, progress in decode_consume_stats(answer.body).items():
            known = queues[topic].get(queue.queue_id)
            # What retention took away nobody will read.
            read = max(progress.consumer_offset, known.min_offset if known is not None else 0)
            count += max(progress.broker_offset - read, 0)
        left.unread.append(UnreadTopic(topic, group, count))


def _count_unclaimed(
    left: Leftovers,
    topics: Iterable[str],
    claimed: set[str],
    queues: Mapping[str, Mapping[int, TopicOffset]],
) -> None:
    for topic in topics:
        count = sum(one.max_offset - one.min_offset for one in queues.get(topic, {}).values())
        if not count:
            continue
        if topic.startswith(DEAD_LETTER_PREFIX):
            left.dead_letters[topic.removeprefix(DEAD_LETTER_PREFIX)] = count
        elif topic not in claimed:
            left.unclaimed[topic] = count


def _count_delayed(queues: Mapping[int, TopicOffset], delivered: Mapping[int, int]) -> int:
    """Return how many messages of the delay levels are not delivered; level 3 is queue 2."""
    return sum(
        max(one.max_offset - max(delivered.get(queue_id + 1, 0), one.min_offset), 0)
        for queue_id, one in queues.items()
    )


def _count_timed(session: Session, address: str) -> Plan[int]:
    header = ListWaiting(max_num=0, with_count=True)
    (answer,) = yield from _ask_lots(session, address, [request(RequestCode.LIST_WAITING, header)])
    if answer.code != ResponseCode.SUCCESS:
        # Not one of ours.
        return 0
    return read_header(ListWaitingAnswer, answer.ext).waiting_count or 0


def _count_open(session: Session, address: str, progress: Mapping[int, int]) -> Plan[int]:
    """Return how many messages of transactions are not known to have ended.

    Brokers do not list their topic before they first ask producers about one, so its queue is asked for.
    """
    header = GetMaxOffset(topic=TRANSACTION_HALF, queue_id=0)
    (answer,) = yield from _ask_lots(session, address, [request(RequestCode.GET_MAX_OFFSET, header)])
    end = read_header(GetMaxOffsetAnswer, must_succeed(answer).ext).offset
    return max(end - max(progress.get(0, 0), 0), 0)


def _ask_lots(session: Session, address: str, commands: Sequence[Command]) -> Plan[list[Command]]:
    answers: list[Command] = []
    for at in range(0, len(commands), TOGETHER_MAX):
        deadline = session.deadline(None, LOT_MS)
        lot = commands[at : at + TOGETHER_MAX]
        answers += yield from ask_all(address, lot, deadline.part_s(LOT_MS))
    return answers


def _pairs(offsets: Iterable[str]) -> set[tuple[str, str]]:
    """Return topic and group of the names of a table of progress, `topic@group`."""
    return {(topic, group) for topic, at, group in (name.partition("@") for name in offsets) if at and group}


def _is_inside(topic: str) -> bool:
    return topic in _INSIDE or topic.startswith(TOPIC_PREFIX)
