"""Compares a group before and after the watch: which queues moved, and which stood still. Pure functions.

The *head* of a queue is the first message that its member has fetched and not finished. While the head
stays the same, the group's progress cannot go on, whatever happens to the messages behind it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyromq.client.observation.counts import TopicFlow, topic_flows
from pyromq.doctor.group_seen import GroupLook, GroupSeen, GroupsSeen
from pyromq.filter.tags import wants_all
from pyromq.model import MessageQueue
from pyromq.wire.bodies.heartbeat_bodies import ConsumeType, Subscription
from pyromq.wire.bodies.running_info import QueueState, RunningState

#: A head that stays for less than this many times the usual duration of a message is just being consumed.
USUAL_TIMES: Final = 3
#: Milliseconds that a broker may hold a pull while messages come that its filter does not want: their offsets
#: are passed when it ends.
HELD_MS: Final = 30_000
#: Milliseconds in which a client that reads has committed its progress: most do so every five seconds.
COMMITTED_MS: Final = 10_000


@dataclass(frozen=True, slots=True)
class Still:
    """A queue whose head was the same at both looks."""

    client_id: str
    queue: MessageQueue
    head: int
    in_hand: int
    #: For how many milliseconds at least.
    for_ms: int
    #: Whether something was done meanwhile: behind the head, or with the head again and again.
    is_busy: bool
    is_orderly: bool
    #: Whether the member pulls, and is not pushed.
    is_polled: bool


@dataclass(frozen=True, slots=True)
class UnfetchedQueue:
    """A queue that its member did not fetch from between the looks: messages are there, or it has no lock."""

    client_id: str
    queue: MessageQueue
    reached: int
    end: int
    is_locked: bool = True


def is_orderly(state: RunningState) -> bool:
    """Whether a member consumes in order."""
    return state.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"


def is_polled(state: RunningState) -> bool:
    """Whether a member pulls, and is not pushed: such a one commits what it has read every few seconds."""
    return state.properties.get("PROP_CONSUME_TYPE") == ConsumeType.CONSUME_ACTIVELY


def is_filtered(wanted: Subscription) -> bool:
    """Whether a subscription leaves out messages."""
    return wanted.expression_type not in ("", "TAG") or not wants_all(wanted.sub_string)


def in_hand(state: QueueState) -> int:
    """Return how many messages of a queue a member has: waiting, or with its listener."""
    return state.cached_msg_count + state.transaction_msg_count


def head(state: QueueState) -> int:
    """Return the first offset of those that a member has."""
    if not state.transaction_msg_count:
        return state.cached_msg_min_offset
    if not state.cached_msg_count:
        return state.transaction_msg_min_offset
    return min(state.cached_msg_min_offset, state.transaction_msg_min_offset)


def still_queues(group: GroupSeen, groups: GroupsSeen) -> list[Still]:
    """Return the queues whose first message was not finished while they were watched."""
    found = []
    for client_id, queue, before, after in _both(group):
        if not in_hand(before) or not in_hand(after) or head(before) != head(after):
            continue
        state = group.latest.states[client_id]
        if _is_unlocked(group, state, before, after):
            continue
        is_busy = after.last_consume_timestamp != before.last_consume_timestamp
        watched_ms = int(groups.watched_s * 1_000)
        for_ms = watched_ms
        if not is_busy and after.last_consume_timestamp:
            for_ms = max(watched_ms, _now_of(state, groups) - after.last_consume_timestamp)
        usual = state.topics.get(queue.topic)
        if usual is not None and for_ms < USUAL_TIMES * usual.consume_rt:
            continue
        found.append(
            Still(
                client_id,
                queue,
                head=head(after),
                in_hand=in_hand(after),
                for_ms=for_ms,
                is_busy=is_busy,
                is_orderly=is_orderly(state),
                is_polled=is_polled(state),
            )
        )
    return found


def _now_of(state: RunningState, groups: GroupsSeen) -> int:
    """Return about what a member's own clock says, which may be wrong: members pull every few seconds."""
    return max((one.last_pull_timestamp for one in state.queues.values()), default=0) or groups.looked_at_ms


