"""The engine of a pull consumer that subscribes or assigns: it reads ahead of the application, on its loop.

    upkeep:   routes → heartbeat → members → share of the queues ─► Shelf: queues come and go
    readers:  one task a queue: pull, held by the broker while there is nothing ─► Shelf: batches
    take:     the application ◄─ Shelf

Progress is committed every five seconds by the upkeep, before a queue is let go, and at the end.
"""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Final, TypeAlias

from pyromq.client.aio.runner import Runner
from pyromq.client.allocation import Allocate
from pyromq.client.namespaces import unwrap_queue, wrap
from pyromq.client.plans import membership, progress
from pyromq.client.plans.polling import Start, starting_offset
from pyromq.client.plans.presence import keep_routes_fresh
from pyromq.client.plans.pull import Wanted, pull, pull_deadline
from pyromq.client.plans.route import subscribe_route
from pyromq.client.push import in_use
from pyromq.client.push.shares import share
from pyromq.client.push.subscriptions import SQL92, subscription
from pyromq.client.push.timers import Tasks, every, guarded, wait
from pyromq.client.session import Session
from pyromq.client.shelf import Batch, ReadQueue, Shelf, to_commit
from pyromq.client.steps import Deadline, Plan
from pyromq.codes import RequestCode
from pyromq.config.settings import ClientSettings
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
from pyromq.model import MessageQueue, PullStatus
from pyromq.net.routes import Request, Route, RouteTable
from pyromq.wire.bodies.heartbeat import ConsumerPart, ConsumeType, Subscription

_log = logging.getLogger("pyromq.client")

#: Seconds until a queue is read again whose pull failed, or that a busy broker refused.
FAILURE_PAUSE_S: Final = 1.0
BUSY_PAUSE_S: Final = 0.02
#: Seconds until queues are shared again when that failed: from, and at most the usual interval.
RETRY_S_FIRST: Final = 0.5

#: What passes by itself. Of anything else the application is told: without it, nothing would ever come.
_PASSING: Final = (NetworkError, NoRoute, ServerFailed, ServiceNotAvailable, SystemBusy, TopicNotFound)

#: Told a topic and its queues when they are others than before; may be a coroutine function.
QueuesChanged: TypeAlias = Callable[[str, list[MessageQueue]], Awaitable[None] | None]


@dataclass(frozen=True, slots=True)
class Terms:
    """How a consumer reads: from where, with which share of the queues, and who commits."""

    group: str
    start: Start
    allocate: Allocate
    auto_commit: bool
    namespace: str = ""


