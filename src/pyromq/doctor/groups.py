"""How the groups' part of a survey is gathered.

Masters are asked which groups there are (discovery.py) and how far all of them are (317), then for the
members of each (203), and each member what it does (307, passed on by a broker). Then for the ends of the
queues that they read. After the watch the same again, and then what only matters where something stands still
or is behind: stacks, and for how long messages wait. All of it side by side and within limits: what goes
beyond them is named, and `--group` looks.
"""

import asyncio

from pyromq.client.aio.asking import UNDER_WAY_MAX, Asker
from pyromq.client.plans.pull import Wanted, pull
from pyromq.clock import SystemClock
from pyromq.codes import RequestCode, ResponseCode
from pyromq.doctor.discovery import find_groups, read_progress
from pyromq.doctor.group_seen import GroupSeen, Look, TailMessage, lag_of
from pyromq.doctor.motion import is_filtered, still_queues
from pyromq.doctor.survey import BrokerSeen, Survey, Tell, give_up, together
from pyromq.doctor.waits import ask_members_waits, ask_waits
from pyromq.errors import PyroError, Refused
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.connections import decode_consumer_connections
from pyromq.wire.bodies.offsets import TopicOffset, decode_topic_stats
from pyromq.wire.bodies.running import RunningState, decode_running_state
from pyromq.wire.headers.admin import GetConsumerConnectionList, GetTopicStats
from pyromq.wire.headers.group import GetConsumerRunningInfo

#: Milliseconds for all groups' progress and for one member; seconds for all members: many may be silent.
LAGS_MS = 20_000
MEMBER_MS = 3_000
MEMBERS_S = 15.0
#: Members that are asked, topics whose ends are asked for, and topics whose last messages are read.
MEMBERS_MAX = 1_000
TOPICS_MAX = 2_000
TAILS_MAX = 100
#: Of such a topic: queues, the newest first, and messages of each.
TAIL_QUEUES_MAX = 16
TAIL_MESSAGES = 32
#: Members whose stacks are fetched.
STACKS_MAX = 20


