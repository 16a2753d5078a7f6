"""The engine of every consumer: one member of one group, on one asyncio loop.

    subscriptions ─► Rebalancer: heartbeats, shares, locks ─► queues come and go
    QueuePulls: one task a queue ─► outlet: a listener's calls, or the shelf of polls and iterations
    outlet ─► QueueProgress: what is finished ─► commits at intervals, when a queue goes, and at the end

A push consumer and a pull consumer differ in their outlet only.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Generic

from pyromq.client.aio.runner import Runner
from pyromq.client.client_session import Session
from pyromq.client.consumer.broker_requests import BrokerRequests
from pyromq.client.consumer.group_member import ConsumerOutlet, GroupMember, MemberTerms, Q
from pyromq.client.consumer.intervals import OwnedTasks, every, whenever
from pyromq.client.consumer.rebalancer import Rebalancer
from pyromq.client.consumer.topic_subscription import subscription
from pyromq.client.namespaces import wrap
from pyromq.client.plans.presence_plans import keep_routes_fresh
from pyromq.client.steps import Plan
from pyromq.clock import SystemClock
from pyromq.errors import ClientClosed
from pyromq.model import MessageQueue
from pyromq.net.routes import RequestTable
from pyromq.wire.bodies.heartbeat_bodies import Subscription

#: Seconds that listeners may go on with what they have before a reset holds; RocketMQ's wait always.
RESET_PATIENCE_S = 10.0


class ConsumerEngine(Generic[Q]):
    """Subscriptions, queues and progress of one consumer. `member` and what follows exist from `open` on."""

    member: GroupMember[Q]
    outlet: ConsumerOutlet[Q]
    rebalancer: Rebalancer[Q]

    def __init__(
        self, name: str, new_session: Callable[[], Session], terms: MemberTerms, namespace: str
    ) -> None:
        self._name = name
        self._new_session = new_session
        self._terms = terms
        self._namespace = namespace
        #: By the topic's name on the wire.
        self.subscriptions: dict[str, Subscription] = {}
        self._requests = BrokerRequests(self)
        self.table = RequestTable(self._requests.routes())
        self.runner = self._new_runner()
        self.tasks = OwnedTasks(f"pyromq-{name}")
        self.is_open = self._is_member = self._is_committing = False
        self._is_closing = self._is_suspended = False
        self._moves = 0
        self._known_queues: dict[str, Any] = {}

    # Subscriptions ------------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Want messages of a topic, soon if the consumer is a member."""
        name = wrap(self._namespace, topic)
        self.subscriptions[name] = subscription(name, tags, sql, version=SystemClock().now_ms())
        self._changed()

    def unsubscribe(self, topic: str) -> None:
        """Want no more of a topic; its queues are let go soon."""
        self.subscriptions.pop(wrap(self._namespace, topic), None)
        self._changed()

    # Life ---------------------------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session; raises ClientClosed before the start, once `close` began, and after a fork."""
        session = self.runner.session
        if not self.is_open:
            raise ClientClosed(f"{self._name} is closed; make a new one")
        return session

    async def open(
        self,
        new_outlet: Callable[[GroupMember[Q]], ConsumerOutlet[Q]],
        new_rebalancer: Callable[[GroupMember[Q], ConsumerOutlet[Q]], Rebalancer[Q]] = Rebalancer,
    ) -> None:
        """Open connections; the group is joined by `join`."""
        await self.runner.start()
        self.member = GroupMember(self.runner.session, self.runner, self._terms, self.subscriptions)
        self.outlet = new_outlet(self.member)
        self.rebalancer = new_rebalancer(self.member, self.outlet)
        self.is_open = True
        self._apply_suspension()

    def join(self) -> None:
        """Become a member of the group. Raises AlreadyStarted when this client id is one in this process."""
        self.rebalancer.enter()
        if not self._is_member:
            self._is_member = True
            settings, rebalancer = self.member.session.settings, self.rebalancer
            start, what = self.tasks.start, f"the upkeep of {self._name}"
            start(rebalancer.keep_balanced(settings.rebalance_wait_interval / 1_000, what))
            beat_s = settings.heartbeat_broker_interval / 1_000
            start(whenever(self.member.is_unknown, beat_s, rebalancer.tell_brokers, what=what))
            if self.member.has_locks:
                start(every(settings.rebalance_lock_interval / 1_000, rebalancer.renew_locks, what=what))
            self.begin_commits()
        self.want_rebalance()

    def begin_commits(self) -> None:
        """Commit what is finished at intervals, if commits are automatic."""
        if self._terms.auto_commit and not self._is_committing:
            self._is_committing = True
            interval_s = self.member.session.settings.persist_consumer_offset_interval / 1_000
            self.tasks.start(every(interval_s, self._save, what=f"the commits of {self._name}"))

    async def close(self, farewell: Callable[[Session], Plan[None]] | None = None) -> None:
        """End work on messages, commit what is finished, leave the group. Closing again does nothing."""
        if self._is_closing:
            return
        self._is_closing = True
        is_open, self.is_open = self.is_open, False
        try:
            if is_open:
                await self._requests.close()
                await self.tasks.cancel()
                await self.rebalancer.pulls.close()
                await self.outlet.close()
                await self.rebalancer.close()
        finally:
            if is_open:
                self.rebalancer.leave_table()
            await self.runner.close(farewell)

    async def abandon(self) -> None:
        """Undo a start that failed; another may follow."""
        if self.is_open:
            self.is_open = self._is_member = self._is_committing = False
            self.rebalancer.leave_table()
            await self.tasks.cancel()
        await self.runner.close()
        self.runner = self._new_runner()

    # Suspension and resets ----------------------------------------------------------------------------

    def suspend(self, *, is_suspended: bool) -> None:
        """Pull nothing while suspended; what was pulled is still consumed."""
        self._is_suspended = is_suspended
        self._apply_suspension()

    def want_rebalance(self) -> None:
        """Look soon at who reads which queue."""
        if self.is_open:
            self.rebalancer.is_wanted.set()

    async def move(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at other offsets in queues of this member, once listeners have ended, or after 10 s."""
        moved = [state for queue, state in self.member.queues.items() if queue in offsets]
        if not moved:
            return
        self._moves += 1
        self._apply_suspension()
        try:
            for state in moved:
                self.rebalancer.drop(state)
            await self.outlet.rest(RESET_PATIENCE_S)
            await asyncio.gather(*(self.rebalancer.go_on(state, offsets[state.queue]) for state in moved))
        finally:
            self._moves -= 1
            self._apply_suspension()

    # --------------------------------------------------------------------------------------------------

    def _new_runner(self) -> Runner:
        return Runner(self._name, self._new_session, self._keep_routes, handle=self.table)

    def _keep_routes(self, session: Session) -> Plan[None]:
        return keep_routes_fresh(session, lambda: self._look_at_routes(session))

    def _look_at_routes(self, session: Session) -> None:
        """Have queues shared at once when topics have other queues than before."""
        routes = {topic: session.routes.get(topic) for topic in self.subscriptions}
        queues = {topic: route and route.read_queues for topic, route in routes.items()}
        if queues != self._known_queues:
            self._known_queues = queues
            self.want_rebalance()

    async def _save(self) -> None:
        await self.member.save(tuple(self.member.queues.values()))

    def _changed(self) -> None:
        """Tell brokers and share queues anew, if this is a member."""
        if self.is_open and self._is_member:
            self.member.is_unknown.set()
            self.want_rebalance()

    def _apply_suspension(self) -> None:
        if not self.is_open:
            return
        if self._is_suspended or self._moves:
            self.member.is_resumed.clear()
        else:
            self.member.is_resumed.set()
            self.want_rebalance()
