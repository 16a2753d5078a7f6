"""When a synchronous master's senders hear that their messages are safe."""

import pytest

from pyromq.broker.durability.acknowledgement import PART_BYTES, Durability, FlushTimeout, Lease
from pyromq.broker.durability.replica_wait import NoSlaveNear, Replicated, SlaveTimeout
from pyromq.broker.replication.followers import ConnectedSlave, Followers
from pyromq.codes import ResponseCode
from pyromq.config.choices import FlushDiskType
from pyromq.config.settings import StoreSettings
from pyromq.errors import NotMaster, ServiceNotAvailable
from pyromq.net.routes import Answer
from pyromq.testing.manual_clock import ManualClock


class Log:
    """A log that is only its end, on a disk that takes everything."""

    unsafe_bytes = 0
    flushed_position = 0

    def __init__(self) -> None:
        self.max_position = 0

    is_writable = True

    def commit(self) -> None:
        """There is no write buffer."""

    @property
    def committed_position(self) -> int:
        return self.whole_position

    @property
    def whole_position(self) -> int:
        return self.max_position

    def sync(self) -> int:
        return self.max_position

    def queue_sync_if_due(self) -> None:
        return None


class Master:
    """A synchronous master with a lease."""

    def __init__(
        self, *, lease: Lease | None = None, in_sync: frozenset[int] | None = None, replicas_min: int = 1
    ) -> None:
        self.clock = ManualClock()
        self.log = Log()
        self.settings = StoreSettings(slave_timeout=3_000, min_in_sync_replicas=replicas_min)
        self.followers = Followers(self.log, self.settings, self.clock, in_sync=in_sync)
        self.replicated = Replicated(self.followers, self.settings, self.clock)
        self.durability = Durability(self.log, self.settings, self.clock, self.replicated, lease)
        self.followers.on_confirmed = self.replicated.raise_to
        self.told: dict[int, Exception | None] = {}

    def follower(self, id_: int | None = None) -> ConnectedSlave:
        return self.followers.connected("10.0.0.1:5000", id_)

    def wait_for(self, end: int) -> None:
        self.log.max_position = max(self.log.max_position, end)
        self.durability.when_safe(end, lambda error: self.told.__setitem__(end, error))


@pytest.mark.row("HA-02")
async def test_a_send_waits_until_a_slave_has_it() -> None:
    master = Master()
    slave = master.follower()
    master.followers.acknowledged(slave, 0)
    master.wait_for(100)
    master.wait_for(200)
    assert master.told == {}
    master.followers.acknowledged(slave, 150)
    assert master.told == {100: None}
    master.followers.acknowledged(slave, 200)
    assert master.told == {100: None, 200: None}
    master.replicated.close()


@pytest.mark.row("HA-02")
async def test_who_waits_for_a_part_of_a_long_turn_does_not_wait_for_the_rest() -> None:
    master = Master()
    slave = master.follower()
    master.followers.acknowledged(slave, 0)
    told: list[tuple[int, Exception | None]] = []
    for end in (PART_BYTES - 1, PART_BYTES, PART_BYTES + 1):
        master.log.max_position = end
        master.durability.with_this_turn(end, lambda error, end=end: told.append((end, error)))
    master.followers.acknowledged(slave, PART_BYTES)
    assert told == [(PART_BYTES - 1, None), (PART_BYTES, None)]
    master.durability.end_turn()
    assert len(told) == 2
    master.followers.acknowledged(slave, PART_BYTES + 1)
    assert told[2:] == [(PART_BYTES + 1, None)]
    master.replicated.close()


@pytest.mark.row("HA-02")
async def test_without_a_slave_a_send_is_told_so_at_once() -> None:
    master = Master()
    master.wait_for(100)
    assert isinstance(master.told[100], NoSlaveNear)
    assert NoSlaveNear.code == ResponseCode.SLAVE_NOT_AVAILABLE


