"""Filters under which nothing comes: of a topic's last messages none is what a group wants."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupSeen, TailMessage
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lines, some_of
from pyromq.errors import FilterError
from pyromq.filter.sql_filter import compile_sql
from pyromq.filter.tags import parse_tags, wants_all
from pyromq.system_names import is_users_topic
from pyromq.wire.bodies.heartbeat_bodies import Subscription

#: Fewer messages say nothing about a filter.
MESSAGES_MIN: Final = 10
#: Properties that every message has, or that clients write for themselves.
_OWN_PROPERTIES: Final = frozenset(
    {"UNIQ_KEY", "CLUSTER", "MSG_REGION", "TRACE_ON", "WAIT", "KEYS", "MIN_OFFSET", "MAX_OFFSET"}
)


def filters(survey: Survey) -> Iterator[Finding]:
    """Find subscriptions that none of a topic's last messages matches."""
    for group in survey.groups.seen.values():
        for topic, wanted in sorted(group.subscriptions.items()):
            tail = survey.groups.tails.get(topic, [])
            if len(tail) < MESSAGES_MIN or not is_users_topic(topic) or wanted.class_filter_mode:
                continue
            if not is_sql(wanted) and wants_all(wanted.sub_string):
                continue
            if not any(matches(wanted, message) for message in tail):
                yield _nothing(survey, group, wanted, tail)


def is_sql(wanted: Subscription) -> bool:
    """Whether a subscription chooses by properties, and not by tags."""
    return wanted.expression_type not in ("", "TAG")


def matches(wanted: Subscription, message: TailMessage) -> bool:
    """Return whether a message reaches a subscription's listener.

    Brokers compare the hashes of tags, and clients the tags: what has one of the tags gets through.
    """
    if is_sql(wanted):
        try:
            return compile_sql(wanted.sub_string).matches(message.properties)
        except FilterError:
            return False
    return wants_all(wanted.sub_string) or message.tag in parse_tags(wanted.sub_string)


def near_misses(wanted: Subscription, tags: Sequence[str]) -> list[str]:
    """Return tags that are there and that only look different from one that is wanted."""
    plain = {_plain(tag) for tag in parse_tags(wanted.sub_string)}
    # "a|b", "a,b" and "a b" are one tag each.
    plain |= {
        _plain(part)
        for tag in parse_tags(wanted.sub_string)
        for mark in "|, ;"
        for part in tag.split(mark)
        if part.strip()
    }
    return [tag for tag in tags if _plain(tag) in plain]


def _plain(tag: str) -> str:
    return tag.strip().casefold().replace("-", "_")


def _nothing(survey: Survey, group: GroupSeen, wanted: Subscription, tail: Sequence[TailMessage]) -> Finding:
    tags = Counter(message.tag for message in tail)
    kind = "properties" if is_sql(wanted) else "tags"
    message = (
        f"none of the last {counted(len(tail), 'message')} of {wanted.topic} is for group {group.name} "
        f"({'SQL' if is_sql(wanted) else 'tags'}: {wanted.sub_string}); "
    )
    if is_sql(wanted):
        names = Counter(name for each in tail for name in each.properties if name not in _OWN_PROPERTIES)
        shown = [f"{name} in {count}" for name, count in names.most_common()]
        message += f"properties there: {some_of(shown)}" if shown else "they have no properties"
        close: list[str] = []
    else:
        shown = [f"{tag or 'no tag'} ({count})" for tag, count in tags.most_common()]
        message += f"tags there: {some_of(shown)}"
        close = near_misses(wanted, [tag for tag in tags if tag is not None])
    if close:
        message += f"; is {some_of(close)} meant?"
    return Finding(
        Severity.WARNING,
        f"group {group.name}",
        message,
        f"messages come into {wanted.topic} and the group gets none; its lag stays low all the same, for "
        "what is filtered counts as read",
        lines(
            f"compare the {kind} with what is sent; tags are joined by ||, and capitals matter",
            f"pyromq consume {wanted.topic} --from last -f{survey.at}",
            f"pyromq group members {group.name}{survey.at}",
        ),
        {
            "group": group.name,
            "topic": wanted.topic,
            "expression": wanted.sub_string,
            "type": wanted.expression_type,
            "messages": len(tail),
            "tags": {tag or "": count for tag, count in tags.most_common()},
            "meant": close,
            "last_ms": max(one.stored_at_ms for one in tail),
        },
    )


FILTERS = Check("filters", "subscriptions whose filter lets nothing through", filters, SurveyPart.GROUPS)
