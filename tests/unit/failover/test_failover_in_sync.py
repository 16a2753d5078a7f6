"""Who is in sync: at etcd never more than the master waits for, at each moment of a change."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from pyromq.broker.failover.election import Election
from pyromq.broker.failover.etcd_client import EtcdClient
from pyromq.broker.failover.group import GroupView, ReplicaAddresses
from pyromq.broker.failover.in_sync import InSyncKeeper
from pyromq.broker.replication.followers import ConnectedSlave, Followers
from pyromq.config.settings import StoreSettings
from pyromq.errors import EtcdFailed
from pyromq.testing.manual_clock import ManualClock

MASTER, B, C = "10.0.0.1:10911", "10.0.0.2:10911", "10.0.0.3:10911"
TIMEOUT_S = 2.0


class Log:
    """A log that is only as long as it says."""

    committed_position = 0


class Stage:
    """A master that was elected, its followers, and the keeper of its set."""

    def __init__(self, etcd: EtcdClient, prefix: str) -> None:
        self.clock = ManualClock()
        self.log = Log()
        self.followers = Followers(self.log, StoreSettings(), self.clock, in_sync=frozenset())
        self._etcd, self._prefix = etcd, prefix
        self.election = self.election_of(MASTER)
        self.lease = 0

    def election_of(self, address: str) -> Election:
        return Election(
            self._etcd, self._prefix, ReplicaAddresses(address=address, ha_address="x:1"), f"mark-{address}"
        )

    async def elect(self) -> InSyncKeeper:
        for address in (MASTER, B, C):
            assert await self.election_of(address).join(await self.election.look())
        self.lease, _ = await self._etcd.grant(60)
        assert await self.election.take(await self.election.look(), self.lease, last_epoch=0)
        return self.keep(await self.election.look())

    def keep(self, view: GroupView) -> InSyncKeeper:
        return InSyncKeeper(self.election, self.followers, view, timeout_s=TIMEOUT_S)

    async def in_sync(self) -> set[str]:
        return set((await self.election.look()).group.in_sync)

    def append(self, size: int = 100) -> None:
        self.log.committed_position += size
        self.followers.appended()

    def ack(self, follower: ConnectedSlave) -> None:
        self.followers.acknowledged(follower, self.log.committed_position)

    def near(self) -> ConnectedSlave:
        """Connect a follower that had everything a moment ago, and has not what was acknowledged since."""
        follower = self.followers.connected("x:1", 2)
        self.append()
        self.ack(follower)
        self.append()
        return follower

    async def late_looks(self, keeper: InSyncKeeper, *current: ConnectedSlave) -> None:
        """Let so much time pass that who has not everything is late, and look as often as is needed."""
        self.clock.advance(round(TIMEOUT_S * 1000))
        for one in current:
            self.ack(one)
        await keeper.look()
        await keeper.look()


@pytest.fixture
async def stage(etcd: EtcdClient, prefix: str) -> Stage:
    return Stage(etcd, prefix)


async def joined(stage: Stage, keeper: InSyncKeeper, id_: int) -> ConnectedSlave:
    follower = stage.followers.connected("x:1", id_)
    stage.ack(follower)
    await keeper.look()
    return follower


async def test_a_follower_that_has_everything_joins(stage: Stage) -> None:
    keeper = await stage.elect()
    stage.append()
    await joined(stage, keeper, 2)
    assert await stage.in_sync() == {MASTER, B}
    assert stage.followers.in_sync == {2}


async def test_a_follower_is_waited_for_before_etcd_hears_of_it(stage: Stage) -> None:
    keeper = await stage.elect()
    follower = stage.near()
    await keeper.look()
    assert stage.followers.in_sync == {2}
    assert await stage.in_sync() == {MASTER}
    stage.append()
    assert stage.followers.confirmed == 200
    stage.ack(follower)
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}


async def test_a_follower_joins_although_the_log_always_grows(stage: Stage) -> None:
    keeper = await stage.elect()
    follower = stage.near()
    await keeper.look()
    stage.ack(follower)
    stage.append()
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}


async def test_a_follower_that_falls_behind_before_it_joined_is_not_waited_for(stage: Stage) -> None:
    keeper = await stage.elect()
    stage.near()
    await keeper.look()
    assert stage.followers.in_sync == {2}
    stage.append()
    stage.clock.advance(round(TIMEOUT_S * 1000))
    await keeper.look()
    assert stage.followers.in_sync == frozenset()
    assert stage.followers.confirmed == 300


async def test_a_broker_that_never_joined_the_group_is_not_in_sync(stage: Stage) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 77)
    assert stage.followers.in_sync == frozenset()
    assert await stage.in_sync() == {MASTER}


async def test_a_member_that_is_late_for_long_enough_leaves(stage: Stage) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    other = await joined(stage, keeper, 3)
    stage.append()
    stage.ack(other)
    await stage.late_looks(keeper, other)
    assert await stage.in_sync() == {MASTER, C}
    assert stage.followers.in_sync == {3}
    assert stage.followers.confirmed == 100


async def test_a_member_whose_connection_is_gone_for_long_enough_leaves(stage: Stage) -> None:
    keeper = await stage.elect()
    follower = await joined(stage, keeper, 2)
    stage.followers.gone(follower)
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}
    await stage.late_looks(keeper)
    assert await stage.in_sync() == {MASTER}


async def test_a_member_that_was_late_at_one_look_only_stays(stage: Stage) -> None:
    keeper = await stage.elect()
    follower = await joined(stage, keeper, 2)
    stage.append()
    # The master itself stood still: what the follower said meanwhile is read after the look.
    stage.clock.advance(round(TIMEOUT_S * 2000))
    await keeper.look()
    stage.ack(follower)
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}


async def test_a_member_is_waited_for_until_etcd_has_it_out(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    stage.append()
    waited_for: list[frozenset[int] | None] = []
    set_in_sync = stage.election.set_in_sync

    async def watched(view: GroupView, addresses: frozenset[str]) -> bool:
        waited_for.append(stage.followers.in_sync)
        return await set_in_sync(view, addresses)

    monkeypatch.setattr(stage.election, "set_in_sync", watched)
    await stage.late_looks(keeper)
    assert waited_for == [frozenset({2})]
    assert stage.followers.in_sync == frozenset()


async def test_a_member_that_a_new_master_takes_over_has_time_to_come(stage: Stage) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    stage.followers = Followers(stage.log, StoreSettings(), stage.clock, in_sync=frozenset({2}))
    keeper = stage.keep(await stage.election.look())
    await keeper.look()
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}
    for _ in range(4):
        await keeper.look()
    assert await stage.in_sync() == {MASTER}


SetInSync = Callable[[GroupView, frozenset[str]], Awaitable[bool]]


def made_but_not_heard(made: SetInSync) -> SetInSync:
    async def ask(view: GroupView, addresses: frozenset[str]) -> bool:
        await made(view, addresses)
        raise EtcdFailed("no answer", may_be_done=True)

    return ask


def not_made_yet(_: SetInSync) -> SetInSync:
    async def ask(view: GroupView, addresses: frozenset[str]) -> bool:
        raise EtcdFailed("no answer", may_be_done=True)

    return ask


async def test_a_member_whose_joining_was_not_answered_is_waited_for_even_if_it_goes(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = await stage.elect()
    seen = await stage.election.look()
    follower = stage.followers.connected("x:1", 2)
    stage.ack(follower)
    real = stage.election.set_in_sync
    with monkeypatch.context() as patched:
        patched.setattr(stage.election, "set_in_sync", not_made_yet(real))
        with pytest.raises(EtcdFailed):
            await keeper.look()
        stage.followers.gone(follower)
        stage.clock.advance(round(TIMEOUT_S * 1000))
        with pytest.raises(EtcdFailed):
            await keeper.look()
        # A look at etcd shows nothing of it, and yet it may still be made.
        keeper.saw(await stage.election.look())
        assert stage.followers.in_sync == {2}
    # It was on its way for that long.
    assert await real(seen, frozenset({MASTER, B}))
    await keeper.look()
    assert stage.followers.in_sync == {2}
    assert await stage.in_sync() == {MASTER, B}


async def test_a_proposal_that_was_not_answered_can_be_made_no_more_after_the_next_one(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = await stage.elect()
    seen = await stage.election.look()
    follower = stage.followers.connected("x:1", 2)
    stage.ack(follower)
    real = stage.election.set_in_sync
    with monkeypatch.context() as patched:
        patched.setattr(stage.election, "set_in_sync", not_made_yet(real))
        with pytest.raises(EtcdFailed):
            await keeper.look()
    stage.followers.gone(follower)
    stage.clock.advance(round(TIMEOUT_S * 1000))
    await keeper.look()
    assert stage.followers.in_sync == frozenset()
    assert not await real(seen, frozenset({MASTER, B}))


async def test_a_member_is_in_sync_when_etcd_took_it_and_only_the_answer_was_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeper = await stage.elect()
    stage.ack(stage.followers.connected("x:1", 2))
    real = stage.election.set_in_sync
    with monkeypatch.context() as patched:
        patched.setattr(stage.election, "set_in_sync", made_but_not_heard(real))
        with pytest.raises(EtcdFailed):
            await keeper.look()
    await keeper.look()
    await keeper.look()
    assert stage.followers.in_sync == {2}
    assert await stage.in_sync() == {MASTER, B}


async def test_a_slave_that_goes_takes_itself_out_and_is_waited_for_no_more(stage: Stage) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    leaving = stage.election_of(B)
    assert await leaving.leave_in_sync(await leaving.look())
    keeper.saw(await stage.election.look())
    assert stage.followers.in_sync == frozenset()


async def test_a_master_that_was_replaced_changes_nothing(stage: Stage, etcd: EtcdClient) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    await etcd.revoke(stage.lease)
    another = stage.election_of(B)
    lease, _ = await etcd.grant(60)
    assert await another.take(await another.look(), lease, last_epoch=0)
    stage.ack(stage.followers.connected("x:1", 3))
    await keeper.look()
    assert await stage.in_sync() == {B}


async def test_of_two_in_sync_replicas_one_takes_over(stage: Stage, etcd: EtcdClient) -> None:
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    await joined(stage, keeper, 3)
    await etcd.revoke(stage.lease)
    seen = await stage.election.look()
    lease, _ = await etcd.grant(60)
    epochs = await asyncio.gather(*(stage.election_of(one).take(seen, lease, last_epoch=0) for one in (B, C)))
    assert sorted(epoch or 0 for epoch in epochs) == [0, seen.group.epoch + 1]


async def test_a_master_that_hands_over_leaves_its_place_and_names_who_goes_first(stage: Stage) -> None:
    await stage.elect()
    assert await stage.election.hand_over(await stage.election.look(), B)
    seen = await stage.election.look()
    assert seen.leader is None
    assert seen.group.successor == B


async def announce(stage: Stage, address: str, *, is_in_doubt: bool) -> None:
    await stage.election_of(address).announce(
        stage.lease, last_epoch=1, max_position=0, has_room=True, is_in_doubt=is_in_doubt
    )


async def test_a_member_in_doubt_is_taken_out_and_comes_in_again_when_it_doubts_no_more(stage: Stage) -> None:
    """It lost power, and may lack what it acknowledged: it counts again once it has all."""
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    stage.append()
    await announce(stage, B, is_in_doubt=True)
    again = stage.followers.connected("x:1", 2)
    stage.followers.acknowledged(again, 0)

    keeper.saw(await stage.election.look())
    await keeper.look()
    assert await stage.in_sync() == {MASTER}
    stage.ack(again)
    await keeper.look()
    assert await stage.in_sync() == {MASTER}

    await announce(stage, B, is_in_doubt=False)
    keeper.saw(await stage.election.look())
    await keeper.look()
    assert await stage.in_sync() == {MASTER, B}


async def test_what_a_member_had_before_it_connected_again_is_not_what_it_has(stage: Stage) -> None:
    """Until it says so itself: a machine that lost its power has less than before."""
    keeper = await stage.elect()
    await joined(stage, keeper, 2)
    other = await joined(stage, keeper, 3)
    follower = next(one for one in stage.followers.members if one.id == 2)
    stage.append()
    stage.ack(follower)
    stage.followers.connected("x:1", 2)

    stage.ack(other)

    assert stage.followers.confirmed == 0