async def look_at_groups(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask masters for their groups, and members how these are."""
    groups = await find_groups(asker, survey, tell)
    await _look(asker, survey, groups, tell, is_later=False)
    survey.groups.seen = {name: group for name, group in groups.items() if _is_meant(survey, group)}
    survey.groups.topics = {topic for group in survey.groups.seen.values() for topic in group.topics}
    await _ask_members(asker, survey, tell)
    survey.groups.queues = await _ask_ends(asker, survey, tell)
    await _read_tails(asker, survey, tell)


async def look_at_groups_again(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask once more for what moves, after the watch; and why, where nothing does."""
    groups = survey.groups
    for group in groups.seen.values():
        group.after = Look()
    await _look(asker, survey, groups.seen, tell, is_later=True)
    await _ask_members(asker, survey, tell)
    groups.queues_later = await _ask_ends(asker, survey, tell)
    await _ask_stacks(asker, survey, tell)
    await ask_waits(asker, survey, tell)
    await ask_members_waits(asker, survey, tell)


def _is_meant(survey: Survey, group: GroupSeen) -> bool:
    if not group.client_ids and not group.latest.progress and not group.latest.connections:
        return False
    return not survey.scope.topics or bool(group.topics.intersection(survey.scope.topics))


# Brokers ----------------------------------------------------------------------------------------------


async def _look(
    asker: Asker, survey: Survey, groups: dict[str, GroupSeen], tell: Tell, *, is_later: bool
) -> None:
    """Ask masters who is in the groups, and how far these are."""
    clock, seen = SystemClock(), survey.groups
    before_ms, seen.looked_at_ms = seen.looked_at_ms, clock.now_ms()
    if is_later:
        seen.watched_s = max((seen.looked_at_ms - before_ms) / 1_000, 0.001)
    brokers = survey.answering
    await together(tell, "progress", (_ask_lags(asker, survey, broker, groups) for broker in brokers))
    asked = [
        _ask_connections(asker, survey, broker, group)
        for broker in brokers
        for group in groups.values()
        if broker.place.broker_name in group.places
    ]
    await together(tell, "groups", asked)


async def _ask_lags(asker: Asker, survey: Survey, broker: BrokerSeen, groups: dict[str, GroupSeen]) -> None:
    try:
        lags = await asker.admin.broker_lags(broker.place.address, timeout_ms=LAGS_MS)
    except PyroError as error:
        survey.could_not.append(f"see how far groups are at {broker.name}: {error}")
        return
    for name, of_topics in lags.items():
        if name in groups:
            for lag in of_topics:
                groups[name].latest.progress |= lag.offset_table
    # That tells of groups that it has.
    name = broker.place.broker_name
    others = {group.name for group in groups.values() if name in group.places and name not in group.configs}
    if others:
        await _ask_progress(asker, survey, broker, {other: groups[other] for other in others})


async def _ask_progress(
    asker: Asker, survey: Survey, broker: BrokerSeen, groups: dict[str, GroupSeen]
) -> None:
    try:
        known = await read_progress(asker, broker)
    except PyroError as error:
        survey.could_not.append(f"see how far groups are that {broker.name} does not have: {error}")
        return
    for name, progress in known.items():
        if name in groups:
            groups[name].latest.progress |= progress


async def _ask_connections(asker: Asker, survey: Survey, broker: BrokerSeen, group: GroupSeen) -> None:
    header = GetConsumerConnectionList(consumer_group=group.name)
    try:
        answer = await asker.ask(broker.place.address, RequestCode.GET_CONSUMER_CONNECTION_LIST, header)
        group.latest.connections[broker.place.broker_name] = decode_consumer_connections(answer.body)
    except PyroError as error:
        if not isinstance(error, Refused) or error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            survey.could_not.append(f"list the members of group {group.name} at {broker.name}: {error}")


async def _ask_ends(asker: Asker, survey: Survey, tell: Tell) -> dict[MessageQueue, TopicOffset]:
    """Return begin and end of the queues that groups read, and of their dead letters."""
    wanted = {topic for group in survey.groups.seen.values() for topic in group.topics}
    wanted = set(filter(survey.scope.concerns, wanted))
    wanted |= {group.dead_letter_topic for group in survey.groups.seen.values()}
    topics = sorted(topic for topic in wanted if topic in survey.topics)
    if len(topics) > TOPICS_MAX:
        give_up(survey, f"look into {len(topics) - TOPICS_MAX} of {len(topics)} topics of groups")
    found: dict[MessageQueue, TopicOffset] = {}

    async def ask(broker: BrokerSeen, topic: str) -> None:
        try:
            answer = await asker.ask(
                broker.place.address, RequestCode.GET_TOPIC_STATS_INFO, GetTopicStats(topic=topic)
            )
            found.update(decode_topic_stats(answer.body))
        except PyroError as error:
            survey.could_not.append(f"see the ends of topic {topic} at {broker.name}: {error}")

    asked = [
        ask(broker, topic)
        for broker in survey.answering
        for topic in topics[:TOPICS_MAX]
        if broker.place.broker_name in survey.topics[topic]
    ]
    await together(tell, "queues", asked)
    return found


# Members ----------------------------------------------------------------------------------------------


async def _ask_members(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask members what they do; those of groups that are behind before the others."""
    seen = sorted(survey.groups.seen.values(), key=lag_of, reverse=True)
    members = [(group, client_id) for group in seen for client_id in group.client_ids]
    if len(members) > MEMBERS_MAX:
        give_up(survey, f"ask {len(members) - MEMBERS_MAX} of {len(members)} members what they do")

    clock, left_out = SystemClock(), 0
    # Each looks at the clock when its turn comes.
    turns = asyncio.Semaphore(UNDER_WAY_MAX)
    end_s = clock.monotonic() + MEMBERS_S

    async def ask(group: GroupSeen, client_id: str) -> None:
        nonlocal left_out
        look = group.latest
        if look is group.after and client_id in group.before.silent:
            look.silent[client_id] = group.before.silent[client_id]
            return
        async with turns:
            if clock.monotonic() > end_s:
                left_out += 1
                return
            try:
                look.states[client_id] = await _ask_member(asker, survey, group, client_id)
            except PyroError as error:
                look.silent[client_id] = str(error)

    await together(tell, "members", (ask(*member) for member in members[:MEMBERS_MAX]))
    if left_out:
        give_up(survey, f"ask {left_out} members what they do, since so many others did not answer")


async def _ask_stacks(asker: Asker, survey: Survey, tell: Tell) -> None:
    still = sorted(
        {
            (group.name, one.client_id)
            for group in survey.groups.seen.values()
            for one in still_queues(group, survey.groups)
            if survey.scope.concerns(one.queue.topic)
        }
    )

    async def ask(name: str, client_id: str) -> None:
        group = survey.groups.seen[name]
        try:
            state = await _ask_member(asker, survey, group, client_id, with_stacks=True)
        except PyroError as error:
            survey.could_not.append(f"get the stacks of {client_id}: {error}")
            return
        group.stacks[client_id] = state.stacks or ""

    await together(tell, "stacks", (ask(*member) for member in still[:STACKS_MAX]))


async def _ask_member(
    asker: Asker, survey: Survey, group: GroupSeen, client_id: str, *, with_stacks: bool = False
) -> RunningState:
    header = GetConsumerRunningInfo(consumer_group=group.name, client_id=client_id, jstack_enable=with_stacks)
    broker = survey.master(next(iter(group.latest.addresses(client_id))))
    assert broker is not None, "only masters that answered were asked for members"
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    answer = await asker.ask(broker.place.address, code, header, timeout_ms=MEMBER_MS)
    return decode_running_state(answer.body)


# Messages ---------------------------------------------------------------------------------------------


async def _read_tails(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Read the last messages of topics that somebody filters; of dead letters too, if topics are named."""
    dead = {group.dead_letter_topic for group in survey.groups.seen.values() if survey.scope.topics}
    topics = sorted(
        {topic for topic in dead if topic in survey.topics}
        | {
            wanted.topic
            for group in survey.groups.seen.values()
            for wanted in group.subscriptions.values()
            if is_users_topic(wanted.topic)
            and survey.scope.concerns(wanted.topic)
            and wanted.topic in survey.topics
            and not wanted.class_filter_mode
            and is_filtered(wanted)
        }
    )
    if len(topics) > TAILS_MAX:
        give_up(survey, f"read messages of {len(topics) - TAILS_MAX} of {len(topics)} topics")
    asked = [
        _read_tail(asker, survey, queue) for topic in topics[:TAILS_MAX] for queue in _newest(survey, topic)
    ]
    await together(tell, "last messages", asked)


def _newest(survey: Survey, topic: str) -> list[MessageQueue]:
    ends = {
        queue: end
        for queue, end in survey.groups.queues.items()
        if queue.topic == topic and end.max_offset > end.min_offset
    }
    return sorted(ends, key=lambda queue: ends[queue].last_update_timestamp, reverse=True)[:TAIL_QUEUES_MAX]


async def _read_tail(asker: Asker, survey: Survey, queue: MessageQueue) -> None:
    end = survey.groups.queues[queue]
    offset = max(end.min_offset, end.max_offset - TAIL_MESSAGES)
    try:
        result = await asker.run(pull, Wanted(queue, offset, TAIL_MESSAGES))
    except PyroError as error:
        survey.could_not.append(f"read the last messages of {queue}: {error}")
        return
    survey.groups.tails.setdefault(queue.topic, []).extend(
        TailMessage(message.tags, message.properties, message.stored_at_ms) for message in result.messages
    )
