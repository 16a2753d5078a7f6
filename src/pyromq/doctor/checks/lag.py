"""Groups that are behind: how far, whether it grows, and what is lost of it before it is read."""

from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.doctor.checks.check import Check, Part
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.motion import Flow, flows, has_patience, still_queues, unread_queues
from pyromq.doctor.survey import Survey, number
from pyromq.doctor.words import counted, lasted, lines, some_of
from pyromq.model import MessageQueue

#: The last part of fileReservedTime, in which unread messages are in danger; and its default.
DANGER: Final = 0.1
RESERVED_HOURS: Final = 72.0
_HOUR_MS: Final = 3_600_000


def lag(survey: Survey) -> Iterator[Finding]:
    """Find groups that are behind, and tell whether they catch up."""
    left: list[tuple[GroupSeen, Flow]] = []
    for group in survey.groups.seen.values():
        if not group.is_clustering:
            continue
        for flow in flows(group, survey.groups).values():
            if flow.topic.startswith(RETRY_TOPIC_PREFIX) or not flow.lag or not flow.lag_before:
                continue
            if not group.client_ids and not flow.went:
                if flow.came:
                    yield _deserted(survey, group, flow)
                else:
                    left.append((group, flow))
            elif not _is_explained(survey, group, flow):
                yield from _behind(survey, group, flow)
    if left:
        yield _forgotten(survey, left)


def retention(survey: Survey) -> Iterator[Finding]:
    """Find messages that were deleted unread, and those that are about to be."""
    for group in survey.groups.seen.values():
        reached = group.latest.reached()
        gone: dict[str, int] = {}
        danger: dict[str, tuple[int, float]] = {}
        for queue, at in reached.items():
            end = survey.groups.latest_queues.get(queue)
            if end is None or at >= end.max_offset or not group.is_clustering:
                continue
            # A group that never was at a queue is said to be at 0.
            if 0 < at < end.min_offset:
                gone[queue.topic] = gone.get(queue.topic, 0) + end.min_offset - at
            left_ms = _reserved_ms(survey, queue.broker_name) - group.waits_ms.get(queue, 0)
            if left_ms <= DANGER * _reserved_ms(survey, queue.broker_name):
                count, least_ms = danger.get(queue.topic, (0, left_ms))
                danger[queue.topic] = count + end.max_offset - max(at, end.min_offset), min(least_ms, left_ms)
        for topic, count in sorted(gone.items()):
            yield _deleted(survey, group, topic, count)
        for topic, (count, left_ms) in sorted(danger.items()):
            yield _in_danger(survey, group, topic, count, left_ms)


# Trends -----------------------------------------------------------------------------------------------


def _is_explained(survey: Survey, group: GroupSeen, flow: Flow) -> bool:
    """Whether the check of listeners says why nothing moves in all queues that are behind."""
    still = {one.queue for one in still_queues(group, survey.groups)}
    still |= {one.queue for one in unread_queues(group, survey.groups)}
    return all(queue in still for queue, behind in flow.lags.items() if behind)


def _behind(survey: Survey, group: GroupSeen, flow: Flow) -> Iterator[Finding]:
    behind = [queue for queue, count in flow.lags.items() if count]
    if all(has_patience(group, queue, survey.groups) for queue in behind):
        return
    watched_s = survey.groups.watched_s
    rates = f"{flow.came / watched_s:,.1f} a second come in, {flow.went / watched_s:,.1f} go out"
    how_far = f"group {group.name} is {counted(flow.lag, 'message')} behind in {flow.topic}"
    facts = _facts(survey, group, flow)
    if flow.is_growing or not flow.went:
        trend = "falls back further" if flow.is_growing else "does not move"
        yield Finding(
            Severity.WARNING,
            f"group {group.name}",
            f"{how_far} and {trend}: {rates}. {_oldest(group, behind)}",
            "messages reach their listeners later and later, until they are deleted unread"
            if flow.is_growing
            else "messages wait, and none was read while the doctor watched",
            lines(_faster(survey, group, flow)),
            facts,
        )
        return
    left_s = flow.catches_up_in_s(watched_s)
    trend = "keeps that distance" if left_s is None else f"catches up in about {lasted(left_s)}"
    yield Finding(
        Severity.NOTE,
        f"group {group.name}",
        f"{how_far} and {trend}: {rates}. {_oldest(group, behind)}",
        "messages reach their listeners late, but not later and later",
        f"pyromq group lag {group.name} --topic {flow.topic} --watch 2{survey.at}",
        facts,
    )


