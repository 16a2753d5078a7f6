"""Members that share one id, members without a queue, and queues without a member."""

from collections.abc import Iterator
from itertools import chain
from typing import Final

from pyromq.codes import Perm
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupLook, GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lines, place_of, some_of, verb
from pyromq.errors import ConnectFailed
from pyromq.model import MessageQueue
from pyromq.net.address import split_address
from pyromq.system_names import is_users_topic

#: Milliseconds within which members share the queues anew when one of them comes.
SHARING_MS: Final = 20_000


def client_ids(survey: Survey) -> Iterator[Finding]:
    """Find client ids that more than one client has."""
    for group in survey.groups.seen.values():
        for client_id in group.client_ids:
            if is_twice(group, client_id):
                yield _twice(survey, group, client_id)


def left_queues(survey: Survey, group: GroupSeen) -> dict[str, list[MessageQueue]]:
    """Return the queues that no member has, by topic, as far as that can be known."""
    # Broadcasting, each has all; who pulls has what it likes; and who is silent may have any.
    if not group.is_clustering or not group.is_push or not group.latest.is_fully_known:
        return {}
    topics = _topics(survey, group)
    if survey.newcomers({queue.broker_name for queues in topics.values() for queue in queues}):
        # Those who have the other queues may not have said yet that they are there.
        return {}
    if group.after is None and _has_begun_just_now(survey, group):
        return {}
    had = {queue for look in _looks(group) for _, queue, _ in look.queues()}
    left = {topic: [queue for queue in queues if queue not in had] for topic, queues in topics.items()}
    return {topic: queues for topic, queues in left.items() if queues and survey.scope.concerns(topic)}


def members(survey: Survey) -> Iterator[Finding]:
    """Find members that have no queue, and queues that no member has."""
    for group in survey.groups.seen.values():
        if any(is_twice(group, client_id) for client_id in group.client_ids):
            # Then that is why, and the check of client ids tells it.
            continue
        if group.is_clustering and group.is_push and group.latest.is_fully_known:
            topics = _topics(survey, group)
            idle = [client_id for client_id in group.client_ids if not _held(group, client_id, topics)]
            if topics and idle:
                yield _idle(survey, group, idle, topics)
        for topic, left in left_queues(survey, group).items():
            yield _left(survey, group, topic, left)


def _has_begun_just_now(survey: Survey, group: GroupSeen) -> bool:
    """Whether queues are perhaps just being shared, since a member came."""
    began_ms = [
        int(text)
        for state in group.latest.states.values()
        if (text := state.properties.get("PROP_CONSUMER_START_TIMESTAMP", "")).isdecimal()
    ]
    return any(survey.groups.looked_at_ms - each < SHARING_MS for each in began_ms)


def _topics(survey: Survey, group: GroupSeen) -> dict[str, list[MessageQueue]]:
    """Return the queues of the topics that a group subscribes to."""
    topics = {topic: _readable(survey, topic) for topic in group.subscriptions if is_users_topic(topic)}
    return {topic: queues for topic, queues in sorted(topics.items()) if queues}


def is_twice(group: GroupSeen, client_id: str) -> bool:
    """Whether two clients have an id, as far as connections tell: at both looks, since some come and go."""
    return all(
        any(len(addresses) > 1 for addresses in look.addresses(client_id).values())
        or len(_hosts(look, client_id)) > 1
        for look in _looks(group)
    )


def _hosts(look: GroupLook, client_id: str) -> set[str]:
    found = set()
    for address in chain.from_iterable(look.addresses(client_id).values()):
        try:
            found.add(split_address(address)[0])
        except ConnectFailed:
            found.add(address)
    return found


def _looks(group: GroupSeen) -> list[GroupLook]:
    return [group.before] if group.after is None else [group.before, group.after]


def _twice(survey: Survey, group: GroupSeen, client_id: str) -> Finding:
    addresses = group.latest.addresses(client_id)
    at_one = max(len(each) for each in addresses.values())
    # A client has a connection to each broker.
    where = next((sorted(each) for each in addresses.values() if len(each) == at_one > 1), None)
    where = where or sorted(set(chain.from_iterable(addresses.values())))
    left = left_queues(survey, group)
    queues = [queue for of_topic in left.values() for queue in of_topic]
    return Finding(
        Severity.PROBLEM if at_one > 1 else Severity.WARNING,
        f"group {group.name}",
        f"{max(at_one, len(_hosts(group.latest, client_id)))} clients of group {group.name} have the same id "
        f"{client_id}: they are connected from {some_of(where)}"
        + (
            f". {counted(len(queues), 'queue')} of {some_of(list(left))} {_unread(survey, group, queues)}"
            if left
            else ""
        ),
        "each takes the share of queues that belongs to the id: these messages come twice, and the queues "
        "that are left are read by nobody",
        lines(
            "give each client its own instance name, or none (instance_name in ClientSettings, "
            "setInstanceName in Java), and restart them",
            "a connection that broke is listed for two minutes at most: look again then",
            f"pyromq group members {group.name}{survey.at}",
        ),
        {
            "group": group.name,
            "client": client_id,
            "addresses": addresses,
            "queues": [place_of(queue) for queue in queues],
        },
    )