@pytest.mark.row("HA-02")
async def test_a_slave_that_is_too_far_behind_is_not_waited_for() -> None:
    master = Master()
    slave = master.follower()
    master.followers.acknowledged(slave, 0)
    master.wait_for((256 << 20) - 1)
    master.wait_for(256 << 20)
    assert list(master.told) == [256 << 20]
    assert isinstance(master.told[256 << 20], NoSlaveNear)
    master.replicated.close()


@pytest.mark.row("HA-02")
async def test_a_slave_that_is_silent_for_too_long_is_a_timeout_for_those_who_waited_so_long() -> None:
    master = Master()
    master.followers.acknowledged(master.follower(), 0)
    master.wait_for(100)
    master.clock.advance(2_000)
    master.replicated.look()
    master.wait_for(200)
    master.replicated.look()
    assert master.told == {}
    master.clock.advance(1_500)
    master.replicated.look()
    assert list(master.told) == [100]
    assert isinstance(master.told[100], SlaveTimeout)
    master.clock.advance(3_000)
    master.replicated.look()
    assert isinstance(master.told[200], SlaveTimeout)


async def test_a_master_whose_lease_is_over_says_that_nothing_is_safe() -> None:
    clock = ManualClock()
    lease = Lease(clock.monotonic, clock.monotonic() + 3)
    master = Master(lease=lease, in_sync=frozenset({1}))
    slave = master.follower(1)
    master.wait_for(100)
    clock.advance(3_000)
    master.followers.acknowledged(slave, 100)
    assert isinstance(master.told[100], ServiceNotAvailable)


@pytest.mark.row("HA-02")
async def test_what_is_under_way_when_too_few_stay_in_sync_is_not_safe() -> None:
    """The last other replica left the set, and with it went the copy that was waited for."""
    master = Master(in_sync=frozenset({1}), replicas_min=2)
    master.wait_for(100)
    master.followers.in_sync = frozenset()
    assert isinstance(master.told[100], NoSlaveNear)

    alone = Master(in_sync=frozenset({1}))
    alone.wait_for(100)
    alone.followers.in_sync = frozenset()
    assert alone.told == {100: None}


async def test_a_dropped_lease_is_never_held_again() -> None:
    clock = ManualClock()
    lease = Lease(clock.monotonic, clock.monotonic() + 3)
    assert lease.is_held
    lease.drop()
    lease.renew(clock.monotonic() + 10)
    assert not lease.is_held


async def test_a_master_that_closes_says_that_it_does_not_know() -> None:
    master = Master(in_sync=frozenset({1}))
    master.wait_for(100)
    master.replicated.close()
    assert isinstance(master.told[100], NotMaster)


async def test_a_master_with_static_roles_that_closes_does_not_say_that_another_takes_over() -> None:
    master = Master()
    master.followers.acknowledged(master.follower(), 0)
    master.wait_for(100)
    master.replicated.close()
    assert isinstance(master.told[100], ServiceNotAvailable)
    assert not isinstance(master.told[100], NotMaster)


async def test_with_synchronous_flush_both_disk_and_slave_are_waited_for() -> None:
    master = Master()
    slave = master.follower()
    master.followers.acknowledged(slave, 0)
    settings = StoreSettings(flush_disk_type=FlushDiskType.SYNC_FLUSH)
    durability = Durability(master.log, settings, master.clock, master.replicated)
    master.log.max_position = 100
    answer = durability.confirm(100, Answer())
    await durability.sync_now()
    assert not answer.done()
    master.followers.acknowledged(slave, 100)
    assert (await answer).code == ResponseCode.SUCCESS
    durability.close()
    master.replicated.close()


async def test_the_slaves_word_wins_over_the_disks() -> None:
    from pyromq.broker.durability.acknowledgement import _Both

    told: list[Exception | None] = []
    both = _Both(told.append)
    both.second(NoSlaveNear("none"))
    both.first(FlushTimeout("late"))
    assert isinstance(told[0], NoSlaveNear)
    disk_only = _Both(told.append)
    disk_only.first(FlushTimeout("late"))
    disk_only.second(None)
    assert isinstance(told[1], FlushTimeout)