def unread_queues(group: GroupSeen, groups: GroupsSeen) -> list[UnfetchedQueue]:
    """Return the queues that have messages of which their member fetched none while they were watched."""
    if group.after is None:
        return []
    reached, later = group.before.reached(), group.after.reached()
    found = []
    for client_id, queue, before, after in _both(group):
        if not group.is_clustering:
            # Each member has its own progress, which no broker knows.
            reached, later = reached_by(group.before, client_id), reached_by(group.after, client_id)
        end, at = groups.queues.get(queue), reached.get(queue)
        if end is None:
            continue
        end_later = groups.latest_queues.get(queue, end).max_offset
        if _is_unlocked(group, group.after.states[client_id], before, after):
            found.append(UnfetchedQueue(client_id, queue, at or 0, end_later, is_locked=False))
        elif (
            at is not None
            and at == later.get(queue)
            and at < end.max_offset
            and not in_hand(before)
            and not in_hand(after)
        ):
            found.append(UnfetchedQueue(client_id, queue, at, end_later))
    return found


def _is_unlocked(group: GroupSeen, state: RunningState, before: QueueState, after: QueueState) -> bool:
    """Whether a queue that is to be consumed in order was without its lock at both looks."""
    return is_orderly(state) and group.is_clustering and not before.locked and not after.locked


def waits_ms(
    group: GroupSeen, queue: MessageQueue, groups: GroupsSeen, client_id: str | None = None
) -> int | None:
    """Return for how long a queue's first unread message waits; for one member, where each reads all."""
    if group.is_clustering or client_id is None or group.after is None:
        return group.waits_ms.get(queue)
    at = reached_by(group.after, client_id).get(queue)
    return None if at is None else groups.waits_ms.get((queue, at))


def has_patience(
    group: GroupSeen, queue: MessageQueue, groups: GroupsSeen, client_id: str | None = None
) -> bool:
    """Whether a queue's first unread message waits for so short a time that it says nothing."""
    waits = waits_ms(group, queue, groups, client_id)
    wanted = group.subscriptions.get(queue.topic)
    least_ms = max(
        groups.watched_s * 1_000,
        HELD_MS if wanted is not None and is_filtered(wanted) else 0,
        0 if _is_told_at_once(group, queue) else COMMITTED_MS,
    )
    return waits is not None and waits < least_ms


def _is_told_at_once(group: GroupSeen, queue: MessageQueue) -> bool:
    """Whether somebody who has a queue says itself how far it is, and not only now and then to its broker."""
    return any(
        queue in state.queues and not is_polled(state) and state.queues[queue].commit_offset >= 0
        for state in group.latest.states.values()
    )


def flows(group: GroupSeen, groups: GroupsSeen) -> dict[str, TopicFlow]:
    """Return the flow of each topic in which the group's offsets are known before and after the watch."""
    if group.after is None:
        return {}
    return _flows(group.before.reached(), group.after.reached(), groups)


def flows_of(group: GroupSeen, client_id: str, groups: GroupsSeen) -> dict[str, TopicFlow]:
    """Return the flows of one member of a broadcasting group, by its own offsets."""
    if group.after is None:
        return {}
    return _flows(reached_by(group.before, client_id), reached_by(group.after, client_id), groups)


def reached_by(look: GroupLook, client_id: str) -> dict[MessageQueue, int]:
    """Return how far one member is in its queues: what it has finished, or the first that it has in hand."""
    found = {}
    state = look.states.get(client_id)
    for queue, of_queue in {} if state is None else state.queues.items():
        if of_queue.commit_offset >= 0:
            found[queue] = of_queue.commit_offset
        elif in_hand(of_queue):
            found[queue] = head(of_queue)
    return found


def _flows(
    reached: Mapping[MessageQueue, int], later: Mapping[MessageQueue, int], groups: GroupsSeen
) -> dict[str, TopicFlow]:
    ends, ends_later = (
        {queue: edge.max_offset for queue, edge in each.items()}
        for each in (groups.queues, groups.queues_later)
    )
    return topic_flows((reached, later), (ends, ends_later), groups.watched_s)


def _both(group: GroupSeen) -> Iterator[tuple[str, MessageQueue, QueueState, QueueState]]:
    """Yield the queues that a member had at both looks, with their states."""
    if group.after is None:
        return
    before = {(client_id, queue): state for client_id, queue, state in group.before.queues()}
    for client_id, queue, state in group.after.queues():
        if (client_id, queue) in before:
            yield client_id, queue, before[client_id, queue], state
