"""A master's time: what runs while it lasts, and how it ends in order.

A hand-over loses nothing: the master takes no more messages, waits until its successor has all that it has,
acknowledges nothing from then on, and only then gives up its place at etcd.
"""

import asyncio
import logging
from collections.abc import Container
from dataclasses import dataclass

from pyromq.broker.broker import Broker
from pyromq.broker.durability.acknowledgement import Lease
from pyromq.broker.failover.election import Election
from pyromq.broker.failover.in_sync import InSyncKeeper
from pyromq.broker.failover.lease_session import LeaseSession
from pyromq.broker.replication.role import Leading
from pyromq.codes import ResponseCode
from pyromq.errors import Refused

log = logging.getLogger(__name__)

#: Seconds that a successor has to get everything.
HAND_OVER_S = 3.0
_POLL_S = 0.005
#: Times that a change is tried which another one has overtaken.
_TRIES = 5


@dataclass(slots=True)
class Reign:
    """A master that runs here: its epoch, its lease, and who has what it has."""

    epoch: int
    lease: Lease
    broker: Broker
    duties: Leading
    keeper: InSyncKeeper
    #: Since when it has had no lease, None while it has.
    unheld_since: float | None = None
    #: Since when its disk has been full, None while there is room.
    full_since: float | None = None

    def successor(self, name: str, among: Container[str] | None = None) -> str:
        """Return the address of the replica to hand over to, by its address or broker id.

        Without a name it is the one that has most, of some only if they are given. Raises Refused when there
        is none that may.
        """
        group = self.keeper.group
        others = {
            one: group.ids[one]
            for one in group.in_sync
            if group.ids[one] in self.keeper.members and (among is None or one in among)
        }
        if not others:
            raise refused("no other replica is in sync, so none may become master")
        if not name:
            return max(others, key=lambda one: self._acked(others[one]))
        for address, id_ in others.items():
            if name in (address, str(id_)):
                return address
        raise refused(f"{name} is not in sync, so it may not become master; in sync: {', '.join(others)}")

    async def let_catch_up(self, successor: str) -> None:
        """Take no more messages, and return when a successor has all. Raises Refused, and goes on then."""
        id_ = self.keeper.group.ids[successor]
        durability = self.broker.durability
        assert durability is not None
        durability.is_handing_over = True
        try:
            async with asyncio.timeout(HAND_OVER_S):
                self.broker.commit()
                while self._acked(id_) < self.broker.max_position:  # noqa: ASYNC110
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            durability.is_handing_over = False
            raise refused(f"{successor} did not get everything within {HAND_OVER_S:g} s") from None

    def _acked(self, id_: int) -> int:
        members = self.duties.followers.members
        return max((one.acked for one in members if one.id == id_ and one.is_connected), default=-1)


async def give_up_place(election: Election, session: LeaseSession, successor: str | None) -> None:
    """Be master no more at etcd; what others change meanwhile is no reason not to. Raises EtcdFailed."""
    for _ in range(_TRIES):
        view = await election.look()
        if view.leader_lease != session.id or await election.hand_over(view, successor):
            return


async def leave_in_sync(election: Election) -> None:
    """As a slave that has stopped, spare the master the wait for it. Raises EtcdFailed."""
    address = election.place.address
    for _ in range(_TRIES):
        view = await election.look()
        # Without a master nobody waits for this one, and it may have what nobody else has.
        if view.leader is None or address not in view.group.in_sync or await election.leave_in_sync(view):
            return


def refused(remark: str) -> Refused:
    """Return the refusal of a switch."""
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
