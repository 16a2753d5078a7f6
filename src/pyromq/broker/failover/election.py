"""The changes of its group that a replica asks etcd for. Each is one transaction: made whole, or not at all.

Whatever a master changes is made only while its key is there, so that one that was replaced changes nothing.
A change whose answer did not come may have been made: whoever asked looks again.
"""

import msgspec

from pyromq.broker.failover.etcd_client import EtcdClient, Transaction
from pyromq.broker.failover.group import (
    LEADER,
    REPLICAS,
    STATE,
    GroupView,
    Presence,
    ReplicaAddresses,
    ReplicaGroup,
    read_view,
)


class Election:
    """One replica's side of its group's keys, which begin with `prefix`."""

    def __init__(self, etcd: EtcdClient, prefix: str, place: ReplicaAddresses, mark: str) -> None:
        self._etcd = etcd
        self.prefix = prefix
        self.place = place
        self.mark = mark

    @property
    def leader_key(self) -> str:
        """The key that says who is master."""
        return self.prefix + LEADER

    async def look(self) -> GroupView:
        """Return the group as it is now. Raises EtcdFailed."""
        return read_view(await self._etcd.find(self.prefix))

    async def announce(
        self, lease: int, *, last_epoch: int, max_position: int, has_room: bool, is_in_doubt: bool
    ) -> None:
        """Say that this replica is there, how much it has, and whether it could take more."""
        presence = Presence(
            address=self.place.address,
            ha_address=self.place.ha_address,
            mark=self.mark,
            last_epoch=last_epoch,
            max_position=max_position,
            has_room=has_room,
            is_in_doubt=is_in_doubt,
        )
        key = f"{REPLICAS}{self.place.address}"
        await self._commit({}, {key: (msgspec.json.encode(presence), lease)})

    async def join(self, view: GroupView) -> bool:
        """Get a broker id, which stays; and leave the in-sync set if what was there is gone."""
        group = view.group.joined(self.place.address, self.mark)
        return await self._commit({STATE: view.group_revision}, {STATE: _state(group)})

    async def take(
        self, view: GroupView, lease: int, *, last_epoch: int, is_in_doubt: bool = False
    ) -> int | None:
        """Become master of a group that has none, or has this one; return the epoch, None if another did."""
        sure = {address for address, replica in view.replicas.items() if not replica.is_in_doubt}
        group = view.group.led_by(
            self.place.address, last_epoch=last_epoch, present=sure, is_in_doubt=is_in_doubt
        )
        is_made = await self._commit(
            {STATE: view.group_revision, LEADER: view.leader_revision},
            {STATE: _state(group), LEADER: (msgspec.json.encode(self.place), lease)},
        )
        return group.epoch if is_made else None

    async def set_in_sync(self, view: GroupView, addresses: frozenset[str]) -> bool:
        """As the master that `view` shows, say who has all that was acknowledged."""
        group = view.group.with_in_sync(addresses)
        return await self._commit(
            {STATE: view.group_revision, LEADER: view.leader_revision}, {STATE: _state(group)}
        )

    async def leave_in_sync(self, view: GroupView) -> bool:
        """As a slave that goes, spare the master the wait for it."""
        group = view.group.with_in_sync(frozenset(view.group.in_sync) - {self.place.address})
        return await self._commit(
            {STATE: view.group_revision, LEADER: view.leader_revision}, {STATE: _state(group)}
        )

    async def hand_over(self, view: GroupView, successor: str | None) -> bool:
        """As the master that `view` shows, be none any more; the successor goes first, if there is one."""
        group = view.group.handed_to(successor)
        return await self._commit(
            {STATE: view.group_revision, LEADER: view.leader_revision}, {STATE: _state(group)}, [LEADER]
        )

    async def _commit(
        self,
        unchanged: dict[str, int],
        puts: dict[str, tuple[bytes, int]],
        deletes: list[str] | None = None,
    ) -> bool:
        return await self._etcd.commit(
            Transaction(
                unchanged={self.prefix + key: revision for key, revision in unchanged.items()},
                puts={self.prefix + key: value for key, value in puts.items()},
                deletes=[self.prefix + key for key in deletes or ()],
            )
        )


def _state(group: ReplicaGroup) -> tuple[bytes, int]:
    return msgspec.json.encode(group), 0
