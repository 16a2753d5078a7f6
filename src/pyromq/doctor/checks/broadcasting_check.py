"""Members of broadcasting groups that are behind: each reads all messages, and it alone knows how far."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyromq.client.observation.counts import TopicFlow
from pyromq.doctor.checks.flow_words import flow_facts, rate_words
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.motion import (
    flows_of,
    has_patience,
    in_hand,
    is_filtered,
    reached_by,
    still_queues,
    unread_queues,
    waits_ms,
)
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, some_of
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic


@dataclass(frozen=True, slots=True)
class Late:
    """A member that is behind in a topic."""

    client_id: str
    flow: TopicFlow
    waits_ms: int

    @property
    def is_losing(self) -> bool:
        """Whether it falls back further, or does not move."""
        return self.flow.is_growing or not self.flow.went


def members_lag(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    """Tell of the members of a broadcasting group that are behind, those of a topic together."""
    late: dict[tuple[str, bool], list[Late]] = {}
    for client_id in group.client_ids:
        for topic, flow in flows_of(group, client_id, survey.groups).items():
            if one := _late(survey, group, client_id, flow):
                late.setdefault((topic, one.is_losing), []).append(one)
    for (topic, is_losing), members in sorted(late.items()):
        members.sort(key=lambda one: one.flow.lag, reverse=True)
        yield (_losing if is_losing else _gaining)(survey, group, topic, members)


def untold(survey: Survey) -> Iterator[Finding]:
    """Tell of members of broadcasting groups that do not say how far they are."""
    found = [
        (group, client_id, why)
        for group in survey.groups.seen.values()
        if not group.is_clustering
        for client_id in group.client_ids
        if (why := _silence(survey, group, client_id)) is not None
    ]
    if not found:
        return
    group, client_id, _ = found[0]
    shown = [f"{client_id} of group {group.name} ({why})" for group, client_id, why in found]
    yield Finding(
        Severity.NOTE,
        f"group {group.name}" if len({one.name for one, _, _ in found}) == 1 else "broadcasting groups",
        f"how far {counted(len(found), 'member')} of broadcasting groups got is not known: "
        f"{some_of(shown, 3)}",
        "such members keep their progress to themselves, so no broker can tell it; one whose loop is blocked "
        "by its listener cannot answer either",
        lines(
            "see their own logs; what a member says of itself:",
            f"pyromq admin consumerStatus -g {group.name} -i {client_id}{survey.at}",
        ),
        {
            "members": [
                {"group": group.name, "client": client_id, "failure": why} for group, client_id, why in found
            ]
        },
    )


def _late(survey: Survey, group: GroupSeen, client_id: str, flow: TopicFlow) -> Late | None:
    """Return a member with how late it is; None if it is not, or another check says why."""
    groups = survey.groups
    behind = [queue for queue, count in flow.lags.items() if count]
    if not flow.lag_before or not behind:
        return None
    explained = {one.queue for one in still_queues(group, groups) if one.client_id == client_id}
    explained |= {one.queue for one in unread_queues(group, groups) if one.client_id == client_id}
    if explained.issuperset(behind):
        return None
    # Messages that came during the watch, or just before it, are no sign of a lag.
    later = reached_by(group.latest, client_id)
    since = [queue for queue in behind if later[queue] < groups.queues[queue].max_offset]
    if all(has_patience(group, queue, groups, client_id) for queue in since):
        return None
    return Late(client_id, flow, max((waits_ms(group, each, groups, client_id) or 0) for each in since))


def _silence(survey: Survey, group: GroupSeen, client_id: str) -> str | None:
    """Return why a member's lag is not known; None if it is, or if there is none."""
    look = group.latest
    if client_id not in look.states:
        return look.silent.get(client_id)
    told = reached_by(look, client_id)
    quiet = [
        queue
        for queue, state in look.states[client_id].queues.items()
        if queue not in told and not in_hand(state) and _gets_more(survey, group, queue)
    ]
    return f"it says nothing of {counted(len(quiet), 'queue')} into which messages come" if quiet else None


def _gets_more(survey: Survey, group: GroupSeen, queue: MessageQueue) -> bool:
    """Whether messages that a group wants came into a queue while it was watched."""
    before, after = survey.groups.queues.get(queue), survey.groups.queues_later.get(queue)
    wanted = group.subscriptions.get(queue.topic)
    return (
        before is not None
        and after is not None
        and after.max_offset > before.max_offset
        and is_users_topic(queue.topic)
        # What a filter leaves out moves a member only when a pull ends.
        and (wanted is None or not is_filtered(wanted))
    )


# Words ------------------------------------------------------------------------------------------------


def _losing(survey: Survey, group: GroupSeen, topic: str, late: Sequence[Late]) -> Finding:
    first = late[0]
    is_growing = any(one.flow.is_growing for one in late)
    who = "this one gets" if len(late) == 1 else "these get"
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        _message(group, topic, late, "falls back further" if is_growing else "does not move"),
        f"each member of a broadcasting group reads all messages; {who} them later and later, until they are "
        "deleted unread"
        if is_growing
        else f"each member of a broadcasting group reads all messages; {who} none while the doctor watches",
        lines(
            "see its log, and what it says of itself:",
            f"pyromq admin consumerStatus -g {group.name} -i {first.client_id}{survey.at}",
            "more members do not help: let its listener be faster, or more of them run at once",
        ),
        _facts(group, topic, late),
    )


def _gaining(survey: Survey, group: GroupSeen, topic: str, late: Sequence[Late]) -> Finding:
    seconds = [one.flow.catches_up_in_s for one in late]
    left = [each for each in seconds if each is not None]
    trend = f"catches up in about {lasted(max(left))}" if len(left) == len(late) else "keeps that distance"
    return Finding(
        Severity.NOTE,
        f"group {group.name}",
        _message(group, topic, late, trend),
        "messages reach these listeners late, but not later and later",
        f"pyromq admin consumerStatus -g {group.name} -i {late[0].client_id}{survey.at}",
        _facts(group, topic, late),
    )


def _message(group: GroupSeen, topic: str, late: Sequence[Late], trend: str) -> str:
    first = late[0]
    rates = f"{rate_words(first.flow)}. The oldest waits for {lasted(first.waits_ms / 1_000)}"
    if len(late) == 1:
        return (
            f"member {first.client_id} of broadcasting group {group.name} is "
            f"{counted(first.flow.lag, 'message')} behind in {topic} and {trend}: {rates}"
        )
    shown = [f"{one.client_id} by {counted(one.flow.lag, 'message')}" for one in late]
    return (
        f"{len(late)} of the {len(group.client_ids)} members of broadcasting group {group.name} are behind "
        f"in {topic}: {some_of(shown)}. The first {trend}: {rates}"
    )


def _facts(group: GroupSeen, topic: str, late: Sequence[Late]) -> dict[str, object]:
    members = [{"client": one.client_id} | flow_facts(one.flow, one.waits_ms) for one in late]
    return {"group": group.name, "topic": topic, "members": members}
