"""The bounds of a read: the words, offsets and times of the options turned into offsets of queues."""

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from pyromq.errors import PyroError
from pyromq.model import MessageQueue
from pyromq.wire.bodies.offset_bodies import TopicOffset
from pyspark_rocketmq.failures import ReadFailed, lost, place
from pyspark_rocketmq.source.places import EARLIEST, LATEST, Offsets, Times
from pyspark_rocketmq.source.source_options import Bound, End, OnLoss

_log = logging.getLogger("pyspark_rocketmq")


@dataclass(slots=True)
class Losses:
    """The handling of messages that are gone: `gaps` are those that were skipped."""

    policy: OnLoss
    gaps: dict[MessageQueue, list[tuple[int, int]]] = field(default_factory=dict)

    def note(self, queue: MessageQueue, start: int, end: int, why: str) -> None:
        """Raise MessagesLost, or pass over the messages from `start` to before `end`."""
        if self.policy is OnLoss.FAIL:
            raise lost(queue, start, why)
        if self.policy is OnLoss.REPORT:
            _log.warning("messages %d to %d are lost: %s: %s", start, end - 1, place(queue, start), why)
            self.gaps.setdefault(queue, []).append((start, end))


def known_edges(
    edges: Mapping[MessageQueue, TopicOffset | PyroError],
) -> dict[MessageQueue, TopicOffset]:
    """Return where the queues begin and end; raise ReadFailed when that is not known of one."""
    known: dict[MessageQueue, TopicOffset] = {}
    for queue, found in edges.items():
        if isinstance(found, PyroError):
            raise ReadFailed(f"{place(queue)}: {found}") from found
        known[queue] = found
    return known


class Answers(Protocol):
    """Whoever knows the queues: a cluster, or one together with an archive."""

    def by_time(self, times: Mapping[MessageQueue, int]) -> dict[MessageQueue, int]:
        """Return the offset of the first message of each queue that was stored at or after a time."""

    def committed(self, queues: Sequence[MessageQueue]) -> dict[MessageQueue, int | None]:
        """Return how far the group got in each queue, None where it never was."""


def resolve(
    cluster: Answers, bound: Bound, edges: Mapping[MessageQueue, TopicOffset], losses: Losses
) -> dict[MessageQueue, int]:
    """Return the offset of each queue that a bound means, within what is there.

    Raises ReadFailed when it names a queue that is not read, leaves one out that is, or is behind the end.
    """
    if isinstance(bound, Times):
        times = {queue: bound.get(queue) for queue in edges}
        _check_named(bound.option, times, [named for named, _ in bound.named])
        return cluster.by_time({queue: at_ms for queue, at_ms in times.items() if at_ms is not None})
    if isinstance(bound, Offsets):
        offsets = {queue: bound.get(queue) for queue in edges}
        _check_named(bound.option, offsets, [named for named, _ in bound.named])
        option = bound.option
    elif bound is End.GROUP:
        # A group that never read a queue has all of it before it.
        committed = cluster.committed(list(edges))
        offsets = {queue: EARLIEST if at is None else at for queue, at in committed.items()}
        option = "startingOffsets 'group'"
    else:
        offsets = dict.fromkeys(edges, EARLIEST if bound is End.EARLIEST else LATEST)
        option = ""
    return {
        queue: _within(option, queue, LATEST if at is None else at, edges[queue], losses)
        for queue, at in offsets.items()
    }


def _within(option: str, queue: MessageQueue, offset: int, ends: TopicOffset, losses: Losses) -> int:
    if offset == EARLIEST:
        return ends.min_offset
    if offset == LATEST:
        return ends.max_offset
    if offset > ends.max_offset:
        raise ReadFailed(
            f"{option}: {place(queue, offset)}: the queue ends at {ends.max_offset}; give an offset up to "
            "that, -1 for the end, or -2 for the first message there is"
        )
    if offset < ends.min_offset:
        losses.note(
            queue, offset, ends.min_offset, f"the first message that is still there is {ends.min_offset}"
        )
        return ends.min_offset
    return offset


def _check_named(
    option: str, found: Mapping[MessageQueue, int | None], named: Sequence[tuple[str, str | None, int]]
) -> None:
    missing = [queue for queue, at in found.items() if at is None]
    if missing and named:
        names = ", ".join(f"{queue.topic}/{queue.broker_name}/{queue.queue_id}" for queue in missing)
        raise ReadFailed(
            f"{option}: {names} is read, but not named there; add it (-2 is the first message, -1 the end), "
            "or choose the queues to read with assign"
        )
    for topic, broker, queue_id in named:
        if not any(
            (queue.topic, queue.queue_id) == (topic, queue_id) and broker in (None, queue.broker_name)
            for queue in found
        ):
            raise ReadFailed(
                f"{option}: topic {topic!r}, queue {queue_id}{f' of {broker}' if broker else ''} is not "
                "among the queues that are read; take it out, or correct subscribe or assign"
            )
