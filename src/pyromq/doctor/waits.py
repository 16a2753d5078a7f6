"""Asks for how long unread messages have been waiting. Brokers know it of groups whose progress they keep."""

from collections.abc import Iterable

from pyromq.client.aio.asking import Asker
from pyromq.client.observation.observation import Tell, side_by_side
from pyromq.client.observation.snapshot import BrokerSnapshot
from pyromq.client.plans.pull_plans import PullQuery, pull
from pyromq.codes import RequestCode
from pyromq.doctor.group_seen import GroupSeen, lag_of
from pyromq.doctor.motion import reached_by
from pyromq.doctor.survey import Survey
from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.operation_bodies import decode_time_spans
from pyromq.wire.headers.operation_headers import QueryConsumeTimeSpan

#: Topics in which a group is behind, and queues in which members are, that are asked for how long.
WAITS_MAX = 300


async def ask_waits(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Ask for how long messages wait, in topics that were not read to the end."""
    behind = [
        (group, topic)
        for group in survey.groups.seen.values()
        if group.is_clustering
        for topic in sorted({queue.topic for queue in _unread(survey, group)})
    ]
    # Somebody waits where there are members.
    behind.sort(key=lambda each: (bool(each[0].client_ids), lag_of(each[0])), reverse=True)
    if len(behind) > WAITS_MAX:
        survey.give_up(f"see how long messages wait in {len(behind) - WAITS_MAX:,} of {len(behind):,} topics")

    async def ask(broker: BrokerSnapshot, group: GroupSeen, topic: str) -> None:
        header = QueryConsumeTimeSpan(topic=topic, group=group.name)
        try:
            answer = await asker.ask(broker.address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            spans = decode_time_spans(answer.body)
        except PyroError as error:
            survey.could_not.append(f"see how long messages of {topic} wait for {group.name}: {error}")
            return
        group.waits_ms |= {span.message_queue: max(span.delay_time, 0) for span in spans}

    asked = [
        (broker, group, topic)
        for broker in survey.answering
        for group, topic in behind[:WAITS_MAX]
        if broker.broker_name in survey.topics.get(topic, {})
    ]
    await side_by_side(tell, "waiting messages", ask, asked)


async def ask_members_waits(asker: Asker, survey: Survey, tell: Tell) -> None:
    """Look for how long the messages wait that members of broadcasting groups read next."""
    ends = survey.groups.queues
    # Those that were there before the watch.
    behind = sorted(
        {
            (queue, at)
            for group in survey.groups.seen.values()
            if not group.is_clustering
            for client_id in group.client_ids
            for queue, at in reached_by(group.latest, client_id).items()
            if queue in ends and at < ends[queue].max_offset
        }
    )
    if len(behind) > WAITS_MAX:
        survey.give_up(f"see how long messages wait in {len(behind) - WAITS_MAX:,} of {len(behind):,} queues")

    async def ask(queue: MessageQueue, at: int) -> None:
        broker = survey.master(queue.broker_name)
        try:
            result = await asker.run(pull, PullQuery(queue, max(at, ends[queue].min_offset), 1))
        except PyroError as error:
            survey.could_not.append(f"see how long messages of {queue} wait: {error}")
            return
        clock = None if broker is None else broker.clock
        there_ms = survey.groups.looked_at_ms + (0 if clock is None else int(1_000 * clock.ahead_s))
        for message in result.messages[:1]:
            survey.groups.waits_ms[queue, at] = max(0, there_ms - message.stored_at_ms)

    await side_by_side(tell, "waiting messages", ask, behind[:WAITS_MAX])


def _unread(survey: Survey, group: GroupSeen) -> Iterable[MessageQueue]:
    ends = survey.groups.latest_queues
    for queue, reached in group.latest.reached().items():
        if queue in ends and ends[queue].max_offset > reached:
            yield queue
