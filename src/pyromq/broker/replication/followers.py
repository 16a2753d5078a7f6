"""The slaves of a master, and the position up to which enough of them have its log.

    static roles      max(1, inSyncReplicas − 1) slaves are enough, whichever they are
    with failover     all members of the in-sync set must have it; one that is gone holds it up where it was,
                      until the set changes; without members the master's own log is enough

It is worked out when a slave acknowledges, not when a message comes; only a master alone looks at each
append.
"""

from collections.abc import Callable
from heapq import nlargest
from math import inf
from typing import Protocol

from pyromq.clock import Clock
from pyromq.config.settings import StoreSettings


class EndingLog(Protocol):
    """The part of the store that is looked at here."""

    @property
    def committed_position(self) -> int:
        """Up to where its files have it: what slaves are sent."""
        ...


class ConnectedSlave:
    """One slave as the master sees it.

    `id` is its broker id, which it tells with failover only; `acked` up to where it has the log.
    """

    __slots__ = (
        "_due",
        "_due_since",
        "acked",
        "address",
        "caught_up_at",
        "has_all",
        "id",
        "is_connected",
        "is_learner",
    )

    def __init__(self, address: str, id_: int | None = None, *, is_learner: bool = False) -> None:
        self.id = id_
        self.address = address
        self.is_learner = is_learner
        self.is_connected = True
        self.acked = 0
        #: Whether it had everything when last seen, and nothing came since.
        self.has_all = False
        #: When it last had everything, as far as that is over.
        self.caught_up_at = -inf
        #: Once it has the log up to here, it had everything at this time.
        self._due = 0
        self._due_since = -inf

    def __repr__(self) -> str:
        who = self.address if self.id is None else f"{self.id} at {self.address}"
        return f"<Follower {who}, acked {self.acked}{'' if self.is_connected else ', gone'}>"

    def note(self, position: int, end: int, monotonic: Callable[[], float]) -> None:
        """Note up to where it has the log, which ends at `end` now."""
        self.acked = position
        if position >= end:
            self.has_all = True
        elif position >= self._due:
            # It is a little behind all the time while messages come; what counts is how much later it has
            # what was there at some time.
            self.caught_up_at = max(self.caught_up_at, self._due_since)
            self._due, self._due_since = end, monotonic()

    def left_behind(self, end: int, now: float) -> None:
        """Note that the log has grown up to `end` and it no longer has everything."""
        self.has_all = False
        self.caught_up_at = now
        self._due, self._due_since = end, now

    def take_over(self, earlier: "ConnectedSlave") -> None:
        """Begin with what was known of the same broker before it connected again.

        What it had is not taken over: with its power it may have lost some of that, and it says so next.
        """
        self.caught_up_at = earlier.caught_up_at


