"""Groups that pop: those that are handed no more, and those that acknowledge nothing.

Brokers of ours tell how many messages of each queue are popped and not finished. RocketMQ's do not.
"""

from collections.abc import Iterator
from typing import Final

from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.observation.snapshot import number
from pyromq.doctor.checks.check import Check, SurveyPart
from pyromq.doctor.finding import Finding, Severity
from pyromq.doctor.group_seen import GroupLook, GroupSeen
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import counted, lasted, lines, place_of, verb
from pyromq.model import MessageQueue

#: popInflightMessageThreshold where a broker does not say it.
_THRESHOLD: Final = 10_000.0
#: A listener may work for so long, and acknowledge nothing meanwhile.
PATIENCE_MS: Final = 60_000


def pops(survey: Survey) -> Iterator[Finding]:
    """Find queues that are full of what is in flight, groups that finish nothing, and order that is lost."""
    for group in survey.groups.seen.values():
        in_flight = _in_flight(group.latest)
        if not in_flight:
            continue
        full = [queue for queue, count in in_flight.items() if count >= _threshold(survey, queue)]
        if full:
            yield _full(survey, group, in_flight, full)
        else:
            yield from _silent(survey, group, in_flight)
    yield from _unordered(survey)


def _in_flight(look: GroupLook) -> dict[MessageQueue, int]:
    """Return how many messages of each queue are popped and not finished, where there are some."""
    return {queue: one.in_flight for queue, one in look.progress.items() if one.in_flight}


def _threshold(survey: Survey, queue: MessageQueue) -> float:
    broker = survey.master(queue.broker_name)
    if broker is None or broker.settings.get("enablePopMessageThreshold") == "false":
        return float("inf")
    said = number(broker.settings, "popInflightMessageThreshold")
    return _THRESHOLD if said is None else said


def _full(
    survey: Survey, group: GroupSeen, in_flight: dict[MessageQueue, int], full: list[MessageQueue]
) -> Finding:
    places = ", ".join(f"{queue.topic} {place_of(queue)}" for queue in full[:5])
    limit = _threshold(survey, full[0])
    return Finding(
        Severity.PROBLEM,
        f"group {group.name}",
        f"group {group.name} has {counted(in_flight[full[0]], 'message')} in flight in {places}: "
        f"as many as a queue may have ({limit:,.0f}, popInflightMessageThreshold)",
        "the group is handed no more of these queues until some are acknowledged, or are visible again",
        lines(
            "do its members acknowledge what they have finished? See which queues wait:",
            f"pyromq group lag {group.name}{survey.at}",
            "if they need so many at one time, allow more, which takes memory of the broker:",
            f"pyromq cluster set popInflightMessageThreshold {2 * limit:.0f}{survey.at}",
        ),
        {"group": group.name, "queues": {place_of(queue): in_flight[queue] for queue in full}},
    )


def _silent(survey: Survey, group: GroupSeen, in_flight: dict[MessageQueue, int]) -> Iterator[Finding]:
    """Find what is in flight for long while nothing of it is acknowledged."""
    if group.after is None:
        return
    before, after = group.before.progress, group.after.progress
    still = [
        queue
        for queue, count in in_flight.items()
        if queue in before
        and not queue.topic.startswith(RETRY_TOPIC_PREFIX)
        # Nothing was acknowledged: what was popped meanwhile is in flight too.
        and (after[queue].in_flight or 0) - (before[queue].in_flight or 0)
        == (after[queue].pull_offset or 0) - (before[queue].pull_offset or 0)
        and group.waits_ms.get(queue, 0) >= PATIENCE_MS
    ]
    if not still:
        return
    count = sum(in_flight[queue] for queue in still)
    topics = ", ".join(sorted({queue.topic for queue in still}))
    waits_s = max(group.waits_ms.get(queue, 0) for queue in still) / 1_000
    yield Finding(
        Severity.WARNING,
        f"group {group.name}",
        f"group {group.name} has {counted(count, 'message')} of {topics} in flight and acknowledged none "
        f"while the doctor watched. The oldest waits for {lasted(waits_s)}",
        "what is not acknowledged in its invisible time comes again, to this member or another one",
        lines(
            "a consumer that pops has to acknowledge each message that it has finished: look into the logs "
            "of its members; listeners that take longer than the invisible time have to ask for more",
            f"pyromq group lag {group.name}{survey.at}",
            f"pyromq group members {group.name}{survey.at}",
        ),
        {"group": group.name, "in_flight": count, "queues": [place_of(queue) for queue in still]},
    )


def _unordered(survey: Survey) -> Iterator[Finding]:
    """Find topics whose messages are in order, and groups that pop them in none."""
    fifo = {
        topic
        for topic, configs in survey.users_topics.items()
        if any((config.attributes or {}).get("message.type") == "FIFO" for config in configs.values())
    }
    for group in survey.groups.seen.values():
        popped = {queue.topic for queue, one in group.latest.progress.items() if one.in_flight is not None}
        topics = sorted(popped & fifo)
        configs = group.configs.values()
        if not topics or not configs or all(config.consume_message_orderly for config in configs):
            continue
        clusters = sorted(
            {broker.cluster for broker in survey.masters if broker.broker_name in group.configs}
        )
        yield Finding(
            Severity.WARNING,
            f"group {group.name}",
            f"group {group.name} pops {', '.join(topics)}, which {verb(len(topics), 'is', 'are')} FIFO, "
            "and is not orderly itself",
            "its messages are popped side by side, in no order",
            lines(
                "if their order matters, make the group orderly, and start its members again:",
                *(
                    f"pyromq admin updateSubGroup -g {group.name} -c {cluster} -o true{survey.at}"
                    for cluster in clusters
                ),
            ),
            {"group": group.name, "topics": topics},
        )


POPS = Check(
    "pops",
    "groups that pop and do not acknowledge, or that are handed no more",
    pops,
    SurveyPart.GROUPS | SurveyPart.MOTION,
)
