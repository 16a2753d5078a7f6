"""Who reads which queue: the share of this member, and what changes with it."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from pyromq.client.allocation import Allocate
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.model import MessageQueue


@dataclass(frozen=True, slots=True)
class Changes:
    """Queues of one topic to let go, and queues to take."""

    gone: list[MessageQueue]
    new: list[MessageQueue]


def share(
    allocate: Allocate,
    group: str,
    client_id: str,
    queues: Collection[MessageQueue],
    client_ids: Sequence[str],
) -> set[MessageQueue]:
    """Return what of a topic is this member's: all members sort alike, so all calculate alike."""
    return set(allocate(group, client_id, sorted(queues), sorted(client_ids)))


def changes(
    topic: str,
    wanted: Collection[MessageQueue],
    owned: Mapping[MessageQueue, ProcessQueue],
    now_ms: int,
    idle_ms: int,
) -> Changes:
    """Compare a member's share of a topic with what it has.

    A queue that nobody pulled for `idle_ms`, or that could not be let go before, is let go although it is
    wanted, and taken anew the next time.
    """
    gone = [
        queue
        for queue, state in owned.items()
        if queue.topic == topic
        and (queue not in wanted or state.is_leaving or state.is_pull_idle(now_ms, idle_ms))
    ]
    new = sorted(queue for queue in wanted if queue not in owned)
    return Changes(gone, new)


def without_subscription(owned: Collection[MessageQueue], topics: Collection[str]) -> list[MessageQueue]:
    """Return the queues of topics that are no longer subscribed."""
    return [queue for queue in owned if queue.topic not in topics]
