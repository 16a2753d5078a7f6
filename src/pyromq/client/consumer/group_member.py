"""A member of a consumer group: who it is, what it subscribes to, which queues it has.

The parts of a consumer share one `GroupMember`: the rebalancer gives it queues, pulls fill them, an outlet
(listener, poll, iteration) empties them, and `save` commits their progress. Topics, groups and queues have
their names on the wire here, with the namespace.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine, Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Generic, Protocol, TypeVar

from pyromq.client.client_session import Session
from pyromq.client.consumer.allocation import Allocate, average
from pyromq.client.consumer.consume_figures import Figures
from pyromq.client.consumer.flow_limits import limits, pop_limits, why_full
from pyromq.client.consumer.owned_queue import OwnedQueue
from pyromq.client.plans.progress_plans import GroupStart, commit_finished
from pyromq.client.steps import Plan
from pyromq.errors import PyroError
from pyromq.model import ConsumeFrom, MessageQueue, PullResult
from pyromq.wire.bodies.heartbeat_bodies import (
    ConsumeFromWhere,
    ConsumerPart,
    ConsumeType,
    MessageModel,
    Subscription,
)

T = TypeVar("T")
Q = TypeVar("Q", bound=OwnedQueue)

STARTS = {
    ConsumeFrom.LAST_OFFSET: ConsumeFromWhere.CONSUME_FROM_LAST_OFFSET,
    ConsumeFrom.FIRST_OFFSET: ConsumeFromWhere.CONSUME_FROM_FIRST_OFFSET,
    ConsumeFrom.TIMESTAMP: ConsumeFromWhere.CONSUME_FROM_TIMESTAMP,
}


class ConsumeModel(StrEnum):
    """The message model: a message goes to one member of the group, or to each."""

    CLUSTERING = "clustering"
    BROADCASTING = "broadcasting"


class ConsumeOrder(StrEnum):
    """Whether messages of one queue are handled at the same time, or one after the other."""

    CONCURRENT = "concurrent"
    ORDERLY = "orderly"


class ConsumeMode(StrEnum):
    """Whether a member pulls the queues that are its own, or pops messages of queues that all share."""

    PULL = "pull"
    POP = "pop"


@dataclass(frozen=True, slots=True)
class MemberTerms:
    """The terms of a consumer's membership: its share of the queues, where it begins, and who commits."""

    model: ConsumeModel = ConsumeModel.CLUSTERING
    order: ConsumeOrder = ConsumeOrder.CONCURRENT
    allocate: Allocate = average
    start: GroupStart = field(default_factory=GroupStart)
    #: Passively: a listener is called, and brokers know the filter from heartbeats. Actively: it polls.
    consume_type: ConsumeType = ConsumeType.CONSUME_PASSIVELY
    auto_commit: bool = True

    @property
    def is_passive(self) -> bool:
        """Whether a listener is called."""
        return self.consume_type is not ConsumeType.CONSUME_ACTIVELY

    @property
    def pops(self) -> bool:
        """Whether messages are popped; the broker knows which are done, and nobody commits."""
        return self.consume_type is ConsumeType.CONSUME_POP


class PlanRunner(Protocol):
    """Carries plans out on the member's loop."""

    def run(self, plan: Plan[T]) -> Coroutine[Any, Any, T]:
        """Carry out a plan and return its result."""
        ...


class ConsumerOutlet(ABC, Generic[Q]):
    """The way of messages out of a consumer: to a listener, or to whoever polls and iterates."""

    @abstractmethod
    def new_queue(self, queue: MessageQueue, now_ms: int) -> Q:
        """Return the state of a queue that is taken."""

    @abstractmethod
    def pull(self, state: Q) -> Plan[PullResult]:
        """Return the plan of a queue's next pull."""

    @abstractmethod
    def pulled(self, state: Q, result: PullResult) -> None:
        """Take the answer of a pull."""

    def note_failure(self) -> None:
        """Hear that a pull failed or a broker denied a heartbeat; the error is kept where it happened."""

    def dropped(self, state: Q) -> None:
        """Hand out nothing of a queue any more."""

    async def let_go(self, _state: Q) -> bool:
        """Wait until nobody works on a queue; return False when that takes too long."""
        return True

    async def rest(self, patience_s: float) -> None:
        """Wait until nobody works on any queue, but not longer than that."""

    async def close(self) -> None:
        """End work on messages; what is finished after this is not committed."""

    def shown(self) -> dict[str, str]:
        """Return what operators are told of this outlet, by RocketMQ's names."""
        return {}


@dataclass(slots=True)
class GroupMember(Generic[Q]):
    """One started consumer. Its subscriptions are the engine's own table, which may change at any time."""

    session: Session
    driver: PlanRunner
    terms: MemberTerms
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    queues: dict[MessageQueue, Q] = field(default_factory=dict)
    figures: Figures = field(default_factory=Figures)
    #: Set while the consumer is not suspended.
    is_resumed: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set when brokers are to be told what this member wants: it changed, or one does not know it.
    is_unknown: asyncio.Event = field(default_factory=asyncio.Event)
    #: Set whenever messages left a queue or a queue was resumed: one that was not pulled may have room.
    has_room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_clustering(self) -> bool:
        """Whether the group's members share the queues."""
        return self.terms.model is ConsumeModel.CLUSTERING

    @property
    def is_orderly(self) -> bool:
        """Whether messages of one queue are handled one after the other."""
        return self.terms.order is ConsumeOrder.ORDERLY

    @property
    def has_locks(self) -> bool:
        """Whether a queue is read by the member that holds its lock at the broker."""
        return self.is_orderly and self.is_clustering and not self.terms.pops

    def why_full(self, state: OwnedQueue) -> str | None:
        """Return why a queue is not to be pulled now, or None: the span matters to listeners out of order."""
        if self.terms.pops:
            return why_full(state, pop_limits(self.session.settings), is_orderly=True)
        in_order = self.is_orderly or not self.terms.is_passive
        return why_full(state, limits(self.session.settings, len(self.queues)), is_orderly=in_order)

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are this member's now, sorted."""
        return sorted(queue for queue, state in self.queues.items() if not state.is_dropped)

    def now_ms(self) -> int:
        """Return the time."""
        return self.session.clock.now_ms()

    def part(self, *changed: Subscription) -> ConsumerPart:
        """Return what heartbeats say of this member; `changed` is what it wants from now on."""
        wanted = self.subscriptions | {one.topic: one for one in changed}
        where = STARTS[self.terms.start.where]
        return ConsumerPart(
            group_name=self.session.group,
            consume_type=self.terms.consume_type,
            message_model=MessageModel[self.terms.model.name],
            consume_from_where=where if self.terms.is_passive else STARTS[ConsumeFrom.LAST_OFFSET],
            subscriptions=sorted(wanted.values(), key=lambda one: one.topic),
            unit_mode=self.session.settings.unit_mode,
        )

    async def save(self, states: Iterable[OwnedQueue]) -> PyroError | None:
        """Commit what is finished in queues, and return the first failure; all are logged.

        Brokers remember it; in broadcasting a local file does, which is written once for all queues. Of a
        queue that was dropped to be begun anew nothing is committed.
        """
        session, run = self.session, self.driver.run
        kept = [state for state in states if not state.is_dropped or state.is_leaving]
        due = {state.queue: state.progress for state in kept if state.progress.due is not None}
        if session.local is not None:
            return await run(commit_finished(session, due)) if due else None
        tried = [run(commit_finished(session, {queue: progress})) for queue, progress in due.items()]
        failures = await asyncio.gather(*tried)
        return next((failure for failure in failures if failure is not None), None)