class Followers:
    """The slaves of a master. `on_confirmed` is called whenever `confirmed` has risen.

    `confirmed` at the beginning is what this broker knows from its life before, as a slave or a master.
    """

    def __init__(
        self,
        log: EndingLog,
        settings: StoreSettings,
        clock: Clock,
        *,
        in_sync: frozenset[int] | None = None,
        confirmed: int = 0,
        on_confirmed: Callable[[int], None] | None = None,
    ) -> None:
        self.on_confirmed = on_confirmed
        self._log = log
        self._settings = settings
        self._clock = clock
        self._enough = max(1, settings.in_sync_replicas - 1)
        self._in_sync = in_sync
        #: Whether the master's own log is enough, because no slave is in sync.
        self.is_alone = in_sync is not None and not in_sync
        #: Those that are connected, and members of the in-sync set that are gone.
        self._followers: list[ConnectedSlave] = []
        self._has_any_all = False
        self._confirmed = min(confirmed, log.committed_position)
        #: What the slaves that are connected have; behind `confirmed` when some left.
        self._reached: int | None = None
        self._work_out()

    # Who looks

    @property
    def confirmed(self) -> int:
        """Up to where enough followers have the log; it only rises."""
        return self._confirmed

    @property
    def members(self) -> tuple[ConnectedSlave, ...]:
        """All that are connected, and members of the in-sync set that are gone."""
        return tuple(self._followers)

    @property
    def connected_count(self) -> int:
        """The number of connected slaves."""
        return sum(follower.is_connected for follower in self._followers)

    @property
    def in_sync(self) -> frozenset[int] | None:
        """The broker ids, without the master's, that must have a message; None with static roles."""
        return self._in_sync

    @in_sync.setter
    def in_sync(self, ids: frozenset[int]) -> None:
        self._in_sync = ids
        self.is_alone = not ids
        self._followers = [one for one in self._followers if one.is_connected or one.id in ids]
        self._work_out()

    @property
    def replica_count(self) -> int:
        """The number of brokers that may have a message, the master included."""
        return 1 + (self.connected_count if self._in_sync is None else len(self._in_sync))

    def is_anyone_near(self, end: int) -> bool:
        """Return whether there are enough followers that will soon have the log up to `end`.

        Members of an in-sync set are waited for in any case.
        """
        if self._in_sync is not None:
            return True
        return self._reached is not None and end - self._reached < self._settings.ha_slave_fallbehind_max

    def lag_bytes(self, follower: ConnectedSlave) -> int:
        """Return how much of the log a follower does not have."""
        return max(0, self._log.committed_position - follower.acked)

    def behind_s(self, follower: ConnectedSlave) -> float:
        """Return for how long a follower has not had everything; 0 when it is connected and has."""
        if follower.is_connected and follower.has_all:
            return 0.0
        return self._clock.monotonic() - follower.caught_up_at

    # What happens

    def connected(self, address: str, id_: int | None = None, *, is_learner: bool = False) -> ConnectedSlave:
        """Note that a slave follows; of a broker that did before, the last connection is the one."""
        follower = ConnectedSlave(address, id_, is_learner=is_learner)
        if id_ is not None:
            for earlier in [one for one in self._followers if one.id == id_]:
                self._note_end(earlier)
                follower.take_over(earlier)
                self._followers.remove(earlier)
        self._followers.append(follower)
        return follower

    def acknowledged(self, follower: ConnectedSlave, position: int) -> None:
        """Note up to where a follower has the log."""
        follower.note(position, self._log.committed_position, self._clock.monotonic)
        if follower.has_all:
            self._has_any_all = True
        self._work_out()

    def gone(self, follower: ConnectedSlave) -> None:
        """Note that a slave's connection is over."""
        if follower not in self._followers:
            return
        self._note_end(follower)
        if self._in_sync is None or follower.id not in self._in_sync:
            self._followers.remove(follower)
        self._work_out()

    def appended(self) -> None:
        """Note that the log grew; of a master alone all of it is confirmed."""
        if self._has_any_all:
            self._leave_behind()
        if self.is_alone:
            self._confirm(self._log.committed_position)

    def _note_end(self, follower: ConnectedSlave) -> None:
        if follower.has_all:
            follower.left_behind(self._log.committed_position, self._clock.monotonic())
        follower.is_connected = False

    def _leave_behind(self) -> None:
        self._has_any_all = False
        end, now = self._log.committed_position, self._clock.monotonic()
        for follower in self._followers:
            if follower.has_all:
                follower.left_behind(end, now)

    def _work_out(self) -> None:
        if self.is_alone:
            self._confirm(self._log.committed_position)
        elif self._in_sync is not None:
            by_id = {one.id: one.acked for one in self._followers}
            self._confirm(min(by_id.get(id_, 0) for id_ in self._in_sync))
        else:
            followers, self._reached = self._followers, None
            if len(followers) >= self._enough:
                # Most have one slave: nothing is to be sorted then.
                self._reached = (
                    followers[0].acked
                    if len(followers) == 1
                    else nlargest(self._enough, [one.acked for one in followers])[-1]
                )
                self._confirm(self._reached)

    def _confirm(self, position: int) -> None:
        if position > self._confirmed:
            self._confirmed = position
            if self.on_confirmed is not None:
                self.on_confirmed(position)
