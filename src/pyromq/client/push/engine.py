"""A push consumer's life: what it is made of, what runs at which interval, how it starts and ends."""

import asyncio
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyromq.client.allocation import Allocate
from pyromq.client.background import akeep_up
from pyromq.client.broadcast_offsets import offsets_file
from pyromq.client.drivers import Asyncio
from pyromq.client.hooks import ConsumeHook
from pyromq.client.namespaces import wrap
from pyromq.client.plans.membership import check_subscription, leave
from pyromq.client.plans.presence import follow_name_servers
from pyromq.client.plans.route import refresh_routes, subscribe_route
from pyromq.client.push import in_use
from pyromq.client.push.calling import Caller, Listening, TaskCaller, ThreadCaller
from pyromq.client.push.concurrent import ConcurrentConsumption
from pyromq.client.push.delivery import ConsumeModel, ConsumeOrder
from pyromq.client.push.incoming import Incoming
from pyromq.client.push.member import Member
from pyromq.client.push.orderly import OrderlyConsumption
from pyromq.client.push.outcome import Work
from pyromq.client.push.progress import BrokerProgress, LocalProgress, Progress
from pyromq.client.push.pulling import Pulling
from pyromq.client.push.rebalance import Rebalancer
from pyromq.client.push.subscriptions import SQL92, retry_topic, subscription
from pyromq.client.push.timers import Tasks, every, whenever
from pyromq.client.session import Session, net_settings, new_session
from pyromq.client.signing import signer
from pyromq.client.trace import Tracer
from pyromq.clock import SystemClock
from pyromq.config.settings import ClientSettings
from pyromq.errors import AlreadyStarted, ClientClosed, ConfigError, PyroError, UnknownTopic
from pyromq.filter.tags import ALL
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.net.links import Links
from pyromq.net.routes import RouteTable
from pyromq.wire.bodies.heartbeat import Subscription

_log = logging.getLogger("pyromq.client")


@dataclass(frozen=True, slots=True)
class Terms:
    """What a consumer was told when it was made."""

    group: str
    addresses: tuple[str, ...]
    settings: ClientSettings
    call: Callable[[Work], object]
    model: ConsumeModel
    order: ConsumeOrder
    allocate: Allocate
    consume_from: ConsumeFrom
    start_ms: int
    hooks: tuple[ConsumeHook, ...] = ()
    #: Who takes the notes of the hook that traces, if there is one.
    tracer: Tracer | None = None
    #: Whether the listener is called on threads, and not on the loop.
    on_threads: bool = False


