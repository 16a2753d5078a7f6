"""Groups that are behind: how far, and whether it grows."""

from collections.abc import Iterator

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.observation.counts import TopicFlow
from pyromq.doctor.checks.broadcasting_check import members_lag, untold
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.checks.flow_words import group_facts, oldest, rate_words
from pyromq.doctor.checks.member_check import left_queues
from pyromq.doctor.checks.unattended_check import unattended
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.motion import flows, has_patience, still_queues, unread_queues
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, verb


def lag(survey: Survey) -> Iterator[Finding]:
    """Find groups that are behind, and tell whether they catch up."""
    alone: list[tuple[GroupSeen, TopicFlow]] = []
    for group in survey.groups.seen.values():
        if not group.is_clustering:
            yield from members_lag(survey, group)
            continue
        if group.is_deleted:
            continue
        for flow in flows(group, survey.groups).values():
            if flow.topic.startswith(RETRY_TOPIC_PREFIX) or not flow.lag or not flow.lag_before:
                continue
            if not group.client_ids and not flow.went:
                alone.append((group, flow))
            elif not _is_explained(survey, group, flow):
                yield from _behind(survey, group, flow)
    yield from unattended(survey, alone)
    yield from untold(survey)


def _is_explained(survey: Survey, group: GroupSeen, flow: TopicFlow) -> bool:
    """Whether another check says why nothing moves in all queues that are behind: listeners or members."""
    still = {one.queue for one in still_queues(group, survey.groups)}
    still |= {one.queue for one in unread_queues(group, survey.groups)}
    still |= {queue for left in left_queues(survey, group).values() for queue in left}
    return all(queue in still for queue, behind in flow.lags.items() if behind)


def _behind(survey: Survey, group: GroupSeen, flow: TopicFlow) -> Iterator[Finding]:
    behind = [queue for queue, count in flow.lags.items() if count]
    if all(has_patience(group, queue, survey.groups) for queue in behind):
        return
    how_far = f"group {group.name} is {counted(flow.lag, 'message')} behind in {flow.topic}"
    facts = group_facts(group, flow)
    if flow.is_growing or not flow.went:
        trend = "falls back further" if flow.is_growing else "does not move"
        yield Finding(
            Severity.WARNING,
            f"group {group.name}",
            f"{how_far} and {trend}: {rate_words(flow)}. {oldest(group, behind)}",
            "messages reach their listeners later and later, until they are deleted unread"
            if flow.is_growing
            else "messages wait, and none was read while the doctor watched",
            lines(_faster(survey, group, flow)),
            facts,
        )
        return
    left_s = flow.catches_up_in_s
    trend = "keeps that distance" if left_s is None else f"catches up in about {lasted(left_s)}"
    yield Finding(
        Severity.NOTE,
        f"group {group.name}",
        f"{how_far} and {trend}: {rate_words(flow)}. {oldest(group, behind)}",
        "messages reach their listeners late, but not later and later",
        f"pyromq group lag {group.name} --topic {flow.topic} --watch 2{survey.at}",
        facts,
    )


def _faster(survey: Survey, group: GroupSeen, flow: TopicFlow) -> list[str]:
    queues, members = len(flow.lags), len(group.client_ids)
    steps = [f"pyromq group lag {group.name} --topic {flow.topic} --members{survey.at}"]
    if not flow.is_growing:
        return ["see which queues do not move, and look into the logs of the members that have them:", *steps]
    if members < queues:
        steps.append(
            f"start more members: {counted(queues, 'queue')} can be read by so many, "
            f"there {verb(members, 'is', 'are')} {members}"
        )
    else:
        steps.append("as many members as queues are there; more members need more queues:")
        on_each = 2 * -(-queues // len({queue.broker_name for queue in flow.lags}))
        steps.append(f"pyromq topic create {flow.topic} --queues {on_each}{survey.at}")
    return ["see which queues are behind:", *steps, "or let listeners be faster, or more of them run at once"]


LAG = Check(
    "lag", "groups that fall behind, or that nobody reads for", lag, SurveyPart.GROUPS | SurveyPart.MOTION
)
