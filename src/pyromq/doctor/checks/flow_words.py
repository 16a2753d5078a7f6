"""Words and facts that the findings about lag share."""

from collections.abc import Sequence

from pyromq.client.observation.counts import TopicFlow
from pyromq.doctor.group_seen import GroupSeen
from pyromq.doctor.words import lasted, place_of
from pyromq.model import MessageQueue


def oldest(group: GroupSeen, queues: Sequence[MessageQueue]) -> str:
    """Return a sentence about the message that waits for longest."""
    waits_ms = max((group.waits_ms.get(queue, 0) for queue in queues), default=0)
    return f"The oldest waits for {lasted(waits_ms / 1_000)}"


def rate_words(flow: TopicFlow) -> str:
    """Return how many messages come in and go out."""
    return f"{flow.in_rate:,.1f} a second come in, {flow.out_rate:,.1f} go out"


def flow_facts(flow: TopicFlow, waits_ms: int) -> dict[str, object]:
    """Return a flow for programs, with the time for which its oldest message has been waiting."""
    return {
        "lag": flow.lag,
        "lag_before": flow.lag_before,
        "in_a_second": round(flow.in_rate, 3),
        "out_a_second": round(flow.out_rate, 3),
        "catches_up_in_s": flow.catches_up_in_s,
        "queues": {place_of(queue): behind for queue, behind in flow.lags.items()},
        "oldest_waits_ms": waits_ms,
    }


def group_facts(group: GroupSeen, flow: TopicFlow) -> dict[str, object]:
    """Return a group's flow for programs."""
    waits_ms = max((group.waits_ms.get(queue, 0) for queue in flow.lags), default=0)
    own = {"group": group.name, "topic": flow.topic, "members": len(group.client_ids)}
    return own | flow_facts(flow, waits_ms)
