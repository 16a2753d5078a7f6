"""The engine of a pull consumer that subscribes or assigns: it reads ahead of the application, on its loop.

    Sharing:  this member's queues ─► Shelf: queues come and go
    readers:  one task a queue: pull, held by the broker while there is nothing ─► Shelf: batches
    take:     the application ◄─ Shelf

Progress is committed every five seconds, before a queue is let go, and at the end.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final

from pyromq.client.aio.answering import Answering
from pyromq.client.aio.runner import Runner
from pyromq.client.aio.sharing import Sharing, Terms
from pyromq.client.aio.watching import QueuesChanged, Watching
from pyromq.client.namespaces import unwrap_queue, wrap, wrap_queue
from pyromq.client.plans import progress
from pyromq.client.plans.polling import starting_offset
from pyromq.client.plans.presence import keep_routes_fresh
from pyromq.client.plans.pull import Wanted, pull_all, pull_deadline
from pyromq.client.plans.route import subscribe_route
from pyromq.client.push.delivery import ConsumeModel
from pyromq.client.push.subscriptions import SQL92, subscription
from pyromq.client.push.timers import Tasks, every, guarded
from pyromq.client.session import Session
from pyromq.client.shelf import Batch, ReadQueue, Shelf, to_commit
from pyromq.client.steps import Deadline, Plan
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
from pyromq.net.routes import RouteTable
from pyromq.wire.bodies.heartbeat import Subscription

_log = logging.getLogger("pyromq.client")

#: Seconds until a queue is read again whose pull failed, or that a busy broker refused.
FAILURE_PAUSE_S: Final = 1.0
BUSY_PAUSE_S: Final = 0.02

#: What passes by itself. Of anything else the application is told: without it, nothing would ever come.
_PASSING: Final = (NetworkError, NoRoute, ServiceNotAvailable, SystemBusy, TopicNotFound)


class Reading:
    """What one consumer reads. Once it is started, all is called on the loop of its `runner`."""

    def __init__(self, runner: Runner, terms: Terms) -> None:
        self._runner = runner
        self._terms = terms
        self._shelf = Shelf()
        self._sharing = Sharing(runner, terms, self._use_share, self._look)
        self._watching = Watching(runner)
        self._assigned: dict[str, Subscription] = {}
        self._to_assign: list[MessageQueue] = []
        self._lent: list[Batch] = []
        self._leaving: list[ReadQueue] = []
        self._readers: dict[ReadQueue, asyncio.Task[None]] = {}
        self._tasks = Tasks(f"pyromq-reading-{terms.group}")
        self._committing: asyncio.Task[None] | None = None
        self._is_started = False
        self._arrived = asyncio.Event()
        self._room = asyncio.Event()

    @property
    def is_wanted(self) -> bool:
        """Whether it was told what to read."""
        return bool(self._sharing.subscriptions or self._assigned)

    @property
    def is_needed(self) -> bool:
        """Whether it has anything to do."""
        return self.is_wanted or self._watching.is_needed

    # What to read ---------------------------------------------------------------------------------------

    def subscribe(self, topic: str, tags: str, sql: str | None, version: int) -> None:
        """Read this member's share of a topic, from soon on."""
        if self._assigned:
            raise ConfigError("this consumer was assigned queues; use another one to subscribe")
        self._sharing.subscribe(topic, tags, sql, version)
        self._begin()

    def unsubscribe(self, topic: str) -> None:
        """Read a topic no more."""
        if self._sharing.unsubscribe(topic):
            self._release(self._shelf.drop(queue for queue in self._shelf.queues if queue.topic == topic))
            self._sharing.share_anew()

    def assign(self, queues: Iterable[MessageQueue], tags: str, sql: str | None) -> None:
        """Read these queues and no others, whoever else reads them."""
        if self._sharing.subscriptions:
            raise ConfigError("this consumer subscribes to topics; use another one to assign queues")
        wanted = list(queues)
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
        await self._watching.stop()
        await self._sharing.stop()
        await self._tasks.cancel()
        self._arrived.set()

    def farewell(self, session: Session) -> Plan[None]:
        """Commit what is finished, and leave the group."""
        if self._terms.auto_commit:
            yield from _commit_all(session, self._shelf.readers + self._leaving)
        yield from self._sharing.farewell(session)

    # What brokers ask and tell ----------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """Who this consumer is."""
        return self._runner.session

    @property
    def model(self) -> ConsumeModel:
        """Whether the group's members share queues, or each reads all."""
        return self._terms.model

    @property
    def subscriptions(self) -> list[Subscription]:
        """What it wants, by the topics' names on the wire."""
        return list(self._sharing.subscriptions.values())

    @property
    def readers(self) -> dict[MessageQueue, ReadQueue]:
        """What it has, by the queues' names on the wire."""
        return {wrap_queue(self._terms.namespace, reader.queue): reader for reader in self._shelf.readers}

    async def move(self, offsets: dict[MessageQueue, int]) -> None:
        """Go on at other offsets in queues that are read, and commit them."""
        own = {unwrap_queue(self._terms.namespace, queue): offset for queue, offset in offsets.items()}
        for queue in self._shelf.queues:
            if queue in own:
                self._go_to(queue, own[queue])
        moved = [reader for reader in self._shelf.readers if reader.queue in own]
        await self._runner.run(_commit_all(self._runner.session, moved))

    def tell_anew(self) -> None:
        """Send heartbeats soon, for what brokers have to say of the group."""
        self._sharing.tell_anew()

    def share_anew(self) -> None:
        """Look soon who reads what: a broker says that members came or went."""
        self._sharing.share_anew()

    # Taking ---------------------------------------------------------------------------------------------

    async def take(self, timeout_ms: int, batches_max: int = 1) -> list[Batch]:
        """Return what waits, or nothing when none came in time; all that was handed out before is finished.

        Raises what brokers say when they refuse every queue for good.
        """
        if not self.is_wanted:
            raise ConfigError("nothing to read: subscribe to a topic or assign queues first")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_ms / 1_000
        self._shelf.finish()
        while True:
            _ = self._runner.session  # raises ClientClosed when it was closed meanwhile
            # An iteration that was left has handed out only a part.
            self._shelf.give_back(self._lent)
            self._lent = self._shelf.take(batches_max)
            if self._lent:
                self._make_room()
                return self._lent
            refusal = self._sharing.denial or self._shelf.refusal()
            if refusal is not None and not self._will_pass(refusal):
                raise refusal
            self._arrived.clear()
            try:
                async with asyncio.timeout(deadline - loop.time()):
                    await self._arrived.wait()
            except TimeoutError:
                return []

    def _will_pass(self, refusal: PyroError) -> bool:
        wanted = self._sharing.subscriptions or self._assigned
        if isinstance(refusal, Refused) and refusal.is_denied:
            return False
        is_sql = any(each.expression_type == SQL92 for each in wanted.values())
        # A broker that does not filter by SQL says so by the code that it has for its own mistakes.
        return isinstance(refusal, _PASSING) or (isinstance(refusal, ServerFailed) and not is_sql)

    def _look(self) -> None:
        """Let whoever waits for messages look again."""
        self._arrived.set()

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
        self._go_to(queue, offset)

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

    # Queues ---------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if not self._is_started or not self.is_needed:
            return
        self._watching.begin()
        if self._to_assign:
            self._use(set(self._to_assign), self._shelf.queues)
            self._to_assign = []
        if self._sharing.subscriptions:
            self._sharing.begin()
        if self._committing is None and self._terms.auto_commit:
            interval_s = self._runner.session.settings.persist_consumer_offset_interval / 1_000
            what = f"the commits of a consumer in group {self._terms.group}"
            self._committing = self._tasks.start(every(interval_s, self._commit_finished, what=what))

    async def _use_share(self, topic: str, own: set[MessageQueue]) -> None:
        self._use(own, [queue for queue in self._shelf.queues if queue.topic == topic])
        if self._leaving:
            # Whoever has them now begins where we were.
            await self._commit_finished()

    def _use(self, wanted: set[MessageQueue], before: Iterable[MessageQueue]) -> None:
        self._release(self._shelf.drop(queue for queue in before if queue not in wanted))
        self._start_readers(self._shelf.add(sorted(wanted)))

    def _go_to(self, queue: MessageQueue, offset: int) -> None:
        self._stop_reader(self._shelf.reader(queue))
        self._start_readers([self._shelf.seek(queue, offset)])

    def _start_readers(self, new: Iterable[ReadQueue]) -> None:
        for reader in new:
            self._readers[reader] = self._tasks.start(self._read_on(reader))

    def _release(self, gone: Iterable[ReadQueue]) -> None:
        for reader in gone:
            self._stop_reader(reader)
            self._leaving.append(reader)

    def _stop_reader(self, reader: ReadQueue) -> None:
        task = self._readers.pop(reader, None)
        if task is not None:
            task.cancel()

    async def _commit_finished(self) -> None:
        leaving, self._leaving = self._leaving, []
        if self._terms.auto_commit:
            await self._runner.run(_commit_all(self._runner.session, leaving + self._shelf.readers))

    def _make_room(self) -> None:
        room, self._room = self._room, asyncio.Event()
        room.set()

    async def _read_on(self, reader: ReadQueue) -> None:
        """Read a queue until it is let go."""
        pause_s = 0.0

        async def read() -> None:
            nonlocal pause_s
            pause_s = await self._read_and_note(reader)

        while not reader.is_dropped:
            pause_s = FAILURE_PAUSE_S
            await guarded(read, what=f"reading {reader.queue}")
            if pause_s:
                await asyncio.sleep(pause_s)

    async def _read_and_note(self, reader: ReadQueue) -> float:
        """Read once, note whether it failed, and return how many seconds to rest."""
        try:
            await self._read_once(reader)
        except PyroError as error:
            is_news = str(error) != str(reader.failure)
            level = logging.WARNING if is_news else logging.DEBUG
            _log.log(level, "%s was not read: %s", reader.queue, error)
            reader.failure = error
            self._arrived.set()
            return BUSY_PAUSE_S if isinstance(error, SystemBusy) else FAILURE_PAUSE_S
        reader.failure = None
        return 0.0

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
        result = await run(pull_all(session, wanted, pull_deadline(session, wanted.wait_ms, None)))
        self._shelf.put(reader, result)
        if result.messages:
            self._arrived.set()
        elif result.status is PullStatus.OFFSET_ILLEGAL:
            _log.warning("%s has no offset %s; it is read from %s", queue, wanted.offset, result.next_offset)
            if result.next_offset == wanted.offset:
                await asyncio.sleep(FAILURE_PAUSE_S)

    def _wanted(self, reader: ReadQueue, session: Session) -> Wanted:
        chosen = (self._sharing.subscriptions or self._assigned)[reader.queue.topic]
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
    """Return a client's life and what it reads; brokers may ask and tell it."""
    table = RouteTable(())
    runner = Runner(name, new_session, keep_routes_fresh, handle=table)
    reading = Reading(runner, terms)
    table.add(Answering(reading).routes())
    return runner, reading


def _commit_all(session: Session, readers: Iterable[ReadQueue]) -> Plan[PyroError | None]:
    """Commit what is finished, and return the first failure; what failed is left for the next time."""
    due = [(reader, reader.finished) for reader in to_commit(readers)]
    failures = yield from progress.commit_all(session, {reader.queue: at for reader, at in due})
    for reader, offset in due:
        if reader.queue not in failures:
            reader.committed = offset
    return next(iter(failures.values()), None)


def _api_deadline(session: Session) -> Deadline:
    return session.deadline(None, session.settings.mq_client_api_timeout)
