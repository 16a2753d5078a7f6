"""A push consumer: the engine of every consumer, with a listener as its outlet."""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pyromq.client.client_session import Session, new_local_offsets, new_session
from pyromq.client.consumer.broker_requests import check_group
from pyromq.client.consumer.consumer_engine import ConsumerEngine
from pyromq.client.consumer.group_member import ConsumeModel, ConsumeOrder, GroupMember, MemberTerms
from pyromq.client.consumer.incoming import received_messages
from pyromq.client.consumer.intervals import every
from pyromq.client.consumer.rebalancer import Rebalancer
from pyromq.client.consumer.topic_subscription import SQL92, retry_topic, subscription
from pyromq.client.hooks import ConsumeHook
from pyromq.client.plans.membership_plans import check_subscription
from pyromq.client.plans.pop_plans import assignments
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.client.pop.pop_concurrent import PopConcurrent
from pyromq.client.pop.pop_consumption import PopConsumption
from pyromq.client.pop.pop_orderly import PopOrderly
from pyromq.client.pop.pop_rebalancer import PopRebalancer
from pyromq.client.push.calling import ListenerCaller, Listening, TaskCaller, ThreadCaller, call_now
from pyromq.client.push.concurrent import ConcurrentConsumption
from pyromq.client.push.consume_outcome import Work
from pyromq.client.push.consumption import Consumption
from pyromq.client.push.delivery import ConsumeResult
from pyromq.client.push.orderly import OrderlyConsumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.tracing.trace import Tracer
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
from pyromq.errors import ConfigError, NetworkError, PyroError, UnknownTopic
from pyromq.net.routes import Answer, Request, Route
from pyromq.wire.bodies.running_info import DirectConsumption, DirectResult, encode_direct_consumption
from pyromq.wire.headers.group_headers import ConsumeMessageDirectly

_log = logging.getLogger("pyromq.client")

_DIRECT = {
    ConsumeResult.SUCCESS: DirectResult.SUCCESS,
    ConsumeResult.RECONSUME_LATER: DirectResult.LATER,
    ConsumeResult.COMMIT: DirectResult.COMMIT,
    ConsumeResult.ROLLBACK: DirectResult.ROLLBACK,
}


_PULLING: dict[ConsumeOrder, Callable[[GroupMember[ProcessQueue], ListenerCaller], Consumption]] = {
    ConsumeOrder.CONCURRENT: ConcurrentConsumption,
    ConsumeOrder.ORDERLY: OrderlyConsumption,
}
_POPPING: dict[ConsumeOrder, Callable[[GroupMember[ProcessQueue], ListenerCaller], Consumption]] = {
    ConsumeOrder.CONCURRENT: PopConcurrent,
    ConsumeOrder.ORDERLY: PopOrderly,
}


@dataclass(frozen=True, slots=True)
class PushTerms:
    """The arguments of a push consumer, checked."""

    group: str
    addresses: tuple[str, ...]
    settings: ClientSettings
    member: MemberTerms
    call: Callable[[Work], object]
    hooks: tuple[ConsumeHook, ...] = ()
    #: The tracer that takes the notes of the hook that traces, if there is one.
    tracer: Tracer | None = None
    #: Whether the listener is called on threads, and not on the loop.
    on_threads: bool = False


