"""The conditions under which a broker accepts a request and acknowledges a write, for every kind of write.

    what is looked at    when a request arrives        when it has written      when its answer leaves
    pressure             `pressed`                     -                        -
    lease                guards, `is_open`             `vouch`, `when_safe`     `Lease.may_leave`
    hand-over            guards, `is_open`             -                        -
    replicas             guards, `is_open`             `when_safe`              -
    disk                 (the store refuses the put)   `when_safe`              -

Sends, send-backs, ends of transactions, staged batches, replies, recalls and changes of tables all take this
way, and so do the shortcuts of the compiled kernel: `shortcut` asks what the long way's guards ask, with the
same attributes. Deliveries of delayed messages and timers have nobody to answer; they wait with `sync_now`.

Pressure is RocketMQ's fast failure. RocketMQ has a queue before each pool of threads, and cleans it of what
waited too long. Here is one loop, and what waits for it is in the buffers of connections:

    queue full         as many requests wait for disk or slaves as their queue's `…QueueCapacity` says
    page cache busy    a write to the log took `osPageCacheBusyTimeOutMills` or longer: the sends that waited
                       meanwhile are refused, up to those that the loop finds in its next turn. Then one is
                       taken again, and shows how the disk is
    loop late          a request waited for longer than its queue's `waitTimeMillsIn…` since the loop last
                       looked (`Link.waits_since`). The first ones of each turn are taken all the same, for a
                       quarter of that time: to refuse costs something too, and a broker that only refuses
                       gets nothing done

A request is refused before it is read, or not at all. Heartbeats have half a minute, and requests that are in
none of the queues (admin, replication) are never refused. `requests/busy.py` has the queues and the words.

The lease is looked at three times. A master whose lease is over answers nothing, for another may be master
already. An order to change a table may wait for a disk or a name server longer than the lease, and what it
changed is then lost: it is looked at again when the order was carried out. And when the turn of the loop ends
it is looked at just before the bytes are handed to the system, so a process that stood still in between says
nothing wrong when it goes on.

All writes of a turn wait together from its end on (`end_of_turn.py`), for one sync and one position of the
slaves. If they are many and slaves must have them, each part of the turn waits, and is sent to slaves, alone;
what slaves have said by then is read, and the answers to earlier parts leave (`_exchange_now`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from math import inf
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from pyromq.broker.durability.log_sync import FlushTimeout, LogSync, NotSafe, failed_disk
from pyromq.broker.durability.watermark import Settle, settling
from pyromq.broker.requests.busy import Busy, PressedQueue, Reason
from pyromq.broker.requests.read_shortcuts import ReadShortcuts
from pyromq.broker.requests.route_facts import BrokerTable, OnSlave
from pyromq.clock import Clock
from pyromq.codes import ResponseCode
from pyromq.config.settings import StoreSettings
from pyromq.errors import NotMaster, ServiceNotAvailable
from pyromq.kernel import IS_COMPILED
from pyromq.net.link import Link
from pyromq.net.routes import Answer, Handled, Request
from pyromq.net.turn import Shortcut, TurnStep
from pyromq.store.store import MessageStore
from pyromq.wire.command import Command

if TYPE_CHECKING or not IS_COMPILED:
    from pyromq.net.inlet import waiting_since, with_bytes
else:
    from pyromq._kernel.codec.inlets import waiting_since, with_bytes

if TYPE_CHECKING:
    from pyromq.broker.durability.replica_wait import Replicated
    from pyromq.broker.replication.ha_server import ReplicationServer

__all__ = ["Durability", "FlushTimeout", "Lease", "NotSafe", "lasting_lease", "no_longer_master"]

#: The share of its patience for which each turn takes requests, however long they waited before it.
TAKEN_SHARE: Final = 0.25
#: When a turn has written so much that slaves must have, they are sent it before the turn ends, and whoever
#: waits for it waits for no more of the turn.
PART_BYTES: Final = 256 << 10
#: Less than any clock tells: what differences of seconds may lack.
A_TICK_S: Final = 1e-6
#: `osPageCacheBusyTimeOutMills` is not less.
SLOW_WRITE_S_MIN: Final = 0.001


class Lease:
    """Until when a master may acknowledge, on a clock that never goes back."""

    __slots__ = ("_has_vouched", "_now", "_until", "is_lasting")

    def __init__(self, now: Callable[[], float], until: float = -inf) -> None:
        self._now = now
        self._until = until
        #: Whether it never ends; who asks in each turn of the loop need not look at a clock then.
        self.is_lasting = until == inf
        #: Whether something was acknowledged in this turn of the loop.
        self._has_vouched = False

    @property
    def is_held(self) -> bool:
        """Whether the master may still acknowledge."""
        return self._now() < self._until

    def vouch(self) -> bool:
        """Return whether the master may acknowledge now; what it says then leaves when this turn ends."""
        if self._now() < self._until:
            self._has_vouched = True
            return True
        return False

    def may_leave(self) -> bool:
        """Return whether what was acknowledged in the turn that ends now may leave.

        It may not if the lease ended since. Refusals may, when nothing was acknowledged beside them.
        """
        has_vouched, self._has_vouched = self._has_vouched, False
        return not has_vouched or self._now() < self._until

    def renew(self, until: float) -> None:
        """Hold it until then; a time before the one it has is no reason to let it go earlier."""
        self._until = max(self._until, until)

    def drop(self) -> None:
        """Hold it no longer, and never again."""
        self.is_lasting = False
        self._until = -inf
        self._now = lambda: inf


def lasting_lease() -> Lease:
    """Return the lease of a broker whose role the settings say: it never ends."""
    return Lease(lambda: 0.0, inf)


class Durability(LogSync):
    """Decides what a broker takes and acknowledges: by pressure, lease, replicas and disk.

    Without `busy` nothing is under pressure; without `slaves` this broker is a slave, or nobody follows it.
    """

    def __init__(
        self,
        store: MessageStore,
        settings: StoreSettings,
        clock: Clock,
        elsewhere: "Replicated | None" = None,
        lease: Lease | None = None,
        *,
        slaves: "ReplicationServer | None" = None,
        busy: Busy | None = None,
        step: TurnStep | None = None,
    ) -> None:
        super().__init__(store, settings, clock, step=step)
        self._elsewhere = elsewhere
        self._lease = lease or lasting_lease()
        self._slaves = slaves
        self._replicas_min = settings.min_in_sync_replicas if slaves is not None else 1
        self._busy = busy
        self._monotonic = clock.monotonic
        #: Set while a master hands over: it takes no more messages, and still serves the rest.
        self.is_handing_over = False
        #: Told how long each turn's writes waited to be safe; for metrics.
        self.on_safe: Callable[[float], None] | None = None
        #: Whether a send is answered without waiting for anything.
        self.is_immediate = not self.syncs_all and elsewhere is None
        #: Whoever waits for what was written in this turn, and where the log ends behind that.
        self._turn: list[Settle] = []
        #: The links whose sends the shortcut takes right now.
        self._offered: list[Link] = []
        self._turn_end = 0
        #: Where the part of the log begins that those in `_turn` wait for.
        self._part_start = 0

    # When a request arrives ------------------------------------------------------------------------------

    def pressed(self, queue: PressedQueue, link: Link) -> Reason | None:
        """Return why requests of a queue and a connection are not taken now, None when they are."""
        busy = self._busy
        if busy is None:
            return None
        return self._pressed_for_all(busy, queue) or self._late(queue, link, self._monotonic())

    def _pressed_for_all(self, busy: Busy, queue: PressedQueue) -> Reason | None:
        """Return why no request of a queue is taken now, whichever connection it comes from."""
        if busy.revision != busy.live.revision:
            busy.read_settings()
        if queue.count >= queue.capacity and queue.is_full:
            return Reason.FULL
        return Reason.PAGE_CACHE if busy.slow_write_s and queue is busy.sends else None

    def _late(self, queue: PressedQueue, link: Link, now: float) -> Reason | None:
        if now - link.waits_since + A_TICK_S < queue.wait_s:
            return None
        if now - link.read_at + A_TICK_S < queue.wait_s * TAKEN_SHARE:
            return None
        return Reason.LATE if self._busy is not None and self._busy.is_enabled else None

    def refuse(self, link: Link, command: Command) -> Answer | None:
        """Return the answer to a request that is not taken for pressure, None for one that is."""
        busy = self._busy
        queue = None if busy is None else busy.by_code.get(command.code)
        if busy is None or queue is None:
            return None
        reason = self.pressed(queue, link)
        return None if reason is None else busy.refuse(queue, link, reason)

    def waits(self, code: int, answered: "asyncio.Future[Any]") -> None:
        """Note that a request was taken and its answer is not there yet."""
        if self._busy is not None:
            self._busy.waits(code, answered)

    def is_open(self) -> bool:
        """Return whether requests of every kind may pass, but for pressure."""
        lease = self._lease
        return (
            (lease.is_lasting or lease.is_held)
            and not self.is_handing_over
            and (self._replicas_min <= 1 or self.why_no_messages is None)
        )

    @property
    def why_shut(self) -> str | None:
        """The reason why no request is accepted, None while the lease is held."""
        if self._lease.is_held:
            return None
        return "its lease is over, and was not renewed at etcd in time: another replica may be master"

    @property
    def why_no_messages(self) -> str | None:
        """The reason why no message is accepted, None while messages are."""
        if self.is_handing_over:
            return "this master hands over to another replica"
        if self._replicas_min <= 1 or self._slaves is None:
            return None
        count = self._slaves.followers.replica_count
        if count < self._replicas_min:
            return (
                f"{count} of the group's brokers are in sync, and minInSyncReplicas={self._replicas_min} "
                "must be; start the others, or lower it"
            )
        return None

    def put_before(self, table: BrokerTable) -> None:
        """Let every request of a table pass here first, and the answers of those that change something."""
        table.guard(self._check_lease)
        table.guard(self._check_replicas, [route.code for route in table if route.writes])
        for route in table:
            if not route.writes and route.on_slave is not OnSlave.ANSWERS:
                table.by_code[int(route.code)] = replace(route, handle=self._vouching(route.handle))

    def shortcut(
        self,
        sends: Shortcut | None,
        pulls: Shortcut | None,
        offsets: Shortcut | None = None,
        *,
        under_way_max: int,
    ) -> Shortcut | None:
        """Return the shortcut of links: the kernel's, where every request would pass, or a quick refusal.

        Sends under pressure are refused from their bytes, whether the kernel takes sends or not: a broker
        that refuses must not be busy with it. Offsets are under no pressure, as on the long way.
        """
        busy = self._busy
        if busy is None:
            return None
        queue_of_sends, queue_of_pulls = busy.sends, busy.pulls
        reads = None
        if pulls is not None or offsets is not None:
            reads = ReadShortcuts(
                pulls,
                offsets,
                may_pull=lambda links: self._parted(busy, queue_of_pulls, links)[0],
                under_way_max=under_way_max,
            )

        lease, needs_replicas = self._lease, self._replicas_min > 1

        def take(links: list[Link]) -> bool:
            # The usual case is looked at here: it is asked for each turn.
            if (needs_replicas or self.is_handing_over or not lease.is_lasting) and not self.is_open():
                return False
            has_handled = False
            taken, refused = self._parted(busy, queue_of_sends, links)
            for link, reason in refused:
                # A connection with too many requests under way hears that, and not this.
                if link.under_way_count < under_way_max and busy.refuse_sends(link, reason):
                    has_handled = True
            self._offered = taken
            if sends is not None and taken and sends(taken):
                has_handled = True
            # A link with too many requests under way is left to Python, which refuses the next one.
            if reads is not None and (links := with_bytes(links, under_way_max)) and reads(links):
                has_handled = True
            return has_handled

        return take

    def takes_ends(self) -> bool:
        """Return whether the shortcut takes ends of transactions, too, of links whose sends it takes now."""
        busy, offered = self._busy, self._offered
        return busy is None or not offered or len(self._parted(busy, busy.ends, offered)[0]) == len(offered)

    def _parted(
        self, busy: Busy, queue: PressedQueue, links: list[Link]
    ) -> tuple[list[Link], Sequence[tuple[Link, Reason]]]:
        """Return the links whose requests of a queue are taken now, and the others with the reason."""
        # Looked at here, because it is asked several times a turn, and there is rarely a reason.
        if busy.revision != busy.live.revision or queue.count >= queue.capacity or busy.slow_write_s:
            reason = self._pressed_for_all(busy, queue)
            if reason is not None:
                return [], [(link, reason) for link in links]
        now = self._monotonic()
        if now - waiting_since(links) + A_TICK_S < queue.wait_s:
            return links, ()
        late = {link for link in links if self._late(queue, link, now) is not None}
        taken = [link for link in links if link not in late]
        return taken, [(link, Reason.LATE) for link in links if link in late]

    def _check_lease(self, _request: Request[Any]) -> None:
        if not self._lease.is_held:
            raise no_longer_master()

    def _check_replicas(self, _request: Request[Any]) -> None:
        if self.is_handing_over:
            raise no_longer_master()
        why = self.why_no_messages
        if why is not None:
            raise ServiceNotAvailable(ResponseCode.SERVICE_NOT_AVAILABLE, f"service not available now: {why}")

    # When something was written --------------------------------------------------------------------------

    def log_grew(self, write_s: float) -> bool:
        """Note that the log was written, which took some seconds, before the next request is looked at.

        Return whether what was written is acknowledged at once: neither disk nor slaves are waited for, and
        the lease never ends. If not, `is_immediate`, `vouch` and `with_this_turn` say what is to be done.
        """
        if write_s >= SLOW_WRITE_S_MIN and self._busy is not None:
            self._busy.wrote(write_s)
        if self.syncs_all:
            self.appended()
        slaves = self._slaves
        if slaves is not None and (slaves.links or slaves.followers.is_alone):
            slaves.appended()
        return self.is_immediate and self._lease.is_lasting

    def acknowledge(self, end: int, answer: Answer, *, waits: bool = True) -> Answer | Awaitable[Answer]:
        """Return the answer to a request that wrote the log up to `end`, once it may be given.

        Its code says so if disk or slaves took too long. Whoever does not want to wait for them has the
        lease looked at all the same. Raises ServiceNotAvailable, or gives it to who awaits, when this is no
        longer the master, and after a failed sync.
        """
        if waits and not self.is_immediate:
            return self.confirm(end, answer)
        self.vouch()
        return answer

    def vouch(self) -> None:
        """Look at the lease for what is acknowledged now; raise ServiceNotAvailable if it is over."""
        if not self._lease.is_lasting and not self._lease.vouch():
            raise no_longer_master()

    def confirm(self, end: int, answer: Answer) -> "asyncio.Future[Answer]":
        """Return the answer once the log is safe up to `end`; its code says so if that took too long."""
        confirmed: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def settle(error: Exception | None) -> None:
            if confirmed.done():
                return
            if isinstance(error, NotSafe):
                answer.code = error.code
            elif error is not None:
                confirmed.set_exception(error)
                return
            confirmed.set_result(answer)

        self.with_this_turn(end, settle)
        return confirmed

    def with_this_turn(self, end: int, settle: Settle) -> None:
        """Call `settle` once the log is safe up to `end`, with all others who ask in this turn.

        It gets None, a NotSafe, or ServiceNotAvailable: after a failed sync, or from who is master no more.
        """
        self._turn.append(settle)
        if end > self._turn_end:
            self._turn_end = end
        if end - self._part_start >= PART_BYTES and self._elsewhere is not None:
            self._end_part()
            if self._slaves is not None:
                self._exchange_now(self._slaves)
        else:
            self._step.due()

    def _exchange_now(self, slaves: "ReplicationServer") -> None:
        """Send slaves this part of the turn, and answer senders whose earlier parts slaves have by now."""
        slaves.send_now()
        if slaves.hear_now() and (self._lease.is_lasting or self._lease.is_held):
            self._step.write_now()

    async def all_safe(self) -> None:
        """Return when all that is in the log is safe, on this disk too whichever flush there is.

        Raises NotSafe when that takes too long, and ServiceNotAvailable as `acknowledge` does.
        """
        safe: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = _Waiting([settling(safe)], self._lease, None)
        self._when_safe(self._log.whole_position, waiting, needs_disk=True)
        await safe

    def end_turn(self) -> None:
        """Let what was written in this turn wait to be safe, and begin a sync if there is to be one."""
        if self._turn:
            self._end_part()
        if self._is_wanted:
            super().end_turn()

    def _end_part(self) -> None:
        turn, self._turn = self._turn, []
        self._part_start = self._turn_end
        self._when_safe(self._turn_end, _Waiting(turn, self._lease, self.on_safe), needs_disk=self.syncs_all)

    def when_safe(self, end: int, settle: Settle) -> None:
        """Call `settle` once the log is safe up to `end`; see `with_this_turn`, which costs less for many."""
        self._when_safe(end, _Waiting([settle], self._lease, self.on_safe), needs_disk=self.syncs_all)

    def _when_safe(self, end: int, settle: Settle, *, needs_disk: bool) -> None:
        if self._has_failed:
            settle(failed_disk())
        elif self._elsewhere is None:
            self.when_flushed(end, settle)
        elif not needs_disk:
            self._elsewhere.when_there(end, settle)
        else:
            both = _Both(settle)
            self.when_flushed(end, both.first)
            self._elsewhere.when_there(end, both.second)

    def _vouching(self, handle: Callable[[Request[Any]], Handled]) -> Callable[[Request[Any]], Handled]:
        """Return a handler whose answer is given only while the lease is held."""

        async def when_done(handled: Awaitable[Answer | None]) -> Answer | None:
            answer = await handled
            self.vouch()
            return answer

        def call(request: Request[Any]) -> Handled:
            handled = handle(request)
            if handled is None or isinstance(handled, Answer):
                self.vouch()
                return handled
            return when_done(handled)

        return call


def no_longer_master() -> NotMaster:
    """Return the refusal of a master whose lease is over."""
    return NotMaster(
        ResponseCode.SERVICE_NOT_AVAILABLE,
        f"{NotMaster.NO_LONGER}; ask a name server for the new one, and send again",
    )


class _Waiting:
    """Whoever waits for one position. The lease is looked at when the waiting is over."""

    __slots__ = ("_began_at", "_lease", "_on_safe", "_settles")

    def __init__(self, settles: list[Settle], lease: Lease, on_safe: Callable[[float], None] | None) -> None:
        self._settles = settles
        self._lease = lease
        self._on_safe = on_safe
        self._began_at = 0.0 if on_safe is None else perf_counter()

    def __call__(self, error: Exception | None) -> None:
        """Tell all what became of it."""
        if self._on_safe is not None:
            self._on_safe(perf_counter() - self._began_at)
        lease = self._lease
        if not lease.is_lasting and not lease.vouch():
            error = no_longer_master()
        for settle in self._settles:
            settle(error)


class _Both:
    """Waits for two, and tells of both with the second one's word, which RocketMQ lets win."""

    def __init__(self, settle: Settle) -> None:
        self._settle = settle
        self._said: list[Exception | None] = []
        self._last_word: Exception | None = None

    def first(self, error: Exception | None) -> None:
        self._note(error)

    def second(self, error: Exception | None) -> None:
        self._last_word = error
        self._note(error)

    def _note(self, error: Exception | None) -> None:
        self._said.append(error)
        if len(self._said) == 2:
            self._settle(self._last_word or self._said[0] or self._said[1])
