"""Being a member of a group that pulls: heartbeats, and this member's share of each topic's queues.

In broadcasting a member's share is all of them.

subscribe, or a broker's word ─► routes → heartbeat → members → strategy ─► `use`: the queues from now on
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from pyromq.client.aio.runner import Runner
from pyromq.client.allocation import Allocate
from pyromq.client.namespaces import unwrap_queue, wrap
from pyromq.client.plans import membership
from pyromq.client.plans.polling import Start
from pyromq.client.plans.route import subscribe_route
from pyromq.client.push import in_use
from pyromq.client.push.delivery import ConsumeModel
from pyromq.client.push.shares import share
from pyromq.client.push.subscriptions import subscription
from pyromq.client.push.timers import Tasks, every, guarded, wait
from pyromq.client.session import Session
from pyromq.client.steps import Plan
from pyromq.errors import NetworkError, NoRoute, Refused
from pyromq.model import MessageQueue
from pyromq.wire.bodies.heartbeat import ConsumerPart, ConsumeType, MessageModel, Subscription

_log = logging.getLogger("pyromq.client")

#: Seconds until queues are shared again when that failed: from this, to at most the usual interval.
RETRY_S_FIRST: Final = 0.5


@dataclass(frozen=True, slots=True)
class Terms:
    """How a consumer reads: from where, with which share of the queues, and who commits."""

    group: str
    start: Start
    allocate: Allocate
    auto_commit: bool
    namespace: str = ""
    model: ConsumeModel = ConsumeModel.CLUSTERING


class Sharing:
    """What one member subscribes to, and the tasks that keep it a member.

    `use` is told a topic and which of its queues are this member's from now on, `on_denied` that a broker did
    not take this member into the group.
    """

    def __init__(
        self,
        runner: Runner,
        terms: Terms,
        use: Callable[[str, set[MessageQueue]], Awaitable[None]],
        on_denied: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._terms = terms
        self._use = use
        self._on_denied = on_denied
        #: By the topic's name in the application.
        self.subscriptions: dict[str, Subscription] = {}
        self._tasks = Tasks(f"pyromq-sharing-{terms.group}")
        self._woken = asyncio.Event()
        #: Whether the brokers know what is subscribed now, and those that know of this member at all.
        self._is_known = False
        self._greeted: set[str] = set()
        #: Whether every topic was shared the last time.
        self._is_shared = True
        #: The client id under which this group was taken in this process.
        self._entered: str | None = None

    def subscribe(self, topic: str, tags: str, sql: str | None, version: int) -> None:
        """Want a share of a topic; `begin` is to follow."""
        name = wrap(self._terms.namespace, topic)
        self.subscriptions[topic] = subscription(name, tags, sql, version=version)

    def unsubscribe(self, topic: str) -> bool:
        """Want nothing of a topic any more, and return whether it was wanted."""
        self._is_known = False
        return self.subscriptions.pop(topic, None) is not None

    def begin(self) -> None:
        """Become a member, or let the brokers soon know what changed."""
        session = self._runner.session
        if self.subscriptions and self._entered is None:
            in_use.enter(session.identity.client_id, session.group)
            self._entered = session.identity.client_id
        if not len(self._tasks):
            what = f"the membership of a consumer in group {session.group}"
            self._tasks.start(self._share_on(session.settings.rebalance_wait_interval / 1_000, what))
            self._tasks.start(
                every(session.settings.heartbeat_broker_interval / 1_000, self._beat, what=what)
            )
        self._is_known = False
        self._woken.set()

    def tell_anew(self) -> None:
        """Send heartbeats soon: a broker has something to say of the group, and says it in its answers."""
        self._is_known = False
        self._woken.set()

    def share_anew(self) -> None:
        """Look soon who reads what: a broker says that members came or went."""
        self._woken.set()

    @property
    def denial(self) -> Refused | None:
        """Why no broker takes this member into the group, if access control says so at all of them."""
        session = self._runner.session
        if self._greeted or not session.denials.keys() >= set(session.routes.all_addresses()):
            return None
        return next(iter(session.denials.values()), None)

    async def stop(self) -> None:
        """End the tasks; `farewell` is still to be said."""
        await self._tasks.cancel()
        if self._entered is not None:
            in_use.leave(self._entered, self._runner.session.group)
            self._entered = None

    def farewell(self, session: Session) -> Plan[None]:
        """Leave the group."""
        for address in self._greeted:
            yield from membership.leave(session, address)

    async def _share_on(self, interval_s: float, what: str) -> None:
        retry_s = RETRY_S_FIRST
        while True:
            await wait(self._woken, interval_s if self._is_shared else min(retry_s, interval_s))
            self._woken.clear()
            self._is_shared = False
            await guarded(self._share_all, what=what)
            retry_s = RETRY_S_FIRST if self._is_shared else 2 * retry_s

    async def _share_all(self) -> None:
        is_shared = True
        for topic in list(self.subscriptions):
            try:
                own = await self._share(topic)
            except (NetworkError, NoRoute, Refused) as error:
                _log.warning("the queues of topic %s are not shared anew: %s", topic, error)
                is_shared = False
            else:
                await self._use(topic, {queue for queue in own if queue.topic in self.subscriptions})
        if not self.subscriptions:
            while self._greeted:
                await self._runner.run(membership.leave(self._runner.session, self._greeted.pop()))
        self._is_shared = is_shared

    async def _share(self, topic: str) -> set[MessageQueue]:
        session, run, namespace = self._runner.session, self._runner.run, self._terms.namespace
        name = wrap(namespace, topic)
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        route = await run(subscribe_route(session, name, deadline))
        if not self._is_known or not self._greeted.issuperset(session.routes.all_addresses()):
            await self._beat()
        if self._terms.model is ConsumeModel.BROADCASTING:
            return {unwrap_queue(namespace, queue) for queue in route.read_queues}
        members = await run(membership.consumer_ids(session, name))
        allocate, client_id = self._terms.allocate, session.identity.client_id
        # Shared by their names on the wire, which some strategies hash; known here by the application's.
        shares = share(allocate, session.group, client_id, route.read_queues, members)
        return {unwrap_queue(namespace, queue) for queue in shares}

    async def _beat(self) -> None:
        if not self.subscriptions:
            return
        session = self._runner.session
        # Said before, so that a subscription that comes meanwhile is told by the next heartbeat.
        self._is_known = True
        part = ConsumerPart(
            group_name=session.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            message_model=MessageModel[self._terms.model.name],
            subscriptions=list(self.subscriptions.values()),
            unit_mode=session.settings.unit_mode,
        )
        for address in session.routes.all_addresses():
            if await self._runner.run(membership.heartbeat(session, part, address)):
                self._greeted.add(address)
            else:
                self._greeted.discard(address)
        if session.denials:
            self._on_denied()
