"""For how long messages wait that groups have not read: brokers say it of groups whose progress they know."""

from collections.abc import Iterable

from pyromq.client.aio.asking import Asker
from pyromq.client.plans.pull import Wanted, pull
from pyromq.codes import RequestCode
from pyromq.doctor.group_seen import GroupSeen, lag_of
from pyromq.doctor.motion import reached_by
from pyromq.doctor.survey import BrokerSeen, Survey, Tell, give_up, together
from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.operations import decode_time_spans
from pyromq.wire.headers.operations import QueryConsumeTimeSpan

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
        give_up(
            survey, f"see how long messages wait in {len(behind) - WAITS_MAX:,} of {len(behind):,} topics"
        )

    async def ask(broker: BrokerSeen, group: GroupSeen, topic: str) -> None:
        header = QueryConsumeTimeSpan(topic=topic, group=group.name)
        try:
            answer = await asker.ask(broker.place.address, RequestCode.QUERY_CONSUME_TIME_SPAN, header)
            spans = decode_time_spans(answer.body)
        except PyroError as error:
            survey.could_not.append(f"see how long messages of {topic} wait for {group.name}: {error}")
            return
        group.waits_ms |= {span.message_queue: max(span.delay_time, 0) for span in spans}

    asked = [
        ask(broker, group, topic)
        for broker in survey.answering
        for group, topic in behind[:WAITS_MAX]
        if broker.place.broker_name in survey.topics.get(topic, {})
    ]
    await together(tell, "waiting messages", asked)


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
        give_up(
            survey, f"see how long messages wait in {len(behind) - WAITS_MAX:,} of {len(behind):,} queues"
        )

    async def ask(queue: MessageQueue, at: int) -> None:
        broker = survey.master(queue.broker_name)
        try:
            result = await asker.run(pull, Wanted(queue, max(at, ends[queue].min_offset), 1))
        except PyroError as error:
            survey.could_not.append(f"see how long messages of {queue} wait: {error}")
            return
        clock = None if broker is None else broker.clock
        there_ms = survey.groups.looked_at_ms + (0 if clock is None else int(1_000 * clock.ahead_s))
        for message in result.messages[:1]:
            survey.groups.waits_ms[queue, at] = max(0, there_ms - message.stored_at_ms)

    await together(tell, "waiting messages", (ask(queue, at) for queue, at in behind[:WAITS_MAX]))


def _unread(survey: Survey, group: GroupSeen) -> Iterable[MessageQueue]:
    ends = survey.groups.latest_queues
    for queue, reached in group.latest.reached().items():
        if queue in ends and ends[queue].max_offset > reached:
            yield queue