def _faster(survey: Survey, group: GroupSeen, flow: Flow) -> list[str]:
    queues, members = len(flow.lags), len(group.client_ids)
    steps = [f"pyromq group lag {group.name} --topic {flow.topic} --members{survey.at}"]
    if not flow.is_growing:
        return ["see which queues do not move, and look into the logs of the members that have them:", *steps]
    if members < queues:
        steps.append(
            f"start more members: {counted(queues, 'queue')} can be read by so many, there are {members}"
        )
    else:
        steps.append("as many members as queues are there; more members need more queues:")
        on_each = 2 * -(-queues // len({queue.broker_name for queue in flow.lags}))
        steps.append(f"pyromq topic create {flow.topic} --queues {on_each}{survey.at}")
    return ["see which queues are behind:", *steps, "or let listeners be faster, or more of them run at once"]


def _deserted(survey: Survey, group: GroupSeen, flow: Flow) -> Finding:
    rate = flow.came / survey.groups.watched_s
    behind = [queue for queue, count in flow.lags.items() if count]
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"nobody reads for group {group.name}: it has no member, {counted(flow.lag, 'message')} of "
        f"{flow.topic} wait, and {rate:,.1f} a second come in. {_oldest(group, behind)}",
        "what waits is deleted in the end, read or not",
        lines(
            "start its members; if it is not used any more:",
            f"pyromq group delete {group.name}{survey.at}",
        ),
        _facts(survey, group, flow),
    )


def _forgotten(survey: Survey, left: Sequence[tuple[GroupSeen, Flow]]) -> Finding:
    names = list(dict.fromkeys(group.name for group, _ in left))
    shown = [f"{group.name} ({counted(flow.lag, 'message')} of {flow.topic})" for group, flow in left]
    return Finding(
        Severity.NOTE,
        f"group {names[0]}" if len(names) == 1 else counted(len(names), "group"),
        f"{counted(len(names), 'group')} without members {'has' if len(names) == 1 else 'have'} unread "
        f"messages in topics that nothing comes into: {some_of(shown)}",
        "they may be stopped for a while, or forgotten",
        lines("a group that is not used any more:", f"pyromq group delete {names[0]}{survey.at}"),
        {"groups": [{"group": group.name, "topic": flow.topic, "lag": flow.lag} for group, flow in left]},
    )


def _oldest(group: GroupSeen, queues: Sequence[MessageQueue]) -> str:
    waits_ms = max((group.waits_ms.get(queue, 0) for queue in queues), default=0)
    return f"The oldest waits for {lasted(waits_ms / 1_000)}"


def _facts(survey: Survey, group: GroupSeen, flow: Flow) -> dict[str, object]:
    watched_s = survey.groups.watched_s
    return {
        "group": group.name,
        "topic": flow.topic,
        "members": len(group.client_ids),
        "lag": flow.lag,
        "lag_before": flow.lag_before,
        "in_a_second": round(flow.came / watched_s, 3),
        "out_a_second": round(flow.went / watched_s, 3),
        "catches_up_in_s": flow.catches_up_in_s(watched_s),
        "queues": {f"{queue.broker_name}:{queue.queue_id}": behind for queue, behind in flow.lags.items()},
        "oldest_waits_ms": max((group.waits_ms.get(queue, 0) for queue in flow.lags), default=0),
    }


# What is lost -----------------------------------------------------------------------------------------


def _reserved_ms(survey: Survey, broker_name: str) -> float:
    broker = survey.master(broker_name)
    hours = None if broker is None else number(broker.settings, "fileReservedTime")
    return (RESERVED_HOURS if hours is None else hours) * _HOUR_MS


def _deleted(survey: Survey, group: GroupSeen, topic: str, count: int) -> Finding:
    return Finding(
        Severity.PROBLEM if group.client_ids else Severity.NOTE,
        f"group {group.name}",
        f"{counted(count, 'message')} of {topic} were deleted before group {group.name} read them",
        "they are lost to the group, which goes on at the first message that is there",
        lines(
            "let the group keep up, or brokers keep messages for longer (hours):",
            f"pyromq cluster set fileReservedTime 168{survey.at}",
            "what is lost is passed at the next pull; a group that nobody reads for is set on with",
            f"pyromq group reset {group.name} --topic {topic} --to first{survey.at}",
        ),
        {"group": group.name, "topic": topic, "messages": count},
    )


def _in_danger(survey: Survey, group: GroupSeen, topic: str, count: int, left_ms: float) -> Finding:
    when = f"within {lasted(left_ms / 1_000)}" if left_ms > 0 else "at any time now"
    return Finding(
        Severity.PROBLEM if group.client_ids else Severity.WARNING,
        f"group {group.name}",
        f"{counted(count, 'message')} of {topic} that group {group.name} has not read are deleted {when}",
        "brokers keep messages for fileReservedTime only, whether or not they were read",
        lines(
            "let brokers keep them for longer (hours) until the group has read them:",
            f"pyromq cluster set fileReservedTime 168{survey.at}",
            f"pyromq group lag {group.name} --topic {topic} --watch 2{survey.at}",
        ),
        {"group": group.name, "topic": topic, "messages": count, "left_ms": left_ms},
    )


LAG = Check("lag", "groups that fall behind, or that nobody reads for", lag, Part.GROUPS | Part.MOTION)
RETENTION = Check(
    "retention",
    "messages that are deleted before a group has read them",
    retention,
    Part.GROUPS | Part.MOTION,
)
