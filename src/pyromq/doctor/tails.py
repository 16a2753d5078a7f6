"""Reads the last messages of topics, where a filter of a group may not match them."""

from typing import Final

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Tell, side_by_side
from pyromq.client.plans.pull_plans import PullQuery, pull
from pyromq.doctor.group_seen import TailMessage
from pyromq.doctor.motion import is_filtered
from pyromq.doctor.survey import Survey
from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.system_names import is_users_topic

#: Topics whose last messages are read; of each topic, the queues, the newest first; messages of each queue.
TAILS_MAX: Final = 100
TAIL_QUEUES_MAX: Final = 16
TAIL_MESSAGES: Final = 32


async def read_tails(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Read the last messages of topics that somebody filters; of dead letters too, if topics are named."""
    dead = {group.dead_letter_topic for group in survey.groups.seen.values() if survey.scope.topics}
    topics = sorted(
        {topic for topic in dead if topic in survey.topics}
        | {
            wanted.topic
            for group in survey.groups.seen.values()
            for wanted in group.subscriptions.values()
            if is_users_topic(wanted.topic)
            and survey.scope.concerns(wanted.topic)
            and wanted.topic in survey.topics
            and not wanted.class_filter_mode
            and is_filtered(wanted)
        }
    )
    if len(topics) > TAILS_MAX:
        survey.give_up(f"read messages of {len(topics) - TAILS_MAX} of {len(topics)} topics")
    asked = [(asker, survey, queue) for topic in topics[:TAILS_MAX] for queue in _newest(survey, topic)]
    await side_by_side(tell, "last messages", _read_tail, asked)


def _newest(survey: Survey, topic: str) -> list[MessageQueue]:
    ends = {
        queue: end
        for queue, end in survey.groups.queues.items()
        if queue.topic == topic and end.max_offset > end.min_offset
    }
    return sorted(ends, key=lambda queue: ends[queue].last_update_timestamp, reverse=True)[:TAIL_QUEUES_MAX]


async def _read_tail(asker: Asker, survey: Survey, queue: MessageQueue) -> None:
    end = survey.groups.queues[queue]
    offset = max(end.min_offset, end.max_offset - TAIL_MESSAGES)
    try:
        result = await asker.run(pull, PullQuery(queue, offset, TAIL_MESSAGES))
    except PyroError as error:
        survey.could_not.append(f"read the last messages of {queue}: {error}")
        return
    survey.groups.tails.setdefault(queue.topic, []).extend(
        TailMessage(message.tags, message.properties, message.stored_at_ms) for message in result.messages
    )