class Reading:
    """What one consumer reads. Once it is started, all is called on the loop of its `runner`."""

    def __init__(self, runner: Runner, terms: Terms) -> None:
        self._runner = runner
        self._group = group = terms.group
        self._terms = terms
        self._shelf = Shelf()
        self._subscriptions: dict[str, Subscription] = {}
        self._assigned: dict[str, Subscription] = {}
        self._to_assign: list[MessageQueue] = []
        self._listeners: dict[str, QueuesChanged] = {}
        self._queues_seen: dict[str, list[MessageQueue]] = {}
        self._lent: Batch | None = None
        self._leaving: list[ReadQueue] = []
        self._readers: dict[ReadQueue, asyncio.Task[None]] = {}
        self._reading = Tasks(f"pyromq-reading-{group}")
        self._upkeep = Tasks(f"pyromq-upkeep-{group}")
        self._is_started = False
        #: Whether every topic was shared the last time.
        self._is_shared = True
        self._greeted: set[str] = set()
        #: The client id under which this group was taken in this process.
        self._entered: str | None = None
        #: Whether the brokers know what is subscribed now.
        self._is_known = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()
        self._woken = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether it was told what to read."""
        return bool(self._subscriptions or self._assigned)

    @property
    def is_needed(self) -> bool:
        """Whether it has anything to do."""
        return self.is_wanted or bool(self._listeners)

    # What to read ---------------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str, sql: str | None, version: int) -> None:
        """Read this member's share of a topic, from soon on."""
        if self._assigned:
            raise ConfigError("this consumer was assigned queues; use another one to subscribe")
        name = wrap(self._terms.namespace, topic)
        self._subscriptions[topic] = subscription(name, tags, sql, version=version)
        self._begin()

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        if self._subscriptions.pop(topic, None) is not None:
            self._release(self._shelf.drop(queue for queue in self._shelf.queues if queue.topic == topic))
            self._is_known = False
            self._woken.set()

    def assign(self, queues: Iterable[MessageQueue], tags: str, sql: str | None) -> None:
        """Read these queues and no others, whoever else reads them."""
        if self._subscriptions:
            raise ConfigError("this consumer subscribes to topics; use another one to assign queues")
        wanted = list(queues)
        if not wanted:
            raise ConfigError("no queue is assigned; give at least one")
        self._assigned = {queue.topic: subscription(queue.topic, tags, sql, version=0) for queue in wanted}
        self._to_assign = wanted
        self._begin()

    def listen(self, topic: str, listener: QueuesChanged) -> None:
        """Tell a listener when a topic has other queues than now."""
        self._listeners[topic] = listener
        self._begin()

    @property
    def assignment(self) -> list[MessageQueue]:
        """The queues that are read."""
        return self._shelf.queues

    # Life -----------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin with what was subscribed or assigned before."""
        settings = self._runner.session.settings
        self._shelf.count_max = settings.pull_threshold_for_queue
        self._shelf.mib_max = settings.pull_threshold_size_for_queue
        self._is_started = True
        self._begin()

    async def stop(self) -> None:
        """End all reading; `farewell` is still to be said."""
        self._is_started = False
        await self._upkeep.cancel()
        await self._reading.cancel()
        if self._entered is not None:
            in_use.leave(self._entered, self._group)
        self._arrived.set()

    def farewell(self, session: Session) -> Plan[None]:
        """Commit what is finished, and leave the group."""
        if self._terms.auto_commit:
            yield from _commit_all(session, self._shelf.readers + self._leaving)
        for address in self._greeted:
            yield from membership.leave(session, address)

    def share_anew(self) -> None:
        """Look soon who reads what: the broker says that members came or went."""
        self._woken.set()

    # Taking ---------------------------------------------------------------------------------------------

    async def take(self, timeout_ms: int) -> Batch | None:
        """Return messages, or None when none came in time; all that was handed out before is finished.

        Raises what brokers say when they refuse every queue for good.
        """
        if not self.is_wanted:
            raise ConfigError("nothing to read: subscribe to a topic or assign queues first")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1_000
        self._shelf.finish()
        while True:
            _ = self._runner.session  # raises ClientClosed when it was closed meanwhile
            if self._lent is not None:
                # An iteration that was left has handed out only a part.
                self._shelf.give_back(self._lent)
            self._lent = batch = self._shelf.take()
            if batch is not None:
                self._make_room()
                return batch
            refusal = self._shelf.refusal()
            if refusal is not None and not isinstance(refusal, _PASSING):
                raise refusal
            self._arrived.clear()
            try:
                async with asyncio.timeout(deadline - loop.time()):
                    await self._arrived.wait()
            except TimeoutError:
                return None

    def pause(self, queues: Iterable[MessageQueue], *, is_paused: bool) -> None:
        """Hold queues back, or let them go on."""
        self._shelf.pause(queues, is_paused=is_paused)
        self._make_room()
        self._arrived.set()

    async def seek(self, queue: MessageQueue, offset: int | None, *, to_end: bool = False) -> None:
        """Go on at an offset of a queue, or at its begin or end."""
        self._shelf.reader(queue)
        session = self._runner.session
        first = await self._runner.run(progress.min_offset(session, queue, _api_deadline(session)))
        last = await self._runner.run(progress.max_offset(session, queue, _api_deadline(session)))
        if offset is None:
            offset = last if to_end else first
        if not first <= offset <= last:
            raise ConfigError(f"{queue} has the offsets {first} to {last}; it cannot be read from {offset}")
        old = self._shelf.reader(queue)
        new = self._shelf.seek(queue, offset)
        self._stop_reader(old)
        self._start_readers([new])

    async def commit(self) -> None:
        """Commit all that was handed out; raise the first failure, after all were tried."""
        self._shelf.finish()
        session = self._runner.session
        failure = await self._runner.run(_commit_all(session, self._shelf.readers))
        if failure is not None:
            raise failure

    def note_committed(self, queue: MessageQueue, offset: int) -> None:
        """Note what the application committed itself."""
        self._shelf.note_committed(queue, offset)

    def finish(self) -> None:
        """Note that the application is through with all that it was given."""
        self._shelf.finish()

    # Upkeep ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._is_started or not self.is_needed:
            return
        if self._to_assign:
            self._use(self._to_assign, self._shelf.queues)
            self._to_assign = []
        if self._subscriptions and self._entered is None:
            identity = self._runner.session.identity
            in_use.enter(identity.client_id, self._group)
            self._entered = identity.client_id
        if not len(self._upkeep):
            self._start_upkeep(self._runner.session.settings)
        self._is_known = False
        self._woken.set()

    def _start_upkeep(self, settings: ClientSettings) -> None:
        what = f"the upkeep of a consumer of group {self._group}"
        start = self._upkeep.start
        start(self._share_on(settings.rebalance_wait_interval / 1_000, what))
        start(every(settings.heartbeat_broker_interval / 1_000, self._beat, what=what))
        start(every(settings.persist_consumer_offset_interval / 1_000, self._commit_finished, what=what))
        start(every(settings.poll_name_server_interval / 1_000, self._look_for_queues, what=what))

    async def _share_on(self, interval_s: float, what: str) -> None:
        retry_s = RETRY_S_FIRST
        while True:
            await wait(self._woken, interval_s if self._is_shared else min(retry_s, interval_s))
            self._woken.clear()
            self._is_shared = False
            await guarded(self._share_all, what=what)
            retry_s = RETRY_S_FIRST if self._is_shared else 2 * retry_s
            await guarded(self._look_for_new_queues, what=what)

    async def _share_all(self) -> None:
        """Take this member's share of every topic."""
        session, run = self._runner.session, self._runner.run
        is_shared = True
        for topic in list(self._subscriptions):
            name = wrap(self._terms.namespace, topic)
            try:
                route = await run(subscribe_route(session, name, _api_deadline(session)))
                if not self._is_known or not self._greeted.issuperset(session.routes.master_addresses()):
                    await self._beat()
                members = await run(membership.consumer_ids(session, name))
            except (NetworkError, NoRoute, Refused) as error:
                _log.warning("the queues of topic %s are not shared anew: %s", topic, error)
                is_shared = False
                continue
            # Shared by their names on the wire, which some strategies hash; known here by the application's.
            allocate, client_id = self._terms.allocate, session.identity.client_id
            shares = share(allocate, session.group, client_id, route.read_queues, members)
            own = [unwrap_queue(self._terms.namespace, queue) for queue in shares]
            before = [queue for queue in self._shelf.queues if queue.topic == topic]
            self._use([queue for queue in own if queue.topic in self._subscriptions], before)
        await self._commit_leaving()
        if not self._subscriptions:
            while self._greeted:
                await run(membership.leave(session, self._greeted.pop()))
        self._is_shared = is_shared

    async def _beat(self) -> None:
        if not self._subscriptions:
            return
        session = self._runner.session
        # Said before, so that a subscription that comes meanwhile is told by the next heartbeat.
        self._is_known = True
        part = ConsumerPart(
            group_name=session.group,
            consume_type=ConsumeType.CONSUME_ACTIVELY,
            subscriptions=list(self._subscriptions.values()),
        )
        for address in session.routes.master_addresses():
            if await self._runner.run(membership.heartbeat(session, part, address)):
                self._greeted.add(address)
            else:
                self._greeted.discard(address)

    async def _look_for_queues(self) -> None:
        """Tell listeners of topics whose queues are others than before."""
        session = self._runner.session
        for topic, listener in list(self._listeners.items()):
            queues = await self._runner.run(progress.fetch_queues(session, topic, _api_deadline(session)))
            before = self._queues_seen.get(topic)
            self._queues_seen[topic] = queues
            if before is not None and queues != before:
                told = listener(topic, queues)
                if inspect.isawaitable(told):
                    await told

    async def _look_for_new_queues(self) -> None:
        """Learn what queues the topics have whose listeners are new."""
        if self._listeners.keys() - self._queues_seen.keys():
            await self._look_for_queues()

    # Queues ---------------------------------------------------------------------------------------------

    def _use(self, wanted: Iterable[MessageQueue], before: Iterable[MessageQueue]) -> None:
        wanted = set(wanted)
        self._release(self._shelf.drop(queue for queue in before if queue not in wanted))
        self._start_readers(self._shelf.add(sorted(wanted)))

    def _start_readers(self, new: Iterable[ReadQueue]) -> None:
        for reader in new:
            self._readers[reader] = self._reading.start(self._read_on(reader))

    def _release(self, gone: Iterable[ReadQueue]) -> None:
        for reader in gone:
            self._stop_reader(reader)
            self._leaving.append(reader)

    def _stop_reader(self, reader: ReadQueue) -> None:
        task = self._readers.pop(reader, None)
        if task is not None:
            task.cancel()

    async def _commit_leaving(self) -> None:
        leaving, self._leaving = self._leaving, []
        if leaving and self._terms.auto_commit:
            await self._runner.run(_commit_all(self._runner.session, leaving))

    async def _commit_finished(self) -> None:
        if self._terms.auto_commit:
            await self._runner.run(_commit_all(self._runner.session, self._shelf.readers))

    def _make_room(self) -> None:
        room, self._room = self._room, asyncio.Event()
        room.set()

    async def _read_on(self, reader: ReadQueue) -> None:
        """Read a queue until it is let go."""
        while not reader.is_dropped:
            try:
                await self._read_once(reader)
                reader.failure = None
            except PyroError as error:
                _log.warning("queue %s was not read: %s", reader.queue, error)
                reader.failure = error
                self._arrived.set()
                await asyncio.sleep(BUSY_PAUSE_S if isinstance(error, SystemBusy) else FAILURE_PAUSE_S)
            except Exception:  # noqa: BLE001  a reader outlives its own mistakes
                _log.exception("reading queue %s failed; it is tried again", reader.queue)
                await asyncio.sleep(FAILURE_PAUSE_S)

    async def _read_once(self, reader: ReadQueue) -> None:
        session, run, queue = self._runner.session, self._runner.run, reader.queue
        while not self._shelf.may_pull(reader):
            await self._room.wait()
        if reader.failure is not None:
            # The broker may be elsewhere by now.
            name = wrap(self._terms.namespace, queue.topic)
            await run(subscribe_route(session, name, _api_deadline(session)))
        if not reader.is_placed:
            reader.place(*(await run(starting_offset(session, self._terms.start, queue))))
        wanted = self._wanted(reader, session)
        result = await run(pull(session, wanted, pull_deadline(session, wanted.wait_ms, None)))
        self._shelf.put(reader, result)
        if result.messages:
            self._arrived.set()
        elif result.status is PullStatus.OFFSET_ILLEGAL:
            _log.warning("%s has no offset %s; it is read from %s", queue, wanted.offset, result.next_offset)
            if result.next_offset == wanted.offset:
                await asyncio.sleep(FAILURE_PAUSE_S)

    def _wanted(self, reader: ReadQueue, session: Session) -> Wanted:
        chosen = (self._subscriptions or self._assigned)[reader.queue.topic]
        is_sql = chosen.expression_type == SQL92
        return Wanted(
            reader.queue,
            reader.next_offset,
            session.settings.pull_batch_size,
            ALL if is_sql else chosen.sub_string,
            session.settings.broker_suspend_max_time_millis,
            chosen.sub_string if is_sql else None,
        )


def new_reading(name: str, new_session: Callable[[], Session], terms: Terms) -> tuple[Runner, Reading]:
    """Return a client's life and what it reads; brokers may tell it that members came or went."""
    routes = RouteTable(())
    runner = Runner(name, new_session, keep_routes_fresh, handle=routes)
    reading = Reading(runner, terms)

    def share_anew(_request: Request[None]) -> None:
        reading.share_anew()

    routes.add([Route(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, share_anew)])
    return runner, reading


def _commit_all(session: Session, readers: Iterable[ReadQueue]) -> Plan[PyroError | None]:
    """Commit what is finished, and return the first failure; what failed is left for the next time."""
    failure: PyroError | None = None
    for reader in to_commit(readers):
        offset = reader.finished
        try:
            yield from progress.commit(session, reader.queue, offset, _api_deadline(session))
        except (NetworkError, NoRoute, Refused) as error:
            _log.warning(
                "progress of group %s in %s was not committed: %s", session.group, reader.queue, error
            )
            failure = failure or error
        else:
            reader.committed = offset
    return failure


def _api_deadline(session: Session) -> Deadline:
    return session.deadline(None, session.settings.mq_client_api_timeout)
