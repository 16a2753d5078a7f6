"""Membership in a group: heartbeats to brokers, and this member's share of each topic's queues.

    route → heartbeat → members of the group → strategy → queues to let go, queues to take

It happens at intervals, when a broker says that the group changed, and soon again when a topic could not be
looked at. In broadcasting a member's share is all queues.
"""

import asyncio
import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Generic

from pyromq.client.consumer import in_use
from pyromq.client.consumer.allocation import Allocate
from pyromq.client.consumer.group_member import ConsumerOutlet, GroupMember, Q
from pyromq.client.consumer.held_locks import HeldLocks
from pyromq.client.consumer.intervals import guarded, wait
from pyromq.client.consumer.owned_queue import OwnedQueue
from pyromq.client.consumer.queue_pulls import QueuePulls
from pyromq.client.consumer.topic_subscription import renewed
from pyromq.client.names import RETRY_TOPIC_PREFIX
from pyromq.client.plans.membership_plans import consumer_ids, heartbeat, leave
from pyromq.client.plans.route_plans import subscribe_route
from pyromq.errors import PyroError, Refused, UnknownTopic
from pyromq.model import MessageQueue
from pyromq.wire.bodies.heartbeat_bodies import Subscription

_log = logging.getLogger("pyromq.client")

#: Seconds until a topic is looked at again that could not be: at first, then twice as long each time.
RETRY_S_FIRST: Final = 0.5
#: The longest of these times while a topic is waited for that nobody has created yet.
UNKNOWN_TOPIC_S_MAX: Final = 2.0