class PushEngine:
    """One push consumer on one asyncio loop."""

    _caller: ListenerCaller
    _consumption: Consumption

    def __init__(self, terms: PushTerms) -> None:
        self._terms = terms
        self._name = f"consumer {terms.group}"
        self._engine: ConsumerEngine[ProcessQueue] = ConsumerEngine(
            self._name, self._new_session, terms.member, terms.settings.namespace
        )
        self._engine.table.add(self.routes())

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Want messages of a topic, from now on if the consumer is started."""
        self._engine.subscribe(topic, tags, sql)

    def unsubscribe(self, topic: str) -> None:
        """Want no more of a topic."""
        self._engine.unsubscribe(topic)

    def routes(self) -> list[Route[Any]]:
        """Return the requests of brokers that only a push consumer answers."""
        return [Route(RequestCode.CONSUME_MESSAGE_DIRECTLY, self._consume, ConsumeMessageDirectly)]

    @property
    def member(self) -> GroupMember[ProcessQueue]:
        """The subscriptions and queues; raises ClientClosed unless the consumer is running."""
        _ = self._engine.session
        return self._engine.member

    def suspend(self, *, is_suspended: bool) -> None:
        """Pull nothing while suspended; what was pulled is still consumed."""
        _ = self.member
        self._engine.suspend(is_suspended=is_suspended)

    def resize(self, size: int) -> None:
        """Let more or fewer listener calls run at once."""
        at_most = self._terms.settings.consume_thread_max
        if not 1 <= size <= at_most:
            raise ConfigError(
                f"{size} listener calls at once; at least 1 and at most {at_most} (consume_thread_max) may be"
            )
        _ = self.member
        self._caller.resize(size)

    # Life ---------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Join the group; listeners are called from now on."""
        engine = self._engine
        pops = self._terms.member.pops
        await engine.open(self._new_consumption, PopRebalancer if pops else Rebalancer)
        try:
            engine.rebalancer.enter()
            await self._learn_routes()
            await self._check_filters()
            await engine.rebalancer.tell_brokers()
            if pops:
                await self._check_pop()
            engine.join()
            what = f"the upkeep of {self._name}"
            if isinstance(self._consumption, ConcurrentConsumption):
                overdue_s = self._terms.settings.consume_timeout * 60.0
                engine.tasks.start(every(overdue_s, self._consumption.send_overdue_back, what=what))
            if isinstance(self._consumption, PopConsumption):
                engine.tasks.start(every(self._consumption.renewal_s, self._consumption.renew, what=what))
        except BaseException:
            await engine.abandon()
            raise

    def check_not_in_listener(self) -> None:
        """Raise RuntimeError when a listener of this consumer asks, which would wait for itself."""
        if self._engine.is_open and self._caller.is_calling_here():
            raise RuntimeError(
                f"{self._name} was closed by its own listener, for whose end the closing waits; let the "
                "listener tell another thread or task, by an Event, to close it"
            )

    async def close(self) -> None:
        """Wait for listeners, commit what is finished, and leave the group. Closing again does nothing."""
        is_open = self._engine.is_open
        try:
            await self._engine.close()
        finally:
            if is_open and self._terms.tracer is not None:
                await asyncio.to_thread(self._terms.tracer.close)

    def _new_session(self) -> Session:
        terms = self._terms
        is_local = terms.member.model is ConsumeModel.BROADCASTING
        local = new_local_offsets(terms.group, terms.settings) if is_local else None
        return new_session(terms.group, terms.addresses, terms.settings, local=local)

    def _new_consumption(self, member: GroupMember[ProcessQueue]) -> Consumption:
        if member.is_clustering and not member.terms.pops:
            name = retry_topic(member.session.group)
            self._engine.subscriptions[name] = subscription(name, version=member.now_ms())
        self._caller = self._new_caller(member.session)
        kinds = _POPPING if member.terms.pops else _PULLING
        self._consumption = kinds[member.terms.order](member, self._caller)
        return self._consumption

    def _new_caller(self, session: Session) -> ListenerCaller:
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
        await asyncio.gather(*(self._learn_route(topic) for topic in tuple(self._engine.subscriptions)))

    async def _learn_route(self, topic: str) -> None:
        session = self.member.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        try:
            await self._engine.runner.run(subscribe_route(session, topic, deadline))
        except PyroError as error:
            # The first rebalance logs a topic that nobody has created yet.
            is_expected = topic == retry_topic(session.group) or isinstance(error, UnknownTopic)
            _log.log(logging.DEBUG if is_expected else logging.WARNING, "%s: %s", self._name, error)

    async def _check_filters(self) -> None:
        """Have SQL checked before the start; a broker without it would never send a message."""
        session = self.member.session
        for wanted in tuple(self._engine.subscriptions.values()):
            if wanted.expression_type == SQL92 and session.routes.get(wanted.topic) is not None:
                await self._engine.runner.run(check_subscription(session, wanted))

    async def _check_pop(self) -> None:
        """Have a broker that does not know POP say so before the start; it would never send a message."""
        session = self.member.session
        for topic in tuple(self._engine.subscriptions):
            if session.routes.get(topic) is not None:
                try:
                    await self._engine.runner.run(assignments(session, topic))
                except NetworkError as error:
                    _log.warning("%s: %s", self._name, error)

    # A message that an operator has consumed ------------------------------------------------------------

    async def _consume(self, request: Request[ConsumeMessageDirectly]) -> Answer:
        header = request.header
        check_group(self.member, header.consumer_group)
        messages = received_messages(request.body, header.broker_name or "")
        self._consumption.restore_topics(messages)
        work = Work(None, messages, messages[0].queue)
        await call_now(self._caller, work)
        return Answer(body=encode_direct_consumption(_direct(work, is_orderly=self.member.is_orderly)))


def _direct(work: Work, *, is_orderly: bool) -> DirectConsumption:
    result, remark = _DIRECT[work.verdict], None
    if work.error is not None:
        result, remark = DirectResult.THROW_EXCEPTION, f"{type(work.error).__name__}: {work.error}"
    return DirectConsumption(
        order=is_orderly,
        auto_commit=work.delivery.auto_commit,
        consume_result=result,
        remark=remark,
        spent_time_mills=work.spent_ms,
    )