def _readable(survey: Survey, topic: str) -> list[MessageQueue]:
    return [
        MessageQueue(topic, broker, queue_id)
        for broker, config in sorted(survey.topics.get(topic, {}).items())
        if config.perm & Perm.READ
        for queue_id in range(config.read_queue_nums)
    ]


def _held(group: GroupSeen, client_id: str, topics: dict[str, list[MessageQueue]]) -> bool:
    return any(
        owner == client_id and queue.topic in topics
        for look in _looks(group)
        for owner, queue, _ in look.queues()
    )


def _idle(
    survey: Survey, group: GroupSeen, idle: list[str], topics: dict[str, list[MessageQueue]]
) -> Finding:
    count = len(group.client_ids)
    topic = max(topics, key=lambda each: len(topics[each]))
    queues = topics[topic]
    facts = {
        "group": group.name,
        "idle": idle,
        "members": count,
        "queues": {each: len(its) for each, its in topics.items()},
    }
    if count <= len(queues):
        return Finding(
            Severity.WARNING,
            f"group {group.name}",
            f"{some_of(idle)} of group {group.name} {verb(len(idle), 'has', 'have')} no queue of "
            f"{some_of(list(topics))}, though there "
            f"are {counted(len(queues), 'queue')} for {counted(count, 'member')}",
            "a member without a queue does nothing; members that share by different rules leave out queues, "
            "or read them twice",
            lines(
                "let all members have the same strategy of allocation; who has which queue:",
                f"pyromq group lag {group.name} --members{survey.at}",
            ),
            facts,
        )
    brokers = len({queue.broker_name for queue in queues})
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"{len(idle)} of the {count} members of group {group.name} {verb(len(idle), 'has', 'have')} no "
        f"queue: {topic} has {counted(len(queues), 'queue')}, and each is read by one member. "
        f"Idle: {some_of(idle)}",
        "these members do nothing; to add members does not make the group faster",
        lines(
            "give the topic as many queues as there are members (not if keys must stay in their queues):",
            f"pyromq topic create {topic} --queues {-(-count // brokers)}{survey.at}",
            f"or run {counted(len(queues), 'member')} at most",
        ),
        facts,
    )


def _left(survey: Survey, group: GroupSeen, topic: str, left: list[MessageQueue]) -> Finding:
    unread = _unread_count(survey, group, left)
    names = [place_of(queue) for queue in left]
    return Finding(
        Severity.PROBLEM if unread else Severity.WARNING,
        f"group {group.name}",
        f"nobody of group {group.name} reads {counted(len(left), 'queue')} of {topic}: {some_of(names)}"
        + (f", with {counted(unread, 'message')}" if unread else ""),
        "what is sent to these queues is not consumed, however many members there are",
        lines(
            "members must have different ids, and the same strategy of allocation; in order, a member that "
            "died keeps its queues locked for a minute. Who has which queue:",
            f"pyromq group lag {group.name} --topic {topic} --members{survey.at}",
            "a member that is started again has the queues shared anew",
        ),
        {"group": group.name, "topic": topic, "queues": names, "messages": unread},
    )


def _unread_count(survey: Survey, group: GroupSeen, queues: list[MessageQueue]) -> int:
    ends, reached = survey.groups.latest_queues, group.latest.reached()
    return sum(
        max(0, ends[queue].max_offset - max(ends[queue].min_offset, reached.get(queue, 0)))
        for queue in queues
        if queue in ends
    )


def _unread(survey: Survey, group: GroupSeen, queues: list[MessageQueue]) -> str:
    unread = _unread_count(survey, group, queues)
    return f"{verb(len(queues), 'is', 'are')} read by nobody" + (
        f", with {counted(unread, 'message')}" if unread else ""
    )


CLIENT_IDS = Check(
    "client-ids",
    "clients of one group with the same client id",
    client_ids,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
MEMBERS = Check(
    "members",
    "members without a queue, and queues without a member",
    members,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
