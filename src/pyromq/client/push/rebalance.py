"""Taking and letting go of queues: at intervals, and when a broker says that the group changed."""

import asyncio
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable

from pyromq.client.allocation import Allocate
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans import locks, progress
from pyromq.client.plans.membership import consumer_ids, heartbeat
from pyromq.client.plans.route import subscribe_route
from pyromq.client.push.member import Member
from pyromq.client.push.orderly import OrderlyConsumption
from pyromq.client.push.process_queue import ProcessQueue
from pyromq.client.push.pulling import Pulling
from pyromq.client.push.shares import changes, share, without_subscription
from pyromq.client.push.subscriptions import renewed
from pyromq.client.push.timers import guarded, wait
from pyromq.client.steps import Plan
from pyromq.errors import PyroError, UnknownTopic
from pyromq.model import ConsumeFrom, MessageQueue
from pyromq.wire.bodies.heartbeat import Subscription

_log = logging.getLogger("pyromq.client")

#: Seconds until a topic is looked at again that could not be: at first, then twice as long each time.
RETRY_S_FIRST = 0.5
#: The longest of these times while a topic is waited for that nobody has created yet.
UNKNOWN_TOPIC_S_MAX = 2.0


class Rebalancer:
    """Keeps this member's queues what they should be. One at a time calls `rebalance`."""

    def __init__(self, member: Member, allocate: Allocate, orderly: OrderlyConsumption | None) -> None:
        self._member = member
        self._allocate = allocate
        self._orderly = orderly
        self._turn = asyncio.Lock()
        #: Brokers that know this member; one that does not would leave it out of the group.
        self._greeted: set[str] = set()
        #: Queues whose locks may be this member's: also one whose answer nobody waited for.
        self._asked: set[MessageQueue] = set()
        #: Whether the last look took all that was this member's.
        self._is_complete = True
        #: Topics of the application that no name server knows; each is told once.
        self._unknown: set[str] = set()
        self.pulling: Pulling | None = None
        #: Set when a rebalance is wanted before its time.
        self.is_wanted = asyncio.Event()

    async def keep_balanced(self, interval_s: float, what: str) -> None:
        """Look at intervals, when it is wanted, and sooner again when a topic could not be looked at."""
        retry_s = RETRY_S_FIRST
        while True:
            await wait(self.is_wanted, interval_s if self._is_complete else min(retry_s, interval_s))
            self.is_wanted.clear()
            await guarded(self.rebalance, what=what)
            retry_s = next_retry_s(retry_s, is_complete=self._is_complete, is_unknown=bool(self._unknown))

    async def rebalance(self) -> None:
        """Look at all topics; nothing happens while the consumer is suspended."""
        if not self._member.is_resumed.is_set():
            return
        async with self._turn:
            self._is_complete = False
            looked = [await self._rebalance_topic(topic) for topic in tuple(self._member.subscriptions)]
            gone = without_subscription(tuple(self._member.queues), self._member.subscriptions)
            await self._let_go(gone)
            self._unknown.intersection_update(self._member.subscriptions)
            self._is_complete = all(looked)

    async def let_go(self, queue: MessageQueue) -> None:
        """Give one queue back, and look soon whether it is to be taken anew."""
        async with self._turn:
            await self._let_go([queue])
        self.is_wanted.set()

    async def tell_brokers(self, *changed: Subscription) -> None:
        """Send heartbeats to all known brokers, slaves too; `changed` is what is wanted from now on."""
        member = self._member
        part, session = member.part(*changed), member.session
        addresses = session.routes.all_addresses()
        await asyncio.gather(*(member.driver.run(heartbeat(session, part, address)) for address in addresses))

    async def renew_locks(self) -> None:
        """Lock all queues again at their brokers; one that another member got meanwhile is lost."""
        # Not while a queue is let go: a lock asked for behind its unlocking would be nobody's for a minute.
        async with self._turn:
            for queues in _by_broker(self._member.queues):
                await self._renew(queues)

    async def close(self) -> None:
        """Give all locks back; the queues are not pulled any more."""
        for state in self._member.queues.values():
            state.is_dropped = True
        if self._orderly is not None and self._member.is_clustering:
            held = self._asked.union(self._member.queues)
            await asyncio.gather(*(self._unlock(queues) for queues in _by_broker(held)))
        self._member.queues.clear()

    # One topic ----------------------------------------------------------------------------------------

    async def _rebalance_topic(self, topic: str) -> bool:
        """Look at one topic, and return whether all of this member's share is this member's now."""
        member = self._member
        try:
            wanted = await self._share(topic)
        except PyroError as error:
            self._tell(topic, error)
            return False
        except Exception:  # noqa: BLE001  the border to the application: the strategy may be its own
            _log.exception("group %s: the strategy failed for topic %s", member.session.group, topic)
            return False
        self._unknown.discard(topic)
        idle_ms = member.session.settings.pull_max_idle_time
        change = changes(topic, wanted, member.queues, member.now_ms(), idle_ms)
        gone = await self._let_go(change.gone)
        taken = await self._take(change.new)
        if gone or taken:
            _log.info("group %s has %d queues of topic %s here", member.session.group, len(wanted), topic)
            await self._renew_subscription(topic)
        for state, offset in taken:
            if self.pulling is not None and not state.is_dropped:
                self.pulling.start(state, offset)
        is_leaving = any(state.is_leaving for state in member.queues.values() if state.queue.topic == topic)
        return wanted <= member.queues.keys() and not is_leaving

    def _tell(self, topic: str, error: PyroError) -> None:
        """Log why a topic could not be looked at; that nobody has created it yet is told once, in short."""
        group = self._member.session.group
        is_unknown = isinstance(error, UnknownTopic)
        if topic.startswith(RETRY_TOPIC_PREFIX) or (is_unknown and topic in self._unknown):
            _log.debug("group %s: topic %s is not rebalanced: %s", group, topic, error)
        elif is_unknown:
            self._unknown.add(topic)
            _log.warning("group %s: there is no topic %s yet; it is consumed once there is", group, topic)
        else:
            _log.warning("group %s: topic %s is not rebalanced: %s", group, topic, error)

    async def _share(self, topic: str) -> set[MessageQueue]:
        member, session = self._member, self._member.session
        deadline = session.deadline(None, session.settings.mq_client_api_timeout)
        route = await member.driver.run(subscribe_route(session, topic, deadline))
        if not member.is_clustering:
            return set(route.read_queues)
        if not self._greeted.issuperset(session.routes.all_addresses()):
            await self.tell_brokers()
        client_ids = await member.driver.run(consumer_ids(session, topic))
        own_id = session.identity.client_id
        if own_id not in client_ids:
            # A broker that was restarted has forgotten us, and would leave us without a queue.
            await self.tell_brokers()
            client_ids = await member.driver.run(consumer_ids(session, topic))
        return share(self._allocate, session.group, own_id, route.read_queues, client_ids)

    async def _renew_subscription(self, topic: str) -> None:
        """Tell the brokers that this member reads other queues now: they keep the newest subscription.

        Pulls name its version, and brokers refuse one that is newer than theirs: so they are told first.
        """
        member = self._member
        old = member.subscriptions.get(topic)
        if old is None:
            return
        new = renewed(old, member.now_ms())
        await self.tell_brokers(new)
        if member.subscriptions.get(topic) is old:
            member.subscriptions[topic] = new

    # Taking -------------------------------------------------------------------------------------------

    async def _take(self, queues: list[MessageQueue]) -> list[tuple[ProcessQueue, int]]:
        member = self._member
        if member.is_orderly and member.is_clustering:
            queues = await self._locked(queues)
        found = await asyncio.gather(*(self._first_offset(queue) for queue in queues))
        if member.is_orderly and member.is_clustering:
            # Another member may have them before this one looks again.
            untaken = [queue for queue, offset in zip(queues, found, strict=True) if offset is None]
            await asyncio.gather(*(self._unlock(part) for part in _by_broker(untaken)))
        taken = []
        for queue, offset in zip(queues, found, strict=True):
            if offset is None or queue in member.queues:
                continue
            state = ProcessQueue(queue, member.now_ms())
            state.is_locked = True
            member.queues[queue] = state
            taken.append((state, offset))
        return taken

    async def _locked(self, queues: list[MessageQueue]) -> list[MessageQueue]:
        found = await asyncio.gather(*(self._lock(part) for part in _by_broker(queues)))
        locked = set().union(*(part for part in found if part is not None))
        for queue in queues:
            if queue not in locked:
                _log.info("%s is not taken yet: another member has its lock", queue)
        return [queue for queue in queues if queue in locked]

    async def _first_offset(self, queue: MessageQueue) -> int | None:
        """Return where to begin with a queue; None when its broker does not say."""
        member = self._member
        member.progress.offsets.forget(queue)
        try:
            remembered = await member.progress.remembered(queue)
            if remembered is not None:
                return remembered
            return await member.driver.run(begin(member, queue))
        except PyroError as error:
            _log.warning("%s is not taken yet: %s", queue, error)
            return None

    # Letting go ---------------------------------------------------------------------------------------

    async def _let_go(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        leaving = tuple(queues)
        gone = await asyncio.gather(*(self._let_go_one(queue) for queue in leaving))
        return [queue for queue, is_gone in zip(leaving, gone, strict=True) if is_gone]

    async def _let_go_one(self, queue: MessageQueue) -> bool:
        member = self._member
        state = member.queues.get(queue)
        if state is None:
            return False
        state.is_dropped = state.is_leaving = True
        if self.pulling is not None:
            self.pulling.stop(state)
        # In order, what the listener has is finished and committed before another member may have the queue.
        if self._orderly is not None and not await self._orderly.let_go(state):
            return False
        await member.progress.save([queue], confirmed=True)
        member.progress.offsets.forget(queue)
        if self._orderly is not None and member.is_clustering:
            await self._unlock([queue])
        member.queues.pop(queue, None)
        return True

    # Locks --------------------------------------------------------------------------------------------

    async def _renew(self, queues: list[MessageQueue]) -> None:
        locked = await self._lock(queues)
        if locked is None:
            return
        for queue in queues:
            state = self._member.queues.get(queue)
            if state is not None and queue in locked:
                state.lock(self._member.now_ms())
            elif state is not None:
                state.is_locked = False

    async def _lock(self, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        member = self._member
        self._asked.update(queues)
        try:
            locked = await member.driver.run(locks.lock(member.session, queues))
        except PyroError as error:
            _log.warning("queues of %s could not be locked: %s", queues[0].broker_name, error)
            return None
        self._asked.difference_update(set(queues) - locked)
        return locked

    async def _unlock(self, queues: list[MessageQueue]) -> None:
        member = self._member
        try:
            await member.driver.run(locks.unlock(member.session, queues, oneway=False))
        except PyroError as error:
            _log.warning("queues of %s were not unlocked: %s", queues[0].broker_name, error)
        else:
            self._asked.difference_update(queues)


def next_retry_s(last_s: float, *, is_complete: bool, is_unknown: bool) -> float:
    """Return the pause before the next look: twice the last one, short while a topic is waited for."""
    if is_complete:
        return RETRY_S_FIRST
    return min(2 * last_s, UNKNOWN_TOPIC_S_MAX) if is_unknown else 2 * last_s


def begin(member: Member, queue: MessageQueue) -> Plan[int]:
    """Return where a group begins with a queue of which nothing is remembered."""
    session = member.session
    deadline = session.deadline(None, session.settings.mq_client_api_timeout)
    is_retry = queue.topic.startswith(RETRY_TOPIC_PREFIX)
    if member.consume_from is ConsumeFrom.FIRST_OFFSET:
        return 0
    if member.consume_from is ConsumeFrom.LAST_OFFSET and is_retry:
        return 0
    if member.consume_from is ConsumeFrom.TIMESTAMP and not is_retry:
        return (yield from progress.offset_by_time(session, queue, member.start_ms, deadline))
    return (yield from progress.max_offset(session, queue, deadline))


def _by_broker(queues: Collection[MessageQueue]) -> list[list[MessageQueue]]:
    parts: dict[str, list[MessageQueue]] = defaultdict(list)
    for queue in sorted(queues):
        parts[queue.broker_name].append(queue)
    return list(parts.values())
