"""Messages that fail: that come again and again, or were given up."""

from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.client.dead_letter import DLQ_ORIGIN_TOPIC
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen, TailMessage
from pyromq.doctor.motion import flows
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, some_of
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic
from pyromq.wire.properties import RETRY_TOPIC

#: The part of messages that may fail before it is worth a word.
FAILING: Final = 0.1
#: Dead letters that are older are no news.
_NEWS_MS: Final = 24 * 3_600_000


def retries(survey: Survey) -> Iterator[Finding]:
    """Find groups whose messages fail."""
    for group in survey.groups.seen.values():
        yield from _failing(survey, group)
        yield from _piling_up(survey, group)
        yield from _dead(survey, group)


def _failing(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    """Tell which part of a group's messages fails, by what members counted in the last minute."""
    topics = [
        (topic, status)
        for state in group.latest.states.values()
        for topic, status in state.topics.items()
        if survey.scope.concerns(topic)
    ]
    failed = sum(status.consume_failed_tps for _, status in topics)
    done = sum(status.consume_ok_tps for _, status in topics)
    if not failed or failed / (failed + done) < FAILING:
        return
    names = sorted({topic for topic, status in topics if status.consume_failed_tps})
    # What comes again is of the other topics.
    names = list(filter(is_users_topic, names)) or names
    yield Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"listeners of group {group.name} fail for {failed / (failed + done):.0%} of their messages, "
        f"{failed:,.2f} a second, in {some_of(names)}",
        "each comes again later, with growing pauses, and is a dead letter after too many tries",
        lines(
            "see the errors in the logs of the members, and where messages end:",
            f"pyromq dlq list {group.name}{survey.at}",
        ),
        {"group": group.name, "topics": names, "failed_a_second": failed, "done_a_second": done},
    )


def _piling_up(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    flow = flows(group, survey.groups).get(group.retry_topic)
    # Without members it is lag like any other.
    if flow is None or not group.client_ids or not flow.came or not flow.lag_before or not flow.is_growing:
        return
    yield Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"{counted(flow.lag, 'message')} that failed wait to come again to group {group.name}, "
        f"{flow.lag - flow.lag_before:,} more than {lasted(survey.groups.watched_s)} ago",
        "more messages fail than are tried again: the group falls behind with them",
        lines(
            "see why they fail in the logs of the members:",
            f"pyromq group lag {group.name} --topic {group.retry_topic}{survey.at}",
        ),
        {"group": group.name, "lag": flow.lag, "lag_before": flow.lag_before},
    )


def _dead(survey: Survey, group: GroupSeen) -> Iterator[Finding]:
    groups = survey.groups
    queues = _dead_letter_queues(survey, group)
    ends = [groups.latest_queues[queue] for queue in queues if queue in groups.latest_queues]
    now = sum(end.max_offset - end.min_offset for end in ends)
    newest_ms = max((end.last_update_timestamp for end in ends), default=0)
    if not now or groups.looked_at_ms - newest_ms > _NEWS_MS:
        return
    if not _are_meant(survey, groups.tails.get(group.dead_letter_topic, ())):
        return
    before = [groups.queues[queue] for queue in queues if queue in groups.queues]
    more = sum(end.max_offset for end in ends) - sum(end.max_offset for end in before)
    ago = lasted((groups.looked_at_ms - newest_ms) / 1_000)
    yield Finding(
        Severity.WARNING if more > 0 else Severity.NOTE,
        f"group {group.name}",
        f"group {group.name} has {counted(now, 'dead letter')}, {more:,} of them since the doctor watches"
        if more > 0
        else f"group {group.name} has {counted(now, 'dead letter')}, the last one of {ago} ago",
        "they failed too often and do not come again by themselves",
        lines(
            "see why they died, mend it, and send them again:",
            f"pyromq dlq list {group.name}{survey.at}",
            f"pyromq dlq replay {group.name} --all --dry-run{survey.at}",
        ),
        {"group": group.name, "dead_letters": now, "more": more, "newest_ms": newest_ms},
    )


def _are_meant(survey: Survey, letters: Sequence[TailMessage]) -> bool:
    """Whether some of the last dead letters are of the topics that are looked at, or do not say."""
    origins = {
        letter.properties.get(RETRY_TOPIC) or letter.properties.get(DLQ_ORIGIN_TOPIC) for letter in letters
    }
    return not origins or any(origin is None or survey.scope.concerns(origin) for origin in origins)


def _dead_letter_queues(survey: Survey, group: GroupSeen) -> list[MessageQueue]:
    topic = group.dead_letter_topic
    return [
        MessageQueue(topic, broker, queue_id)
        for broker, config in survey.topics.get(topic, {}).items()
        for queue_id in range(config.write_queue_nums)
    ]


RETRIES = Check(
    "retries",
    "messages that fail again and again, and dead letters",
    retries,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