class Rebalancer(Generic[Q]):
    """Keeps a member known to the brokers, and its queues what they should be."""

    def __init__(self, member: GroupMember[Q], outlet: ConsumerOutlet[Q]) -> None:
        self._member = member
        self._outlet = outlet
        self._locks = HeldLocks(member)
        self.pulls = QueuePulls(member, outlet, self.go_on)
        #: Held while queues are taken and let go.
        self._turn = asyncio.Lock()
        #: Brokers that know this member; one that does not would leave it out of the group.
        self._greeted: set[str] = set()
        #: Whether the last look took all that was this member's.
        self._is_complete = True
        #: Topics of the application that no name server knows; each is logged once.
        self._unknown: set[str] = set()
        self._is_entered = False
        #: Set when a rebalance is wanted before its time.
        self.is_wanted = asyncio.Event()

    # Membership ---------------------------------------------------------------------------------------

    def enter(self) -> None:
        """Take the group for this client id; raise AlreadyStarted when another consumer here has it."""
        session = self._member.session
        if not self._is_entered:
            in_use.enter(session.identity.client_id, session.group)
            self._is_entered = True

    def leave_table(self) -> None:
        """Let another consumer of this process have the group."""
        session = self._member.session
        if self._is_entered:
            in_use.leave(session.identity.client_id, session.group)
            self._is_entered = False

    async def tell_brokers(self, *changed: Subscription) -> None:
        """Send heartbeats to all known brokers, slaves too; `changed` is what is wanted from now on."""
        member, session = self._member, self._member.session
        if not member.subscriptions:
            return
        part, addresses = member.part(*changed), session.routes.all_addresses()
        heard = await asyncio.gather(
            *(member.driver.run(heartbeat(session, part, address)) for address in addresses)
        )
        for address, is_known in zip(addresses, heard, strict=True):
            (self._greeted.add if is_known else self._greeted.discard)(address)
        if session.denials:
            self._outlet.note_failure()

    async def _leave(self, addresses: Iterable[str]) -> None:
        """Tell brokers that this member leaves the group."""
        member, told = self._member, tuple(addresses)
        self._greeted.clear()
        await asyncio.gather(*(member.driver.run(leave(member.session, address)) for address in told))

    @property
    def denial(self) -> Refused | None:
        """The refusal of this member, if access control refuses it at all brokers."""
        session = self._member.session
        if self._greeted or not session.denials.keys() >= set(session.routes.all_addresses()):
            return None
        return next(iter(session.denials.values()), None)

    # Looking ------------------------------------------------------------------------------------------

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
        member = self._member
        if not member.is_resumed.is_set():
            return
        async with self._turn:
            self._is_complete = False
            looked = [await self._rebalance_topic(topic) for topic in tuple(member.subscriptions)]
            await self._let_go(without_subscription(tuple(member.queues), member.subscriptions))
            if not member.subscriptions:
                await self._leave(self._greeted)
            self._unknown.intersection_update(member.subscriptions)
            self._is_complete = all(looked)

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
        if topic not in member.subscriptions:
            return True
        self._unknown.discard(topic)
        idle_ms = member.session.settings.pull_max_idle_time
        change = changes(topic, wanted, member.queues, member.now_ms(), idle_ms)
        gone = await self._let_go(change.gone)
        taken = await self._take(change.new)
        if gone or taken:
            _log.info("group %s has %d queues of topic %s here", member.session.group, len(wanted), topic)
            await self._renew_subscription(topic)
        for state in taken:
            if not state.is_dropped:
                self.pulls.start(state)
        is_leaving = any(state.is_leaving for state in member.queues.values() if state.queue.topic == topic)
        return wanted <= member.queues.keys() and not is_leaving

    def _tell(self, topic: str, error: PyroError) -> None:
        """Log why a topic could not be looked at; that nobody has created it yet is logged once, in short."""
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
        if not self._greeted.issuperset(session.routes.all_addresses()):
            await self.tell_brokers()
        if not member.is_clustering:
            return set(route.read_queues)
        client_ids = await member.driver.run(consumer_ids(session, topic))
        own_id = session.identity.client_id
        if own_id not in client_ids:
            # A broker that was restarted has forgotten us, and would leave us without a queue.
            await self.tell_brokers()
            client_ids = await member.driver.run(consumer_ids(session, topic))
        return share(member.terms.allocate, session.group, own_id, route.read_queues, client_ids)

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

    def own(self, queues: Iterable[MessageQueue]) -> list[Q]:
        """Make queues this member's, and return their states; they are not pulled yet."""
        member = self._member
        taken = [self._outlet.new_queue(queue, member.now_ms()) for queue in queues]
        member.queues.update((state.queue, state) for state in taken)
        return taken

    async def _take(self, queues: list[MessageQueue]) -> list[Q]:
        """Take queues; with locks, those whose lock and progress are known. Pulls place the others."""
        if not queues or not self._member.has_locks:
            taken = self.own(queues)
            for state in taken:
                # Nobody else reads it; operators see that as a lock, as of a Java consumer.
                state.is_locked = True
            return taken
        locked = await self._locks.lock(queues)
        for queue in queues:
            if queue not in locked:
                _log.info("%s is not taken yet: another member has its lock", queue)
        states = [self._outlet.new_queue(queue, self._member.now_ms()) for queue in sorted(locked)]
        is_placed = await asyncio.gather(*(self._is_placed(state) for state in states))
        placed = [state for state, is_known in zip(states, is_placed, strict=True) if is_known]
        # Another member may have them before this one looks again.
        await self._locks.unlock(locked - {state.queue for state in placed})
        for state in placed:
            state.is_locked = True
            self._member.queues[state.queue] = state
        return placed

    async def _is_placed(self, state: Q) -> bool:
        try:
            await self.pulls.place(state)
        except PyroError as error:
            _log.warning("%s is not taken yet: %s", state.queue, error)
            return False
        return True

    # Letting go ---------------------------------------------------------------------------------------

    def drop(self, state: Q) -> None:
        """Pull and hand out nothing of a queue any more."""
        state.is_dropped = True
        self.pulls.stop(state)
        self._outlet.dropped(state)

    async def let_go(self, queues: Iterable[MessageQueue]) -> None:
        """Give queues back, and look soon whether one is to be taken anew."""
        async with self._turn:
            await self._let_go(queues)
        self.is_wanted.set()

    async def go_on(self, state: Q, offset: int) -> None:
        """Read a queue from another offset on, and commit that; one that was let go meanwhile stays so."""
        new = self.begin_anew(state, offset)
        if new is not None:
            await self._member.save([new])

    def begin_anew(self, state: Q, offset: int) -> Q | None:
        """Read a queue from another offset on; return its new state, if it is still this member's."""
        self.drop(state)
        if self._member.queues.get(state.queue) is not state or state.is_leaving:
            return None
        (new,) = self.own([state.queue])
        new.follow(state, offset)
        self.pulls.start(new)
        return new

    async def _let_go(self, queues: Iterable[MessageQueue]) -> list[MessageQueue]:
        leaving = [state for queue in queues if (state := self._member.queues.get(queue)) is not None]
        gone = await asyncio.gather(*(self._let_go_one(state) for state in leaving))
        return [state.queue for state, is_gone in zip(leaving, gone, strict=True) if is_gone]

    async def _let_go_one(self, state: Q) -> bool:
        member, queue = self._member, state.queue
        state.is_leaving = True
        self.drop(state)
        # In order, what the listener has is finished and committed before another member may have the queue.
        if not await self._outlet.let_go(state):
            return False
        if member.terms.auto_commit:
            await member.save([state])
        if member.has_locks:
            await self._locks.unlock([queue])
        if member.queues.get(queue) is state:
            del member.queues[queue]
        return True

    async def renew_locks(self) -> None:
        """Lock all queues again at their brokers; one that another member got meanwhile is lost."""
        # Not while a queue is let go: a lock asked for behind its unlocking would be nobody's for a minute.
        async with self._turn:
            await self._locks.renew()

    async def close(self) -> None:
        """Commit what is finished if that is automatic, give all locks back, and leave the group."""
        member = self._member
        if member.terms.auto_commit:
            await member.save(member.queues.values())
        for state in member.queues.values():
            state.is_dropped = True
        if member.has_locks:
            await self._locks.unlock_all()
        member.queues.clear()
        if self._is_entered:
            await self._leave(member.session.routes.all_addresses())


