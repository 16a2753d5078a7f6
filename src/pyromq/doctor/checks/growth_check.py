"""For production: topics that cannot grow, and dead letters that nobody reads."""

from collections.abc import Iterator

from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.checks.topic_check import ONE_BY_ONE
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lines, some_of


def narrow(survey: Survey) -> Iterator[Finding]:
    """Find topics with one queue in all."""
    found = [
        name
        for name, configs in survey.users_topics.items()
        if sum(config.read_queue_nums for config in configs.values()) == 1
    ]
    if not found:
        return
    is_one = len(found) == 1
    yield Finding(
        Severity.NOTE,
        f"topic {found[0]}" if is_one else counted(len(found), "topic"),
        f"{'topic ' if is_one else ''}{some_of(found)} {'has' if is_one else 'have'} one queue only",
        "one member of a group reads it, however many there are; if all messages are to stay in their order "
        "that is meant",
        lines(
            "else give it more (keys move to other queues then):",
            *(f"pyromq topic create {name} --queues 8{survey.at}" for name in found[:ONE_BY_ONE]),
        ),
        {"topics": found},
    )


def unread_letters(survey: Survey) -> Iterator[Finding]:
    """Find groups with a topic of dead letters that no group reads."""
    read = {topic for group in survey.groups.seen.values() for topic in group.topics}
    found = [
        name.removeprefix(DEAD_LETTER_TOPIC_PREFIX)
        for name in sorted(survey.topics)
        if name.startswith(DEAD_LETTER_TOPIC_PREFIX)
        and name not in read
        and _is_meant(survey, name.removeprefix(DEAD_LETTER_TOPIC_PREFIX))
    ]
    if not found:
        return
    yield Finding(
        Severity.WARNING,
        f"group {found[0]}" if len(found) == 1 else counted(len(found), "group"),
        f"{some_of(found)} {'has' if len(found) == 1 else 'have'} dead letters that no group reads",
        "nobody is told that messages failed for good, and after fileReservedTime they are gone",
        lines(
            "have somebody look at them every day, or a consumer read them: docs/howto/dead-letters.md",
            *(f"pyromq dlq list {name}{survey.at}" for name in found[:ONE_BY_ONE]),
        ),
        {"groups": found},
    )


def _is_meant(survey: Survey, group: str) -> bool:
    """Whether a group is named, or reads a topic that is; all are meant when nothing is named."""
    scope = survey.scope
    return not (scope.groups or scope.topics) or group in scope.groups or group in survey.groups.seen


NARROW = Check("narrow", "for production: topics with one queue", narrow)
UNREAD_LETTERS = Check(
    "unread-letters", "for production: dead letters that nobody reads", unread_letters, SurveyPart.GROUPS
)
