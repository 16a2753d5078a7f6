"""What findings about lag share."""

from collections.abc import Sequence

from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.motion import Flow
from pyromq.doctor.survey import Survey
from pyromq.doctor.words import lasted, place_of
from pyromq.model import MessageQueue


def oldest(group: GroupSeen, queues: Sequence[MessageQueue]) -> str:
    """Return a sentence about the message that waits for longest."""
    waits_ms = max((group.waits_ms.get(queue, 0) for queue in queues), default=0)
    return f"The oldest waits for {lasted(waits_ms / 1_000)}"


def flow_facts(survey: Survey, group: GroupSeen, flow: Flow) -> dict[str, object]:
    """Return a group's flow for programs."""
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
        "queues": {place_of(queue): behind for queue, behind in flow.lags.items()},
        "oldest_waits_ms": max((group.waits_ms.get(queue, 0) for queue in flow.lags), default=0),
    }
