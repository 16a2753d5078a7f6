"""The life of a message: what clients traced of it, and where its copies are."""

from typing import Any, Final

from pyromq.client.aio.asking import Asker
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.namespaces import DEAD_LETTER_TOPIC_PREFIX
from pyromq.client.tracing.trace_life import find_life
from pyromq.dashboard.picture import GroupPicture, NameKind, Picture
from pyromq.errors import PyroError
from pyromq.model import ReceivedMessage
from pyromq.system_names import TRACE
from pyromq.wire import properties as names

#: Groups of the message's topic whose retries and dead letters are looked at, besides those with a trace.
_GROUPS_MAX: Final = 16

Shown = dict[str, Any]


async def trace_of(asker: Asker, picture: Picture, message: ReceivedMessage) -> Shown:
    """Return the steps of a message's life, the first first; and a word where nobody traced it."""
    topic = message.properties.get(names.RETRY_TOPIC) or message.topic
    groups = [*_own_group(message), *_readers(picture, topic)][:_GROUPS_MAX]
    try:
        life = await find_life(asker.admin, message.message_id, topic=topic, groups=groups)
    except PyroError as error:
        return {"steps": [], "note": f"Its life could not be read: {error}"}
    return {
        "steps": [
            {
                "what": step.event,
                "at": step.at_ms,
                "group": step.group,
                "where": step.where,
                "ok": step.is_success,
                "ms": step.took_ms,
                "try": step.number,
                "detail": step.detail,
            }
            for step in life.steps
        ],
        "note": None if life.entries else _why_untraced(picture),
    }


def _own_group(message: ReceivedMessage) -> list[str]:
    """Return the group whose retry or dead letter it is: it may have left no trace of itself elsewhere."""
    return [
        message.topic.removeprefix(prefix)
        for prefix in (RETRY_TOPIC_PREFIX, DEAD_LETTER_TOPIC_PREFIX)
        if message.topic.startswith(prefix)
    ]


def _readers(picture: Picture, topic: str) -> list[str]:
    return [
        group.name
        for group in picture.groups.values()
        if group.kind is NameKind.NORMAL and (topic in group.offsets or topic in _subscribed(group))
    ]


def _subscribed(group: GroupPicture) -> set[str]:
    return {topic for each in (group.connections or {}).values() for topic in each.subscriptions}


def _why_untraced(picture: Picture) -> str:
    if TRACE not in picture.topics:
        return (
            "This cluster keeps no traces, so only copies in the log are shown: brokers with "
            "traceTopicEnable=true, and clients that trace (enable_msg_trace), would say more."
        )
    return "No client traced this message, so only its copies in the log are shown."
