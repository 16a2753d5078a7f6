"""Takes a survey: one snapshot of the cluster before the watch, and a second one of what moves after it.

Masters are asked which groups there are and how far they are, then for the members of each group. Each
member is asked what it does, and masters for the ends of the queues that groups read. The second round asks
for the same, and for two things that matter only where messages are not consumed: stacks of members, and
how long messages wait.

A group need not be in any table: a broker that creates no groups at their first use
(autoCreateSubscriptionGroup=false) lets members of any group connect and refuses their pulls, and a deleted
group may leave its progress. These are found by the offsets of all groups, and by the readers of each
topic. The latter only where groups are not created at first use; elsewhere a group with members is soon in
the table.
"""

from collections.abc import Mapping
from typing import Final

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Observation, Tell
from pyromq.client.observation.snapshot import ClusterSnapshot, Question
from pyromq.doctor.group_seen import GroupLook, GroupSeen
from pyromq.doctor.member_states import ask_members, ask_stacks
from pyromq.doctor.survey import Survey
from pyromq.doctor.tails import read_tails
from pyromq.doctor.waits import ask_members_waits, ask_waits
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_group
from pyromq.wire.bodies.offset_bodies import GroupProgress

#: Topics whose readers, and topics whose ends are asked for.
READERS_MAX: Final = 2_000
TOPICS_MAX: Final = 2_000


async def first_round(asker: Asker, survey: Survey, tell: Tell, *, with_groups: bool) -> None:
    """Take the first snapshot; raise NetworkError when no name server answers."""
    observation = Observation(asker, tell=tell)
    survey.before = observation.snapshot
    await observation.ask_name_servers()
    await observation.ask_brokers(with_settings=True)
    # Brokers without failover do not know this question, and log it.
    elected = {broker.broker_name for broker in survey.brokers if broker.settings.get("failover")}
    await observation.ask_replicas(elected)
    await observation.ask_topics()
    if with_groups:
        groups = await _find_groups(observation, survey)
        await _ask_groups(observation, groups)
        for group in groups.values():
            group.before = _look(group, observation.snapshot)
        seen = survey.groups
        seen.seen = {name: group for name, group in groups.items() if _is_meant(survey, group)}
        seen.topics = {topic for group in seen.seen.values() for topic in group.topics}
        seen.looked_at_ms = observation.snapshot.asked_at[Question.LAGS].ms
        await ask_members(asker, survey, tell)
        await _ask_queues(observation, survey)
        seen.queues = observation.snapshot.queues
        await read_tails(asker, survey, tell)
    survey.note_failures(observation.snapshot)


async def second_round(asker: Asker, survey: Survey, tell: Tell, *, with_groups: bool) -> None:
    """Take the second snapshot, of what moves."""
    observation = Observation(asker, tell=tell)
    survey.after = after = observation.snapshot
    observation.use_brokers(broker for broker in survey.brokers if broker.error is None)
    await observation.ask_brokers()
    for broker in after.brokers:
        if broker.error is not None:
            survey.could_not.append(f"look at {broker.name} a second time: {broker.error}")
    if with_groups:
        groups = survey.groups
        await _ask_groups(observation, groups.seen)
        for group in groups.seen.values():
            group.after = _look(group, after)
        before_ms, groups.looked_at_ms = groups.looked_at_ms, after.asked_at[Question.LAGS].ms
        groups.watched_s = max((groups.looked_at_ms - before_ms) / 1_000, 0.001)
        await ask_members(asker, survey, tell)
        await _ask_queues(observation, survey)
        groups.queues_later = after.queues
        await ask_stacks(asker, survey, tell)
        await ask_waits(asker, survey, tell)
        await ask_members_waits(asker, survey, tell)
    survey.note_failures(after)


async def _find_groups(observation: Observation, survey: Survey) -> dict[str, GroupSeen]:
    """Return the groups of the scope by name, each with the brokers that may know something of it."""
    await observation.ask_groups()
    snapshot = observation.snapshot
    configs = snapshot.groups
    everywhere = {broker.broker_name for broker in observation.masters}
    if names := survey.scope.groups:
        return {name: GroupSeen(name, configs.get(name, {}), set(everywhere)) for name in sorted(set(names))}
    await observation.ask_offsets()
    listed = {broker.broker_name for broker in observation.masters if broker.makes_groups}
    topics = list(survey.users_topics.items())[:READERS_MAX]
    await observation.ask_readers({topic: on.keys() - listed for topic, on in topics})
    places = {name: set(on) for name, on in configs.items()}
    for name, offsets in snapshot.offsets.items():
        places.setdefault(name, set()).update(
            queue.broker_name for each in offsets.values() for queue in each
        )
    for name, brokers in snapshot.readers.items():
        places.setdefault(name, set()).update(brokers)
    return {
        name: GroupSeen(name, configs.get(name, {}), places[name])
        for name in sorted(places)
        if is_users_group(name)
    }


async def _ask_groups(observation: Observation, groups: Mapping[str, GroupSeen]) -> None:
    """Ask how far groups are, and for their members."""
    await observation.ask_lags()
    if Question.OFFSETS not in observation.snapshot.asked_at:
        # A broker gives the lags only of groups that it has.
        unlisted = {name for group in groups.values() for name in group.places - group.configs.keys()}
        if unlisted:
            await observation.ask_offsets(at=unlisted)
    await observation.ask_members({group.name: group.places for group in groups.values()})


def _look(group: GroupSeen, snapshot: ClusterSnapshot) -> GroupLook:
    progress: dict[MessageQueue, GroupProgress] = {}
    for lag in snapshot.lags.get(group.name, ()):
        progress |= lag.offset_table
    for offsets in snapshot.offsets.get(group.name, {}).values():
        for queue, offset in offsets.items():
            if queue.broker_name not in group.configs:
                progress[queue] = GroupProgress(broker_offset=offset, consumer_offset=offset)
    return GroupLook(connections=snapshot.members.get(group.name, {}), progress=progress)


def _is_meant(survey: Survey, group: GroupSeen) -> bool:
    look = group.before
    if not look.progress and not look.connections:
        return False
    return not survey.scope.topics or bool(group.topics.intersection(survey.scope.topics))


async def _ask_queues(observation: Observation, survey: Survey) -> None:
    """Ask for begin and end of the queues that groups read, and of their dead letters."""
    groups = survey.groups.seen.values()
    wanted = set(filter(survey.scope.concerns, {topic for group in groups for topic in group.topics}))
    wanted |= {group.dead_letter_topic for group in groups}
    topics = sorted(topic for topic in wanted if topic in survey.topics)
    if len(topics) > TOPICS_MAX:
        survey.give_up(f"look into {len(topics) - TOPICS_MAX} of {len(topics)} topics of groups")
    await observation.ask_queues({topic: survey.topics[topic].keys() for topic in topics[:TOPICS_MAX]})
