"""The outlet of a pull consumer that subscribes or assigns: it reads ahead of polls and iterations.

ConsumerEngine: queues come and go, pulls ─► BatchShelf: batches ─► `take`: the application
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from pyromq.client.client_session import Session
from pyromq.client.consumer.batch_shelf import BatchShelf, PulledBatch, ReadQueue, common_refusal
from pyromq.client.consumer.consumer_engine import ConsumerEngine
from pyromq.client.consumer.group_member import ConsumerOutlet, GroupMember
from pyromq.client.consumer.pull_terms import PullTerms
from pyromq.client.consumer.topic_subscription import SQL92, subscription
from pyromq.client.consumer.watching import QueuesChanged, Watching
from pyromq.client.namespaces import unwrap_queue, wrap, wrap_queue
from pyromq.client.plans import progress_plans
from pyromq.client.plans.pull_plans import PullQuery, pull_all, pull_deadline
from pyromq.client.steps import Plan
from pyromq.errors import (
    ConfigError,
    NetworkError,
    NoRoute,
    PyroError,
    Refused,
    ServerFailed,
    ServiceNotAvailable,
    SystemBusy,
    TopicNotFound,
)
from pyromq.filter.tags import ALL
from pyromq.model import MessageQueue, PullResult, ReceivedMessage
from pyromq.wire.bodies.heartbeat_bodies import Subscription

#: Errors that pass by themselves. Any other is raised: without it, the application would wait for ever.
_PASSING: Final = (NetworkError, NoRoute, ServiceNotAvailable, SystemBusy, TopicNotFound)


class PollOutlet(ConsumerOutlet[ReadQueue]):
    """Reads for one pull consumer. Once it is started, all is called on its loop.

    Its arguments and results have the application's names; inside, names are those on the wire.
    """

    _member: GroupMember[ReadQueue]

    def __init__(self, terms: PullTerms, *, on_threads: bool = False) -> None:
        self._namespace = terms.settings.namespace
        self._engine: ConsumerEngine[ReadQueue] = ConsumerEngine(
            terms.name, terms.new_session, terms.member, self._namespace
        )
        self.runner = self._engine.runner
        self._watching = Watching(self.runner, on_threads=on_threads)
        self._shelf = BatchShelf()
        self._assigned: dict[str, Subscription] = {}
        self._to_assign: list[MessageQueue] = []
        self._lent: list[PulledBatch] = []
        self._is_started = False
        self._arrived = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether it was told what to read."""
        return bool(self._engine.subscriptions or self._assigned)

    @property
    def is_needed(self) -> bool:
        """Whether it has anything to do."""
        return self.is_wanted or self._watching.is_needed

    @property
    def session(self) -> Session:
        """The session; raises ClientClosed unless the consumer is running."""
        return self._engine.session

    # What to read ---------------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str, sql: str | None) -> None:
        """Read this member's share of a topic, from soon on."""
        if self._assigned:
            raise ConfigError("this consumer was assigned queues; use another one to subscribe")
        self._engine.subscribe(topic, tags, sql)
        self._begin()

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        self._engine.unsubscribe(topic)
        if self._is_started:
            name = wrap(self._namespace, topic)
            self._release(state for state in self._member.queues.values() if state.queue.topic == name)

    def assign(self, queues: Iterable[MessageQueue], tags: str, sql: str | None) -> None:
        """Read these queues and no others, whoever else reads them."""
        if self._engine.subscriptions:
            raise ConfigError("this consumer subscribes to topics; use another one to assign queues")
        wanted = [wrap_queue(self._namespace, queue) for queue in queues]
        if not wanted:
            raise ConfigError("no queue is assigned; give at least one")
        self._assigned = {queue.topic: subscription(queue.topic, tags, sql, version=0) for queue in wanted}
        self._to_assign = wanted
        self._begin()

    def listen(self, topic: str, listener: QueuesChanged) -> None:
        """Tell a listener when a topic has other queues than now."""
        self._watching.listen(topic, listener)
        self._begin()

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read."""
        owned = self._member.assignment if self._is_started else []
        return [unwrap_queue(self._namespace, queue) for queue in owned]

    # Life -----------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Begin with what was subscribed or assigned before."""
        await self._engine.open(self._with_member)
        self._is_started = True
        self._begin()

    async def end(
        self, *, is_finished: bool, farewell: Callable[[Session], Plan[None]] | None = None
    ) -> None:
        """End; messages that were handed out last count as finished, or not."""
        if is_finished:
            self._finish()
        await self._watching.stop()
        await self._engine.close(farewell)

    def _with_member(self, member: GroupMember[ReadQueue]) -> "PollOutlet":
        self._member = member
        return self

    def _begin(self) -> None:
        if not self._is_started or not self.is_needed:
            return
        self._watching.begin()
        if self._to_assign:
            wanted, self._to_assign = set(self._to_assign), []
            self._release(state for queue, state in self._member.queues.items() if queue not in wanted)
            for state in self._engine.rebalancer.own(sorted(wanted.difference(self._member.assignment))):
                self._engine.rebalancer.pulls.start(state)
            self._engine.begin_commits()
        if self._engine.subscriptions:
            self._engine.join()

    def _release(self, states: Iterable[ReadQueue]) -> None:
        """Let queues go: at once for the application, and soon for the group, when they are committed."""
        gone = [state for state in states if not state.is_dropped]
        for state in gone:
            state.is_leaving = True
            self._engine.rebalancer.drop(state)
        if gone:
            self._engine.tasks.start(self._engine.rebalancer.let_go([state.queue for state in gone]))

    # Taking ---------------------------------------------------------------------------------------------

    async def take(self, timeout_ms: int, batches_max: int = 1) -> list[PulledBatch]:
        """Return what waits, or nothing when none came in time; all that was handed out before is finished.

        Raises what brokers say when they refuse every queue for good.
        """
        if not self.is_wanted:
            raise ConfigError("nothing to read: subscribe to a topic or assign queues first")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1_000
        self._finish()
        while True:
            _ = self.session  # raises ClientClosed when it was closed meanwhile
            # An iteration that was left has handed out only a part.
            self._shelf.give_back(self._lent)
            self._lent = self._shelf.take(batches_max)
            if self._lent:
                self._member.has_room.set()
                return self._lent
            refusal = self._engine.rebalancer.denial or common_refusal(self._member.queues.values())
            if refusal is not None and not self._will_pass(refusal):
                raise refusal
            self._arrived.clear()
            try:
                async with asyncio.timeout(deadline - loop.time()):
                    await self._arrived.wait()
            except TimeoutError:
                return []

    async def poll(self, timeout_ms: int) -> list[ReceivedMessage]:
        """Return the messages of the next batch, or none when none came in time."""
        return [message for batch in await self.take(timeout_ms) for message in batch.rest()]

    def _will_pass(self, refusal: PyroError) -> bool:
        wanted = self._engine.subscriptions or self._assigned
        if isinstance(refusal, Refused) and refusal.is_denied:
            return False
        is_sql = any(each.expression_type == SQL92 for each in wanted.values())
        # A broker that does not filter by SQL says so by the code that it has for its own mistakes.
        return isinstance(refusal, _PASSING) or (isinstance(refusal, ServerFailed) and not is_sql)

    def pause(self, queues: Iterable[MessageQueue], *, is_paused: bool) -> None:
        """Hold queues back, or let them go on; those of others are passed over, as in RocketMQ."""
        owned = self._member.queues if self._is_started else {}
        for queue in queues:
            state = owned.get(wrap_queue(self._namespace, queue))
            if state is not None:
                state.is_paused = is_paused
        if self._is_started:
            self._member.has_room.set()
        self._arrived.set()

    async def seek(self, queue: MessageQueue, offset: int | None, *, to_end: bool = False) -> None:
        """Go on at an offset of a queue, or at its begin or end."""
        self._owned(queue)
        session, run = self.session, self.runner.run
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        first = await run(progress_plans.min_offset(session, queue, deadline))
        last = await run(progress_plans.max_offset(session, queue, deadline))
        if offset is None:
            offset = last if to_end else first
        if not first <= offset <= last:
            raise ConfigError(f"{queue} has the offsets {first} to {last}; it cannot be read from {offset}")
        self._engine.rebalancer.begin_anew(self._owned(queue), offset)

    async def commit(self) -> None:
        """Commit all that was handed out; raise the first failure, after all were tried."""
        self._finish()
        failure = await self._member.save(self._member.queues.values())
        if failure is not None:
            raise failure

    async def note_committed(self, queue: MessageQueue, offset: int) -> None:
        """Note an offset that the application committed itself."""
        state = self._member.queues.get(wrap_queue(self._namespace, queue))
        if state is not None:
            state.progress.note_committed(offset)

    def _finish(self) -> None:
        """Note that the application is done with everything that it was given."""
        for state in self._member.queues.values() if self._is_started else ():
            state.progress.finish()

    def _owned(self, queue: MessageQueue) -> ReadQueue:
        owned = self._member.queues if self._is_started else {}
        state = owned.get(wrap_queue(self._namespace, queue))
        if state is None or state.is_dropped:
            raise ConfigError(
                f"{queue} is not assigned to this consumer: it may be another member's, or the queues are "
                "not shared out yet; assignment() says which are"
            )
        return state

    # The outlet -----------------------------------------------------------------------------------------

    def new_queue(self, queue: MessageQueue, now_ms: int) -> ReadQueue:
        """Return the state of a queue that is taken."""
        return ReadQueue(queue, now_ms)

    def pull(self, state: ReadQueue) -> Plan[PullResult]:
        """Return the plan of a queue's next pull; the filter travels with it."""
        session = self._member.session
        chosen = (self._engine.subscriptions or self._assigned)[state.queue.topic]
        is_sql = chosen.expression_type == SQL92
        wait_ms = session.settings.broker_suspend_max_time_millis
        wanted = PullQuery(
            unwrap_queue(self._namespace, state.queue),
            state.progress.next_offset,
            session.settings.pull_batch_size,
            ALL if is_sql else chosen.sub_string,
            wait_ms,
            chosen.sub_string if is_sql else None,
        )
        return pull_all(session, wanted, pull_deadline(session, wait_ms, None))

    def pulled(self, state: ReadQueue, result: PullResult) -> None:
        """Take the answer of a pull."""
        self._shelf.put(state, result)
        if result.messages:
            self._arrived.set()

    def note_failure(self) -> None:
        """Let whoever waits for messages look whether they can still come."""
        self._arrived.set()

    def dropped(self, _state: ReadQueue) -> None:
        """Hand out nothing of a queue any more."""
        self._shelf.forget_dropped()

    async def close(self) -> None:
        """Let whoever waits for messages hear that the consumer is closed."""
        self._arrived.set()