class Engine:
    """One push consumer on one asyncio loop."""

    member: Member
    caller: Caller
    started_ms: int

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._name = f"consumer {terms.group}"
        self._subscriptions: dict[str, Subscription] = {}
        self._pid = 0
        self._is_started = False
        self._is_closed = False
        self._is_suspended = False
        self._moves = 0
        self._timers = Tasks(f"pyromq-{self._name}")
        self._incoming = Incoming(lambda: self)

    # What is wanted -----------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str = ALL, sql: str | None = None) -> None:
        """Want messages of a topic, from now on if the consumer is started."""
        name = wrap(self._terms.settings.namespace, topic)
        self._subscriptions[name] = subscription(name, tags, sql, version=SystemClock().now_ms())
        self._changed()

    def unsubscribe(self, topic: str) -> None:
        """Want no more of a topic."""
        self._subscriptions.pop(wrap(self._terms.settings.namespace, topic), None)
        self._changed()

    def suspend(self) -> None:
        """Pull nothing until `resume`; what was pulled is still consumed."""
        self._is_suspended = True
        self._apply_suspension()

    def resume(self) -> None:
        """Go on after `suspend`."""
        self._is_suspended = False
        self._apply_suspension()

    def resize(self, size: int) -> None:
        """Let more or fewer listener calls run at once."""
        at_most = self._terms.settings.consume_thread_max
        if not 1 <= size <= at_most:
            raise ConfigError(
                f"{size} listener calls at once; at least 1 and at most {at_most} (consume_thread_max) may be"
            )
        self.check_running()
        self.caller.resize(size)

    # Life ---------------------------------------------------------------------------------------------

    @property
    def is_running(self) -> bool:
        """Whether it is started, in this process, and not closed."""
        return self._is_started and not self._is_closed and self._pid == os.getpid()

    def check_running(self) -> None:
        """Raise ClientClosed unless it is running."""
        if not self.is_running:
            raise ClientClosed(self._complaint())

    async def start(self) -> None:
        """Join the group; listeners are called from now on."""
        if self._is_closed or (self._pid and self._pid != os.getpid()):
            raise ClientClosed(self._complaint())
        if self._is_started:
            raise AlreadyStarted(f"{self._name} is started already; start it once")
        self._is_started, self._pid = True, os.getpid()
        try:
            session = self._new_session()
            in_use.enter(session.identity.client_id, session.group)
        except PyroError:
            self._is_started = False
            raise
        try:
            await self._open(session)
        except BaseException:
            await self._abandon(session)
            raise

    def check_not_in_listener(self) -> None:
        """Raise RuntimeError when a listener of this consumer asks, which would wait for itself."""
        if self.is_running and self.caller.is_calling_here():
            raise RuntimeError(
                f"{self._name} was closed by its own listener, for whose end the closing waits; let the "
                "listener tell another thread or task, by an Event, to close it"
            )

    async def close(self) -> None:
        """Wait for listeners, commit what is finished, and leave the group. Closing again does nothing."""
        if self._is_closed or not self.is_running:
            self._is_closed = True
            return
        self._is_closed = True
        member, session = self.member, self.member.session
        grace_s = session.settings.await_termination_millis_when_shutdown / 1_000
        try:
            await self._incoming.close()
            await self._timers.cancel()
            await self._pulling.close()
            await self.caller.close(grace_s)
            await self._consumption.settle(grace_s)
            await member.progress.save(tuple(member.queues), confirmed=True)
            await self._rebalancer.close()
            addresses = session.routes.all_addresses()
            await asyncio.gather(*(member.driver.run(leave(session, address)) for address in addresses))
        finally:
            in_use.leave(session.identity.client_id, session.group)
            await member.driver.close()
            if self._terms.tracer is not None:
                await asyncio.to_thread(self._terms.tracer.close)

    # What brokers ask for -----------------------------------------------------------------------------

    def want_rebalance(self) -> None:
        """Look soon at who reads which queue."""
        if self.is_running:
            self._rebalancer.is_wanted.set()

    async def move(self, offsets: dict[MessageQueue, int], patience_s: float) -> None:
        """Go on at new offsets once listeners have ended or after that time; nothing is pulled till then."""
        member = self.member
        moved = {queue: offset for queue, offset in offsets.items() if queue in member.queues}
        if not moved:
            return
        self._moves += 1
        self._apply_suspension()
        try:
            for queue in moved:
                state = member.queues[queue]
                state.is_dropped = True
                state.clear()
            await self.caller.rest(patience_s)
            for queue, offset in moved.items():
                member.progress.offsets.set(queue, offset)
                await self._rebalancer.let_go(queue)
        finally:
            self._moves -= 1
            self._apply_suspension()

    # Starting -----------------------------------------------------------------------------------------

    def _new_session(self) -> Session:
        terms = self._terms
        is_broadcasting = terms.model is ConsumeModel.BROADCASTING
        return new_session(terms.group, terms.addresses, terms.settings, keeps_instance=is_broadcasting)

    async def _open(self, session: Session) -> None:
        terms = self._terms
        self.started_ms = session.clock.now_ms()
        table = RouteTable(self._incoming.routes())
        links = Links(net_settings(session.settings), handle=table, name=self._name)
        driver = Asyncio(links, signer(session.settings))
        self._driver = driver
        if terms.model is ConsumeModel.CLUSTERING:
            name = retry_topic(session.group)
            self._subscriptions[name] = subscription(name, version=self.started_ms)
        self.member = member = Member(
            session=session,
            driver=driver,
            model=terms.model,
            order=terms.order,
            consume_from=terms.consume_from,
            start_ms=terms.start_ms,
            subscriptions=self._subscriptions,
            progress=self._new_progress(session, driver),
        )
        self.caller = self._new_caller(session)
        orderly = OrderlyConsumption(member, self.caller) if member.is_orderly else None
        self._consumption = orderly or ConcurrentConsumption(member, self.caller)
        self._rebalancer = Rebalancer(member, terms.allocate, orderly)
        self._pulling = Pulling(member, self._consumption, self._rebalancer.let_go)
        self._rebalancer.pulling = self._pulling
        self._apply_suspension()
        await self._learn_routes()
        await self._check_filters()
        await self._rebalancer.tell_brokers()
        self._start_timers()
        self._rebalancer.is_wanted.set()

    def _new_progress(self, session: Session, driver: Asyncio) -> Progress:
        if self._terms.model is ConsumeModel.CLUSTERING:
            return BrokerProgress(session, driver)
        return LocalProgress(offsets_file(session.settings, session.identity.client_id, session.group))

    def _new_caller(self, session: Session) -> Caller:
        namespace = session.settings.namespace
        listening = Listening(session.group, self._terms.call, self._terms.hooks, namespace)
        # As in RocketMQ 4.9.8, whose pool has an endless queue and so never grows beyond its core; what it
        # calls every minute to adjust the core (adjustThreadPool) does nothing there.
        size = session.settings.consume_thread_min
        if self._terms.on_threads:
            return ThreadCaller(listening, size, session.clock, name=f"pyromq-listener-{session.group}")
        return TaskCaller(listening, size, session.clock)

    async def _learn_routes(self) -> None:
        """Ask for the routes of all topics; one that is not there may come later, so it is no error."""
        await asyncio.gather(*(self._learn_route(topic) for topic in tuple(self._subscriptions)))

    async def _learn_route(self, topic: str) -> None:
        session = self.member.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        try:
            await self._driver.run(subscribe_route(session, topic, deadline))
        except PyroError as error:
            # The first rebalance tells of a topic that nobody has created yet.
            is_expected = topic == retry_topic(session.group) or isinstance(error, UnknownTopic)
            _log.log(logging.DEBUG if is_expected else logging.WARNING, "%s: %s", self._name, error)

    async def _check_filters(self) -> None:
        """Have SQL checked before the start; a broker without it would never send a message."""
        session = self.member.session
        for wanted in tuple(self._subscriptions.values()):
            if wanted.expression_type == SQL92 and session.routes.get(wanted.topic) is not None:
                await self._driver.run(check_subscription(session, wanted))

    async def _abandon(self, session: Session) -> None:
        self._is_started = False
        in_use.leave(session.identity.client_id, session.group)
        await self._timers.cancel()
        if (driver := getattr(self, "_driver", None)) is not None:
            await driver.close()

    # What runs at which interval ----------------------------------------------------------------------

    def _start_timers(self) -> None:
        session, rebalancer = self.member.session, self._rebalancer
        settings = session.settings
        start, what = self._timers.start, f"the upkeep of {self._name}"
        start(every(settings.poll_name_server_interval / 1_000, self._refresh, what=what))
        if session.name_servers.source is not None:
            start(akeep_up(self._driver, session, follow_name_servers))
        start(every(settings.persist_consumer_offset_interval / 1_000, self._save, what=what))
        start(rebalancer.keep_balanced(settings.rebalance_wait_interval / 1_000, what))
        beat_s = settings.heartbeat_broker_interval / 1_000
        start(whenever(self.member.is_unknown, beat_s, rebalancer.tell_brokers, what=what))
        if isinstance(self._consumption, ConcurrentConsumption):
            overdue_s = settings.consume_timeout * 60.0
            start(every(overdue_s, self._consumption.send_overdue_back, what=what))
        elif self.member.is_clustering:
            start(every(settings.rebalance_lock_interval / 1_000, rebalancer.renew_locks, what=what))

    async def _refresh(self) -> None:
        """Ask for the routes again; other queues than before are shared out at once."""
        session = self.member.session
        before = self._known_queues(session)
        await self._driver.run(refresh_routes(session))
        if self._known_queues(session) != before:
            self.want_rebalance()

    def _known_queues(self, session: Session) -> dict[str, Any]:
        routes = {topic: session.routes.get(topic) for topic in self._subscriptions}
        return {topic: route and route.read_queues for topic, route in routes.items()}

    async def _save(self) -> None:
        await self.member.progress.save(tuple(self.member.queues), confirmed=False)

    def _changed(self) -> None:
        """Tell brokers and share queues anew, if there is anybody to tell."""
        if self.is_running:
            self.member.is_unknown.set()
            self.want_rebalance()

    def _apply_suspension(self) -> None:
        if not self.is_running:
            return
        if self._is_suspended or self._moves:
            self.member.is_resumed.clear()
        else:
            self.member.is_resumed.set()
            self.want_rebalance()

    def _complaint(self) -> str:
        if self._pid and self._pid != os.getpid():
            return f"{self._name} was started in another process; make a new one in this one"
        if self._is_closed:
            return f"{self._name} is closed; make a new one"
        return f"{self._name} is not started; call start(), or use it in a `with` block"