@dataclass(frozen=True, slots=True)
class ShareChange:
    """Queues of one topic to let go, and queues to take."""

    gone: list[MessageQueue]
    new: list[MessageQueue]


def share(
    allocate: Allocate,
    group: str,
    client_id: str,
    queues: Collection[MessageQueue],
    client_ids: Sequence[str],
) -> set[MessageQueue]:
    """Return this member's share of a topic: all members sort alike, so all calculate alike."""
    return set(allocate(group, client_id, sorted(queues), sorted(client_ids)))


def changes(
    topic: str,
    wanted: Collection[MessageQueue],
    owned: Mapping[MessageQueue, OwnedQueue],
    now_ms: int,
    idle_ms: int,
) -> ShareChange:
    """Compare a member's share of a topic with what it has.

    A queue that nobody pulled for `idle_ms`, or that could not be let go before, is let go although it is
    wanted, and taken anew the next time.
    """
    gone = [
        queue
        for queue, state in owned.items()
        if queue.topic == topic
        and (queue not in wanted or state.is_leaving or state.is_pull_idle(now_ms, idle_ms))
    ]
    new = sorted(queue for queue in wanted if queue not in owned)
    return ShareChange(gone, new)


def without_subscription(owned: Collection[MessageQueue], topics: Collection[str]) -> list[MessageQueue]:
    """Return the queues of topics that are no longer subscribed."""
    return [queue for queue in owned if queue.topic not in topics]


def next_retry_s(last_s: float, *, is_complete: bool, is_unknown: bool) -> float:
    """Return the pause before the next look: twice the last one, short while a topic is waited for."""
    if is_complete:
        return RETRY_S_FIRST
    return min(2 * last_s, UNKNOWN_TOPIC_S_MAX) if is_unknown else 2 * last_s
