"""Messages that are deleted before a group has read them."""

from collections.abc import Iterator
from typing import Final

from pyromq.client.observation.snapshot import number
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, verb

#: The last part of fileReservedTime, in which unread messages are in danger; and its default.
DANGER: Final = 0.1
RESERVED_HOURS: Final = 72.0
_HOUR_MS: Final = 3_600_000


def retention(survey: Survey) -> Iterator[Finding]:
    """Find messages that were deleted unread, and those that are about to be."""
    for group in survey.groups.seen.values():
        if group.is_deleted:
            continue
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


def _reserved_ms(survey: Survey, broker_name: str) -> float:
    broker = survey.master(broker_name)
    hours = None if broker is None else number(broker.settings, "fileReservedTime")
    return (RESERVED_HOURS if hours is None else hours) * _HOUR_MS


def _deleted(survey: Survey, group: GroupSeen, topic: str, count: int) -> Finding:
    return Finding(
        Severity.PROBLEM if group.client_ids else Severity.NOTE,
        f"group {group.name}",
        f"{counted(count, 'message')} of {topic} {verb(count, 'was', 'were')} deleted before "
        f"group {group.name} read {verb(count, 'it', 'them')}",
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
        f"{counted(count, 'message')} of {topic} that group {group.name} has not read "
        f"{verb(count, 'is', 'are')} deleted {when}",
        "brokers keep messages for fileReservedTime only, whether or not they were read",
        lines(
            "let brokers keep them for longer (hours) until the group has read them:",
            f"pyromq cluster set fileReservedTime 168{survey.at}",
            f"pyromq group lag {group.name} --topic {topic} --watch 2{survey.at}",
        ),
        {"group": group.name, "topic": topic, "messages": count, "left_ms": left_ms},
    )


RETENTION = Check(
    "retention",
    "messages that are deleted before a group has read them",
    retention,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
